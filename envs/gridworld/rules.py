"""The rules of the switch gridworld as arrays over its hidden states.

A hidden state is a mode (which goal is live) and a cell, as one number mode * cells + cell. Who
chooses to move travels another way now and then; a direction travelled leads to one state for sure.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import (
    ACTIONS,
    LAVA,
    MODES,
    NO_GOAL_LIVE,
    SAFE_LIVE,
    STAY,
    UNSAFE_LIVE,
    Layout,
    load_layout,
)
from textrl.errors import UserError

SLIP = 0.2
HORIZON = 50
LONGEST_HORIZON = 10_000

OUTCOMES = ("nothing", "unsafe goal", "safe goal", "lava")
NOTHING, AT_UNSAFE_GOAL, AT_SAFE_GOAL, IN_LAVA = range(4)


@dataclass(frozen=True)
class Rules:
    """One game: a map, how often a move goes astray, how many steps there are."""

    layout: Layout
    slip: float = SLIP
    """Chance that a move goes in one of the three other directions, each equally likely."""
    horizon: int = HORIZON
    """Steps until an episode is cut off."""

    def __post_init__(self) -> None:
        if not 0 <= self.slip <= 1:
            raise UserError(f"slip {self.slip} is not a probability: give a number from 0 to 1")
        if self.horizon < 1:
            raise UserError(f"horizon {self.horizon} leaves no step: give at least 1")
        if self.horizon > LONGEST_HORIZON:
            raise UserError(f"horizon {self.horizon:,} is too long: at most {LONGEST_HORIZON:,}")

    @property
    def states(self) -> int:
        """Hidden states."""
        return len(MODES) * self.layout.cells

    @property
    def start(self) -> int:
        """The state that every episode begins in."""
        return NO_GOAL_LIVE * self.layout.cells + self.layout.start

    @cached_property
    def travel_chances(self) -> NDArray[np.float64]:
        """(5 actions, 5 directions): how likely an action is to lead in each direction."""
        astray = self.slip / (STAY - 1)
        chances = np.full((len(ACTIONS), len(ACTIONS)), astray)
        np.fill_diagonal(chances, 1 - self.slip)
        chances[STAY], chances[:, STAY] = 0, 0
        chances[STAY, STAY] = 1
        return chances

    @cached_property
    def next_state(self) -> NDArray[np.int64]:
        """(states, 5 directions): where travelling leads."""
        modes = self.layout.next_mode[:, self.layout.moves]
        return (modes * self.layout.cells + self.layout.moves).reshape(-1, len(ACTIONS))

    @cached_property
    def outcome(self) -> NDArray[np.int64]:
        """(states,): which of OUTCOMES entering a state is; any but NOTHING ends the episode."""
        outcome = np.where(np.tile(self.layout.holds(LAVA), len(MODES)), IN_LAVA, NOTHING)
        outcome[UNSAFE_LIVE * self.layout.cells + self.layout.unsafe_goal] = AT_UNSAFE_GOAL
        outcome[SAFE_LIVE * self.layout.cells + self.layout.safe_goal] = AT_SAFE_GOAL
        return outcome

    @cached_property
    def reward(self) -> NDArray[np.float64]:
        """(states,): what entering a state earns."""
        return np.isin(self.outcome, (AT_UNSAFE_GOAL, AT_SAFE_GOAL)).astype(np.float64)

    def action_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(states, 5): the expected value of the state that each action leads to."""
        return np.asarray(values[self.next_state] @ self.travel_chances.T)


def borders_of(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances (..., n) as the n - 1 borders in [0, 1] between the outcomes, for `draw`."""
    sums = np.cumsum(chances, axis=-1)
    return np.asarray(sums[..., :-1] / sums[..., -1:])  # what cannot happen gets no rounding error


def draw(borders: NDArray[np.float64], luck: NDArray[np.float64]) -> NDArray[np.int64]:
    """Outcomes (draws,) for borders (draws, n - 1) and uniform random numbers (draws,)."""
    return np.asarray((luck[:, None] >= borders).sum(axis=1))


def make_rules(
    layout: str | Layout = "default", slip: float = SLIP, horizon: int = HORIZON
) -> Rules:
    """Rules over a map or the name of one."""
    return Rules(load_layout(layout) if isinstance(layout, str) else layout, slip, horizon)
