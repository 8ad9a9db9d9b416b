"""One model for several tasks: whose tokens are whose, what a step learns, one task taken out."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from datasets import Dataset

from tests.frame_task import SIDE, FrameTask, view
from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.bisimulation.pairs import draw_pairs
from textrl.config.presets import configure
from textrl.config.train import BisimulationConfig, MemberConfig, Stage, TrainConfig
from textrl.data.batches import Batch, EpisodeBatches
from textrl.data.episode import Episode, Step
from textrl.data.frames import encode_frame
from textrl.data.language import BEGIN_ID, PAD_ID, Language
from textrl.data.windows import WindowBatches
from textrl.errors import UserError
from textrl.evaluation.judge import Watch
from textrl.model.build import lay_out, model_of_member, new_model
from textrl.model.network import TextRLModel
from textrl.tasks.members import MemberBatches, Members
from textrl.training.learner import Learner, make_loss

MakeRows = Callable[[list[Episode]], Dataset]
MakeEpisodes = Callable[..., list[Episode]]
HEADS = {"words": ("policy", "q", "v"), "corridor": ("q",)}
WINDOW = 3
SEVERAL = {"beta": 2.0, "candidates": 5, "plausible": 0.25}


@pytest.fixture
def members(language: Language, corridor: FrameTask) -> Members:
    """A game of words with classes of observations, and one of frames without."""
    words: Any = SimpleNamespace(language=language, observation_classes=7, frame_shape=None)
    return Members({"words": words, "corridor": corridor})


@pytest.fixture
def config() -> TrainConfig:
    words = {"context": 32, "discount": 0.9, **SEVERAL, "batch_size": 4}
    corridor = {
        **{"context": 24, "window": WINDOW, "patches": 4, "expectile": 0.6, "beta": 30.0},
        **{"batch_size": 2, "conservatism": 0.1, "algo": "cql"},
    }
    found = {
        name: next(iter(configure("wordle", **own).members.values()))
        for name, own in (("words", words), ("corridor", corridor))
    }
    return TrainConfig(
        **{"task": "words,corridor", "mix": "words=3", "members": found},
        **{"layers": 1, "width": 16, "attention_heads": 2},
        bisimulation=BisimulationConfig(weight=0.5, inverse=0.1),
    )


@pytest.fixture
def model(members: Members, config: TrainConfig) -> TextRLModel:
    torch.manual_seed(3)
    model = new_model(members, config)
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
    members: Members,
    config: TrainConfig,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
) -> MemberBatches:
    words, corridor = config.sized_members.values()
    rows = make_rows(random_episodes(24))
    of_words = EpisodeBatches(rows, members.tasks["words"].language, batch_size=words.batch_size)
    of_corridor = WindowBatches(
        make_rows(walks(6)),
        members.tasks["corridor"].language,
        batch_size=corridor.batch_size,
        **{"window": WINDOW, "context": 24, "frame_shape": (SIDE, SIDE), "patches": 4},
    )
    return MemberBatches([of_words, of_corridor], list(config.proportions.values()))


def test_no_two_games_share_a_token_but_padding(members: Members, config: TrainConfig) -> None:
    words, corridor = lay_out(members, config)
    assert {each.name: each.heads for each in (words, corridor)} == HEADS
    ours, theirs = words.ids().tolist(), corridor.ids().tolist()
    assert set(ours) & set(theirs) == {PAD_ID}
    tokens = members.language.tokens
    assert sorted({*ours, *theirs}) == list(range(len(tokens)))
    # There and back: the model's tokens have the names of the game's own.
    for name, game, ids in (("words", words, ours), ("corridor", corridor, theirs)):
        own = members.tasks[name].language
        assert [tokens[i].removeprefix(f"{name}/") for i in ids] == list(own.tokens)
        said = ids[own.first_action :]
        numbers = range(len(members.language.actions))[game.action_numbers]
        assert [i - members.language.first_action for i in said] == list(numbers)
        back = {there: here for here, there in enumerate(ids)}
        assert [back[i] for i in ids] == list(range(game.tokens))
    assert tokens[:3] == ("<pad>", "words/<begin>", "corridor/<begin>")


def test_a_tokenizer_reads_them(members: Members, config: TrainConfig) -> None:
    text = "words/<begin> words/hot words/a words/x"
    ids = members.language.tokenizer()(text)["input_ids"]
    (game, _) = lay_out(members, config)
    assert ids == game.ids()[[1, 2, 5, 7]].tolist()


def test_a_step_has_a_part_of_each_game(batches: MemberBatches, members: Members) -> None:
    parts = batches.step(0)
    assert [(part.member, part.share, len(part.tokens)) for part in parts] == [
        (0, 0.75, 12),
        (1, 0.25, 2),
    ]
    for part, each in zip(parts, members.tasks.values(), strict=True):
        # In its own numbers: there is no way to allow another game's action.
        assert part.legal.shape[-1] == len(each.language.actions)
        assert part.tokens.max() < len(each.language.tokens)


def loss(model: TextRLModel, config: TrainConfig, batch: Batch) -> tuple[torch.Tensor, Any, Any]:
    learner = Learner(config, Accelerator(cpu=True), model, make_loss(config))
    learner.restore(Path("nowhere"))
    return learner._loss_of(batch, draw_pairs(batch, (5,)), None, Stage.ALGORITHM)[:3]


def test_the_loss_is_the_weighted_sum_of_the_games(
    model: TextRLModel, config: TrainConfig, batches: MemberBatches
) -> None:
    together, apart = torch.zeros(()), torch.zeros(())
    for part in batches.step(1):
        total, terms, compared = loss(model, config, part)
        together = together + part.share * total
        # The same by a model of that game alone, which knows nothing of any other.
        alone = model_of_member(model, part.member)
        name, member = list(config.members.items())[part.member]
        run = replace(config, task=name, mix="", members={name: member})
        own_total, own_terms, own_compared = loss(alone, run, replace(part, member=0))
        apart = apart + (0.75, 0.25)[part.member] * own_total
        for ours, theirs in ((terms, own_terms), (compared, own_compared)):
            for field in fields(ours):
                mine, other = getattr(ours, field.name), getattr(theirs, field.name)
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(together, apart, rtol=1e-5, atol=1e-6)

    together.backward()
    heads = {name: p for name, p in model.named_parameters() if name.startswith(("q.", "policy."))}
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in heads.values())


def test_a_game_s_loss_leaves_other_games_tokens_alone(
    model: TextRLModel, config: TrainConfig, batches: MemberBatches
) -> None:
    for part in batches.step(0):
        model.zero_grad()
        loss(model, config, part)[0].backward()
        own = model.config.layouts[part.member]
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
        worlds = [p.grad for p in model.world[1 - part.member].parameters()]
        assert all(gradient is None or not gradient.any() for gradient in worlds)


def test_a_game_plays_in_its_own_way_and_window(model: TextRLModel, members: Members) -> None:
    words = model_of_member(model, members.one("words")[0])
    number, played = members.one("corridor")
    corridor = model_of_member(model, number)
    assert Decoding.of(words, sample=False) == Decoding(sample=False, **SEVERAL)
    assert Decoding.of(corridor, sample=False) == Decoding(30.0, sample=False)
    assert (words.config.window, words.config.frame_shape) == (0, None)
    assert corridor.config.window == WINDOW
    assert words.config.members is None and not hasattr(words, "frames")
    policy = Policy(corridor.train(False), played.language, Decoding(30.0, False), seed=0)
    policy.begin(played.prompt(2), np.stack([view(0, 0), view(3, 0)]))
    assert set(policy.act().ravel().tolist()) <= {0, 1}
    with pytest.raises(UserError, match="did you mean 'corridor'"):
        members.one("coridor")
    with pytest.raises(UserError, match="plays words,corridor: say which"):
        members.one()


def test_it_comes_back_from_disk(model: TextRLModel, tmp_path: Any) -> None:
    model.save_pretrained(tmp_path)
    again = TextRLModel.from_pretrained(tmp_path)
    assert again.config.members == model.config.members
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name])


def test_what_is_best_is_measured_in_the_data_s_spread(
    model: TextRLModel, config: TrainConfig, monkeypatch: pytest.MonkeyPatch, members: Members
) -> None:
    scores = {"words": -2.0, "corridor": 0.5}
    returns = {"words": np.array([-4.0, -2.0]), "corridor": np.array([0.5, 0.5])}

    def quick(task: Any, member: MemberConfig, seed: int, alone: TextRLModel) -> dict[str, float]:
        (name,) = (name for name, each in members.tasks.items() if each is task)
        assert (member, seed) == (config.members[name], config.seed)
        assert alone.config.action_tokens == len(task.language.actions)
        return {"greedy": scores[name], "sampled": -9.0}

    monkeypatch.setattr("textrl.evaluation.judge.quick_scores", quick)
    for name, task in members.tasks.items():
        monkeypatch.setattr(task, "returns", lambda _, name=name: returns[name], raising=False)
    found = Watch(members, config)(model)
    assert list(found) == [
        *("above the data", "words/greedy", "words/sampled"),
        *("corridor/greedy", "corridor/sampled"),
    ]
    assert found["above the data"] == pytest.approx((1.0 + 0.0) / 2)


def test_frames_of_two_shapes_are_refused(corridor: FrameTask) -> None:
    other: Any = SimpleNamespace(language=corridor.language, frame_shape=(8, 8))
    with pytest.raises(UserError, match="different shapes"):
        Members({"corridor": corridor, "other": other})
