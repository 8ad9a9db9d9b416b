"""What is exactly known of a task's hidden states: metrics between them, goals, optimal values.

Controls for learned representations. Who uses them is told what no history says by itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import MODES
from textrl.envs.gridworld.rules import NOTHING, Rules
from textrl.envs.gridworld.task import GridworldTask
from textrl.envs.tmaze.rules import CUE, FORWARD
from textrl.envs.tmaze.task import TMazeTask
from textrl.errors import UserError
from textrl.tasks.task import Task

METRIC_DISCOUNT = 0.95
VALUE_DISCOUNT = 0.99
ROUNDS = 1000
Table = NDArray[np.float64]


@dataclass(frozen=True)
class Dynamics:
    """A small MDP over hidden states, with chance outcomes as numbered branches."""

    next_state: NDArray[np.int64]
    """(states, branches)."""
    paid: Table
    """(states, branches): what taking a branch earns."""
    chances: Table
    """(actions, branches): how likely each is."""
    seen: NDArray[np.int64]
    """(states,): the observation on entering; states that have ended share one."""


@dataclass(frozen=True)
class Hidden:
    """The hidden states of a task."""

    states_of: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
    """Observation classes (-1: none) along histories and the actions after each, both (batch,
    states) -> the hidden state at each."""
    goal: NDArray[np.int64]
    """(states,): the part of it that the current observation does not show."""
    dynamics: Dynamics


@singledispatch
def hidden_of(task: Task) -> Hidden:
    """The hidden states of a task whose rules are known here."""
    raise UserError(f"the hidden states of {task.name} are not written down")


@hidden_of.register
def _(task: GridworldTask) -> Hidden:
    rules, cells = task.rules, task.rules.layout.cells

    def states_of(classes: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.int64]:
        seen = rules.layout.open_cells[np.maximum(classes, 0)]
        mode, found = np.zeros(len(seen), dtype=np.int64), np.empty_like(seen)
        for step in range(seen.shape[1]):
            mode = rules.layout.next_mode[mode, seen[:, step]]
            found[:, step] = mode * cells + seen[:, step]
        return found

    return Hidden(states_of, np.repeat(np.arange(len(MODES)), cells), dynamics_of(rules))


@hidden_of.register
def _(task: TMazeTask) -> Hidden:
    """States: outside, each place with each cue, the end. The cue is seen at the first place."""
    junction = task.rules.junction
    end = 1 + 2 * junction

    def states_of(classes: NDArray[np.int64], actions: NDArray[np.int64]) -> NDArray[np.int64]:
        moved = np.cumsum(actions == FORWARD, axis=1) - (actions == FORWARD)
        place = np.minimum(moved, junction)
        is_down = np.maximum.accumulate(classes == CUE + 1, axis=1)
        return np.where(place == 0, 0, is_down * junction + place)

    places, cues = np.tile(np.arange(1, junction + 1), 2), np.repeat([0, 1], junction)
    stay = np.arange(end + 1)
    forward, arm, paid = stay.copy(), stay.copy(), np.zeros((end + 1, 4))
    forward[1:end] += places < junction
    is_there = 1 + np.flatnonzero(places == junction)
    arm[is_there] = end
    paid[is_there[0], 2] = paid[is_there[1], 3] = 1.0
    # Outside, where going in leads depends on the cue: two branches, equally likely.
    with_up, with_down = forward.copy(), forward.copy()
    with_up[0], with_down[0] = 1, 1 + junction
    known = Dynamics(
        next_state=np.stack([with_up, with_down, arm, arm], axis=1),
        paid=paid,
        chances=np.array([[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]),
        seen=np.array([0, *np.where(places == 1, 1 + cues, 3 + (places == junction)), 5]),
    )
    return Hidden(states_of, np.array([0, *(1 + cues), 3]), known)


def dynamics_of(rules: Rules) -> Dynamics:
    """The gridworld's: a branch is a direction travelled."""
    over = rules.outcome != NOTHING
    # All states that have ended are one, which nothing follows.
    alias = np.where(over, np.flatnonzero(over)[0], np.arange(rules.states))
    ahead = np.where(over[:, None], alias[:, None], alias[rules.next_state])
    paid = np.where(over[:, None], 0.0, rules.reward[rules.next_state])
    seen = np.where(over, rules.layout.cells, np.arange(rules.states) % rules.layout.cells)
    return Dynamics(ahead, paid, rules.travel_chances, seen)


def every_action_metric(known: Dynamics, discount: float = METRIC_DISCOUNT) -> Table:
    """d(s, s') = max_a E |r - r'| + discount d(next, next'), branch by branch: (states, states).

    Both states take the same branch, which is one coupling of what follows: d is at least the
    bisimulation metric of every action, and 0 for the same states.
    """
    gap = np.abs(known.paid[:, None] - known.paid[None])
    found = np.zeros((len(gap), len(gap)))
    for _ in range(ROUNDS):
        ahead = [found[np.ix_(after, after)] for after in known.next_state.T]
        new = ((gap + discount * np.stack(ahead, axis=-1)) @ known.chances.T).max(axis=-1)
        if np.abs(new - found).max() < 1e-6:
            break
        found = new
    return found


def one_step_metric(known: Dynamics) -> Table:
    """max_a |E r - E r'| + |P(o) - P'(o)|_1 of the next observation: (states, states).

    What the paper's practical loss aims at, for the action that tells most.
    """
    reward = known.paid @ known.chances.T
    found = np.zeros((len(reward), len(reward)))
    observations = known.seen[known.next_state]
    for action, chances in enumerate(known.chances):
        odds = np.zeros((len(reward), int(known.seen.max()) + 1))
        for branch, chance in enumerate(chances):
            np.add.at(odds, (np.arange(len(odds)), observations[:, branch]), chance)
        apart = np.abs(odds[:, None] - odds[None]).sum(axis=-1)
        gap = np.abs(reward[:, None, action] - reward[None, :, action])
        found = np.maximum(found, gap + apart)
    return found


def optimal_values(known: Dynamics, discount: float = VALUE_DISCOUNT) -> Table:
    """V*, discounted and without a horizon: (states,)."""
    values = np.zeros(len(known.paid))
    for _ in range(ROUNDS):
        values = ((known.paid + discount * values[known.next_state]) @ known.chances.T).max(axis=1)
    return np.asarray(values)
