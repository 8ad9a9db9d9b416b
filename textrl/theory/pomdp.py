"""Small POMDPs as arrays, and the exact MDP over their observation histories (paper, section 3).

A Process is an MDP of H stages whose states are numbered stage by stage. The histories of a POMDP
are one (`histories`), summaries of them another; values, policies and data work on either.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Policy = tuple[Array, ...]
"""By stage, the probability of each action in each state: (states, actions)."""
Values = tuple[Array, ...]
"""By stage, (states,)."""
TIE = 1e-9
"""Actions whose values differ by less are equally good."""


@dataclass(frozen=True)
class POMDP:
    """M = (S, A, O, T, r, E, mu_1, H). Every reward is 0 or 1, and paid with probability r.

    The reward may depend on the step, which saves the clock among the hidden states.
    """

    initial: Array  # (states,)
    transition: Array  # (states, actions, states)
    emission: Array  # (states, observations)
    reward: Array  # (horizon, states, actions)

    def __post_init__(self) -> None:
        states, observations = self.emission.shape
        horizon, _, actions = self.reward.shape
        if self.reward.shape != (horizon, states, actions) or self.initial.shape != (states,):
            raise ValueError("the arrays disagree on the number of hidden states")
        if self.transition.shape != (states, actions, states) or not observations:
            raise ValueError(f"transition has the shape {self.transition.shape}")
        for name in ("initial", "transition", "emission"):
            chances = getattr(self, name)
            if (chances < 0).any() or not np.allclose(chances.sum(axis=-1), 1):
                raise ValueError(f"{name} is not made of probabilities")
        if (self.reward < 0).any() or (self.reward > 1).any():
            raise ValueError("a mean reward is outside 0 to 1")

    @property
    def horizon(self) -> int:
        """H, the number of actions in an episode."""
        return len(self.reward)


@dataclass(frozen=True)
class Stage:
    """One step of a process: what an action can lead to. Arrays: (states, actions, branches).

    A branch of a history is the next observation. The last stage has one branch, into the end.
    """

    follows: Ints  # the state of the next stage
    chance: Array  # how likely the branch is
    paid: Array  # how likely it is and a reward of 1 comes with it

    @property
    def rewards(self) -> Array:
        """Mean reward, (states, actions)."""
        mean: Array = self.paid.sum(axis=-1)
        return mean


@dataclass(frozen=True)
class Process:
    """A finite-horizon MDP (paper: (H, A, P, r, rho_1, H))."""

    initial: Array  # (states of the first stage,)
    stages: tuple[Stage, ...]

    @property
    def horizon(self) -> int:
        """The number of stages."""
        return len(self.stages)

    @property
    def sizes(self) -> tuple[int, ...]:
        """States by stage."""
        return tuple(len(stage.chance) for stage in self.stages)

    @property
    def actions(self) -> int:
        """The number of actions."""
        return int(self.stages[0].chance.shape[1])


def histories(pomdp: POMDP) -> Process:
    """The observation-history MDP: every history that has a chance, with its exact chances.

    Histories are numbered in the order of (history before, action, observation); those of the first
    stage in that of the observations.
    """
    joint = pomdp.initial[:, None] * pomdp.emission  # (hidden, observations)
    seen = np.flatnonzero(joint.sum(axis=0) > 0)
    initial = joint.sum(axis=0)[seen]
    belief = (joint[:, seen] / initial).T  # (histories, hidden)
    stages = []
    for reward in pomdp.reward[:-1]:
        # moved: chance of hidden s' and observation o' after an action, given the hidden s before.
        moved = pomdp.transition[..., None] * pomdp.emission  # (hidden, actions, hidden, obs.)
        ahead = np.einsum("ns,sato->nato", belief, moved)
        chance = ahead.sum(axis=2)
        paid = np.einsum("ns,sa,sato->nao", belief, reward, moved)
        is_possible = chance > 0
        follows = np.where(is_possible, np.cumsum(is_possible).reshape(chance.shape) - 1, 0)
        stages.append(Stage(follows, chance, paid))
        where = np.nonzero(is_possible)
        belief = ahead[where[0], where[1], :, where[2]] / chance[where][:, None]
    paid = (belief @ pomdp.reward[-1])[..., None]
    stages.append(Stage(np.zeros(paid.shape, dtype=np.int64), np.ones(paid.shape), paid))
    return Process(initial, tuple(stages))


def ahead(stage: Stage, following: Array) -> Array:
    """Expected value of the next state, (states, actions); following: values of the next stage."""
    mean: Array = (stage.chance * following[stage.follows]).sum(axis=-1)
    return mean


def best_actions(q: Array) -> Array:
    """The policy (states, actions) that plays the best actions, equally often if there are ties."""
    is_best = q >= q.max(axis=-1, keepdims=True) - TIE
    policy: Array = is_best / is_best.sum(axis=-1, keepdims=True)
    return policy


def optimal(process: Process) -> tuple[Values, Policy]:
    """V* of every state, and pi*."""
    following, values, policy = np.zeros(1), [], []
    for stage in reversed(process.stages):
        q = stage.rewards + ahead(stage, following)
        following = q.max(axis=-1)
        values.append(following)
        policy.append(best_actions(q))
    return tuple(reversed(values)), tuple(reversed(policy))


def evaluate(process: Process, policy: Policy) -> Values:
    """V^pi of every state."""
    following, values = np.zeros(1), []
    for stage, chosen in zip(reversed(process.stages), reversed(policy), strict=True):
        following = (chosen * (stage.rewards + ahead(stage, following))).sum(axis=-1)
        values.append(following)
    return tuple(reversed(values))


def mean_return(process: Process, values: Values) -> float:
    """J = E V of the first state."""
    return float(process.initial @ values[0])


def visits(process: Process, policy: Policy) -> Policy:
    """d^pi: the probability of each state and action, by stage, (states, actions)."""
    reached, found = process.initial, []
    for number, (stage, chosen) in enumerate(zip(process.stages, policy, strict=True)):
        taken = reached[:, None] * chosen
        found.append(taken)
        if number + 1 < process.horizon:
            flow = taken[..., None] * stage.chance
            size = process.sizes[number + 1]
            reached = np.zeros(size)
            np.add.at(reached, stage.follows, flow)
    return tuple(found)


def uniform(process: Process) -> Policy:
    """Every action equally often."""
    return tuple(np.full((size, process.actions), 1 / process.actions) for size in process.sizes)


def mixture(first: Policy, second: Policy, share: float) -> Policy:
    """At every step the first policy with probability `share`, else the second."""
    return tuple(share * a + (1 - share) * b for a, b in zip(first, second, strict=True))


def concentrability(wanted: Policy, data: Policy) -> float:
    """C*: the largest d*(s, a) / mu(s, a) (paper, definition 1), of two results of `visits`.

    mu is taken stage by stage, as the data are whole episodes. Infinite where data never go.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.where(d > 0, d / mu, 0.0) for d, mu in zip(wanted, data, strict=True)]
    return max(float(ratio.max()) for ratio in ratios)
