"""Episodes made in parallel -> one dataset folder."""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
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
    if folder.exists():
        raise UserError(f"{str(folder)!r} exists already: choose another folder or remove it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A fork starts at once; where it is not the custom (macOS, Windows) the workers import anew.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with scratch_folder(folder.with_name(f"{folder.name}.shards")) as scratch:
        write = partial(_write_chunk, make_episodes, scratch)
        with (
            context.Pool(workers or os.cpu_count()) as pool,
            tqdm(total=chunks, unit="chunk") as bar,
        ):
            for _ in pool.imap_unordered(write, range(chunks)):
                bar.update()
        rows = join_shards(
            sorted(scratch.iterdir()), folder, {TASK_FILE: json.dumps(describe_task(task))}
        )
    return rows


def _write_chunk(make_episodes: MakeEpisodes, scratch: Path, chunk: int) -> int:
    return write_shard(scratch / f"{chunk:06d}.arrow", make_episodes(chunk))


def cached_dataset(name: str, make: Callable[[Path], Dataset]) -> Dataset:
    """The dataset of this name in the cache; made first if it is not there."""
    folder = cache_folder() / "datasets" / name
    if folder.exists():
        return load_episodes(str(folder))
    print(f"making the dataset {folder} (once; later runs reuse it)", file=sys.stderr)
    return make(folder)
