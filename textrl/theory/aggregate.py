"""From distances to summaries: the aggregator Phi and the summarized MDP (paper, section 5)."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from textrl.theory.bisimulation import Metric
from textrl.theory.pomdp import Array, Ints, Process, Stage

ROUNDING = 1e-7
"""Distances from linear programs are exact to about this; whatever is nearer is at distance 0."""


def greedy_cover(count: int, distances_from: Callable[[int], Array], radius: float) -> Ints:
    """Labels 0, 1, ... of `count` points such that every point is within `radius` of its centre.

    The first point without a label becomes a centre, and takes all such points within the radius.
    So two points of a cluster are within 2 x radius of each other (the paper's epsilon), and two
    centres are farther apart than the radius. It is not the smallest such cover.
    """
    labels = np.full(count, -1, dtype=np.int64)
    clusters = 0
    while (labels < 0).any():
        centre = int(np.argmax(labels < 0))
        is_near = (labels < 0) & (distances_from(centre) <= radius + ROUNDING)
        is_near[centre] = True
        labels[is_near] = clusters
        clusters += 1
    return labels


def cover_points(points: NDArray[np.floating], radius: float) -> Ints:
    """Clusters of representations (points, width) by Euclidean distance."""
    return greedy_cover(
        len(points), lambda i: np.linalg.norm(points - points[i], axis=1).astype(float), radius
    )


def aggregate(metrics: Sequence[Metric], epsilon: float) -> tuple[Ints, ...]:
    """Phi by stage: labels of states, of which two share one only if their distance <= epsilon."""
    return tuple(
        greedy_cover(len(metric.distance), metric.distance.__getitem__, epsilon / 2)[metric.classes]
        for metric in metrics
    )


def diameter(metric: Metric, labels: Ints) -> float:
    """The largest distance between two states of one cluster."""
    pairs = np.unique(np.stack([metric.classes, labels], axis=1), axis=0)
    is_together = pairs[:, None, 1] == pairs[None, :, 1]
    apart = metric.distance[pairs[:, None, 0], pairs[None, :, 0]]
    return float(np.where(is_together, apart, 0.0).max())


def clusters(labels: Sequence[Ints]) -> tuple[int, ...]:
    """|Z| by stage."""
    return tuple(int(each.max()) + 1 for each in labels)


def summarize(process: Process, labels: Sequence[Ints], weights: Sequence[Array]) -> Process:
    """The summarized MDP: a summary's rewards and chances are the averages of its states'.

    weights: by stage, (states,) or (states, actions), the paper's measure xi; a cluster without any
    weight is averaged evenly. Give d^beta(s, a), the data's visits, to get what data converge to.
    """
    sizes = clusters(labels)
    stages = []
    for number, stage in enumerate(process.stages):
        last = number + 1 == process.horizon
        after = np.zeros(1, dtype=np.int64) if last else labels[number + 1]
        branches = 1 if last else sizes[number + 1]
        weight = weights[number]
        if weight.ndim == 1:
            weight = np.repeat(weight[:, None], process.actions, axis=1)
        share = _share(weight, labels[number], sizes[number])
        shape = (sizes[number], process.actions, branches)
        merged = [
            merge(values * share[..., None], stage.follows, labels[number], after, shape)
            for values in (stage.chance, stage.paid)
        ]
        follows = np.broadcast_to(np.arange(branches), shape)
        stages.append(Stage(follows, *merged))
    initial = np.zeros(sizes[0])
    np.add.at(initial, labels[0], process.initial)
    return Process(initial, tuple(stages))


def merge(
    values: Array, follows: Ints, labels: Ints, after: Ints, shape: tuple[int, int, int]
) -> Array:
    """Sums (summaries, actions, next summaries) of values (states, actions, branches)."""
    action = np.arange(shape[1])[:, None]
    sums = np.zeros(shape)
    np.add.at(sums, (labels[:, None, None], action, after[follows]), values)
    return sums


def on_states(of_summaries: Sequence[Array], labels: Sequence[Ints]) -> tuple[Array, ...]:
    """A policy or values of summaries at each state: pi(. | Phi(s)), V(Phi(s))."""
    return tuple(each[which] for each, which in zip(of_summaries, labels, strict=True))


def _share(weight: Array, labels: Ints, size: int) -> Array:
    """Weights (states, actions), made to add up to one in each cluster."""
    columns = []
    for column in weight.T:
        mass = np.bincount(labels, column, minlength=size)[labels]
        count = np.bincount(labels, minlength=size)[labels]
        columns.append(np.where(mass > 0, column / np.where(mass > 0, mass, 1.0), 1 / count))
    return np.stack(columns, axis=1)
