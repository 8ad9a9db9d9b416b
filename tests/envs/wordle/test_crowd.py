"""The simulated crowd: like people in the large, mixed in skill, the same for the same seed."""

import numpy as np
import pytest

from textrl.envs.wordle.crowd import (
    BEHAVIOURS,
    CHUNK_GAMES,
    HUMAN_HISTOGRAM,
    SKILLS,
    chunk_sizes,
    simulate_chunk,
    simulate_crowd,
)
from textrl.envs.wordle.game import ALL_GREEN
from textrl.envs.wordle.games import Games, concatenate
from textrl.envs.wordle.words import WordList, load_words


@pytest.fixture(scope="module")
def full_words() -> WordList:
    return load_words("full")


@pytest.fixture(scope="module")
def paper_words() -> WordList:
    return load_words("paper")


@pytest.fixture(scope="module")
def full_games(full_words: WordList) -> Games:
    return simulate_crowd(full_words, 20_000, seed=0)


@pytest.fixture(scope="module")
def paper_games(paper_words: WordList) -> Games:
    return simulate_crowd(paper_words, 40_000, seed=0)


def same(one: Games, other: Games) -> bool:
    return (
        np.array_equal(one.answers, other.answers)
        and np.array_equal(one.guesses, other.guesses)
        and np.array_equal(one.behaviour, other.behaviour)
    )


def mean_scores(games: Games) -> list[float]:
    return [float(games.scores()[games.behaviour == index].mean()) for index in range(len(SKILLS))]


def test_histogram_on_the_full_list_is_that_of_people(full_games: Games) -> None:
    total_variation = np.abs(full_games.histogram() - HUMAN_HISTOGRAM).sum() / 2
    assert total_variation <= 0.05


def test_first_rows_on_the_full_list_look_like_those_of_people(
    full_games: Games, full_words: WordList
) -> None:
    patterns = full_games.patterns(full_words)[:, 0]
    colours = patterns[:, None] // 3 ** np.arange(5) % 3
    # 367,366 first rows of people: 0.503 greens and 1.019 yellows a row, 13.0 % all black.
    assert (colours == 2).sum(axis=1).mean() == pytest.approx(0.503, abs=0.08)
    assert (colours == 1).sum(axis=1).mean() == pytest.approx(1.019, abs=0.08)
    assert (patterns == 0).mean() == pytest.approx(0.130, abs=0.03)


def test_better_players_score_better(full_games: Games, paper_games: Games) -> None:
    for games in (full_games, paper_games):
        scores = mean_scores(games)
        assert scores == sorted(scores)
        assert scores[-1] - scores[0] > 0.7


def test_the_crowd_is_mixed_on_the_paper_list(paper_games: Games) -> None:
    assert -3.0 < paper_games.scores().mean() < -2.3
    shares = np.bincount(paper_games.behaviour) / len(paper_games)
    np.testing.assert_allclose(shares, [skill.share for skill in SKILLS], atol=0.01)
    assert paper_games.behaviours == BEHAVIOURS


def test_openers_are_many(paper_games: Games) -> None:
    shares = np.bincount(paper_games.guesses[:, 0], minlength=236) / len(paper_games)
    assert shares.max() < 0.1
    assert (shares > 0.001).sum() > 120


def test_answers_are_uniform(paper_games: Games) -> None:
    counts = np.bincount(paper_games.answers, minlength=236)
    expected = len(paper_games) / 236
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 235 + 5 * np.sqrt(2 * 235)


def test_nobody_peeks(paper_games: Games) -> None:
    """Openers know nothing of the answer: they hit it as often as any other word."""
    hits = (paper_games.guesses[:, 0] == paper_games.answers).mean()
    assert hits == pytest.approx(1 / 236, abs=5 * np.sqrt(1 / 236 / len(paper_games)))


def test_who_reads_every_row_never_contradicts_it(
    paper_games: Games, paper_words: WordList
) -> None:
    experts = paper_games.select(paper_games.behaviour == BEHAVIOURS.index("expert"))
    novices = paper_games.select(paper_games.behaviour == BEHAVIOURS.index("novice"))
    assert contradictions(experts, paper_words) == 0
    assert contradictions(novices, paper_words) > 0.2


def contradictions(games: Games, words: WordList) -> float:
    """Share of second guesses that cannot be the answer after the first row."""
    first, second = games.guesses[:, 0], games.guesses[:, 1]
    seen = words.table[first, games.answers]
    going_on = seen != ALL_GREEN
    if_answer = words.table[first[going_on], second[going_on]]
    return float((if_answer != seen[going_on]).mean())


def test_rare_words_are_played_on_the_full_list(full_games: Games, full_words: WordList) -> None:
    rare = (full_games.guesses >= len(full_words.answers)).sum() / full_games.turns().sum()
    assert 0.01 < rare < 0.2


def test_same_seed_same_games(paper_words: WordList) -> None:
    games = simulate_crowd(paper_words, 3000, seed=7)
    assert same(games, simulate_crowd(paper_words, 3000, seed=7))
    assert not same(games, simulate_crowd(paper_words, 3000, seed=8))


def test_chunks_in_any_order_make_the_same_crowd(paper_words: WordList) -> None:
    sizes = chunk_sizes(2 * CHUNK_GAMES + 100)
    assert sizes == [CHUNK_GAMES, CHUNK_GAMES, 100]
    chunks = {
        chunk: simulate_chunk(paper_words, chunk, sizes[chunk], seed=3) for chunk in (2, 0, 1)
    }
    joined = concatenate([chunks[chunk] for chunk in range(3)])
    assert same(joined, simulate_crowd(paper_words, sum(sizes), seed=3))
    assert not np.array_equal(chunks[0].answers, chunks[1].answers)


@pytest.mark.parametrize("games", [0, 1])
def test_few_games(paper_words: WordList, games: int) -> None:
    assert len(simulate_crowd(paper_words, games, seed=0)) == games


def test_a_list_of_two_words() -> None:
    words = WordList("two", ("crane", "slate"), ("crane", "slate"))
    games = simulate_crowd(words, 500, seed=0)
    assert set(games.guesses[:, 0].tolist()) == {0, 1}
    assert games.won().all()
