"""Pessimistic value iteration with Bernstein's bonus (paper, equation 1 and algorithm 2).

It works on any finite states: histories, or summaries of them. Choices where the paper is open:

- N counts whole episodes of H transitions each.
- iota "captures all constant factors" and logarithms, and the H before it stands for log |H|. Here
  H iota = log(2 / delta) with the paper's delta = 1 / (2 |states| |A| H N): equation 1 with
  constants of one and the logarithm of what is really counted. That is `scale` 1. The empirical
  Bernstein inequality that the proof uses warrants the bonus at `scale` PROVEN (its 2 and 7/3, with
  n - 1 >= n / 2, values up to 1, and two sources of error), if one grants the proof that values
  learned from the same data may be taken as given. Smaller scales are heuristics for small N.
- "Monotonic update": with rewards of at least 0, values below 0 are raised to 0. Where no action is
  known to be worth more than 0, the policy is uniform: "it can only take actions randomly".
- n "^" 1 is the larger of n and 1, as the paper's notation says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textrl.theory.aggregate import clusters, merge
from textrl.theory.pomdp import Array, Ints, Policy, Process, Values, best_actions

PROVEN = 28 / 3


@dataclass(frozen=True)
class StageCounts:
    """What the data say of one stage."""

    follows: Ints  # (states, actions, branches): the state of the next stage
    taken: Array  # (states, actions, branches): how often
    paid: Array  # (states, actions): sum of rewards

    @property
    def n(self) -> Array:
        """n(s, a), (states, actions)."""
        n: Array = self.taken.sum(axis=-1)
        return n


@dataclass(frozen=True)
class Counts:
    """A dataset of whole episodes, as far as pessimistic value iteration looks at it."""

    episodes: int
    stages: tuple[StageCounts, ...]

    def __add__(self, other: "Counts") -> "Counts":
        """Both datasets together."""
        stages = tuple(
            StageCounts(a.follows, a.taken + b.taken, a.paid + b.paid)
            for a, b in zip(self.stages, other.stages, strict=True)
        )
        return Counts(self.episodes + other.episodes, stages)


def draw_counts(
    process: Process, behaviour: Policy, episodes: int, random: np.random.Generator
) -> Counts:
    """The counts of that many independent episodes, drawn at once.

    Given how many episodes reach a state, how they go on is multinomial over action, branch and
    reward. So millions of episodes cost no more than the states that there are.
    """
    reached = random.multinomial(episodes, process.initial)
    stages = []
    for number, (stage, chosen) in enumerate(zip(process.stages, behaviour, strict=True)):
        paid = stage.paid * chosen[..., None]
        ways = np.stack([stage.chance * chosen[..., None] - paid, paid], axis=-1).clip(0, None)
        ways = ways.reshape(len(reached), -1)
        ways /= ways.sum(axis=1, keepdims=True)
        drawn = random.multinomial(reached, ways).reshape(*stage.chance.shape, 2)
        taken = drawn.sum(axis=-1)
        stages.append(
            StageCounts(
                stage.follows, taken.astype(float), drawn[..., 1].sum(axis=-1).astype(float)
            )
        )
        if number + 1 < process.horizon:
            size = process.sizes[number + 1]
            arrived = np.bincount(stage.follows.ravel(), taken.ravel(), minlength=size)
            reached = arrived.astype(np.int64)
    return Counts(episodes, tuple(stages))


def count_episodes(
    process: Process, first: Ints, actions: Ints, branches: Ints, rewards: NDArray[np.floating]
) -> Counts:
    """The counts of recorded episodes.

    first: (episodes,), the first state; the others (episodes, horizon); branches: which one was
    taken (of histories: the observation that followed), of the last stage ignored.
    """
    state, stages = first, []
    for number, stage in enumerate(process.stages):
        shape = stage.chance.shape
        last = number + 1 == process.horizon
        action = actions[:, number]
        branch = np.zeros_like(action) if last else branches[:, number]
        cells = np.ravel_multi_index((state, action, branch), shape)
        taken = np.bincount(cells, minlength=stage.chance.size).reshape(shape)
        paid = np.zeros(shape[:2])
        np.add.at(paid, (state, action), rewards[:, number])
        stages.append(StageCounts(stage.follows, taken.astype(float), paid))
        state = stage.follows[state, action, branch]
    return Counts(len(first), tuple(stages))


def merge_counts(counts: Counts, labels: Sequence[Ints]) -> Counts:
    """The same data as seen through the summaries Phi (labels by stage)."""
    sizes = clusters(labels)
    stages = []
    for number, stage in enumerate(counts.stages):
        last = number + 1 == len(counts.stages)
        after = np.zeros(1, dtype=np.int64) if last else labels[number + 1]
        shape = (sizes[number], stage.taken.shape[1], 1 if last else sizes[number + 1])
        taken = merge(stage.taken, stage.follows, labels[number], after, shape)
        paid = np.zeros(shape[:2])
        np.add.at(paid, labels[number], stage.paid)
        stages.append(StageCounts(np.broadcast_to(np.arange(shape[2]), shape), taken, paid))
    return Counts(counts.episodes, tuple(stages))


@dataclass(frozen=True)
class Learned:
    """What pessimistic value iteration makes of a dataset."""

    values: Values  # lower bounds on the values of the policy
    policy: Policy


def log_term(counts: Counts) -> float:
    """H iota = log(2 / delta), delta = 1 / (2 |states| |A| H N)."""
    states = sum(len(stage.taken) for stage in counts.stages)
    actions = counts.stages[0].taken.shape[1]
    return math.log(4 * states * actions * len(counts.stages) * max(1, counts.episodes))


def bonus(n: Array, reward: Array, variance: Array, h_iota: float) -> Array:
    """c(s, a) of equation 1; all (states, actions)."""
    n = np.maximum(n, 1.0)
    return np.sqrt(h_iota * variance / n) + np.sqrt(h_iota * reward / n) + h_iota / n


def pevi(counts: Counts, scale: float = 1.0) -> Learned:
    """Algorithm 2. scale: of the bonus."""
    h_iota = log_term(counts)
    following, values, policy = np.zeros(1), [], []
    for stage in reversed(counts.stages):
        n = np.maximum(stage.n, 1.0)
        reward = stage.paid / n
        chance = stage.taken / n[..., None]
        ahead = following[stage.follows]
        mean = (chance * ahead).sum(axis=-1)
        variance = np.maximum((chance * ahead**2).sum(axis=-1) - mean**2, 0.0)
        q = reward - scale * bonus(stage.n, reward, variance, h_iota) + mean
        q = np.maximum(q, 0.0)
        following = q.max(axis=-1)
        values.append(following)
        policy.append(best_actions(q))
    return Learned(tuple(reversed(values)), tuple(reversed(policy)))
