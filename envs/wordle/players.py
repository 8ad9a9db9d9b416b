"""Reference players, from the weakest up: random, clue-consistent, greedy by partitions."""

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.decisions import Answers, Decision, count_parts, split
from textrl.envs.wordle.game import MAX_GUESSES
from textrl.envs.wordle.words import WordList

_CELLS_AT_ONCE = 8_000_000


def random_score(words: WordList) -> float:
    """The exact expected score of guessing any legal word each time, whatever the clues say."""
    wrong = 1 - 1 / len(words.guesses)
    return -sum(wrong**turn for turn in range(1, MAX_GUESSES + 1))


def play_clue_consistent(
    words: WordList, answers: Answers, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Scores of one game per answer, guessing any answer of the list that agrees with all clues."""
    games_at_once = max(1, _CELLS_AT_ONCE // len(words.answers))
    batches = range(0, len(answers), games_at_once)
    return np.concatenate(
        [_clue_consistent_batch(words, answers[i : i + games_at_once], rng) for i in batches]
    )


def _clue_consistent_batch(
    words: WordList, answers: Answers, rng: np.random.Generator
) -> NDArray[np.float64]:
    table = words.table[: len(words.answers)]
    scores = np.zeros(len(answers))
    playing = np.arange(len(answers))
    consistent = np.ones((len(answers), len(words.answers)), dtype=bool)
    for _ in range(MAX_GUESSES):
        candidates = np.nonzero(consistent)[1]  # game after game
        counts = consistent.sum(axis=1)
        guesses = candidates[np.cumsum(counts) - counts + rng.integers(counts)]
        is_wrong = guesses != answers[playing]
        guesses, playing, consistent = guesses[is_wrong], playing[is_wrong], consistent[is_wrong]
        scores[playing] -= 1.0
        patterns = table[guesses, answers[playing]]
        consistent &= table[guesses] == patterns[:, None]
    return scores


def partition_tree(words: WordList) -> Decision:
    """Always the guess that splits the remaining answers into most parts.

    Of equal guesses one that may be the answer goes first, then the first of the list.
    """

    def decide(remaining: Answers, guesses_left: int) -> Decision:
        if guesses_left == 1:
            return Decision(int(remaining[0]), {})
        if len(remaining) <= 2:  # the first of them splits as well as any word can
            guess = int(remaining[0])
        else:
            preference = 2 * count_parts(words.table, remaining)
            preference[remaining] += 1
            guess = int(preference.argmax())
        parts = split(words.table, guess, remaining)
        return Decision(guess, {p: decide(part, guesses_left - 1) for p, part in parts.items()})

    return decide(np.arange(len(words.answers)), MAX_GUESSES)
