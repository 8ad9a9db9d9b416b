"""Episodes made in parallel -> one dataset folder; whoever is interrupted goes on later."""

import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from datasets import Dataset
from filelock import FileLock, Timeout

from textrl.data.dataset import join_shards, load_episodes, write_shard
from textrl.data.episode import Episode
from textrl.data.progress import progress_bar
from textrl.data.task_file import TASK_FILE, Described, describe_task
from textrl.errors import UserError

MakeEpisodes = Callable[[int], Iterable[Episode]]

ORIGIN_FILE = "origin.json"
"""In a folder of shards: what they were made from."""


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
    task: Described,
    origin: Mapping[str, Any],
    workers: int | None = None,
) -> Dataset:
    """Write the episodes of chunks 0, 1, ... to a new dataset folder, which appears when complete.

    make_episodes: a picklable function, called in the workers. The result does not depend on their
    number (None: one per core). task: whose episodes they are; kept beside the rows. origin: what
    else decides them, such as the seed, as JSON. Until the folder is complete, finished chunks lie
    in `<folder>.shards`; after an interruption, a call of the same task, chunks and origin goes on
    with them, and any other is refused.
    """
    refuse_existing(folder)
    notes = {TASK_FILE: json.dumps(describe_task(task))}
    made_from = {**describe_task(task), "chunks": chunks, "origin": dict(origin)}
    with _shard_folder(folder, made_from) as shards:
        missing = [n for n in range(chunks) if not _shard(shards, n).exists()]
        try:
            _write_chunks(make_episodes, shards, missing, chunks, workers)
        except BaseException:
            if any(shards.glob("*.arrow")):
                print(
                    f"finished parts are kept in {shards}: the same command continues",
                    file=sys.stderr,
                )
            raise
        return join_shards([_shard(shards, n) for n in range(chunks)], folder, notes)


@contextlib.contextmanager
def _shard_folder(folder: Path, made_from: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of shards, ours alone; removed when the dataset is complete, or none was made."""
    shards = folder.with_name(f"{folder.name}.shards")
    shards.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(shards / "lock", timeout=0):
            refuse_existing(folder)  # another call may have completed it just now
            _check_origin(shards, made_from)
            yield shards
    except Timeout:
        raise UserError(f"another process is writing {str(folder)!r}: wait for it") from None
    finally:
        if not any(shards.glob("*.arrow")):
            shutil.rmtree(shards, ignore_errors=True)


def _check_origin(shards: Path, made_from: Mapping[str, Any]) -> None:
    """Sign a new folder of shards; never mix those of different making."""
    note, text = shards / ORIGIN_FILE, json.dumps(made_from, sort_keys=True)
    if not any(shards.glob("*.arrow")):
        note.write_text(text)
    elif not note.exists() or note.read_text() != text:
        raise UserError(
            f"{str(shards)!r} holds episodes of another task, seed or number: remove it or choose"
            " another folder"
        )


def _shard(shards: Path, chunk: int) -> Path:
    return shards / f"{chunk:06d}.arrow"


def _write_chunks(
    make_episodes: MakeEpisodes, shards: Path, missing: list[int], chunks: int, workers: int | None
) -> None:
    """Have the workers write these chunks, and tell how it goes."""
    began, episodes, steps = time.perf_counter(), 0, 0
    bar = progress_bar(total=chunks, initial=chunks - len(missing), unit="chunk")
    with bar, worker_pool(workers, _take_job, (make_episodes, shards)) as pool:
        for future in as_completed([pool.submit(_write_chunk, chunk) for chunk in missing]):
            more_episodes, more_steps = future.result()
            episodes, steps = episodes + more_episodes, steps + more_steps
            rate = steps / (time.perf_counter() - began)
            bar.set_postfix_str(f"{episodes:,} episodes, {rate:,.0f} steps/s", refresh=False)
            bar.update()


_job: tuple[MakeEpisodes, Path]  # of a worker: handed over once, not with every chunk


def _take_job(make_episodes: MakeEpisodes, shards: Path) -> None:
    global _job
    _job = (make_episodes, shards)


def _write_chunk(chunk: int) -> tuple[int, int]:
    """Write one shard, whole or not at all; how many episodes and steps it has."""
    make_episodes, shards = _job
    steps = 0

    def counted() -> Iterator[Episode]:
        nonlocal steps
        for episode in make_episodes(chunk):
            steps += len(episode.steps)
            yield episode

    unfinished = shards / f"{chunk:06d}.partial"
    rows = write_shard(unfinished, counted())
    unfinished.rename(_shard(shards, chunk))
    return rows, steps


@contextlib.contextmanager
def worker_pool(
    workers: int | None, start: Callable[..., None] | None = None, job: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Processes to work in (None: one per core), which end with this one, however it ends.

    start: called with the job in each of them first. `worker_number` tells them apart.
    """
    # A fork starts at once; where it is not the custom (macOS, Windows) the workers import anew.
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    first = (context.Value("i", 0), start, job)
    pool = ProcessPoolExecutor(workers or os.cpu_count(), context, _start_worker, first)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise UserError("a worker process died: is there enough memory for them?") from error
    except KeyboardInterrupt:
        for process in list(pool._processes.values()):  # nobody waits for what they are at
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_number: int | None = None


def worker_number() -> int | None:
    """Which of a pool's workers this process is, from 0; None in any other process."""
    return _number


def _start_worker(numbers: Any, start: Callable[..., None] | None, job: tuple[Any, ...]) -> None:
    global _number
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to handle
    with numbers.get_lock():
        _number = numbers.value
        numbers.value += 1
    end_with_parent()
    if start is not None:
        start(*job)


def end_with_parent() -> None:
    """From now on, end this worker once its parent is gone.

    A pool's worker would go on, and then wait for ever, for a parent that was killed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_wait_for, args=(parent.sentinel,), daemon=True).start()


def _wait_for(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def cached_dataset(name: str, make: Callable[[Path], Dataset]) -> Dataset:
    """The dataset of this name in the cache; made first if it is not there."""
    folder = cache_folder() / "datasets" / name
    if not folder.exists():
        locks = cache_folder() / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with FileLock(locks / f"{name}.lock"):  # several runs may start at once
            if not folder.exists():
                print(f"making the dataset {folder} (once; later runs reuse it)", file=sys.stderr)
                make(folder)
    return load_episodes(str(folder))
