"""Who plays the episodes of the dataset: half move at random, half head for the unsafe goal.

A policy is a table of probabilities (modes, cells, actions), as the modes and cells of the layout
and ACTIONS are numbered.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from textrl.envs.gridworld.env import SwitchGridVectorEnv
from textrl.envs.gridworld.layout import ACTIONS, MODES
from textrl.envs.gridworld.rules import AT_UNSAFE_GOAL, NOTHING, Rules, borders_of, draw

PolicyTable = NDArray[np.float64]

BEHAVIOURS = ("random", "unsafe")
NOISE = 0.1
"""Share of uniformly random actions of the policy that heads for the unsafe goal."""
DISCOUNT = 0.97
CHUNK_EPISODES = 1000  # even, so that every chunk is half and half
NO_STEP = -1


def behaviour_policies(rules: Rules) -> dict[str, PolicyTable]:
    """The policies by name, in the order of BEHAVIOURS."""
    return {"random": random_policy(rules), "unsafe": unsafe_policy(rules)}


def random_policy(rules: Rules) -> PolicyTable:
    """Any action, everywhere."""
    return np.full((len(MODES), rules.layout.cells, len(ACTIONS)), 1 / len(ACTIONS))


def unsafe_policy(rules: Rules, noise: float = NOISE) -> PolicyTable:
    """Takes the best way to the unsafe goal, as if no other paid, with some random actions.

    Equally good actions are equally likely; so where the unsafe goal cannot be reached any more,
    because the switch for the safe one was tripped first, it wanders.
    """
    over = rules.outcome != NOTHING
    prize = (rules.outcome == AT_UNSAFE_GOAL).astype(np.float64)
    values, before = prize, np.full(rules.states, np.inf)
    while np.abs(values - before).max() > 1e-12:
        before = values
        action_values = rules.action_values(values)
        values = np.where(over, prize, DISCOUNT * action_values.max(axis=1))
    is_best = action_values > action_values.max(axis=1, keepdims=True) - 1e-9
    greedy = is_best / is_best.sum(axis=1, keepdims=True)
    mixed = (1 - noise) * greedy + noise / len(ACTIONS)
    return np.asarray(mixed.reshape(len(MODES), rules.layout.cells, len(ACTIONS)))


@dataclass(frozen=True)
class Walks:
    """Finished episodes as arrays.

    cells: (walks, horizon + 1) where the agent was before each step and after the last one.
    actions: (walks, horizon) what it chose. Both are NO_STEP after the end.
    reached: (walks,) which of OUTCOMES the walk came to; NOTHING: time ran out.
    behaviour: (walks,) who walked, an index into BEHAVIOURS.
    """

    cells: NDArray[np.int64]
    actions: NDArray[np.int64]
    reached: NDArray[np.int64]
    behaviour: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.reached)


def walk(rules: Rules, behaviour: NDArray[np.int64], rng: Generator) -> Walks:
    """Let the policies of these numbers, (walks,), play one episode each."""
    tables = np.stack(list(behaviour_policies(rules).values()))
    borders = borders_of(tables)
    count = len(behaviour)
    envs = SwitchGridVectorEnv(count, rules.layout, rules.slip, rules.horizon)
    cell, _ = envs.reset(seed=int(rng.integers(2**32)))
    mode = np.zeros(count, dtype=np.int64)
    cells = np.full((count, rules.horizon + 1), NO_STEP)
    actions = np.full((count, rules.horizon), NO_STEP)
    cells[:, 0] = cell
    for step in range(rules.horizon):
        chosen = draw(borders[behaviour, mode, cell], rng.random(count))
        cell, _, _, _, infos = envs.step(chosen)
        mode, played = infos["mode"], infos["played"]
        actions[played, step] = chosen[played]
        cells[played, step + 1] = cell[played]
    return Walks(cells, actions, infos["reached"], behaviour)


def chunk_sizes(episodes: int) -> list[int]:
    """How a dataset is cut: CHUNK_EPISODES each, the last what remains."""
    return [
        min(CHUNK_EPISODES, episodes - start)
        for start in range(0, max(1, episodes), CHUNK_EPISODES)
    ]


def walk_chunk(rules: Rules, chunk: int, size: int, seed: int) -> Walks:
    """One chunk of the dataset: the behaviours in turn. Chunks need nothing of each other."""
    rng = np.random.default_rng([seed, chunk])
    return walk(rules, np.arange(size) % len(BEHAVIOURS), rng)
