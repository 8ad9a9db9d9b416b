"""How fast episodes are collected, against the engine alone, on all cores at once."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from envs.vizdoom.data import walk_chunk, worker_engine
from envs.vizdoom.engine import BUTTONS, MAX_SEED
from envs.vizdoom.rules import FRAME_SKIP, HORIZON
from envs.vizdoom.task import VizdoomTask
from textrl.collect import worker_number, worker_pool
from textrl.dataset import write_shard
from textrl.episode import Episode

CHUNK = 8  # episodes in a shard


def compare(seconds: float = 10.0, rounds: int = 3, workers: int | None = None) -> dict[str, float]:
    """Decisions per second of both, taking turns so that a slow moment of the machine hits both."""
    bare, collected = [], []
    with worker_pool(workers) as pool:
        count = pool._max_workers
        for _ in range(rounds):
            # One job for each worker: none is free again before the others have theirs.
            bare.append(sum(pool.map(_bare, [seconds / rounds] * count)))
            collected.append(sum(pool.map(_collect, [seconds / rounds] * count)))
    rates = {"bare": float(np.median(bare)), "collect": float(np.median(collected))}
    return {**rates, "share": float(np.median(np.divide(collected, bare)))}


def bare_rate(seconds: float = 10.0, workers: int | None = None) -> float:
    """Decisions per second of engines that are only told random actions and asked for the state."""
    with worker_pool(workers) as pool:
        return sum(pool.map(_bare, [seconds] * pool._max_workers))


def collect_rate(seconds: float = 10.0, workers: int | None = None) -> float:
    """Decisions per second from the engines to shards on disk, as a dataset is made."""
    with worker_pool(workers) as pool:
        return sum(pool.map(_collect, [seconds] * pool._max_workers))


def _bare(seconds: float) -> float:
    game = worker_engine(hard=False).game
    rng = np.random.default_rng(worker_number())
    decisions, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        game.set_seed(int(rng.integers(MAX_SEED)))
        game.new_episode()
        for action in rng.integers(len(BUTTONS), size=HORIZON).tolist():
            game.make_action(BUTTONS[action], FRAME_SKIP)
            decisions += 1
            if game.get_state() is None:
                break
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
