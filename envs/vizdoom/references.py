"""What the players of the dataset and a navigator score: measured once, then kept in the cache."""

import contextlib
import hashlib
import json
import math
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from textrl.data.collect import cache_folder, worker_pool
from textrl.envs.vizdoom.rules import HORIZON
from textrl.evaluation.report import write_json
from textrl.tasks.task import Reference

EPISODES = 200
"""Of each player."""
PLAYERS = ("random", "medium", "navigator")
SEED = 1_000_000  # none of a dataset


def references(hard: bool) -> dict[str, Reference]:
    """Mean returns by player; `data` is the dataset's mix, half random, half medium."""
    from textrl.envs.vizdoom.behaviour import LOST, SLIPS, STRETCH, WANDER

    made_from = [hard, EPISODES, HORIZON, LOST, SLIPS, STRETCH, WANDER]
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]
    path = cache_folder() / f"vizdoom-references-{'hard' if hard else 'base'}-{digest}.json"
    found = _read(path)
    if found is None:
        found = measure(hard, EPISODES)
        _write(path, found)
    return found


def measure(hard: bool, episodes: int, workers: int | None = None) -> dict[str, Reference]:
    """Let each player play this many episodes."""
    with worker_pool(workers) as pool:
        jobs = [(name, number) for name in PLAYERS for number in range(episodes)]
        names, numbers = zip(*jobs, strict=True)
        returns = np.array(list(pool.map(partial(_play, hard), names, numbers, chunksize=8)))
    scores = {
        name: Reference(
            float(each.mean()),
            float(each.std(ddof=1) / math.sqrt(episodes)),
            f"{episodes} simulated episodes",
        )
        for name, each in zip(PLAYERS, returns.reshape(len(PLAYERS), episodes), strict=True)
    }
    random, medium = scores["random"], scores["medium"]
    data = Reference(
        (random.mean + medium.mean) / 2,
        math.hypot(random.stderr, medium.stderr) / 2,
        "half random, half medium",
    )
    return {"random": random, "data": data, "medium": medium, "navigator": scores["navigator"]}


def _play(hard: bool, name: str, number: int) -> float:
    from textrl.envs.vizdoom.behaviour import walk
    from textrl.envs.vizdoom.data import worker_engine

    rng = np.random.default_rng([SEED, number])
    return math.fsum(walk(worker_engine(hard), name, rng, keep_frames=False).rewards)


def _read(path: Path) -> dict[str, Reference] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return {name: Reference(**reference) for name, reference in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write(path: Path, found: dict[str, Reference]) -> None:
    """Whole or not at all; a cache that cannot be written is done without."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {name: asdict(reference) for name, reference in found.items()})
