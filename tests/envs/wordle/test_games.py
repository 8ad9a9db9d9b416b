"""Games as arrays: what is derived from them, and what is refused."""

import numpy as np
import pytest

from textrl.envs.wordle.games import Games, concatenate
from textrl.envs.wordle.words import WordList

WORDS = WordList("tiny", ("abbey", "babes"), ("abbey", "babes", "kebab", "crane"))


def games(
    answers: list[int], guesses: list[list[int]], behaviour: list[int] | None = None
) -> Games:
    padded = [row + [-1] * (6 - len(row)) for row in guesses]
    return Games(
        np.array(answers, dtype=np.int32),
        np.array(padded, dtype=np.int32).reshape(-1, 6),
        np.array(behaviour or [0] * len(answers), dtype=np.uint8),
        ("novice", "expert"),
    )


def test_what_a_game_came_to() -> None:
    played = games([0, 1, 0], [[0], [2, 0, 1], [1, 1, 2, 3, 2, 1]])
    assert played.turns().tolist() == [1, 3, 6]
    assert played.won().tolist() == [True, True, False]
    assert played.scores().tolist() == [0, -2, -6]
    np.testing.assert_allclose(played.histogram(), np.array([1, 0, 1, 0, 0, 0, 1]) / 3)


def test_a_win_with_the_last_guess_is_no_loss() -> None:
    played = games([0], [[1, 1, 1, 1, 1, 0]])
    assert played.won().tolist() == [True]
    assert played.scores().tolist() == [-5]
    assert played.histogram().tolist() == [0, 0, 0, 0, 0, 1, 0]


def test_patterns_follow_the_official_colouring() -> None:
    # k black, e yellow, b green, a yellow, b yellow: abbey has both of them.
    kebab = 0 * 1 + 1 * 3 + 2 * 9 + 1 * 27 + 1 * 81
    patterns = games([0], [[2, 0]]).patterns(WORDS)
    assert patterns.tolist() == [[kebab, 242, -1, -1, -1, -1]]


def test_select_and_concatenate_are_inverse() -> None:
    played = games([0, 1, 0], [[0], [1], [2, 0]], [0, 1, 0])
    parts = [played.select(played.behaviour == skill) for skill in (0, 1)]
    joined = concatenate(parts)
    assert joined.answers.tolist() == [0, 0, 1]
    assert joined.guesses[:, 0].tolist() == [0, 2, 1]
    assert joined.behaviour.tolist() == [0, 0, 1]
    assert len(joined) == 3


def test_no_games_are_games() -> None:
    nothing = games([], [])
    assert len(nothing) == 0
    assert nothing.histogram().tolist() == [0.0] * 7
    assert nothing.patterns(WORDS).shape == (0, 6)


@pytest.mark.parametrize(
    ("answers", "guesses", "behaviour"),
    [
        pytest.param([0], [[1, 2]], [0], id="given up"),
        pytest.param([0], [[0, 1]], [0], id="goes on after the answer"),
        pytest.param([0], [[]], [0], id="no guess"),
        pytest.param([0], [[1, -1, 0]], [0], id="a gap"),
        pytest.param([-1], [[1, 0]], [0], id="no answer"),
        pytest.param([0], [[-2, 0]], [0], id="no such word"),
        pytest.param([0], [[0]], [2], id="behaviour without a name"),
        pytest.param([0, 0], [[0]], [0, 0], id="fewer guesses than answers"),
    ],
)
def test_what_is_no_finished_game_is_refused(
    answers: list[int], guesses: list[list[int]], behaviour: list[int]
) -> None:
    with pytest.raises(ValueError):
        games(answers, guesses, behaviour)


def test_games_of_different_behaviours_do_not_join() -> None:
    one = games([0], [[0]])
    other = Games(one.answers, one.guesses, one.behaviour, ("human",))
    with pytest.raises(ValueError, match="different behaviours"):
        concatenate([one, other])
