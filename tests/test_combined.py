"""One model for several games: whose tokens are whose, what a step learns, one game taken out."""

from collections.abc import Callable
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset

from tests.frame_task import SIDE, FrameTask, view
from textrl.algorithms import make_loss
from textrl.batches import Batch, EpisodeBatches
from textrl.combined import (
    CombinedBatches,
    CombinedTask,
    model_of_game,
    new_combined_model,
    one_of,
    quick_scores_of_games,
)
from textrl.combined_config import CombinedConfig
from textrl.config import TrainConfig
from textrl.decoding import Decoding
from textrl.episode import Episode, Step
from textrl.errors import UserError
from textrl.frames import encode_frame
from textrl.games import language_of, lay_out
from textrl.language import BEGIN_ID, PAD_ID, Language
from textrl.losses.bisimulation import BisimulationWeights
from textrl.model import TextRLModel
from textrl.pairs import draw_pairs
from textrl.policy import Policy
from textrl.trainer import classes_of, loss_of
from textrl.windows import WindowBatches

MakeRows = Callable[[list[Episode]], Dataset]
MakeEpisodes = Callable[..., list[Episode]]
WEIGHTS = BisimulationWeights(weight=0.5, inverse=0.1)
HEADS = {"words": ("policy", "q", "v"), "corridor": ("q",)}
WINDOW = 3
SEVERAL = {"beta": 2.0, "candidates": 5, "plausible": 0.25}


@pytest.fixture
def task(language: Language, corridor: FrameTask) -> CombinedTask:
    """A game of words with classes of observations, and one of frames without."""
    words: Any = SimpleNamespace(language=language, observation_classes=7, frame_shape=None)
    return CombinedTask({"words": words, "corridor": corridor})


@pytest.fixture
def config() -> CombinedConfig:
    words = TrainConfig(task="words", context=32, discount=0.9, **SEVERAL, batch_size=4)
    corridor = TrainConfig(
        *("corridor",),
        **{"context": 24, "window": WINDOW, "patches": 4, "expectile": 0.6, "beta": 30.0},
        **{"batch_size": 2, "conservatism": 0.1, "algo": "cql"},
    )
    members = {"words": words, "corridor": corridor}
    small = {"layers": 1, "width": 16, "attention_heads": 2, "bisim": 0.5, "bisim_inverse": 0.1}
    return CombinedConfig(task="words,corridor", mix="words=3", **small, members=members)


@pytest.fixture
def model(task: CombinedTask, config: CombinedConfig) -> TextRLModel:
    torch.manual_seed(3)
    model = new_combined_model(task, config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def walks(count: int) -> list[Episode]:
    """Of the corridor, to and fro: quiet 2, <frame> 4, left 5, right 6."""
    episodes = []
    for number in range(count):
        frames = [encode_frame(view((number + time) % 7, time)) for time in range(6)]
        steps = [Step((5 + (number + time) % 2,), 0.25 * time, (2, 4)) for time in range(5)]
        is_cut = number % 2 == 0
        ends = (not is_cut, is_cut, "walker", tuple(frames))
        episodes.append(Episode((BEGIN_ID, 4), tuple(steps), *ends))
    return episodes


@pytest.fixture
def batches(
    task: CombinedTask,
    config: CombinedConfig,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
) -> CombinedBatches:
    words, corridor = config.sized_members().values()
    rows = make_rows(random_episodes(24))
    of_words = EpisodeBatches(rows, task.tasks["words"].language, batch_size=words.batch_size)
    of_corridor = WindowBatches(
        make_rows(walks(6)),
        task.tasks["corridor"].language,
        batch_size=corridor.batch_size,
        **{"window": WINDOW, "context": 24, "frame_shape": (SIDE, SIDE), "patches": 4},
    )
    return CombinedBatches([of_words, of_corridor], list(config.proportions.values()))


def test_no_two_games_share_a_token_but_padding(task: CombinedTask, config: CombinedConfig) -> None:
    words, corridor = lay_out(task.tasks, config.members, HEADS)
    ours, theirs = words.ids().tolist(), corridor.ids().tolist()
    assert set(ours) & set(theirs) == {PAD_ID}
    tokens = language_of(task.tasks).tokens
    assert sorted({*ours, *theirs}) == list(range(len(tokens)))
    # There and back: the model's tokens have the names of the game's own.
    for name, game, ids in (("words", words, ours), ("corridor", corridor, theirs)):
        own = task.tasks[name].language
        assert [tokens[i].removeprefix(f"{name}/") for i in ids] == list(own.tokens)
        said = ids[own.first_action :]
        numbers = range(len(task.language.actions))[game.action_numbers]
        assert [i - task.language.first_action for i in said] == list(numbers)
        back = {there: here for here, there in enumerate(ids)}
        assert [back[i] for i in ids] == list(range(game.tokens))
    assert tokens[:3] == ("<pad>", "words/<begin>", "corridor/<begin>")


def test_a_tokenizer_reads_them(task: CombinedTask, config: CombinedConfig) -> None:
    text = "words/<begin> words/hot words/a words/x"
    ids = task.language.tokenizer()(text)["input_ids"]
    (game, _) = lay_out(task.tasks, config.members, HEADS)
    assert ids == game.ids()[[1, 2, 5, 7]].tolist()


def test_a_step_has_a_part_of_each_game(batches: CombinedBatches, task: CombinedTask) -> None:
    parts = batches.step(0)
    assert [(part.game, part.share, len(part.tokens)) for part in parts] == [
        (0, 0.75, 12),
        (1, 0.25, 2),
    ]
    for part, each in zip(parts, task.tasks.values(), strict=True):
        # In its own numbers: there is no way to allow another game's action.
        assert part.legal.shape[-1] == len(each.language.actions)
        assert part.tokens.max() < len(each.language.tokens)


def loss(model: TextRLModel, config: TrainConfig, batch: Batch) -> tuple[torch.Tensor, Any, Any]:
    pairs = draw_pairs(batch, (5,))
    found = classes_of(model, batch)
    return loss_of(model, make_loss(config), WEIGHTS, batch, pairs, found)


def test_the_loss_is_the_weighted_sum_of_the_games(
    model: TextRLModel, config: CombinedConfig, batches: CombinedBatches
) -> None:
    together, apart = torch.zeros(()), torch.zeros(())
    for part in batches.step(1):
        total, terms, compared = loss(model, config, part)
        together = together + part.share * total
        # The same by a model of that game alone, which knows nothing of any other.
        alone = model_of_game(model, part.game)
        member = list(config.members.values())[part.game]
        own_total, own_terms, own_compared = loss(alone, member, replace(part, game=None))
        apart = apart + (0.75, 0.25)[part.game] * own_total
        for ours, theirs in ((terms, own_terms), (compared, own_compared)):
            for field in fields(ours):
                mine, other = getattr(ours, field.name), getattr(theirs, field.name)
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-6)

    together.backward()
    heads = {name: p for name, p in model.named_parameters() if name.startswith(("q.", "policy."))}
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in heads.values())


def test_a_game_s_loss_leaves_other_games_tokens_alone(
    model: TextRLModel, config: CombinedConfig, batches: CombinedBatches
) -> None:
    for part in batches.step(0):
        model.zero_grad()
        loss(model, config, part)[0].backward()
        own = model.config.game(part.game)
        for name, ids, size in (
            ("backbone.wte.weight", own.ids(), model.config.vocabulary),
            ("policy.2.weight", torch.arange(7)[own.action_numbers], 6),
            ("q.0.2.weight", torch.arange(7)[own.action_numbers], 6),
        ):
            others = np.setdiff1d(np.arange(size), ids.numpy())
            gradient = model.get_parameter(name).grad
            if name.split(".")[0] not in ("backbone", *own.heads):
                assert gradient is None  # its algorithm has no such head
                continue
            assert gradient is not None and len(gradient) == size
            assert gradient[others].abs().max() == 0, name
            assert gradient[ids].abs().max() > 0, name
        worlds = [p.grad for p in model.world[1 - part.game].parameters()]
        assert all(gradient is None or not gradient.any() for gradient in worlds)


def test_a_game_plays_in_its_own_way_and_window(model: TextRLModel, task: CombinedTask) -> None:
    words, _ = one_of(model, task, "words")
    corridor, played = one_of(model, task, "corridor")
    assert Decoding.of(words, sample=False) == Decoding(sample=False, **SEVERAL)
    assert Decoding.of(corridor, sample=False) == Decoding(30.0, sample=False)
    assert (words.config.window, words.config.frame_shape) == (0, None)
    assert corridor.config.window == WINDOW
    assert words.config.games is None and not hasattr(words, "frames")
    policy = Policy(corridor.train(False), played.language, Decoding(30.0, False), seed=0)
    policy.begin(played.prompt(2), np.stack([view(0, 0), view(3, 0)]))
    assert set(policy.act().ravel().tolist()) <= {0, 1}
    with pytest.raises(UserError, match="did you mean 'corridor'"):
        one_of(model, task, "coridor")


def test_it_comes_back_from_disk(model: TextRLModel, tmp_path: Any) -> None:
    model.save_pretrained(tmp_path)
    again = TextRLModel.from_pretrained(tmp_path)
    assert again.config.games == model.config.games
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_what_is_best_is_measured_in_the_data_s_spread(
    model: TextRLModel, config: CombinedConfig, monkeypatch: pytest.MonkeyPatch, task: CombinedTask
) -> None:
    scores = {"words": -2.0, "corridor": 0.5}
    monkeypatch.setattr(
        "textrl.combined.quick_scores",
        lambda _, member, model: {"greedy": scores[member.task], "sampled": -9.0},
    )
    returns = {"words": np.array([-4.0, -2.0]), "corridor": np.array([0.5, 0.5])}
    found = quick_scores_of_games(task, config, returns, model)
    assert list(found) == [
        *("above the data", "words/greedy", "words/sampled"),
        *("corridor/greedy", "corridor/sampled"),
    ]
    assert found["above the data"] == pytest.approx((1.0 + 0.0) / 2)


def test_frames_of_two_shapes_are_refused(corridor: FrameTask) -> None:
    other: Any = SimpleNamespace(language=corridor.language, frame_shape=(8, 8))
    with pytest.raises(UserError, match="different shapes"):
        CombinedTask({"corridor": corridor, "other": other})
