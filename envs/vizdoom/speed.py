"""How fast episodes are collected, against the engine alone, on all cores at once."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from textrl.data.collect import worker_number, worker_pool
from textrl.data.dataset import write_shard
from textrl.data.episode import Episode
from textrl.envs.vizdoom.behaviour import BEHAVIOURS, PLAYERS
from textrl.envs.vizdoom.data import walk_chunk, worker_engine
from textrl.envs.vizdoom.engine import BUTTONS, MAX_SEED
from textrl.envs.vizdoom.rules import FRAME_SKIP, HORIZON
from textrl.envs.vizdoom.task import VizdoomTask

CHUNK = 8  # episodes in a shard


def compare(seconds: float = 10.0, rounds: int = 3, workers: int | None = None) -> dict[str, float]:
    """Decisions per second of both, taking turns so that a slow moment of the machine hits both."""
    bare, collected = [], []
    count = workers or os.cpu_count() or 1
    with worker_pool(count) as pool:
        for _ in range(rounds):
            # One job for each worker: none is free again before the others have theirs.
            bare.append(sum(pool.map(_bare, [seconds / rounds] * count)))
            collected.append(sum(pool.map(_collect, [seconds / rounds] * count)))
    rates = {"bare": float(np.median(bare)), "collect": float(np.median(collected))}
    return {**rates, "share": float(np.median(np.divide(collected, bare)))}


def bare_rate(seconds: float = 10.0, workers: int | None = None) -> float:
    """Decisions per second of engines that are only told the actions and asked for the state."""
    count = workers or os.cpu_count() or 1
    with worker_pool(count) as pool:
        return sum(pool.map(_bare, [seconds] * count))


def collect_rate(seconds: float = 10.0, workers: int | None = None) -> float:
    """Decisions per second from the engines to shards on disk, as a dataset is made."""
    count = workers or os.cpu_count() or 1
    with worker_pool(count) as pool:
        return sum(pool.map(_collect, [seconds] * count))


def _bare(seconds: float) -> float:
    game = worker_engine(hard=False).game
    decisions, episode, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        # The same episodes as are collected: what is in sight decides how long a frame takes.
        rng = np.random.default_rng([worker_number() or 0, episode // CHUNK, episode % CHUNK])
        game.set_seed(int(rng.integers(MAX_SEED)))
        game.new_episode()
        act = PLAYERS[BEHAVIOURS[episode % len(BEHAVIOURS)]](rng)
        state = game.get_state()
        for _ in range(HORIZON):
            game.make_action(BUTTONS[act(*state.game_variables)], FRAME_SKIP)
            decisions += 1
            state = game.get_state()
            if state is None:
                break
        episode += 1
    return decisions / (time.perf_counter() - began)


def _collect(seconds: float) -> float:
    task, decisions, chunk = VizdoomTask(), 0, 0
    worker_engine(hard=False)
    began = time.perf_counter()

    def episodes() -> Iterator[Episode]:
        nonlocal decisions
        for walk in walk_chunk(False, chunk, CHUNK, seed=worker_number() or 0):
            decisions += len(walk.actions)
            yield task.episode(walk)

    with tempfile.TemporaryDirectory() as folder:
        while time.perf_counter() - began < seconds:
            write_shard(Path(folder) / f"{chunk}.arrow", episodes())
            chunk += 1
        return decisions / (time.perf_counter() - began)
