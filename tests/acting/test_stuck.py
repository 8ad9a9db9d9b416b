"""Getting unstuck: what counts as seen again, who draws then, and nobody else."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.frame_task import CELLS, SIDE, FrameTask, view
from textrl.acting.decoding import Decoding, Spelling
from textrl.acting.policy import Policy
from textrl.acting.rollout import play
from textrl.acting.stuck import ALIKE, Views
from textrl.config.presets import configure
from textrl.errors import UserError
from textrl.losses.outputs import TextRLOutput
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]
LEFT, RIGHT, DRAWS = 0, 1, 4000


def words(*rows: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(rows)


def test_words_seen_again_by_hand() -> None:
    views = Views(2)
    views.begin(words((1, 5), (1, 6), (1, 7)), None)
    assert views.is_stuck().tolist() == [False] * 3
    views.see(words((5,), (6,), (7,)), None)  # a prompt is no observation
    assert views.is_stuck().tolist() == [False] * 3
    views.see(words((5,), (8,), (8,)), None)
    assert views.is_stuck().tolist() == [True, False, False]
    views.see(words((6,), (6,), (8,)), None)
    assert views.is_stuck().tolist() == [False, True, True]
    views.keep(np.array([2, 0]))
    assert views.is_stuck().tolist() == [True, False]
    views.see(words((9,), (6,)), None)
    views.see(words((9,), (5,)), None)  # 5 was seen too long ago
    assert views.is_stuck().tolist() == [True, False]
    views.begin(words((9,), (5,)), None)
    assert views.is_stuck().tolist() == [False, False]


def test_frames_are_alike_up_to_little_animations() -> None:
    """All else the same, a row's mean change decides; in either direction, and without overflow."""
    still = np.full((4, 2, 4), 100, dtype=np.uint8)
    now = still.copy()
    now[1, 0, :2] = 100 + 4 * ALIKE  # 2 of 8 pixels: just as much as is allowed
    now[2, 0, :2] = 100 - 4 * ALIKE - 1
    now[3] = 255
    views, seen = Views(1), words(*[(3,)] * 4)
    views.begin(seen, still)
    views.see(seen, now)
    assert views.is_stuck().tolist() == [True, True, False, False]
    # The same view with other words beside it is another observation.
    views.see(words((3,), (2,), (3,), (3,)), now)
    assert views.is_stuck().tolist() == [True, False, True, True]


def test_only_the_stuck_draw() -> None:
    output = TextRLOutput(policy=torch.tensor([[[0.0, 1.0]]]).expand(DRAWS, 1, 2))
    is_stuck = torch.arange(DRAWS) % 2 == 0
    legal = torch.ones(DRAWS, 2, dtype=torch.bool)
    decoding = Decoding(1.0, sample=False, temperature=0.5, unstick=1)
    spelling = Spelling(decoding, 1, DRAWS, torch.Generator().manual_seed(0), is_stuck)
    token = spelling.extend(output, legal).token
    assert (token[~is_stuck] == 1).all()
    expected = 1 / (1 + np.exp(-1 / 0.5))
    assert float(token[is_stuck].float().mean()) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("unstick", [0, 1, 3])
def test_an_agent_that_walks_into_a_wall_gets_away(make_model: MakeModel, unstick: int) -> None:
    """It goes right only where it saw again what it had seen, which here means at the wall."""
    task = FrameTask(spare=12)
    model = make_model(task.language, frame_shape=(SIDE, SIDE), patches=1, window=4)
    with torch.no_grad():
        for weight in model.policy[-1].parameters():
            weight.zero_()
        model.policy[-1].bias[LEFT] = 0.5
    decoding = Decoding(1.0, sample=False, acts_by=("policy",), unstick=unstick)
    played = play(task, Policy(model, task.language, decoding, seed=0), 40, seed=0)
    moved = 0
    for number, episode in enumerate(played.episodes):
        cell, seen = number % (CELLS - 1), [(0, view(number % (CELLS - 1), 0))]
        for time, step in enumerate(episode.steps):
            word, now = seen[-1]
            lately = seen[max(1, len(seen) - 1 - unstick) : -1]  # a prompt has other tokens
            again = any(w == word and abs(f * 1.0 - now).mean() <= ALIKE for w, f in lately)
            right = step.action[0] - task.language.first_action == RIGHT
            assert again or not right
            moved += right
            cell = int(np.clip(cell + (1 if right else -1), 0, CELLS - 1))
            seen.append((step.observation[0], view(cell, time + 1)))
    assert (moved > 20) == (unstick > 0)


def test_candidates_and_getting_unstuck_do_not_go_together() -> None:
    assert configure("gridworld", unstick=4).members["gridworld"].unstick == 4
    with pytest.raises(UserError, match="--unstick 4 is for play token by token"):
        configure("gridworld", unstick=4, candidates=2)
