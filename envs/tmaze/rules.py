"""The rules of the T-maze, its data's player, and exact scores.

A walk begins outside, at place 0. Place 1 shows the cue, up or down; places 2 to corridor + 1 show
one of NOISE random pictures each time; place corridor + 2 is the junction. Forward leads one place
on; up and down at the junction lead into an arm, which ends the walk, and anywhere else into a
wall. The arm of the cue pays 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from textrl.errors import UserError

ACTIONS = ("forward", "up", "down")
FORWARD, UP, DOWN = range(3)
NOISE = 4
OBSERVATIONS = ("cue-up", "cue-down", *(f"noise-{i}" for i in range(NOISE)), "junction")
OBSERVATIONS += ("arm-up", "arm-down", "outside")
CUE, FIRST_NOISE, JUNCTION, ARM, OUTSIDE = 0, 2, 2 + NOISE, 3 + NOISE, 5 + NOISE
SPARE_STEPS = 20
LONGEST_CORRIDOR = 1_000
WALKS_FORWARD = 0.8
"""How often the data's player does so in the corridor; else, and at the junction, at random."""


@dataclass(frozen=True)
class Rules:
    """One maze."""

    corridor: int

    def __post_init__(self) -> None:
        if not 1 <= self.corridor <= LONGEST_CORRIDOR:
            raise UserError(
                f"corridor {self.corridor} must be from 1 to {LONGEST_CORRIDOR:,} cells long"
            )

    @property
    def junction(self) -> int:
        """Its place."""
        return self.corridor + 2

    @property
    def horizon(self) -> int:
        """Steps until a walk is cut off."""
        return self.junction + SPARE_STEPS

    def forward_chances(self, is_behaviour: bool) -> NDArray[np.float64]:
        """(places,): how often the data's player, or one at random, goes forward."""
        chances = np.full(self.junction + 1, 1 / len(ACTIONS))
        if is_behaviour:
            chances[: self.junction] = WALKS_FORWARD
        return chances


@dataclass(frozen=True)
class Walk:
    """Where walks stand, arrays over them. arm: 0 = none yet, else UP or DOWN."""

    cue: NDArray[np.int64]
    place: NDArray[np.int64]
    arm: NDArray[np.int64]

    def after(self, rules: Rules, actions: NDArray[np.int64]) -> "Walk":
        """One step on; walks that have ended stay as they are."""
        goes_on = self.arm == 0
        is_there = goes_on & (self.place == rules.junction)
        moved = goes_on & ~is_there & (actions == FORWARD)
        arm = np.where(is_there & (actions != FORWARD), actions, self.arm)
        return Walk(self.cue, self.place + moved, arm)

    def pays(self) -> NDArray[np.float64]:
        """What entering the arm has earned."""
        is_right: NDArray[np.bool_] = self.arm == self.cue
        return is_right.astype(np.float64)

    def seen(self, rules: Rules, random: Generator) -> NDArray[np.int64]:
        """What each sees, a number of OBSERVATIONS."""
        seen = FIRST_NOISE + random.integers(NOISE, size=len(self.place))
        seen = np.where(self.place == 0, OUTSIDE, seen)
        seen = np.where(self.place == 1, CUE + self.cue - UP, seen)
        seen = np.where(self.place == rules.junction, JUNCTION, seen)
        return np.where(self.arm > 0, ARM + self.arm - UP, seen)


def begin(count: int, random: Generator) -> Walk:
    """Outside; the cue is up or down."""
    nothing = np.zeros(count, dtype=np.int64)
    return Walk(random.integers(UP, DOWN + 1, size=count), nothing, nothing)


def behave(rules: Rules, walk: Walk, random: Generator) -> NDArray[np.int64]:
    """What the data's player does, who knows nothing of the cue."""
    forward = random.random(len(walk.place)) < rules.forward_chances(True)[walk.place]
    return np.where(forward, FORWARD, random.integers(UP, DOWN + 1, size=len(forward)))


def arrival(rules: Rules, forward: NDArray[np.float64]) -> float:
    """How likely a walk is to enter an arm in time, exactly; forward: (places,) its chances."""
    presence = np.zeros(rules.junction + 1)
    presence[0], entered = 1.0, 0.0
    for _ in range(rules.horizon):
        entered += presence[-1] * (1 - forward[-1])
        moving = presence * forward
        moving[-1] = 0.0  # there is no way on at the junction
        stays = presence * (1 - forward)
        stays[-1] = presence[-1] * forward[-1]
        presence = stays + np.concatenate([[0.0], moving[:-1]])
    return float(entered)
