"""Episodes of My Way Home for datasets: in chunks that need nothing of each other."""

import atexit
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch

from textrl.data.collect import worker_number
from textrl.envs.vizdoom.actor import Actor
from textrl.envs.vizdoom.behaviour import BEHAVIOURS, Walk, walk
from textrl.envs.vizdoom.engine import Engine, pin_worker

CHUNK_EPISODES = 16  # even, so that every chunk is half and half; about 40 MB
MOST_CHUNKS = 500  # each becomes a file, which stays open as long as the dataset is in use


def chunk_sizes(episodes: int) -> list[int]:
    """How a dataset is cut: an even number of episodes each, the last what remains."""
    size = max(CHUNK_EPISODES, 2 * -(-episodes // (2 * MOST_CHUNKS)))
    return [min(size, episodes - start) for start in range(0, max(1, episodes), size)]


def walk_chunk(
    hard: bool, chunk: int, size: int, seed: int, actor: Actor | None = None
) -> Iterator[Walk]:
    """One chunk of the dataset: the behaviours in turn. actor: plays in place of the medium one."""
    engine = worker_engine(hard)
    for number in range(size):
        rng = np.random.default_rng([seed, chunk, number])
        player = BEHAVIOURS[number % len(BEHAVIOURS)]
        if actor is not None and player == "medium":
            yield walk(engine, "a2c", rng, make_watcher=actor.watcher)
        else:
            yield walk(engine, player, rng)


@cache
def worker_engine(hard: bool) -> Engine:
    """This process's engine, kept for later episodes; one in a pool's worker is pinned with it."""
    number = worker_number()
    if number is not None:
        pin_worker(number)
        torch.set_num_threads(1)  # more would wait for each other on that core
    engine = Engine(hard)
    atexit.register(engine.close)
    return engine
