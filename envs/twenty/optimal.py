"""Perfect play by exact search: the decision tree with the fewest wasted turns over all things.

Every turn costs 1 for each thing that is still possible and is not named by it, so a strategy costs
the sum, over its turns, of the things still in play. The search asks whether a set of things can be
done at a cost, starting from a bound that no set of that size can beat and raising it by what was
learned; what was solved or bounded is remembered by set. A set of things is an int with a bit each.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.data.collect import cache_folder
from textrl.envs.twenty.game import MAX_TURNS
from textrl.envs.twenty.things import World
from textrl.evaluation.report import write_json

Table = NDArray[np.bool_]
"""(questions, things) as World.table: the last questions name the things, in their order."""


@dataclass(frozen=True)
class Decision:
    """Ask this question, then follow the reply to its answer; None where the game is over."""

    question: int
    no: "Decision | None"
    yes: "Decision | None"


@dataclass(frozen=True)
class OptimalPlay:
    """The best decision tree and its cost: turns that did not name the thing, over all things."""

    tree: Decision
    cost: int


def optimal_play(world: World) -> OptimalPlay:
    """Perfect play in a world, cached on disk."""
    path = cache_folder() / f"twenty-optimal-{world.digest}.json"
    play = _read_cache(path, world)
    if play is None:
        play = search(world.table)
        with contextlib.suppress(OSError):  # a cache that cannot be written is done without
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {"cost": play.cost, "tree": _encode(world, play.tree)})
    return play


def search(table: Table, turns: int = MAX_TURNS) -> OptimalPlay:
    """The optimum for a table, with at most so many turns.

    A fraction of a second for the world that comes along. Where questions tell so little apart that
    naming one thing after the other is best, it takes time exponential in the things.
    """
    branches = _Search(table)
    everything = (1 << table.shape[1]) - 1
    limit = branches.lower_bound(everything, turns)
    while branches.solve(everything, turns, limit) is None:
        limit = branches.lower_bound(everything, turns)
    tree = branches.tree(everything, turns)
    assert tree is not None
    return OptimalPlay(tree, limit)


def wasted_turns(tree: Decision, table: Table) -> NDArray[np.int64]:
    """(things,) turns that do not name the thing, if it is the hidden one; a lost game has all."""
    questions, things = table.shape
    wasted = np.full(things, MAX_TURNS)
    for thing in range(things):
        decision: Decision | None = tree
        for turn in range(MAX_TURNS):
            if decision is None:
                break
            if decision.question == questions - things + thing:
                wasted[thing] = turn
                break
            decision = decision.yes if table[decision.question, thing] else decision.no
    return wasted


@cache
def least_cost(things: int, turns: int) -> int:
    """What no play of so many things beats, even if any two halves could be told apart."""
    if things <= 1 or turns == 0:
        return 0
    halves = [
        least_cost(part, turns - 1) + least_cost(things - part, turns - 1)
        for part in range(1, things // 2 + 1)
    ]
    return min(things - 1 + least_cost(things - 1, turns - 1), things + min(halves))


class _Search:
    def __init__(self, table: Table) -> None:
        questions, things = table.shape
        self.first_guess = questions - things
        self.kinds = [
            sum(1 << int(thing) for thing in np.flatnonzero(row))
            for row in table[: self.first_guess]
        ]
        self.solved: dict[tuple[int, int], tuple[int, int]] = {}
        self.bounds: dict[tuple[int, int], int] = {}

    def solve(self, possible: int, turns: int, limit: int) -> int | None:
        """The least cost of these things in so many turns; None where it is above the limit."""
        count, turns = possible.bit_count(), _turns_that_matter(possible, turns)
        key = (possible, turns)
        if count > 1 and turns and key not in self.solved:
            bound = self.lower_bound(possible, turns)
            options = self.options(possible, turns)
            while bound <= limit and key not in self.solved:
                bound = self.attempt(key, options, bound)
            self.bounds[key] = bound
        cost = self.solved[key][0] if key in self.solved else self.lower_bound(possible, turns)
        return cost if cost <= limit else None

    def attempt(self, key: tuple[int, int], options: list[tuple[int, int]], target: int) -> int:
        """Solve the set at the cost `target`; else return the next cost that may be possible."""
        possible, turns = key
        beyond = least_beyond = 1 << 60
        for cheapest, question in options:
            if cheapest > target:
                beyond = cheapest
                break
            cost, parts = self.after(question, possible)
            # The larger part first: it is likelier to fail.
            parts.sort(key=int.bit_count, reverse=True)
            cost += sum(self.lower_bound(part, turns - 1) for part in parts)
            for part in parts:
                if cost > target:
                    break
                others = cost - self.lower_bound(part, turns - 1)
                found = self.solve(part, turns - 1, target - others)
                bound = self.lower_bound(part, turns - 1)
                cost = others + (bound if found is None else found)
            if cost <= target:
                self.solved[key] = cost, question
                return cost
            least_beyond = min(least_beyond, cost)
        return max(target + 1, min(beyond, least_beyond))

    def options(self, possible: int, turns: int) -> list[tuple[int, int]]:
        """Questions that tell the things apart, each with a cost that it cannot beat; best first.

        Of several that split the set alike, one is enough.
        """
        count = possible.bit_count()
        by_part: dict[int, tuple[int, int]] = {}
        for question, kind in enumerate(self.kinds):
            yes = possible & kind
            no = possible ^ yes
            if yes and no:
                left = [least_cost(part.bit_count(), turns - 1) for part in (yes, no)]
                by_part.setdefault(min(yes, no), (count + sum(left), question))
        naming = count - 1 + least_cost(count - 1, turns - 1)
        named = [(naming, self.first_guess + thing) for thing in _members(possible)]
        return sorted([*by_part.values(), *named])

    def after(self, question: int, possible: int) -> tuple[int, list[int]]:
        """What a question costs the possible things at once, and the sets that it leaves."""
        if question >= self.first_guess:
            rest = possible & ~(1 << (question - self.first_guess))
            return rest.bit_count(), [rest]
        yes = possible & self.kinds[question]
        return possible.bit_count(), [yes, possible ^ yes]

    def lower_bound(self, possible: int, turns: int) -> int:
        """The cost of the things where it is known, else one that they cannot beat."""
        key = (possible, _turns_that_matter(possible, turns))
        if key in self.solved:
            return self.solved[key][0]
        return self.bounds.get(key) or least_cost(possible.bit_count(), key[1])

    def tree(self, possible: int, turns: int) -> Decision | None:
        """The decisions that were found for a solved set."""
        if not possible or not turns:
            return None
        if possible.bit_count() == 1:
            return Decision(self.first_guess + next(_members(possible)), None, None)
        _, question = self.solved[possible, _turns_that_matter(possible, turns)]
        _, parts = self.after(question, possible)
        no, yes = parts[-1], parts[0] if len(parts) == 2 else 0
        return Decision(question, self.tree(no, turns - 1), self.tree(yes, turns - 1))


def _turns_that_matter(possible: int, turns: int) -> int:
    """More turns than these change nothing.

    A question that rules nothing out only costs, and every other rules out at least one thing: who
    plays best has one thing left after as many turns as there are things, less one.
    """
    return min(turns, possible.bit_count() - 1)


def _members(possible: int) -> Iterator[int]:
    while possible:
        lowest = possible & -possible
        yield lowest.bit_length() - 1
        possible ^= lowest


def _encode(world: World, decision: Decision | None) -> list[Any] | None:
    if decision is None:
        return None
    return [
        world.questions[decision.question],
        _encode(world, decision.no),
        _encode(world, decision.yes),
    ]


def _read_cache(path: Path, world: World) -> OptimalPlay | None:
    """The play that was stored, if the file is whole: its tree must play to the cost it claims."""
    number = {question: i for i, question in enumerate(world.questions)}

    def decode(node: list[Any] | None) -> Decision | None:
        if node is None:
            return None
        question, no, yes = node
        return Decision(number[question], decode(no), decode(yes))

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        tree, cost = decode(stored["tree"]), stored["cost"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if tree is None or wasted_turns(tree, world.table).sum() != cost:
        return None
    return OptimalPlay(tree, cost)
