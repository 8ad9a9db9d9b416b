"""Exact values: of any policy, and of the best one that knows the hidden state."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import ACTIONS, MODES
from textrl.envs.gridworld.rules import (
    AT_SAFE_GOAL,
    AT_UNSAFE_GOAL,
    IN_LAVA,
    NOTHING,
    OUTCOMES,
    Rules,
)


@dataclass(frozen=True)
class Chances:
    """How likely an episode is to end in each way."""

    safe_goal: float
    unsafe_goal: float
    lava: float
    time_out: float

    @property
    def score(self) -> float:
        """The expected return."""
        return self.safe_goal + self.unsafe_goal


@dataclass(frozen=True)
class Plan:
    """The best that can be done by who knows the mode, the cell and the steps left."""

    score: float
    """Expected return of an episode."""
    actions: NDArray[np.int64]
    """(horizon, modes, cells): what to do at each step."""

    @property
    def policy(self) -> NDArray[np.float64]:
        """The same as probabilities, (horizon, modes, cells, actions)."""
        return np.eye(len(ACTIONS))[self.actions]


def optimal_plan(rules: Rules) -> Plan:
    """Dynamic programming from the last step back."""
    over = rules.outcome != NOTHING
    values = rules.reward
    actions = np.empty((rules.horizon, rules.states), dtype=np.int64)
    for step in reversed(range(rules.horizon)):
        action_values = rules.action_values(values)
        actions[step] = action_values.argmax(axis=1)
        values = np.where(over, rules.reward, action_values.max(axis=1))
    shape = (rules.horizon, len(MODES), rules.layout.cells)
    return Plan(float(values[rules.start]), actions.reshape(shape))


def evaluate(rules: Rules, policy: NDArray[np.float64]) -> Chances:
    """How a policy's episodes end.

    policy: probabilities (cells, actions) of who sees the cell only, (modes, cells, actions) of who
    also knows the mode, or (horizon, modes, cells, actions) of who also counts the steps.
    """
    shape = (rules.horizon, len(MODES), rules.layout.cells, len(ACTIONS))
    tables = np.broadcast_to(policy, shape).reshape(rules.horizon, rules.states, len(ACTIONS))
    ended = np.zeros(len(OUTCOMES))
    presence = np.zeros(rules.states)
    presence[rules.start] = 1
    going_on = rules.outcome == NOTHING
    for table in tables:
        presence = step_forward(rules, presence, table @ rules.travel_chances)
        ended += np.bincount(rules.outcome, weights=presence, minlength=len(OUTCOMES)) * (
            np.arange(len(OUTCOMES)) != NOTHING
        )
        presence = presence * going_on
    return Chances(
        safe_goal=float(ended[AT_SAFE_GOAL]),
        unsafe_goal=float(ended[AT_UNSAFE_GOAL]),
        lava=float(ended[IN_LAVA]),
        time_out=float(presence.sum()),
    )


def step_forward(
    rules: Rules, presence: NDArray[np.float64], travel: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(states,) chances to be in each state one step later; travel: (states, directions)."""
    moving = presence[:, None] * travel
    ahead = rules.next_state.ravel()
    return np.asarray(np.bincount(ahead, moving.ravel(), rules.states), dtype=np.float64)
