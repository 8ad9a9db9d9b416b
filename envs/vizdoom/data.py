"""Episodes of My Way Home for datasets: in chunks that need nothing of each other."""

import atexit
from collections.abc import Iterator
from functools import cache

import numpy as np

from envs.vizdoom.behaviour import BEHAVIOURS, Walk, walk
from envs.vizdoom.engine import Engine, pin_worker
from textrl.collect import worker_number

CHUNK_EPISODES = 16  # even, so that every chunk is half and half; about 40 MB
MOST_CHUNKS = 500  # each becomes a file, which stays open as long as the dataset is in use


def chunk_sizes(episodes: int) -> list[int]:
    """How a dataset is cut: an even number of episodes each, the last what remains."""
    size = max(CHUNK_EPISODES, 2 * -(-episodes // (2 * MOST_CHUNKS)))
    return [min(size, episodes - start) for start in range(0, max(1, episodes), size)]


def walk_chunk(hard: bool, chunk: int, size: int, seed: int) -> Iterator[Walk]:
    """One chunk of the dataset: the behaviours in turn."""
    engine = worker_engine(hard)
    for number in range(size):
        rng = np.random.default_rng([seed, chunk, number])
        yield walk(engine, BEHAVIOURS[number % len(BEHAVIOURS)], rng)


@cache
def worker_engine(hard: bool) -> Engine:
    """This process's engine, kept for later episodes; one in a pool's worker is pinned with it."""
    number = worker_number()
    if number is not None:
        pin_worker(number)
    engine = Engine(hard)
    atexit.register(engine.close)
    return engine
