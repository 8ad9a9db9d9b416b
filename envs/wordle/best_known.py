"""The best play that was found on a list too large for an exact search, and what none can beat.

The full list's tree is a file of the package. This program searches for it again, for as many
minutes as it is given, and writes the file where it finds a better tree or a tighter bound:

    python -m textrl.envs.wordle.best_known 10
"""

import json
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.decisions import Decision, count_parts, split, wrong_guesses
from textrl.envs.wordle.game import MAX_GUESSES
from textrl.envs.wordle.optimal import Search
from textrl.envs.wordle.words import LISTS, WordList, load_words
from textrl.evaluation.report import write_json

FILE = LISTS / "best-known-full.json"
STAGES = ((60, 3), (20, 8), (8, 20), (4, 50), (2, 150))
"""How many first guesses are tried, the best so far, and how many at each later turn."""
SHARE_OF_SEARCH = 0.7
"""Of the time; the rest goes into the bound."""
NO_LIMIT = 10**15


@dataclass(frozen=True)
class BestKnown:
    """The best decision tree found, its cost, and a cost that no tree can beat.

    Costs are wrong guesses over all answers, a lost game being six.
    """

    tree: Decision
    cost: int
    bound: int


@lru_cache(maxsize=4)
def best_known(words: WordList, path: Path = FILE) -> BestKnown | None:
    """What the file says of this list; None if it is of another, or does not play as it claims."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["words"] != words.digest:
            return None
        tree = planted(stored["tree"].split(), words)
        found = BestKnown(tree, stored["cost"], stored["bound"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return found if wrong_guesses(tree, words.table).sum() == found.cost else None


def listed(tree: Decision, words: WordList) -> list[str]:
    """The tree's guesses, each followed by those after its patterns, which need not be told."""
    guesses = [words.guesses[tree.guess]]
    for pattern in sorted(tree.replies):
        guesses += listed(tree.replies[pattern], words)
    return guesses


def planted(guesses: list[str], words: WordList) -> Decision:
    """The way back from `listed`."""
    index = {word: number for number, word in enumerate(words.guesses)}
    following = iter(guesses)

    def decide(remaining: NDArray[np.intp], guesses_left: int) -> Decision:
        guess = index[next(following)]
        if guesses_left == 1:
            return Decision(guess, {})
        parts = split(words.table, guess, remaining)
        return Decision(guess, {p: decide(parts[p], guesses_left - 1) for p in sorted(parts)})

    return decide(np.arange(len(words.answers)), MAX_GUESSES)


def search_tree(words: WordList, seconds: float) -> tuple[Decision, int]:
    """The best tree of a search that looks at few guesses first, then at more, after the best."""
    until = time.monotonic() + seconds
    everything = np.arange(len(words.answers))
    openers = (-count_parts(words.table, everything)).argsort(kind="stable")
    costs = dict.fromkeys(openers.tolist(), NO_LIMIT)
    best: tuple[Decision, int] | None = None
    for tried, breadth in STAGES:
        search = Search(words.table, breadth, limit=NO_LIMIT)
        for opener in sorted(costs, key=lambda each: costs[each])[:tried]:
            cost = search.cost(opener, everything, MAX_GUESSES)
            costs[opener] = min(costs[opener], cost)
            if best is None or cost < best[1]:
                best = search.tree_after(opener, everything, MAX_GUESSES), cost
                print(f"{words.guesses[opener]}: {-cost / len(everything):.4f}", flush=True)
            if time.monotonic() > until:
                return best
    assert best is not None
    return best


def bound_cost(words: WordList, seconds: float) -> int:
    """A cost that no tree can beat.

    Every first guess has the bound by how many parts it makes. In ascending order of that, as far
    as the time goes, each gets a better one, by what can be made of its parts.
    """
    until = time.monotonic() + seconds
    everything = np.arange(len(words.answers))
    search = Search(words.table, limit=NO_LIMIT)
    rough = search.bounds(everything)
    least = NO_LIMIT
    for opener in rough.argsort(kind="stable").tolist():
        # Those to come have no lower bound than this one.
        if rough[opener] >= least or time.monotonic() > until:
            return int(min(least, rough[opener]))
        parts = split(words.table, opener, everything).values()
        least = min(
            least, sum(len(part) + search.lower_bound(part, MAX_GUESSES - 1) for part in parts)
        )
        search.lower_bounds.clear()
    return int(least)


def main() -> None:
    """Search for so many minutes and keep what is better than the file."""
    words, seconds = load_words("full"), 60 * float(sys.argv[1])
    known = best_known(words)
    tree, cost = search_tree(words, seconds * SHARE_OF_SEARCH)
    bound = bound_cost(words, seconds * (1 - SHARE_OF_SEARCH))
    if known is not None:
        tree, cost = min((tree, cost), (known.tree, known.cost), key=lambda each: each[1])
        bound = max(bound, known.bound)
    answers = len(words.answers)
    print(f"best known {-cost / answers:.4f}, none above {-bound / answers:.4f}")
    content: dict[str, Any] = {"words": words.digest, "cost": cost, "bound": bound}
    write_json(FILE, {**content, "tree": " ".join(listed(tree, words))})


if __name__ == "__main__":
    main()
