"""Merging by tests: what is kept for sure, and what is lost where later actions decide."""

import numpy as np
import pytest

from textrl.theory.aggregate import aggregate, clusters
from textrl.theory.bisimulation import bisimulation_metric
from textrl.theory.families import BETS, bet, listening, random_pomdp, switch
from textrl.theory.hindsight import NAMED, compare_merges, lost, merge_by_tests
from textrl.theory.pomdp import (
    POMDP,
    Array,
    Policy,
    Process,
    ahead,
    evaluate,
    histories,
    mean_return,
    optimal,
    uniform,
)


def with_chaff(seed: int) -> POMDP:
    """A random POMDP of horizon 4 whose second observation comes in two kinds that mean the same,
    so that there is something to merge."""
    plain = random_pomdp(np.random.default_rng(seed), horizon=4)
    first, second = plain.emission.T
    emission = np.stack([first, 0.3 * second, 0.7 * second], axis=1)
    return POMDP(plain.initial, plain.transition, emission, plain.reward)


def q_values(process: Process, policy: Policy) -> list[Array]:
    values = [*evaluate(process, policy)[1:], np.zeros(1)]
    pairs = zip(process.stages, values, strict=True)
    return [stage.rewards + ahead(stage, value) for stage, value in pairs]


def widest(values: Array, labels: np.ndarray) -> float:
    """How much values (states, ...) differ within a label at most."""
    ranges = [np.ptp(values[labels == label], axis=0).max() for label in np.unique(labels)]
    return float(max(ranges))


@pytest.mark.parametrize("seed", range(6))
def test_tests_that_name_everything_are_finer_than_the_every_action_metric(seed: int) -> None:
    process = histories(with_chaff(seed))
    labels = merge_by_tests(process, "all", uniform(process))
    assert sum(clusters(labels)) < sum(process.sizes) / 3  # not the empty statement
    for metric, label in zip(bisimulation_metric(process), labels, strict=True):
        apart = np.where(label[:, None] == label, metric.between_states(), 0)
        assert apart.max() < 1e-7
    assert lost(process, labels) == pytest.approx(0, abs=1e-9)


def test_the_converse_is_false() -> None:
    """What earns nothing may look like anything: the metric merges it, tests tell it apart."""
    seen = np.array([[0.9, 0.1], [0.1, 0.9]])
    idle = POMDP(np.array([0.5, 0.5]), np.eye(2)[:, None].repeat(2, 1), seen, np.zeros((3, 2, 2)))
    process = histories(idle)
    by_metric = clusters(aggregate(bisimulation_metric(process), 0.0))
    by_tests = clusters(merge_by_tests(process, "all", uniform(process)))
    # Of the last step nothing is seen any more; before, it is how often which was seen.
    assert by_metric == (1, 1, 1) and by_tests == (2, 3, 1)


@pytest.mark.parametrize("seed", range(6))
def test_what_a_test_names_decides_which_values_are_kept(seed: int) -> None:
    process = histories(with_chaff(seed))
    policy = optimal(process)[1] if seed % 2 else uniform(process)
    by = {named: merge_by_tests(process, named, policy) for named in NAMED}
    sizes = [sum(clusters(by[named])) for named in NAMED]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] < sum(process.sizes)
    for value, label in zip(evaluate(process, policy), by["query"], strict=True):
        assert widest(value[:, None], label) < 1e-9
    for value, label in zip(q_values(process, policy), by["first action"], strict=True):
        assert widest(value, label) < 1e-9


@pytest.mark.parametrize("horizon", [2, 3, 5])
@pytest.mark.parametrize("family", ["switch", "listening"])
def test_hindsight_queries_keep_what_the_on_policy_metric_loses(family: str, horizon: int) -> None:
    found = compare_merges(family, horizon)
    assert found["tests, hindsight queries"]["lost"] == pytest.approx(0, abs=1e-9)
    assert found["tests, hindsight queries"]["summaries"] < found["histories"]
    summaries = {each["summaries"] for way, each in found.items() if "tests" in way}
    assert summaries == {found["every-action metric"]["summaries"]}
    assert (found["on-policy metric"]["lost"] > 0.29) == (family == "listening")


@pytest.mark.parametrize("horizon", [2, 3, 5])
def test_a_bet_by_hand(horizon: int) -> None:
    """Known: 1. Not known which action bets: one half of the time it is safe, and pays half."""
    for parity in (False, True):
        process = histories(bet(horizon, parity))
        assert mean_return(process, optimal(process)[0]) == pytest.approx(1)
        assert mean_return(process, evaluate(process, uniform(process))) == pytest.approx(0.5)
        merged = merge_by_tests(process, "query", uniform(process))
        assert clusters(merged)[0] == 1  # the first observation is forgotten
        assert lost(process, merged) == pytest.approx(0.25)
        assert lost(process, merge_by_tests(process, "all", uniform(process))) == pytest.approx(0)
        named = lost(process, merge_by_tests(process, "first action", uniform(process)))
        # Naming the first action is not enough where all that follow decide.
        assert named == pytest.approx(0.25 if parity and horizon > 2 else 0)


@pytest.mark.parametrize("make", [switch, listening, *BETS.values()])
def test_under_the_best_policy_the_first_action_is_enough(make) -> None:
    process = histories(make(4))
    labels = merge_by_tests(process, "first action", optimal(process)[1])
    assert lost(process, labels) == pytest.approx(0, abs=1e-9)
