"""Perfect play: the decision tree with the best expected score, by exact search.

The cost of a set of remaining answers is the number of wrong guesses summed over them. A guess
costs one for every answer but itself, then the cost of each part that it splits the set into. Two
facts prune:

- k answers cost at least k - 1, because one guess is right for at most one of them. So a guess that
  splits k answers into p parts costs at least 2k - p, or one less if it may be right itself;
- the least of these bounds over all guesses bounds the cost of a part before it is searched.

Lists of 236 words take well under a second, of 500 a few seconds.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.data.collect import cache_folder
from textrl.envs.wordle.decisions import Answers, Decision, Table, count_parts, split, wrong_guesses
from textrl.envs.wordle.game import MAX_GUESSES
from textrl.envs.wordle.words import WordList
from textrl.evaluation.report import write_json

SEARCH_LIMIT = 300_000_000
"""Table cells a search may look at, about 15 seconds' worth, before the optimum is left unknown."""


@dataclass(frozen=True)
class OptimalPlay:
    """The best decision tree and its cost: wrong guesses over all answers, a loss being six."""

    tree: Decision
    cost: int


def optimal_play(words: WordList) -> OptimalPlay | None:
    """Perfect play on a list, cached on disk; None if the list is too large to search.

    The full list is too large: published optima such as 3.4212 guesses belong to other lists.
    """
    path = cache_folder() / f"wordle-optimal-{words.digest}.json"
    play = _read_cache(path, words)
    if play is None:
        play = search(words.table)
        if play is not None:
            _write_cache(path, words, play)
    return play


def search(table: Table) -> OptimalPlay | None:
    """The optimum for a (guesses, answers) table of patterns; None if it takes too long to find."""
    guesses, answers = table.shape
    if guesses * guesses * answers > SEARCH_LIMIT:  # what bounding each first guess may look at
        return None
    branches = Search(table)
    everything = np.arange(answers)
    try:
        cost, _ = branches.solve(everything, MAX_GUESSES)
    except SearchLimitReached:
        return None
    return OptimalPlay(branches.tree(everything, MAX_GUESSES), cost)


class SearchLimitReached(Exception):
    pass


class Search:
    """Depth-first branch and bound, remembering every set that was solved or bounded."""

    def __init__(self, table: Table, breadth: int | None = None, limit: int | None = None) -> None:
        """breadth: how many guesses are tried at each turn, the most promising ones; None = all,
        and only then is the result exact. limit: table cells to look at; None = SEARCH_LIMIT."""
        self.table = table
        self.breadth, self.limit = breadth, SEARCH_LIMIT if limit is None else limit
        self.cells_seen = 0
        self.solved: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.lower_bounds: dict[bytes, int] = {}

    def solve(self, remaining: Answers, guesses_left: int) -> tuple[int, int]:
        """The least cost of the remaining answers, and the first guess that attains it."""
        if guesses_left == 1 or len(remaining) <= 2:
            return len(remaining) - 1, int(remaining[0])
        key = (guesses_left, remaining.tobytes())
        if key not in self.solved and (perfect := self.perfect(remaining)) is not None:
            self.solved[key] = len(remaining) - 1, perfect
        if key not in self.solved:
            bounds = self.bounds(remaining)
            best_guess = int(bounds.argmin())
            least = self.cost(best_guess, remaining, guesses_left)
            for guess in np.argsort(bounds, kind="stable")[1 : self.breadth]:
                if bounds[guess] >= least:
                    break
                cost = self.cost(int(guess), remaining, guesses_left, limit=least)
                if cost < least:
                    least, best_guess = cost, int(guess)
            self.solved[key] = least, best_guess
        return self.solved[key]

    def cost(self, guess: int, remaining: Answers, guesses_left: int, limit: float = np.inf) -> int:
        """The cost of the remaining answers if this guess comes next; gives up at the limit."""
        parts = sorted(split(self.table, guess, remaining).values(), key=len, reverse=True)
        bounds = [self.lower_bound(part, guesses_left - 1) for part in parts]
        cost = sum(len(part) for part in parts) + sum(bounds)
        for part, bound in zip(parts, bounds, strict=True):
            if cost >= limit:
                break
            cost += self.solve(part, guesses_left - 1)[0] - bound
        return cost

    def lower_bound(self, remaining: Answers, guesses_left: int) -> int:
        """A cost that no play of the remaining answers can beat."""
        if guesses_left == 1 or len(remaining) <= 2:
            return len(remaining) - 1
        key = remaining.tobytes()
        if key not in self.lower_bounds:
            is_perfect = self.perfect(remaining) is not None
            bound = len(remaining) - 1 if is_perfect else int(self.bounds(remaining).min())
            self.lower_bounds[key] = bound
        return self.lower_bounds[key]

    def perfect(self, remaining: Answers) -> int | None:
        """Of the remaining answers, the first that tells all others apart, if there is one.

        No guess is better, and most small sets have one: looking at it first is quick.
        """
        parts = count_parts(self.table[remaining], remaining)
        best = int(parts.argmax())
        return int(remaining[best]) if parts[best] == len(remaining) else None

    def bounds(self, remaining: Answers) -> NDArray[np.intp]:
        """(guesses,) a cost that no play beats which makes that guess, given at least two left."""
        self.cells_seen += len(self.table) * len(remaining)
        if self.cells_seen > self.limit:
            raise SearchLimitReached
        bounds = 2 * len(remaining) - count_parts(self.table, remaining)
        bounds[remaining] -= 1
        return bounds

    def tree(self, remaining: Answers, guesses_left: int) -> Decision:
        """The decisions that solve found."""
        _, guess = self.solve(remaining, guesses_left)
        return self.tree_after(guess, remaining, guesses_left)

    def tree_after(self, guess: int, remaining: Answers, guesses_left: int) -> Decision:
        """The same after this guess."""
        if guesses_left == 1:
            return Decision(guess, {})
        parts = split(self.table, guess, remaining)
        replies = {pattern: self.tree(part, guesses_left - 1) for pattern, part in parts.items()}
        return Decision(guess, replies)


def _read_cache(path: Path, words: WordList) -> OptimalPlay | None:
    """The play that was stored, if the file is whole: its tree must play to the cost it claims."""
    index = {word: number for number, word in enumerate(words.guesses)}

    def decode(node: dict[str, Any]) -> Decision:
        replies = {int(pattern): decode(reply) for pattern, reply in node["replies"].items()}
        return Decision(index[node["guess"]], replies)

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        play = OptimalPlay(decode(stored["tree"]), stored["cost"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return play if wrong_guesses(play.tree, words.table).sum() == play.cost else None


def _write_cache(path: Path, words: WordList, play: OptimalPlay) -> None:
    """Store the play whole or not at all; a cache that cannot be written is done without."""

    def encode(decision: Decision) -> dict[str, Any]:
        replies = {str(pattern): encode(reply) for pattern, reply in decision.replies.items()}
        return {"guess": words.guesses[decision.guess], "replies": replies}

    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"cost": play.cost, "tree": encode(play.tree)})
