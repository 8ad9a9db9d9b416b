"""The reference players: each does what its name says, and they rank as they should."""

import time

import numpy as np
import pytest

from textrl.envs.wordle.decisions import Decision, count_parts, wrong_guesses
from textrl.envs.wordle.env import WordleVectorEnv
from textrl.envs.wordle.game import ALL_GREEN
from textrl.envs.wordle.players import partition_tree, play_clue_consistent, random_score
from textrl.envs.wordle.references import references
from textrl.envs.wordle.words import WordList, load_words

RHYMES = tuple(f"{letter}atch" for letter in "bchlmnpwx")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path))


def test_random_score_is_what_random_games_score() -> None:
    words = WordList(
        "four", ("crane", "slate", "abbey", "moist"), ("crane", "slate", "abbey", "moist")
    )
    env = WordleVectorEnv(40_000, words)
    env.reset(seed=0)
    rng = np.random.default_rng(1)
    scores = np.zeros(40_000)
    for _ in range(6):
        scores += env.step(words.guess_letters[rng.integers(4, size=40_000)])[1]
    assert random_score(words) == pytest.approx(-sum(0.75**turn for turn in range(1, 7)))
    assert scores.mean() == pytest.approx(random_score(words), abs=4 * scores.std() / 200)


def test_clue_consistent_on_lists_that_can_be_solved_by_hand() -> None:
    # Each guess rules out itself alone, so the turn of the right one is uniform: -0 .. -5 for the
    # first six turns, -6 for the three answers that are left at the end.
    words = WordList("rhymes", RHYMES, RHYMES)
    answers = np.tile(np.arange(9), 4000)
    scores = play_clue_consistent(words, answers, np.random.default_rng(0))
    expected = np.array([3, 1, 1, 1, 1, 1, 1]) / 9
    np.testing.assert_allclose(
        np.bincount(scores.astype(int) + 6) / len(scores), expected, atol=0.01
    )


def test_clue_consistent_follows_its_seed() -> None:
    words = load_words("paper")
    answers = np.tile(np.arange(236), 3)
    first, again, other = (
        play_clue_consistent(words, answers, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_greedy_takes_the_most_parts_and_prefers_possible_answers() -> None:
    words = load_words("paper")
    tree = partition_tree(words)
    everything = np.arange(236)
    parts = [len(np.unique(row)) for row in words.table]
    np.testing.assert_array_equal(count_parts(words.table, everything), parts)
    assert tree.guess == int(np.argmax(parts))
    for pattern, reply in tree.replies.items():
        remaining = np.flatnonzero(words.table[tree.guess] == pattern)
        parts = [len(np.unique(row[remaining])) for row in words.table]
        assert parts[reply.guess] == max(parts)
        if any(parts[answer] == max(parts) for answer in remaining):
            assert reply.guess in remaining


def test_a_tree_is_scored_as_it_plays() -> None:
    words = load_words("paper")
    tree = partition_tree(words)
    wrong = wrong_guesses(tree, words.table)
    for answer in range(236):
        decision, count = tree, 0
        while (pattern := int(words.table[decision.guess, answer])) != ALL_GREEN:
            decision, count = decision.replies[pattern], count + 1
        assert wrong[answer] == count


def test_unfinished_games_of_a_tree_are_lost() -> None:
    words = WordList("rhymes", RHYMES, RHYMES)
    assert wrong_guesses(Decision(0, {}), words.table).tolist() == [0] + [6] * 8
    assert sorted(wrong_guesses(partition_tree(words), words.table)) == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_references_rank_from_random_to_optimal() -> None:
    words = load_words("paper")
    start = time.process_time()
    found = references(words, seed=0)
    assert time.process_time() - start < 10
    assert list(found) == ["random", "clue_consistent", "crowd", "partitions", "optimal"]
    random, clue_consistent, crowd, partitions, optimal = (found[name].mean for name in found)
    assert random < -5.5
    assert random < crowd < clue_consistent < partitions <= optimal < -1
    assert -2.3 < clue_consistent < -2.0
    assert 0 < found["clue_consistent"].stderr < 0.01
    assert "50,032 simulated games" in found["clue_consistent"].how
    assert [found[name].stderr for name in ("random", "partitions", "optimal")] == [0.0] * 3
