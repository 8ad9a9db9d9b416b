"""Models that do not see what was done, and the precision in which they see what was there."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.frame_task import SIDE, FrameTask
from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.config.presets import configure
from textrl.data.frames import Frames
from textrl.errors import UserError
from textrl.model import patches
from textrl.model.build import config_for
from textrl.model.hiding import without_actions
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members

MakeModel = Callable[..., TextRLModel]
# Ids: <pad> 0, <begin> 1, quiet 2, <frame> 4 (two patches each), left 5, right 6.
TOKENS = torch.tensor([[1, 4, 4, 5, 2, 4, 4, 6, 2], [1, 4, 4, 6, 2, 0, 0, 0, 0]])
STATES = torch.tensor([[2, 6, 8], [2, 4, 0]])  # the last of the second is padding
FRAMES = Frames(
    torch.arange(3, dtype=torch.uint8)[:, None, None].repeat(1, SIDE, SIDE) * 100,
    episode=torch.tensor([0, 0, 1]),
    position=torch.tensor([1, 5, 1]),
)


def test_what_remains_by_hand() -> None:
    tokens, frames, states = without_actions(TOKENS, FRAMES, STATES, first_action=5)
    assert tokens.tolist() == [[1, 4, 4, 2, 4, 4, 2], [1, 4, 4, 2, 0, 0, 0]]
    assert states.tolist() == [[2, 5, 6], [2, 3, 0]]
    assert frames.position.tolist() == [1, 4, 1]
    assert frames.pixels is FRAMES.pixels
    # Without positions the last token is what is read.
    tokens, frames, states = without_actions(TOKENS[:1], None, None, first_action=5)
    assert tokens.tolist() == [[1, 4, 4, 2, 4, 4, 2]]
    assert frames is None and states is None


@pytest.mark.parametrize("backbone", ["gpt2", "rnn"])
def test_actions_matter_only_to_a_model_that_sees_them(
    make_model: MakeModel, corridor: FrameTask, backbone: str
) -> None:
    other = torch.where(TOKENS >= 5, 11 - TOKENS, TOKENS)  # left for right
    for hides in (True, False):
        model = make_model(
            corridor.language,
            backbone=backbone,
            frame_shape=(SIDE, SIDE),
            patches=1,
            hides_actions=hides,
        )
        tokens, there = (each[:, [0, 1, 3, 4, 5, 7, 8]] for each in (TOKENS, other))
        places = torch.tensor([[1, 4, 6], [1, 3, 0]])
        frames = replace(FRAMES, position=torch.tensor([1, 4, 1]))
        with torch.no_grad():
            one, two = (model(each, places, frames=frames).policy for each in (tokens, there))
        assert torch.equal(one[:, 0], two[:, 0])  # nothing was done yet
        assert torch.equal(one[:, 1:], two[:, 1:]) == hides


def test_it_acts_as_it_reads(make_model: MakeModel, corridor: FrameTask) -> None:
    model = make_model(
        corridor.language, frame_shape=(SIDE, SIDE), patches=1, hides_actions=True, context=64
    )
    policy = Policy(model, corridor.language, Decoding(1.0, sample=False, acts_by=("policy",)), 0)
    random = np.random.default_rng(0)
    told, shown, chances = [1, 4], [random.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)], []
    policy.begin(np.array([told]), shown[0][None])
    for _ in range(6):
        at = torch.tensor([place for place, token in enumerate(told) if token == 4])
        frames = Frames(torch.from_numpy(np.stack(shown)), torch.zeros_like(at), at)
        with torch.no_grad():
            said = model(torch.tensor([told]), torch.tensor([[len(told) - 1]]), frames=frames)
        (action,) = policy.act()[0].tolist()
        (thought,) = policy.thoughts()
        odds = said.policy[0, 0].softmax(dim=-1)[list(thought.tokens)]
        assert thought.policy == pytest.approx(odds.tolist(), abs=1e-5)
        chances.append(thought.policy)
        shown.append(random.integers(0, 256, (SIDE, SIDE), dtype=np.uint8))
        told += [5 + action, 2, 4]
        policy.observe(np.array([[2, 4]]), shown[-1][None])
    assert len({*chances}) == 6  # else any would do


def test_actions_of_several_tokens_cannot_be_hidden() -> None:
    run = configure("wordle", hide_actions=True)
    with pytest.raises(UserError, match="--hide-actions is for tasks whose actions are one token"):
        config_for(Members.of_run(run), run)


def test_a_time_to_the_goal_needs_one() -> None:
    run = configure("gridworld", algo="iql", value="time-to-goal")
    with pytest.raises(UserError, match="--value time-to-goal is for tasks that end at their goal"):
        config_for(Members.of_run(run), run)


@pytest.mark.parametrize(
    ("algo", "how", "expected"),
    [
        ("iql", "auto", ("policy",)),
        ("iql", "values", ("q",)),
        ("iql", "both", ("policy", "q")),
        ("ilql", "auto", ()),
        ("cql", "values", ("q",)),
    ],
)
def test_which_heads_act(algo: str, how: str, expected: tuple[str, ...]) -> None:
    run = configure("gridworld", algo=algo, act_by=how)
    assert config_for(Members.of_run(run), run).acts_by == expected


@pytest.mark.parametrize(
    ("algo", "how", "lacks"),
    [("cql", "policy", "cql has no policy"), ("bc", "both", "bc has no values of actions")],
)
def test_heads_that_are_not_there_do_not_act(algo: str, how: str, lacks: str) -> None:
    run = configure("gridworld", algo=algo, act_by=how)
    with pytest.raises(UserError, match=f"--act-by {how}: {lacks}"):
        config_for(Members.of_run(run), run)


def test_filters_are_three_numbers() -> None:
    for wrong in ("32,64", "a,b,c", "32,0,32", ""):
        with pytest.raises(UserError, match="--filters must be three numbers such as 32,64,32"):
            configure("vizdoom", filters=wrong)
    encoder = patches.PatchEncoder((80, 80), 1, 12, filters=(4, 5, 6))
    assert [layer.out_channels for layer in encoder.convolutions] == [4, 5, 6]
    assert encoder(torch.zeros(2, 80, 80, dtype=torch.uint8)).shape == (2, 1, 12)


def test_half_precision_sees_nearly_the_same_and_learns() -> None:
    torch.manual_seed(0)
    encoder = patches.PatchEncoder((80, 80), 1, 12)
    pixels = torch.randint(0, 256, (3, 80, 80), dtype=torch.uint8)
    exact = encoder(pixels)
    encoder.dtype = torch.bfloat16
    rounded = encoder(pixels)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 0.05 * exact.abs().max()
    rounded.square().sum().backward()
    for parameter in encoder.parameters():
        assert parameter.grad.dtype == torch.float32 and parameter.grad.abs().sum() > 0


@pytest.mark.parametrize(("seconds", "expected"), [(0.5, "bfloat16"), (0.9, "float32")])
def test_the_faster_precision_is_chosen(
    monkeypatch: pytest.MonkeyPatch, seconds: float, expected: str
) -> None:
    taken = {"float32": 1.0, "bfloat16": seconds}
    monkeypatch.setattr(patches, "_seconds_of", taken.__getitem__)
    patches.chosen_precision.cache_clear()
    assert patches.chosen_precision("auto") == expected
    assert patches.chosen_precision("float32") == "float32"
    patches.chosen_precision.cache_clear()


def test_measuring_does_not_touch_the_dice() -> None:
    before = torch.get_rng_state()
    assert patches._seconds_of("float32", frames=2, rounds=1) > 0
    assert torch.equal(torch.get_rng_state(), before)
