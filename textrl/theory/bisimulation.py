"""The exact bisimulation metric of a process (paper, section 5), by linear programming.

    d(s, s') = |r(s) - r(s')| + W1(P(. | s), P(. | s'); d)

is an equation for d. Applying its right-hand side to d = 0 again and again reaches the solution; in
a process of H stages that takes H rounds, and a stage is final as soon as the next one is. So one
sweep from the last stage to the first is the fixed point. States are compared within their stage.

Two readings, which differ in what r and P are:

- on policy (the paper's d^pi): averages over a policy's actions;
- every action: the largest over actions of the same expression for each action alone. The on-policy
  metric can call two states alike that need different actions, this one cannot.
"""

from dataclasses import dataclass

import numpy as np

from textrl.errors import UserError
from textrl.theory.pomdp import Array, Ints, Policy, Process, Stage

SAME = 10
"""Decimals to which chances and rewards agree in states of one class."""
TRANSPORTS_AT_ONCE = 4000


@dataclass(frozen=True)
class Metric:
    """Distances between the states of one stage.

    States that nothing tells apart (distance 0 exactly) share a class, so that
    d(s, s') = distance[classes[s], classes[s']].
    """

    classes: Ints  # (states,)
    distance: Array  # (classes, classes)

    def between_states(self) -> Array:
        """(states, states)."""
        return self.distance[self.classes[:, None], self.classes]


def wasserstein(first: Array, second: Array, cost: Array) -> Array:
    """W1 of many pairs of distributions: first (pairs, n), second (pairs, m), cost (pairs, n, m).

    The transports do not touch each other, so the optimum of their sum is one linear program.
    """
    pieces = range(0, len(cost), TRANSPORTS_AT_ONCE)
    parts = [slice(start, start + TRANSPORTS_AT_ONCE) for start in pieces]
    found = [_transport(first[part], second[part], cost[part]) for part in parts]
    return np.concatenate([np.zeros(0), *found])


def _transport(first: Array, second: Array, cost: Array) -> Array:
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_array
    except ImportError:
        raise UserError("exact metrics need scipy: pip install 'offline-textrl[theory]'") from None

    pairs, n, m = cost.shape
    moved = np.arange(cost.size).reshape(cost.shape)
    # A variable is what is moved from i to j; what leaves i is given, and what arrives at j.
    leaves = np.broadcast_to(np.arange(pairs * n).reshape(pairs, n, 1), cost.shape)
    arrives = pairs * n + np.broadcast_to(np.arange(pairs * m).reshape(pairs, 1, m), cost.shape)
    rows = np.concatenate([leaves.ravel(), arrives.ravel()])
    columns = np.concatenate([moved.ravel(), moved.ravel()])
    shape = (pairs * (n + m), cost.size)
    sums = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    # Rounding must not make a program infeasible: both sides have the same mass to the last bit.
    second = second * (first.sum(axis=1) / second.sum(axis=1))[:, None]
    given = np.concatenate([first.ravel(), second.ravel()])
    solved = linprog(cost.ravel(), A_eq=sums, b_eq=given, bounds=(0, None), method="highs")
    if not solved.success:
        raise ArithmeticError(f"the transport program failed: {solved.message}")
    amounts: Array = solved.x.reshape(cost.shape)
    return np.asarray(np.maximum((amounts * cost).sum(axis=(1, 2)), 0.0))


def bisimulation_metric(process: Process, policy: Policy | None = None) -> tuple[Metric, ...]:
    """The metric by stage: d^pi of the policy, or the every-action metric without one."""
    following = Metric(np.zeros(1, dtype=np.int64), np.zeros((1, 1)))
    metrics = []
    for number in reversed(range(process.horizon)):
        stage = process.stages[number]
        if policy is not None:
            stage = under_policy(stage, policy[number])
        following = _one_stage(stage, following)
        metrics.append(following)
    return tuple(reversed(metrics))


def under_policy(stage: Stage, chosen: Array) -> Stage:
    """The stage with the policy's average as its only action; branches of all actions in a row."""

    def flat(values: Array) -> Array:
        return (values * chosen[..., None]).reshape(len(values), 1, -1)

    follows = stage.follows.reshape(len(stage.follows), 1, -1)
    return Stage(follows, flat(stage.chance), flat(stage.paid))


def _one_stage(stage: Stage, following: Metric) -> Metric:
    """The right-hand side of the equation, given the next stage's distances."""
    states, actions, _ = stage.chance.shape
    chance = np.zeros((states, actions, len(following.distance)))  # of the next classes
    state, action = np.ogrid[:states, :actions]
    where = (state[..., None], action[..., None], following.classes[stage.follows])
    np.add.at(chance, where, stage.chance)
    described = np.concatenate([stage.rewards[..., None], chance], axis=-1).reshape(states, -1)
    example, classes = equal_rows(described)
    rewards, chance = stage.rewards[example], chance[example]

    one, other = np.triu_indices(len(example), k=1)
    gap = np.abs(rewards[one] - rewards[other])  # (pairs, actions)
    moved = np.zeros(gap.shape)
    for a in range(actions):
        moved[:, a] = _moved(chance[:, a], one, other, following.distance)
    distance = np.zeros((len(example), len(example)))
    distance[one, other] = distance[other, one] = (gap + moved).max(axis=1, initial=0.0)
    return Metric(classes, distance)


def equal_rows(rows: Array) -> tuple[Ints, Ints]:
    """Classes of rows (n, width) that agree to SAME decimals: an example of each, each row's."""
    rounded = rows.round(SAME) + 0.0  # no negative zeros
    _, example, classes = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return example, classes.reshape(-1).astype(np.int64)


def _moved(chance: Array, one: Ints, other: Ints, distance: Array) -> Array:
    """W1 between rows `one` and `other` of chance (classes, next classes)."""
    # Few next classes have a chance; programs of the largest such number fit all pairs.
    width = max(1, int((chance > 0).sum(axis=1).max(initial=0)))
    support = np.argsort(-chance, axis=1, kind="stable")[:, :width]
    mass = np.take_along_axis(chance, support, axis=1)
    cost = distance[support[one][:, :, None], support[other][:, None, :]]
    differs = (chance[one] != chance[other]).any(axis=1) & (cost.max(axis=(1, 2), initial=0.0) > 0)
    moved = np.zeros(len(one))
    moved[differs] = wasserstein(mass[one[differs]], mass[other[differs]], cost[differs])
    return moved
