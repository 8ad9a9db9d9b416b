"""Episodes made in parallel -> one dataset folder."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from datasets import Dataset
from tqdm import tqdm

from textrl.checkpoint import TASK_FILE, describe_task, scratch_folder
from textrl.dataset import join_shards, load_episodes, write_shard
from textrl.episode import Episode
from textrl.errors import UserError
from textrl.task import Task

MakeEpisodes = Callable[[int], Iterable[Episode]]


def cache_folder() -> Path:
    """Where things that can be made again are kept: TEXTRL_CACHE, or ~/.cache/textrl."""
    return Path(os.environ.get("TEXTRL_CACHE") or Path.home() / ".cache" / "textrl")


def refuse_existing(folder: Path) -> None:
    """A dataset is never written over anything."""
    if folder.exists():
        raise UserError(f"{str(folder)!r} exists already: choose another folder or remove it")


def collect(
    make_episodes: MakeEpisodes,
    chunks: int,
    folder: Path,
    task: Task,
    workers: int | None = None,
) -> Dataset:
    """Write the episodes of chunks 0, 1, ... to a new dataset folder, which appears when complete.

    make_episodes: a picklable function, called in the workers. The result does not depend on their
    number (None: one per core). task: whose episodes they are; kept beside the rows.
    """
    refuse_existing(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A fork starts at once; where it is not the custom (macOS, Windows) the workers import anew.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with scratch_folder(folder.with_name(f"{folder.name}.shards")) as scratch:
        job = (make_episodes, scratch)
        with ProcessPoolExecutor(workers or os.cpu_count(), context, _start_worker, job) as pool:
            for _ in tqdm(pool.map(_write_chunk, range(chunks)), total=chunks, unit="chunk"):
                pass
        notes = {TASK_FILE: json.dumps(describe_task(task))}
        return join_shards(sorted(scratch.iterdir()), folder, notes)


_job: tuple[MakeEpisodes, Path]  # of a worker: handed over once, not with every chunk


def _start_worker(make_episodes: MakeEpisodes, scratch: Path) -> None:
    global _job
    _job = (make_episodes, scratch)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle


def _write_chunk(chunk: int) -> int:
    make_episodes, scratch = _job
    return write_shard(scratch / f"{chunk:06d}.arrow", make_episodes(chunk))


def cached_dataset(name: str, make: Callable[[Path], Dataset]) -> Dataset:
    """The dataset of this name in the cache; made first if it is not there."""
    folder = cache_folder() / "datasets" / name
    if not folder.exists():
        print(f"making the dataset {folder} (once; later runs reuse it)", file=sys.stderr)
        # Several runs may start at once: each makes its own, and the first one done is kept.
        own = folder.with_name(f"{name}.{os.getpid()}")
        make(own)
        with contextlib.suppress(OSError):
            own.rename(folder)
        shutil.rmtree(own, ignore_errors=True)
    return load_episodes(str(folder))
