"""Where play loses against perfect play: what each guess costs if all that follow were perfect."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.decisions import Answers, Table, count_parts, split
from textrl.envs.wordle.game import ALL_GREEN, MAX_GUESSES
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
        self.search = Search(words.table)
        self._regrets: dict[tuple[int, int, bytes], float] = {}

    def regret(self, guess: int, remaining: Answers, guesses_left: int) -> float:
        """How much worse the guess is than the best one, per answer that is possible."""
        key = (guess, guesses_left, remaining.tobytes())
        if key not in self._regrets:
            patterns = self.search.table[guess]
            self._regrets[key] = regret_of(self.search, patterns, remaining, guesses_left).lost
        return self._regrets[key]


@dataclass(frozen=True)
class Regret:
    """What a guess loses against the best one, in wrong guesses to be expected."""

    lost: float
    """Below 0: better than any word of the list, which a word from outside it may be."""
    best: int
    """The best guess, as an index in the list."""


def regret_of(
    search: Search, patterns: NDArray[np.uint8], remaining: Answers, guesses_left: int
) -> Regret:
    """The exact regret of a guess with these patterns (answers,), if all that follow are perfect.

    The guess need not be a word of the list. May raise SearchLimitReached.
    """
    least, best = search.solve(remaining, guesses_left)
    cost = 0
    for part in split(patterns[None], 0, remaining).values():
        cost += len(part)
        if guesses_left > 1:
            cost += search.solve(part, guesses_left - 1)[0]
    return Regret((cost - least) / len(remaining), best)


def regret_by_partitions(
    table: Table, patterns: NDArray[np.uint8], remaining: Answers, guesses_left: int
) -> Regret:
    """An estimate for lists that are too large to search, by the bounds that the search prunes by.

    A guess that splits k words into p parts leaves at least 2k - p wrong guesses in all, or one
    less if it may be right itself; with the last guess all but one word are lost.
    """
    count, is_last = len(remaining), guesses_left == 1
    costs = np.full(len(table), count)
    if not is_last:
        costs += count - count_parts(table, remaining)
    costs[remaining] -= 1
    mine = patterns[remaining]
    cost = count if is_last else 2 * count - len(np.unique(mine))
    cost -= int((mine == ALL_GREEN).any())
    return Regret(float(cost - costs.min()) / count, int(costs.argmin()))


@lru_cache(maxsize=1)
def _judge(words: WordList) -> _Judge:
    return _Judge(words)
