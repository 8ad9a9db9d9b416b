"""Merging histories that no test tells apart: exactly, what hindsight queries aim at.

A test of a history h_t is what a later step k of its episode shows: how likely an action and an
observation after it are there, and with which chance a reward of 1 comes with them. How much a test
names of what happens from t to k decides what may be merged:

- "all": every action and observation on the way, as in predictive state representations (Littman
  et al. 2001). Histories with the same tests are bisimilar, action by action: no value is lost.
- "first action": the action at t, then those of step k; in between a policy acts. The sum of such
  tests is Q of that policy, so Q is kept, and with that of pi* all that pi* needs.
- "query": step k alone; what t itself can lead to is known for each action. V of the policy is
  kept. This is what textrl/hindsight/ learns from data, with the behaviour as the policy; but that
  asks what is earned given the query, not how likely the query is, and so may merge more.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from textrl.theory.aggregate import aggregate, clusters, on_states, summarize
from textrl.theory.bisimulation import bisimulation_metric, equal_rows
from textrl.theory.families import BETS, FAMILIES
from textrl.theory.pomdp import (
    Array,
    Ints,
    Policy,
    Process,
    Stage,
    evaluate,
    histories,
    mean_return,
    optimal,
    uniform,
    visits,
)

NAMED = ("all", "first action", "query")


def merge_by_tests(process: Process, named: str, policy: Policy) -> tuple[Ints, ...]:
    """Labels by stage: histories share one if all tests have the same outcome."""
    labels: list[Ints] = []
    later = np.zeros((1, 0))  # by state of the next stage: outcomes of the tests of its steps
    for stage, chosen in zip(reversed(process.stages), reversed(policy), strict=True):
        now = _outcomes(stage)
        if named == "all":
            # Of the next history its class says it all; of one that cannot be, nothing.
            after = labels[-1] if labels else np.zeros(1, dtype=np.int64)
            ahead = np.where(stage.chance > 0, after[stage.follows], -1)
        else:
            ahead = np.einsum("sab,sabq->saq", stage.chance, later[stage.follows])
            asked = np.einsum("sa,saq->sq", chosen, ahead)
            later = np.concatenate([_flat(now * chosen[..., None, None]), asked], axis=1)
            if named == "query":
                ahead = asked
        rows = np.concatenate([_flat(now), _flat(ahead)], axis=1)
        labels.append(equal_rows(rows)[1])
    return tuple(reversed(labels))


def _outcomes(stage: Stage) -> Array:
    """(states, actions, branches, 2): how likely each is, and with a reward of 1."""
    return np.stack([stage.chance, stage.paid], axis=-1)


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def lost(process: Process, labels: Sequence[Ints]) -> float:
    """J* less what the optimum of the summaries earns, with as many uniform data as one likes."""
    summary = summarize(process, labels, visits(process, uniform(process)))
    played = on_states(optimal(summary)[1], labels)
    best = mean_return(process, optimal(process)[0])
    return best - mean_return(process, evaluate(process, played))


def ways_to_merge() -> dict[str, Callable[[Process], tuple[Ints, ...]]]:
    """Name -> labels at epsilon 0: by both metrics, and by tests."""

    def by_metric(on_policy: bool) -> Callable[[Process], tuple[Ints, ...]]:
        return lambda process: aggregate(
            bisimulation_metric(process, optimal(process)[1] if on_policy else None), 0.0
        )

    def by_tests(named: str, best: bool = False) -> Callable[[Process], tuple[Ints, ...]]:
        return lambda process: merge_by_tests(
            process, named, optimal(process)[1] if best else uniform(process)
        )

    return {
        "every-action metric": by_metric(on_policy=False),
        "on-policy metric": by_metric(on_policy=True),
        "tests, all named": by_tests("all"),
        "tests, first action named, pi*": by_tests("first action", best=True),
        "tests, first action named": by_tests("first action"),
        "tests, hindsight queries": by_tests("query"),
    }


def compare_merges(family: str, horizon: int) -> dict[str, Any]:
    """How many summaries each way leaves, and what it loses, whatever the number of episodes."""
    process = histories({**FAMILIES, **BETS}[family](horizon))
    found: dict[str, Any] = {"histories": sum(process.sizes)}
    for name, merge in ways_to_merge().items():
        labels = merge(process)
        found[name] = {"summaries": sum(clusters(labels)), "lost": lost(process, labels)}
    return found
