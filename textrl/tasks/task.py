"""What the toolkit asks of a task, which lives in envs/ or in your package.

AnyTask is what models and checkpoints ask of any task. Task is one that can be played, LoggedTask
one of which there is nothing but what was logged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from datasets import Dataset
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from textrl.config.options import NoOptions
from textrl.config.train import PACKING_BACKBONES, MemberConfig, TrainConfig
from textrl.data.batches import Batches, EpisodeBatches
from textrl.data.dataset import Rows, best_episodes, load_episodes, returns_by_behaviour
from textrl.data.download import fetch
from textrl.data.language import Language, TokenLanguage
from textrl.data.task_file import TASK_FILE, check_same_task
from textrl.data.validate import check_episodes
from textrl.data.windows import WindowBatches
from textrl.errors import UserError

DATA_SEED = 0  # runs of different seeds learn from the same default data
StepInfos = Mapping[str, NDArray[Any]]
"""What an environment said of each step of one episode: name -> (steps,)."""


@dataclass(frozen=True)
class Reference:
    """The score of a player to compare with."""

    mean: float
    stderr: float
    """0.0 when the mean is exact."""
    how: str


@dataclass(frozen=True)
class Share:
    """Which part of every step's batch a process computes."""

    process: int = 0
    processes: int = 1


class AnyTask:
    """What models and checkpoints ask of any task."""

    name: str
    title: ClassVar[str] = "a task of your own"
    """In a line, for --help."""
    options: ClassVar[type] = NoOptions
    """What a training run may set of it, where the class itself is named as --task module:CLASS."""
    collect_options: ClassVar[type] = NoOptions
    """What only making its data asks for."""
    presets: ClassVar[Path | None] = None
    """The folder of its presets, if it brings some."""
    playing: ClassVar[Any] = None
    is_learned_alone: ClassVar[bool] = False
    language: TokenLanguage
    observation_classes: int
    """Classes of the `observation` column; 0 = none."""
    ends_at_goal: ClassVar[bool] = False
    """Whether an episode that no time limit ends has reached its goal, nothing else."""
    frame_shape: tuple[int, ...] | None = None
    """Of the frames, (height, width), where the environment's observations are frames."""

    @classmethod
    def load(cls) -> type[Self]:
        """The class, as an entry would load it."""
        return cls

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "AnyTask":
        """The task that a training run asks for."""
        raise NotImplementedError

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "AnyTask":
        """The task whose settings a checkpoint or a dataset has kept; folder: where it lies."""
        raise NotImplementedError

    def summary(self) -> str:
        """The task and its score in a few sentences, for someone who does not know it."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """What makes this task this task (its word list, its map), as JSON; kept in checkpoints."""
        raise NotImplementedError

    def batches(
        self, member: MemberConfig, run: TrainConfig, share: Share = Share()
    ) -> tuple[Batches, int]:
        """A process's share of a training run's batches, and of how many episodes they are."""
        raise NotImplementedError

    def before_training(self) -> str:
        """What is worth knowing of the data before a run begins; "" = nothing."""
        return ""

    def with_data(self, data: str) -> "AnyTask":
        """The same task, judged by other episodes than those that were held out."""
        raise UserError(f"--data is for agents that learned from logs: this one plays {self.name}")


class LoggedTask(AnyTask):
    """A task without an environment: there is nothing but what was logged, part of it held out.

    Its tokenizer lies in the checkpoint's folder, beside task.json.
    """

    discount: float
    """Per action token: of the returns that values are compared with."""

    def held_out(self, episodes: int) -> tuple[Rows, NDArray[np.float32]]:
        """That many episodes that training does not see, always the same, and their returns."""
        raise NotImplementedError

    def held_out_count(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def held_out_groups(self, episodes: int) -> NDArray[np.int64]:
        """Of the same episodes: equal where two are not independent of each other."""
        return np.arange(len(self.held_out(episodes)[1]))

    def learned(self, episodes: int) -> Rows:
        """That many episodes that training does see, always the same."""
        raise NotImplementedError

    def judged_by(self, episodes: int) -> str:
        """For people: which episodes those are, and whether training has seen them."""
        return f"{episodes:,} of {self.held_out_count():,} held-out episodes of {self.name}"


class Task(AnyTask):
    """A game with its token language, its data and its yardsticks; what has a value is optional."""

    language: Language
    step_infos: tuple[str, ...]
    """Which of the environment's infos `metrics` reads."""
    episodes_at_once: int = 512
    """How many episodes an evaluation plays side by side."""
    sampled_rounds: int = 4
    """How often an evaluation by sampling plays each episode: a sample differs each time."""

    def rows(self, member: MemberConfig) -> Dataset:
        """The episodes that it is learned from: those that were given, or its own."""
        if not member.data:
            return self.default_dataset(member.episodes, DATA_SEED)
        rows = load_episodes(member.data)
        folder = fetch(member.data, "dataset", [TASK_FILE])
        check_same_task(folder, self.name, self.data_settings())
        return rows

    def returns(self, member: MemberConfig) -> NDArray[np.float32]:
        """The returns of its data, which scores are compared with."""
        return np.concatenate(list(returns_by_behaviour(self.rows(member)).values()))

    _remark = ""

    def before_training(self) -> str:
        """Of rewards that cannot be right."""
        return self._remark

    def batches(
        self,
        member: MemberConfig,
        run: TrainConfig,
        share: Share = Share(),
        rows: Dataset | None = None,
    ) -> tuple[Batches, int]:
        """Whole episodes, or windows of them if the run asks for that; rows: of other data."""
        if not member.window and self.frame_shape:
            raise UserError(
                f"{self.name} has frames, too many to read whole episodes: give --window"
            )
        rows = self.rows(member) if rows is None else rows
        longest = None if member.window else member.context
        self._remark = check_episodes(rows, self.language, longest, self.observation_classes)
        top: float | None = getattr(member.algo_options, "keep_top", None)
        keep = None if top is None else best_episodes(rows, top)
        common: dict[str, Any] = {
            "batch_size": member.batch_size,
            "accumulation": member.accumulation,
            "seed": run.seed,
            "keep": keep,
            "process": share.process,
            "processes": share.processes,
        }
        episodes = len(rows) if keep is None else len(keep)
        if not member.window:
            every = run.bisimulation.compares_every
            packs = run.backbone in PACKING_BACKBONES
            batches = EpisodeBatches(rows, self.language, packs=packs, whole_every=every, **common)
            return batches, episodes
        windows = WindowBatches(
            rows,
            self.language,
            window=member.window,
            context=member.context,
            frame_shape=self.frame_shape,
            patches=member.patches,
            discount=member.discount,
            shift=member.shift_frames,
            **common,
        )
        return windows, episodes

    def data_settings(self) -> dict[str, Any]:
        """The part of the settings that a dataset must share to be of use here."""
        raise NotImplementedError

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """The task's own dataset, made on first use and cached."""
        raise NotImplementedError

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Make a dataset of this many episodes in a new folder; workers: None = one per core."""
        raise NotImplementedError

    def check_collecting(self, options: Any) -> None:
        """Refuse collect_options that cannot be met, before anything is made."""

    def collect_as(
        self, options: Any, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> tuple[Dataset, str]:
        """The same as its collect_options ask for, and how the episodes were made, for people."""
        rows = self.collect(episodes, seed, folder, workers)
        return rows, f"Simulated by the players that the task brings along, seed {seed}."

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """What is worth knowing of a dataset, given its returns by behaviour."""
        raise NotImplementedError

    def make_envs(self, episodes: int) -> VectorEnv[Any, Any, Any]:
        """Environments that play `episodes` episodes side by side."""
        raise NotImplementedError

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """What tells reset that these are episodes first, first + 1, ... of an evaluation."""
        raise NotImplementedError

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """The tokens before the first action, (episodes, tokens)."""
        raise NotImplementedError

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Action numbers (episodes, tokens per action) as the environment takes them."""
        raise NotImplementedError

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The tokens that follow an action, (episodes, tokens)."""
        raise NotImplementedError

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The same observation as one class per episode, for the dynamics model."""
        raise NotImplementedError

    def full_evaluation(self) -> int:
        """How many episodes a complete evaluation plays."""
        raise NotImplementedError

    def variants(self) -> "dict[str, Task]":
        """Harder or other settings that a complete evaluation plays as well, by name."""
        return {}

    def references(self, seed: int) -> dict[str, Reference]:
        """What other players score, the optimum among them where it is known."""
        raise NotImplementedError

    def metrics(self, scores: NDArray[np.float64], infos: Sequence[StepInfos]) -> dict[str, Any]:
        """How the episodes went, besides their scores."""
        raise NotImplementedError

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same metrics for people, in a line or a few."""
        raise NotImplementedError
