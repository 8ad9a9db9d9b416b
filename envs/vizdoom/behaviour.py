"""Who plays the episodes of the dataset: half move at random, half know the way, but not for sure.

A player is a function from where the agent is and looks, (x, y, angle), to an action; one is made
for each episode. It knows the map and its own place, which the agent has to find out from frames.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from envs.vizdoom.engine import MAX_SEED, Engine
from envs.vizdoom.maze import CELL, Maze, Ways, load_maze
from envs.vizdoom.rules import ACTIONS, FORWARD, HORIZON, TURN_LEFT, TURN_RIGHT
from textrl.frames import encode_frame

Player = Callable[[float, float, float], int]
Frames = tuple[bytes, ...]

BEHAVIOURS = ("random", "medium")
"""Of the dataset, in turn."""
STRAIGHT = 8.0
"""Degrees by which a navigator may look past its aim; a turn is 14, the first one 7."""
STRETCH = 40.0
"""Decisions that the medium player keeps its mind, on average."""
LOST = 0.7
"""Chance that it then heads for a spot at random; with it, 60% of its episodes come home."""
SLIPS = 0.2
"""Chance of each of its actions to be a random one."""


def random_player(rng: Generator) -> Player:
    """Any action, each time."""
    draws = iter(rng.integers(len(ACTIONS), size=HORIZON).tolist())
    return lambda x, y, angle: next(draws)


def navigator(rng: Generator) -> Player:
    """Takes the shortest way to the armor."""
    maze = load_maze()
    return _walker(maze, lambda: maze.ways_home)


def medium_player(rng: Generator) -> Player:
    """Half good, as a policy that stopped learning early: it finds its way, but loses it often.

    It makes up its mind for a stretch of decisions: to head for the armor, or, lost, for any of the
    spots as if that were home. Some of its actions are random throughout. Random actions alone
    would hardly keep it from the armor, which is 70 decisions away of 525; going to the wrong rooms
    does, and more so the farther it begins.
    """
    maze = load_maze()
    slips = (rng.random(HORIZON) < SLIPS).tolist()
    draws = rng.integers(len(ACTIONS), size=HORIZON).tolist()
    minds = _minds(maze, rng)
    walk = _walker(maze, lambda: next(minds))
    chosen = iter(zip(slips, draws, strict=True))

    def act(x: float, y: float, angle: float) -> int:
        action = walk(x, y, angle)
        slip, drawn = next(chosen)
        return drawn if slip else action

    return act


def _minds(maze: Maze, rng: Generator) -> Iterator[Ways]:
    """Where the medium player heads for, decision after decision."""
    while True:
        is_lost = rng.random() < LOST
        goal = maze.ways_to_spots[rng.integers(len(maze.spots))] if is_lost else maze.ways_home
        for _ in range(rng.geometric(1 / STRETCH)):
            yield goal


def _walker(maze: Maze, ways: Callable[[], Ways]) -> Player:
    """Follows the ways that it is given for each decision."""
    left, bottom = maze.origin.tolist()
    rows = maze.shape[1]

    def act(x: float, y: float, angle: float) -> int:
        cell = int((x - left) // CELL) * rows + int((y - bottom) // CELL)
        goal = ways()
        aim = math.degrees(math.atan2(goal.aim_y[cell] - y, goal.aim_x[cell] - x))
        turn = (aim - angle + 180) % 360 - 180
        if abs(turn) <= STRAIGHT:
            return FORWARD
        return TURN_LEFT if turn > 0 else TURN_RIGHT

    return act


PLAYERS: dict[str, Callable[[Generator], Player]] = {
    "random": random_player,
    "medium": medium_player,
    "navigator": navigator,
}


@dataclass(frozen=True)
class Walk:
    """A finished episode.

    places: (steps + 1, 3) x, y, angle. frames: encoded, one for each place, if they were kept.
    """

    player: str
    spot: int
    actions: list[int]
    rewards: list[float]
    places: NDArray[np.float64]
    success: bool
    frames: Frames


def walk(engine: Engine, player: str, rng: Generator, keep_frames: bool = True) -> Walk:
    """Let a player play one episode; everything follows from the random numbers."""
    engine.reset(int(rng.integers(MAX_SEED)))
    act = PLAYERS[player](rng)
    actions: list[int] = []
    rewards: list[float] = []
    places = [(engine.x, engine.y, engine.angle)]
    frames = [encode_frame(engine.frame)] if keep_frames else []
    while not engine.is_over:
        action = act(engine.x, engine.y, engine.angle)
        rewards.append(engine.step(action))
        actions.append(action)
        places.append((engine.x, engine.y, engine.angle))
        if keep_frames:
            frames.append(encode_frame(engine.frame))
    return Walk(
        player, engine.spot, actions, rewards, np.array(places), engine.success, tuple(frames)
    )
