"""Summaries: clusters within their radius, averages by hand, lemma 1."""

import numpy as np
import pytest

from textrl.theory.aggregate import (
    aggregate,
    clusters,
    cover_points,
    diameter,
    greedy_cover,
    on_states,
    summarize,
)
from textrl.theory.bisimulation import bisimulation_metric
from textrl.theory.families import listening, random_pomdp, switch
from textrl.theory.pomdp import (
    Process,
    Stage,
    evaluate,
    histories,
    mean_return,
    optimal,
    uniform,
    visits,
)
from textrl.theory.study import lemma_checks


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.0, 10.0])
def test_every_point_is_within_the_radius_of_its_centre(radius: float) -> None:
    points = np.random.default_rng(0).normal(size=(200, 3))
    labels = cover_points(points, radius)
    firsts = [int(np.argmax(labels == label)) for label in range(labels.max() + 1)]
    centres = points[firsts]
    assert (np.linalg.norm(points - centres[labels], axis=1) <= radius + 1e-6).all()
    apart = np.linalg.norm(centres[:, None] - centres, axis=-1) + 99 * np.eye(len(centres))
    assert apart.min() > radius
    assert (labels.max() + 1 == 200) == (radius == 0.0)
    assert (labels.max() == 0) == (radius == 10.0)


def test_a_cover_by_hand() -> None:
    places = np.array([0.0, 5.0, 1.0, 2.0, 5.5, 0.5])
    labels = greedy_cover(6, lambda i: np.abs(places - places[i]), radius=1.0)
    assert labels.tolist() == [0, 1, 0, 2, 1, 0]


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2, 0.5])
def test_states_of_a_cluster_are_within_epsilon_of_each_other(epsilon: float) -> None:
    process = histories(random_pomdp(np.random.default_rng(3), horizon=3))
    metrics = bisimulation_metric(process)
    for metric, labels in zip(metrics, aggregate(metrics, epsilon), strict=True):
        d = np.where(labels[:, None] == labels, metric.between_states(), 0)
        assert d.max() <= epsilon + 1e-6
        assert diameter(metric, labels) == d.max()


def test_averages_by_hand() -> None:
    """Two states of one cluster, seen 3 to 1, with one action."""
    first = Stage(
        follows=np.array([[[0, 1]]]), chance=np.array([[[0.75, 0.25]]]), paid=np.zeros((1, 1, 2))
    )
    paid = np.array([[[0.4]], [[0.8]]])
    last = Stage(np.zeros((2, 1, 1), dtype=np.int64), np.ones((2, 1, 1)), paid)
    process = Process(np.ones(1), (first, last))
    labels = (np.array([0]), np.array([0, 0]))
    summary = summarize(process, labels, visits(process, uniform(process)))
    assert summary.sizes == (1, 1)
    assert summary.stages[0].chance.tolist() == [[[1.0]]]
    assert summary.stages[1].rewards[0, 0] == pytest.approx(0.75 * 0.4 + 0.25 * 0.8)
    even = summarize(process, labels, (np.ones(1), np.zeros(2)))  # no weight: averaged evenly
    assert even.stages[1].rewards[0, 0] == pytest.approx(0.6)


@pytest.mark.parametrize("make", [switch, listening])
def test_at_epsilon_0_nothing_of_value_is_lost(make) -> None:
    process = histories(make(5))
    labels = aggregate(bisimulation_metric(process), 0.0)
    assert sum(clusters(labels)) < sum(process.sizes) / 10
    summary = summarize(process, labels, visits(process, uniform(process)))
    values, policy = optimal(summary)
    for exact, of_summary, label in zip(optimal(process)[0], values, labels, strict=True):
        assert np.allclose(exact, of_summary[label], atol=1e-9)
    played = evaluate(process, on_states(policy, labels))
    assert mean_return(process, played) == pytest.approx(mean_return(summary, values))


@pytest.mark.parametrize("seed", range(8))
def test_lemma_1_on_random_pomdps(seed: int) -> None:
    checks = lemma_checks("random", 3, (0.0, 0.05, 0.1, 0.2, 0.4), seed)
    for reading in ("on-policy", "every-action"):
        assert all(check.holds for check in checks[reading])
        # The check is not empty: something is merged, and something of value is lost.
        assert max(check.difference for check in checks[reading]) > 1e-3


def test_lemma_1_fails_for_the_optimum_of_on_policy_summaries() -> None:
    # Hearing one mode or the other is one summary, in which either action pays half of the time.
    (check,) = lemma_checks("listening", 2, (0.0,))["on-policy, optimum"]
    assert check.bound == 0
    assert check.difference == pytest.approx(0.8 - 0.5)
    assert not check.holds and check.ratio == np.inf
