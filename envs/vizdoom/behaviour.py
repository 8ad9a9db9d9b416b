"""Who plays the episodes of the dataset: half move at random, half know the way, but not for sure.

A player is a function from where the agent is and looks, (x, y, angle), to an action; one is made
for each episode. It knows the map and its own place, which the agent has to find out from frames.
A watcher is a player who is shown the frames instead, as the agent is: a policy that was trained.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from textrl.data.frames import encode_frame
from textrl.envs.vizdoom.engine import MAX_SEED, Engine, Frame
from textrl.envs.vizdoom.maze import CELL, load_maze
from textrl.envs.vizdoom.rules import ACTIONS, FORWARD, HORIZON, TURN_LEFT, TURN_RIGHT

Player = Callable[[float, float, float], int]
Watcher = Callable[[Frame], int]
Frames = tuple[bytes, ...]

BEHAVIOURS = ("random", "medium")
"""Of the dataset, in turn."""
STRAIGHT = 8.0
"""Degrees by which a navigator may look past its aim; a turn is 14, the first one 7."""
STRETCH = 40.0
"""Decisions after which the medium player may lose its way or find it again, on average."""
LOST = 0.78
"""Chance that it is lost for a stretch: 63% of 400 episodes came home (0.79: 59% of 500)."""
WANDER = 4.0
"""Decisions that it keeps an action when it is lost, on average."""
SLIPS = 0.2
"""Chance of each action on its way to be a random one."""


def random_player(rng: Generator) -> Player:
    """Any action, each time."""
    draws = iter(rng.integers(len(ACTIONS), size=HORIZON).tolist())
    return lambda x, y, angle: next(draws)


def navigator(rng: Generator) -> Player:
    """Takes the shortest way to the armor."""
    maze = load_maze()
    left, bottom = maze.origin.tolist()
    rows = maze.shape[1]
    aim_x, aim_y = maze.ways_home.aim_x, maze.ways_home.aim_y

    def act(x: float, y: float, angle: float) -> int:
        cell = int((x - left) // CELL) * rows + int((y - bottom) // CELL)
        aim = math.degrees(math.atan2(aim_y[cell] - y, aim_x[cell] - x))
        turn = (aim - angle + 180) % 360 - 180
        if abs(turn) <= STRAIGHT:
            return FORWARD
        return TURN_LEFT if turn > 0 else TURN_RIGHT

    return act


def medium_player(rng: Generator) -> Player:
    """Half good, as a policy that stopped learning early: it knows the way, but loses it often.

    It plays in stretches. In some it takes the way to the armor, with a random action now and then;
    in the others it is lost and wanders about where it is, keeping to each action for a while.
    Random actions alone would hardly keep it from the armor, 60 decisions away where there are 525;
    stretches do, and more so the farther away it begins.
    """
    find_way = navigator(rng)
    draws = rng.integers(len(ACTIONS), size=HORIZON)
    wandering = np.repeat(draws, rng.geometric(1 / WANDER, size=HORIZON))[:HORIZON]
    ends = rng.geometric(1 / STRETCH, size=HORIZON).cumsum()
    stretch = np.searchsorted(ends, np.arange(HORIZON), side="right")
    is_lost = (rng.random(HORIZON) < LOST)[stretch]
    slips = rng.random(HORIZON) < SLIPS
    # What it does whatever the way is; -1: what the way asks for.
    random = np.where(is_lost, wandering, np.where(slips, draws, -1))
    plan = iter(random.tolist())

    def act(x: float, y: float, angle: float) -> int:
        planned = next(plan)
        return planned if planned >= 0 else find_way(x, y, angle)

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


def walk(
    engine: Engine,
    player: str,
    rng: Generator,
    keep_frames: bool = True,
    make_watcher: Callable[[Generator], Watcher] | None = None,
) -> Walk:
    """Let a player play one episode; everything follows from the random numbers.

    player: one of PLAYERS; or the name of the watcher that plays, if one is to be made.
    """
    engine.reset(int(rng.integers(MAX_SEED)))
    choose = _chooser(engine, player, rng, make_watcher)
    actions: list[int] = []
    rewards: list[float] = []
    places = [(engine.x, engine.y, engine.angle)]
    frames = [encode_frame(engine.frame)] if keep_frames else []
    while not engine.is_over:
        action = choose()
        rewards.append(engine.step(action))
        actions.append(action)
        places.append((engine.x, engine.y, engine.angle))
        if keep_frames:
            frames.append(encode_frame(engine.frame))
    return Walk(
        player, engine.spot, actions, rewards, np.array(places), engine.success, tuple(frames)
    )


def _chooser(
    engine: Engine,
    player: str,
    rng: Generator,
    make_watcher: Callable[[Generator], Watcher] | None,
) -> Callable[[], int]:
    """Who plays, told or shown by the engine what it needs."""
    if make_watcher is not None:
        watch = make_watcher(rng)
        return lambda: watch(engine.frame)
    act = PLAYERS[player](rng)
    return lambda: act(engine.x, engine.y, engine.angle)
