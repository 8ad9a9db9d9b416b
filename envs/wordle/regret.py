"""Where play loses against perfect play: what each guess costs if all that follow were perfect."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from textrl.envs.wordle.decisions import Answers, split
from textrl.envs.wordle.game import MAX_GUESSES
from textrl.envs.wordle.optimal import Search, SearchLimitReached, optimal_play
from textrl.envs.wordle.words import WordList

Game = tuple[Sequence[int], Sequence[int]]
"""The guesses of a game as indices in the list, and the patterns that they got."""


def regret_by_guess(words: WordList, games: Sequence[Game]) -> list[float] | None:
    """(6,) the mean over games of what the first, second, ... guess lost against the best one.

    A guess loses how many more wrong guesses are to be expected after it than after the best one,
    over all answers that the clues so far allow. So luck does not count, and where every answer is
    played once, the six add up to the difference of the mean score and the optimum. None where a
    guess is no word of the list, or where the list is too large to search.
    """
    lost = np.zeros(MAX_GUESSES)
    if optimal_play(words) is None or any(min(guesses) < 0 for guesses, _ in games):
        return None
    judge = _judge(words)
    try:
        for guesses, patterns in games:
            remaining = np.arange(len(words.answers))
            for turn, (guess, pattern) in enumerate(zip(guesses, patterns, strict=True)):
                lost[turn] += judge.regret(guess, remaining, MAX_GUESSES - turn)
                remaining = remaining[words.table[guess, remaining] == pattern]
    except SearchLimitReached:
        return None
    means: list[float] = (lost / len(games)).tolist()
    return means


class _Judge:
    """Remembers what it has judged: games have most of their histories in common."""

    def __init__(self, words: WordList) -> None:
        self._search = Search(words.table)
        self._regrets: dict[tuple[int, int, bytes], float] = {}

    def regret(self, guess: int, remaining: Answers, guesses_left: int) -> float:
        """How much worse the guess is than the best one, per answer that is possible."""
        key = (guess, guesses_left, remaining.tobytes())
        if key not in self._regrets:
            best, _ = self._search.solve(remaining, guesses_left)
            lost = self._cost(guess, remaining, guesses_left) - best
            self._regrets[key] = lost / len(remaining)
        return self._regrets[key]

    def _cost(self, guess: int, remaining: Answers, guesses_left: int) -> int:
        parts = split(self._search.table, guess, remaining).values()
        if guesses_left == 1:
            return sum(len(part) for part in parts)
        return sum(len(part) + self._search.solve(part, guesses_left - 1)[0] for part in parts)


@lru_cache(maxsize=1)
def _judge(words: WordList) -> _Judge:
    return _Judge(words)
