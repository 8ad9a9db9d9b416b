"""What the theorems and the lemma speak of, measured on small POMDPs with exact values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textrl.theory.aggregate import aggregate, clusters, diameter, on_states, summarize
from textrl.theory.bisimulation import Metric, bisimulation_metric
from textrl.theory.families import FAMILIES, random_pomdp
from textrl.theory.pevi import draw_counts, merge_counts, pevi
from textrl.theory.pomdp import (
    Array,
    Ints,
    Process,
    concentrability,
    evaluate,
    histories,
    mean_return,
    optimal,
    uniform,
    visits,
)

METRICS = ("every-action", "on-policy")
STATES = ("histories", *METRICS)
"""What pessimistic value iteration works on: the histories, or summaries by one of the metrics."""
RANDOM = "random"
"""Besides the families: a POMDP whose every number is drawn."""
EXACT = 1e-6
"""Differences below this are the linear programs' rounding."""


def make_histories(family: str, horizon: int, seed: int = 0) -> Process:
    """The history process of a family, or of a random POMDP drawn with the seed."""
    if family == RANDOM:
        return histories(random_pomdp(np.random.default_rng(seed), horizon))
    return histories(FAMILIES[family](horizon))


def metric_of(process: Process, name: str) -> tuple[Metric, ...]:
    """One of METRICS; on policy means on the optimal policy."""
    return bisimulation_metric(process, optimal(process)[1] if name == "on-policy" else None)


@dataclass(frozen=True)
class Curve:
    """What is learned from growing datasets."""

    suboptimality: list[float]
    """J(pi*) - J(learned), exact."""
    too_hopeful: list[bool]
    """Whether the learned value of any history is above its exact value under the policy."""


def learning_curves(
    family: str, horizon: int, seed: int, sizes: Sequence[int], scales: Sequence[float]
) -> dict[tuple[str, float], Curve]:
    """The curve over `sizes` episodes of uniform actions, of each of STATES with each scale.

    The datasets of one seed contain each other. Summaries are those of the exact metric at epsilon
    0: theorem 2 without its last term.
    """
    process = make_histories(family, horizon)
    best = mean_return(process, optimal(process)[0])
    phi: dict[str, tuple[Ints, ...] | None] = {"histories": None}
    phi |= {name: aggregate(metric_of(process, name), 0.0) for name in METRICS}
    random = np.random.default_rng((seed, horizon))
    behaviour, counts = uniform(process), None
    curves = {(states, scale): Curve([], []) for states in STATES for scale in scales}
    for size in sizes:
        more = draw_counts(process, behaviour, size - (counts.episodes if counts else 0), random)
        counts = counts + more if counts else more
        for states, labels in phi.items():
            seen = counts if labels is None else merge_counts(counts, labels)
            for scale in scales:
                learned = pevi(seen, scale)
                policy, hoped = learned.policy, learned.values
                if labels is not None:
                    policy, hoped = on_states(policy, labels), on_states(hoped, labels)
                exact = evaluate(process, policy)
                is_above = any((h > v + EXACT).any() for h, v in zip(hoped, exact, strict=True))
                curves[states, scale].suboptimality.append(best - mean_return(process, exact))
                curves[states, scale].too_hopeful.append(is_above)
    return curves


def needed(sizes: Sequence[int], suboptimality: Sequence[float], target: float) -> float:
    """log2 of the number of episodes from which on a curve stays at or below the target.

    Between two sizes the curve is taken as straight in log N; nan where it ends above the target.
    """
    above = np.flatnonzero(np.array(suboptimality) > target)
    if not len(above):
        return math.log2(sizes[0])
    last = int(above[-1])
    if last + 1 == len(sizes):
        return math.nan
    high, low = suboptimality[last], suboptimality[last + 1]
    left, right = math.log2(sizes[last]), math.log2(sizes[last + 1])
    return left + (right - left) * (high - target) / (high - low)


def size_of(family: str, horizon: int) -> dict[str, Any]:
    """What the bounds of both theorems hang on: |H| or |Z|, and C* for uniform actions."""
    process = make_histories(family, horizon)
    policy = optimal(process)[1]
    wanted, data = visits(process, policy), visits(process, uniform(process))
    found: dict[str, Any] = {
        "histories": {"states": sum(process.sizes), "c_star": concentrability(wanted, data)}
    }
    for name in METRICS:
        labels = aggregate(metric_of(process, name), 0.0)
        both = [_merged(each, labels) for each in (wanted, data)]
        found[name] = {"states": sum(clusters(labels)), "c_star": concentrability(*both)}
    return found


def _merged(of_states: Sequence[Array], labels: Sequence[Ints]) -> tuple[Array, ...]:
    """Visits (states, actions) added up by summary."""
    found = []
    for values, label, size in zip(of_states, labels, clusters(labels), strict=True):
        merged = np.zeros((size, values.shape[1]))
        np.add.at(merged, label, values)
        found.append(merged)
    return tuple(found)


def cluster_counts(
    family: str, horizon: int, epsilons: Sequence[float], seed: int = 0
) -> dict[str, list[int]]:
    """|Z| at each epsilon for each of METRICS, and |H| (once for each epsilon)."""
    process = make_histories(family, horizon, seed)
    found = {"histories": [sum(process.sizes)] * len(epsilons)}
    for name in METRICS:
        metric = metric_of(process, name)
        found[name] = [sum(clusters(aggregate(metric, epsilon))) for epsilon in epsilons]
    return found


@dataclass(frozen=True)
class Check:
    """One comparison of a difference of values with what bounds it."""

    difference: float
    bound: float

    @property
    def holds(self) -> bool:
        """Up to rounding."""
        return self.difference <= self.bound + EXACT

    @property
    def ratio(self) -> float:
        """How much of the bound is used; 0 / 0 is 0."""
        if self.difference <= EXACT:
            return 0.0
        return self.difference / self.bound if self.bound > EXACT else math.inf


def lemma_checks(
    family: str, horizon: int, epsilons: Sequence[float], seed: int = 0
) -> dict[str, list[Check]]:
    """Lemma 1 under three readings, the worst history for each epsilon.

    Its bound is H epsilon (the metric is exact); epsilon here is the largest distance that really
    occurs within a cluster, which is at most what was asked for. V*(Phi) is

    - "on-policy": the value of the averages over pi* (how the appendix defines it);
    - "every-action": the optimum of the summarized MDP, clusters by the every-action metric;
    - "on-policy, optimum": the optimum of the summarized MDP, clusters by the on-policy metric, as
      theorem 2 needs it.
    """
    process = make_histories(family, horizon, seed)
    values, policy = optimal(process)
    weights = visits(process, uniform(process))
    reached = [each.sum(axis=1) for each in weights]
    found: dict[str, list[Check]] = {name: [] for name in ("on-policy", "every-action")}
    found["on-policy, optimum"] = []
    for name in METRICS:
        metric = metric_of(process, name)
        for epsilon in epsilons:
            labels = aggregate(metric, epsilon)
            widest = max(map(diameter, metric, labels))
            summary = summarize(process, labels, weights)
            best = Check(_largest_gap(values, optimal(summary)[0], labels), horizon * widest)
            if name == "every-action":
                found[name].append(best)
                continue
            found["on-policy, optimum"].append(best)
            averaged = averaged_values(process, policy, labels, reached)
            found[name].append(Check(_largest_gap(values, averaged, labels), horizon * widest))
    return found


def averaged_values(
    process: Process, policy: Sequence[Array], labels: Sequence[Ints], weights: Sequence[Array]
) -> tuple[Array, ...]:
    """V^pi(z) where r^pi(z) and P^pi(z' | z) average the histories' (paper, proof of lemma 1).

    Each history keeps its own action, which no policy on summaries could do. weights: (states,).
    """
    under = [w[:, None] * p for w, p in zip(weights, policy, strict=True)]
    summary = summarize(process, labels, under)
    chosen = []
    for number, size in enumerate(clusters(labels)):
        mass = np.zeros((size, process.actions))
        np.add.at(mass, labels[number], under[number])
        chosen.append(mass / mass.sum(axis=1, keepdims=True))
    return evaluate(summary, tuple(chosen))


def _largest_gap(values: Sequence[Array], of: Sequence[Array], labels: Sequence[Ints]) -> float:
    gaps = [np.abs(v - z[label]).max() for v, z, label in zip(values, of, labels, strict=True)]
    return float(max(gaps))


def pair_checks(family: str, horizon: int, seed: int = 0) -> dict[str, tuple[Array, Array]]:
    """|V*(tau) - V*(tau')| and d(tau, tau') of all pairs of classes of a stage, by metric."""
    process = make_histories(family, horizon, seed)
    values = optimal(process)[0]
    found = {}
    for name in METRICS:
        gaps, apart = [], []
        for value, metric in zip(values, metric_of(process, name), strict=True):
            of_class = np.zeros(len(metric.distance))
            of_class[metric.classes] = value
            one, other = np.triu_indices(len(of_class), k=1)
            gaps.append(np.abs(of_class[one] - of_class[other]))
            apart.append(metric.distance[one, other])
        found[name] = (np.concatenate(gaps), np.concatenate(apart))
    return found
