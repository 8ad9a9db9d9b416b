"""The crowd: nobody peeks, skills differ as they should, the commonest opener is not the best."""

from itertools import pairwise

import numpy as np
import pytest

from textrl.envs.twenty import crowd
from textrl.envs.twenty.crowd import BEHAVIOURS, NO_QUESTION, SKILLS, Games, chunk_sizes, play
from textrl.envs.twenty.things import World

GAMES = 1500
NOVICE, EXPERT = 0, 3


@pytest.fixture(scope="module")
def games(world: World) -> Games:
    return crowd.simulate_chunk(world, 0, GAMES, seed=5)


def of_skill(world: World, skill: int, games: int = 400) -> Games:
    rng = np.random.default_rng(1)
    return play(world, rng.integers(80, size=games), np.full(games, skill), rng)


def test_games_follow_from_seed_and_chunk(world: World, games: Games) -> None:
    again = crowd.simulate_chunk(world, 0, GAMES, seed=5)
    np.testing.assert_array_equal(games.questions, again.questions)
    for chunk, seed in ((1, 5), (0, 6)):
        other = crowd.simulate_chunk(world, chunk, 100, seed)
        assert (games.hidden[:100] != other.hidden).any()
    assert chunk_sizes(5000) == [2048, 2048, 904]
    assert chunk_sizes(2048) == [2048]


def test_games_end_when_the_thing_is_named_or_after_twenty(world: World, games: Games) -> None:
    for hidden, asked in zip(games.hidden, games.questions, strict=True):
        turns = (asked != NO_QUESTION).sum()
        assert (asked[turns:] == NO_QUESTION).all()
        named = np.flatnonzero(asked == 40 + hidden)
        assert named.tolist() == ([turns - 1] if len(named) else []) and (len(named) or turns == 20)


def test_scores_by_hand(zoo: World) -> None:
    asked = np.full((2, 20), NO_QUESTION)
    asked[0, :3] = [0, 3, 4]
    asked[1] = 0
    games = Games(np.array([1, 2]), asked, np.array([0, 0]))
    assert games.won(zoo).tolist() == [True, False]
    assert games.scores(zoo).tolist() == [-2, -20]


@pytest.mark.parametrize("skill", range(len(SKILLS)))
def test_nobody_peeks(world: World, skill: int) -> None:
    # The same luck against another thing: until the answers differ, the same is asked.
    def asked(hidden: int) -> np.ndarray:
        rng = np.random.default_rng(3)
        return play(world, np.array([hidden]), np.array([skill]), rng).questions[0]

    compared = 0
    for a, b in np.random.default_rng(0).integers(80, size=(40, 2)):
        ours, theirs = asked(a), asked(b)
        for mine, other in zip(ours, theirs, strict=True):
            assert mine == other
            compared += 1
            if world.table[mine, a] != world.table[mine, b] or mine == NO_QUESTION:
                break
    assert compared > 60


def test_the_better_the_skill_the_better_the_score(world: World, games: Games) -> None:
    scores, won = games.scores(world), games.won(world)
    means = [scores[games.skill == skill].mean() for skill in range(len(SKILLS))]
    assert means == sorted(means)
    assert all(better - worse > 0.5 for worse, better in pairwise(means))
    assert won[games.skill == EXPERT].all() and not won[games.skill == NOVICE].all()
    assert BEHAVIOURS == ("novice", "casual", "careful", "expert")


def useless_share(world: World, games: Games) -> float:
    """Share of questions whose answer followed from the answers before."""
    useless = asked = 0
    for hidden, questions in zip(games.hidden, games.questions, strict=True):
        possible = np.ones(80, dtype=bool)
        for question in questions[questions != NO_QUESTION]:
            row = world.table[question]
            agrees = possible & (row == row[hidden])
            useless += bool((agrees == possible).all()) and question != 40 + hidden
            asked += 1
            possible = agrees
    return useless / asked


def test_novices_ask_what_they_could_know_and_experts_never_do(world: World) -> None:
    assert useless_share(world, of_skill(world, EXPERT)) == 0
    assert useless_share(world, of_skill(world, NOVICE)) > 0.2


def test_the_commonest_opener_is_not_the_best(world: World, games: Games) -> None:
    openers = np.bincount(games.questions[:, 0], minlength=120)
    yes = world.table.sum(axis=1)
    best_split = np.minimum(yes, 80 - yes).argmax()
    assert world.questions[openers.argmax()] == "is it an animal ?"
    assert world.questions[best_split] == "is it man made ?"
    assert openers[best_split] > 0.05 * GAMES  # but the data have it
    # Habits apart, the shares add up to that of the opener: each skill has its own.
    habit = sum(skill.share * skill.habit for skill in SKILLS)
    assert openers.max() / GAMES == pytest.approx(habit, abs=0.05)
