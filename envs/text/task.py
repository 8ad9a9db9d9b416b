"""Logged conversations as a task: a language model learns from them, and nothing is played."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

from textrl.config.train import NEW_BACKBONES, MemberConfig, TrainConfig
from textrl.data.batches import Batch, Batches, EpisodeBatches, collate
from textrl.data.chat import TextLanguage
from textrl.data.dataset import Rows, best_of
from textrl.envs.text import TextOptions
from textrl.envs.text.index import Index, make_index
from textrl.envs.text.rows import HOW_TO_SKIP, TextRows
from textrl.envs.text.sources import open_source
from textrl.errors import UserError, first_line
from textrl.evaluation.offline import FEW, too_few
from textrl.model.language_model import lm_folder, read_lm_config
from textrl.tasks.task import LoggedTask, Share

SPLIT_SEED = 0  # runs of different seeds are judged by the same conversations
STEPS_AT_ONCE = 16  # whose conversations are tokenized together, and sorted by length
LOOKED_AT = 64  # conversations that are tokenized before training begins


@dataclass(frozen=True)
class TextSettings:
    """data: where the conversations are. The rest as a run's settings have it."""

    data: str
    held_out: float
    on_bad_rows: str
    context: int
    discount: float
    vocabulary: int
    """How many tokens the model knows."""
    group_by: str = ""


class TextTask(LoggedTask):
    """Conversations of one file, as the tokens of one language model."""

    name = "text"
    language: TextLanguage
    observation_classes = 0

    def __init__(
        self, language: TextLanguage, settings: TextSettings, trained: "TextTask | None" = None
    ) -> None:
        """trained: the task that an agent learned, if this one is to judge it by other data."""
        self.language, self._settings, self._trained = language, settings, trained
        self.discount = settings.discount
        self._held_out = lru_cache(maxsize=1)(self._read_held_out)

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "TextTask":
        """As a training run asks for it."""
        if run.backbone in NEW_BACKBONES:
            raise UserError(
                f"--task text needs a language model with its tokenizer, and --backbone"
                f" {run.backbone} has none: give a folder or a Hub id, such as"
                " --backbone openai-community/gpt2"
            )
        if not member.data:
            raise UserError(
                "--task text has no data of its own: give --data, a .jsonl or .parquet file, a"
                " folder that datasets saved, or a Hub id (docs/text.md has the format)"
            )
        if member.window:
            raise UserError("--task text cuts conversations by --context alone: leave --window out")
        options: TextOptions = member.task_options
        language = load_language(lm_folder(run.backbone))
        return cls(
            language,
            TextSettings(
                data=member.data,
                held_out=options.held_out,
                on_bad_rows=options.on_bad_rows,
                context=member.context,
                discount=member.discount,
                vocabulary=len(language.tokens),
                group_by=options.group_by,
            ),
        )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "TextTask":
        """As a checkpoint describes it; its tokenizer is in the checkpoint's folder."""
        if folder is None:
            raise UserError("the task 'text' has to be loaded with its checkpoint's folder")
        ours = TextSettings(**settings)
        return cls(load_language(folder, ours.vocabulary), ours)

    def with_data(self, data: str) -> "TextTask":
        """The same task on other conversations, none of which are for training."""
        settings = replace(self._settings, data=data, held_out=1.0)
        return TextTask(self.language, settings, trained=self._trained or self)

    def learning_from(self, data: str) -> "TextTask":
        """The same task with other conversations to learn from."""
        return TextTask(self.language, replace(self._settings, data=data))

    def held_out_batches(self, episodes: int = LOOKED_AT) -> list[Batch]:
        """Some of the conversations that training does not see, one a batch."""
        rows, _ = self.held_out(episodes)
        return [collate(rows, np.array([row]), self.language) for row in range(len(rows.lengths))]

    def summary(self) -> str:
        """For cards."""
        return (
            "Conversations: the assistant's turns are the agent's actions, token by token, and each"
            " may have earned a reward. The score of a conversation is the sum of its rewards."
            " There is no environment to play in, only what was logged."
        )

    def settings(self) -> dict[str, Any]:
        """Where its data are and how they are read; the tokenizer lies beside them."""
        return asdict(self._settings)

    @cached_property
    def index(self) -> Index:
        """Where the conversations are, all of them looked through."""
        settings = self._settings
        index = make_index(open_source(settings.data, settings.group_by), self.language)
        name, summary = index.source.name, index.summary
        if summary.bad_rows and self._settings.on_bad_rows == "refuse":
            others = f"; {summary.bad_rows - 1:,} more are bad" if summary.bad_rows > 1 else ""
            raise UserError(f"{name}: {summary.first_bad}{others} ({HOW_TO_SKIP})")
        if not summary.rows:
            skipped = f": all {summary.bad_rows} rows are bad" if summary.bad_rows else ""
            raise UserError(f"{name!r} has no conversation{skipped}")
        if settings.group_by and settings.held_out < 1 and (index.groups() < 0).all():
            raise UserError(f"--group-by {settings.group_by}: no row of {name!r} has that column")
        return index

    @cached_property
    def _split(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows to learn from and rows to be judged by, each in order."""
        rows = len(self.index)
        if self._settings.held_out == 1:
            return np.arange(0), np.arange(rows)
        if rows < 2:
            raise UserError(
                f"{self._settings.data!r} has one conversation: it takes two, one to learn from"
                " and one to be judged by"
            )
        is_held_out = hold_out(self.index.groups(), self._settings.held_out)
        if is_held_out.all():
            raise UserError(
                f"{self._settings.data!r} has one group: it takes two, one to learn from and one to"
                " be judged by"
            )
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def _rows(self) -> TextRows:
        settings = self._settings
        skips = settings.on_bad_rows == "skip"
        return TextRows(self.index, self.language, settings.context, settings.discount, skips)

    def batches(
        self, member: MemberConfig, run: TrainConfig, share: Share = Share()
    ) -> tuple[Batches, int]:
        """Conversations, tokenized when their time comes."""
        top: float | None = getattr(member.algo_options, "keep_top", None)
        learns_from_rewards = hasattr(member.algo_options, "discount") or top is not None
        if learns_from_rewards and not self.index.summary.rewarded_turns:
            raise UserError(
                f"no conversation in {self._settings.data!r} has a reward, which {member.algo}"
                " learns from: give rewards, or imitate with --algo bc"
            )
        keep, _ = self._split
        if top is not None:
            keep = keep[best_of(self.index.returns()[keep], top)]
        compares = run.bisimulation
        batches = EpisodeBatches(
            self._rows(),
            self.language,
            batch_size=member.batch_size,
            accumulation=member.accumulation,
            seed=run.seed,
            keep=keep,
            process=share.process,
            processes=share.processes,
            whole_every=compares.compares_every if compares.is_trained else 0,
            window_steps=STEPS_AT_ONCE,
            ahead=STEPS_AT_ONCE,
        )
        return batches, len(keep)

    def held_out_count(self) -> int:
        """Rows that training does not see."""
        return len(self._split[1])

    def held_out(self, episodes: int) -> tuple[Rows, NDArray[np.float32]]:
        """Some of them, drawn once and for all."""
        return self._held_out(episodes)

    def _chosen(self, episodes: int) -> NDArray[np.int64]:
        chosen = self._split[1]
        if episodes < len(chosen):
            random = np.random.default_rng(SPLIT_SEED)
            chosen = np.sort(random.choice(chosen, episodes, replace=False))
        return chosen

    def _read_held_out(self, episodes: int) -> tuple[Rows, NDArray[np.float32]]:
        chosen = self._chosen(episodes)
        return self._rows().read(chosen), self.index.returns()[chosen]

    def held_out_groups(self, episodes: int) -> NDArray[np.int64]:
        """By the column that names them."""
        return self.index.groups()[self._chosen(episodes)]

    def learned(self, episodes: int) -> Rows:
        """Some of the rows to learn from, of the file that the agent was trained on."""
        task = self._trained or self
        chosen = task._split[0]
        if episodes < len(chosen):
            chosen = np.random.default_rng(SPLIT_SEED).choice(chosen, episodes, replace=False)
        return task._rows().read(np.sort(chosen))

    def judged_by(self, episodes: int) -> str:
        """Held out by this agent's training, or of another file that it may have seen part of."""
        if self._trained is None:
            return super().judged_by(episodes)
        told = f"{episodes:,} of {len(self.index):,} conversations of {self._settings.data}, "
        seen = self.seen_in_training(episodes)
        if seen is None:
            where = self._trained.settings()["data"]
            return f"{told}trained on or not (the agent's own data, {where}, cannot be read)"
        return f"{told}{f'{seen:,} of them' if seen else 'none of them'} trained on"

    def seen_in_training(self, episodes: int) -> int | None:
        """How many of these say what a conversation says that was learned; None = unknown."""
        if self._trained is None:
            return 0
        try:
            learned = self._trained.index.texts()[self._trained._split[0]]
        except UserError:
            return None
        return int(np.isin(self.index.texts()[self._chosen(episodes)], learned).sum())

    def before_training(self) -> str:
        """How many there are, and what a look at some of them shows."""
        summary, (train, held_out) = self.index.summary, self._split
        rows = self._rows()
        some = np.unique(np.linspace(0, len(self.index) - 1, LOOKED_AT).astype(np.int64))
        lengths = rows.read(some).lengths
        counted, context = rows.counted, self._settings.context
        told = (
            f"{self._settings.data}: {summary.rows:,} conversations, {summary.turns:,} turns,"
            f" rewards from {summary.lowest_reward:g} to {summary.highest_reward:g};"
            f" {len(train):,} to learn from, {len(held_out):,} held out"
        )
        groups = self.index.groups()
        if (groups >= 0).any():
            told += f"\nin {len(np.unique(groups)):,} groups, none of which is on both sides"
        texts = self.index.texts()
        twice = int(np.isin(texts[held_out], texts[train]).sum())
        if twice:
            told += (
                f"\nwarning: {twice:,} of the held-out conversations say the same as one to learn"
                " from: --group-by COLUMN keeps rows of one conversation together, or remove copies"
            )
        if (independent := len(np.unique(groups[held_out]))) < FEW:
            told += f"\nwarning: {too_few(independent)}"
        if remark := self.index.remark():
            told += f"\n{remark}"
        if summary.bad_rows:
            kinds = ", ".join(f"{count:,} {kind}" for kind, count in summary.bad.items())
            told += f"\nleft out as bad: {kinds}"
        told += f"\nof {counted['read']} looked at: {lengths.mean():.0f} tokens on average"
        if counted["cut"]:
            told += f", {counted['cut']} longer than --context {context} and cut"
        if counted["turns cut"]:
            told += f", {counted['turns cut']} of them within a message"
        return told


def hold_out(groups: NDArray[np.int64], share: float) -> NDArray[np.bool_]:
    """Which rows are held out: about this share, at least one, whole groups at random."""
    rows = len(groups)
    random = np.random.default_rng(SPLIT_SEED)
    count = min(max(1, round(share * rows)), rows - 1)
    is_held_out = np.zeros(rows, dtype=bool)
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) == rows:
        is_held_out[random.choice(rows, count, replace=False)] = True
        return is_held_out
    order = random.permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    is_held_out[np.isin(group, order[before < count])] = True
    return is_held_out


def load_language(folder: Path, vocabulary: int | None = None) -> TextLanguage:
    """The tokenizer of a language model or a checkpoint; vocabulary: None = ask the model."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        if vocabulary is None:
            vocabulary = int(read_lm_config(folder).get_text_config().vocab_size)
        return TextLanguage(tokenizer, vocabulary)
    except UserError:
        raise
    except Exception as error:  # a stranger's files can break transformers in any way
        raise UserError(
            f"cannot load a tokenizer from {str(folder)!r}, which must hold one beside its model:"
            f" {first_line(error)}"
        ) from error
