"""Collecting: workers, interruptions, going on, and never mixing what does not belong together."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from textrl.data.collect import cached_dataset, collect, worker_number, worker_pool
from textrl.data.episode import Episode, Step
from textrl.errors import UserError

CHUNKS = 12
TASK = SimpleNamespace(name="toy", settings=lambda: {"size": 1})


def make(pause: float, chunk: int) -> Iterator[Episode]:
    """Three episodes that tell their chunk."""
    time.sleep(pause)
    for number in range(3):
        steps = tuple(Step((2,), float(chunk), (3,), number) for _ in range(chunk % 3 + 1))
        yield Episode((1,), steps, True, False, f"player {number}")


def fails(chunk: int) -> Iterator[Episode]:
    if chunk == 5:
        raise UserError("no fifth chunk")
    return make(0, chunk)


def gather(folder: Path, make=partial(make, 0), seed: int = 0, workers: int = 1):  # noqa: B008
    return collect(make, CHUNKS, folder, TASK, {"seed": seed}, workers)


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.with_name(f"{folder.name}.shards").glob("*.arrow"))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def test_what_is_collected_is_complete_in_order_and_leaves_nothing_behind(tmp_path: Path) -> None:
    rows = gather(tmp_path / "data", workers=2)
    assert [row["reward"][1] for row in rows] == [float(i // 3) for i in range(3 * CHUNKS)]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    with pytest.raises(UserError, match="exists already"):
        gather(tmp_path / "data")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGINT])
def test_whoever_is_interrupted_goes_on(tmp_path: Path, deadly: signal.Signals) -> None:
    folder, log = tmp_path / "data", tmp_path / "log"
    process = multiprocessing.get_context("fork").Process(
        target=_gather_slowly, args=(folder, log, tmp_path / "pids")
    )
    process.start()
    wait_for(lambda: len(shards_of(folder)) >= 3)
    if deadly == signal.SIGINT:
        os.killpg(process.pid, deadly)  # as a terminal does
    else:
        process.kill()
    process.join(60)
    assert process.exitcode not in (0, None)
    assert ("the same command continues" in log.read_text()) == (deadly == signal.SIGINT)
    workers = {int(line) for line in (tmp_path / "pids").read_text().split()}
    assert len(workers) == 2
    wait_for(lambda: not any(is_alive(pid) for pid in workers))  # they end with it
    assert not folder.exists()
    kept = {path: path.stat().st_mtime_ns for path in shards_of(folder)}
    assert 3 <= len(kept) < CHUNKS

    resumed = gather(folder, partial(_note, tmp_path / "made"))
    made = sorted(int(line) for line in (tmp_path / "made").read_text().split())
    assert made == [n for n in range(CHUNKS) if f"{n:06d}.arrow" not in {p.name for p in kept}]
    assert resumed.to_list() == gather(tmp_path / "again").to_list()
    assert not folder.with_name("data.shards").exists()


def _gather_slowly(folder: Path, log: Path, pids: Path) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = log.open("w")
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    sys.stderr = file
    gather(folder, partial(_slow, pids), workers=2)


def _slow(pids: Path, chunk: int) -> Iterator[Episode]:
    with pids.open("a") as file:
        file.write(f"{os.getpid()}\n")
    return make(0.3, chunk)


def _note(path: Path, chunk: int) -> Iterator[Episode]:
    with path.open("a") as file:
        file.write(f"{chunk}\n")
    return make(0, chunk)


def test_an_error_keeps_what_was_finished(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    with pytest.raises(UserError, match="no fifth chunk"):
        gather(folder, fails)
    assert "the same command continues" in capsys.readouterr().err
    assert {path.name for path in shards_of(folder)} >= {f"{n:06d}.arrow" for n in range(5)}
    assert "000005.arrow" not in {path.name for path in shards_of(folder)}
    rows = gather(folder)
    assert rows.to_list() == gather(tmp_path / "again").to_list()


def test_episodes_of_different_making_are_never_mixed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with pytest.raises(UserError, match="no fifth chunk"):
        gather(folder, fails)
    before = [path.read_bytes() for path in shards_of(folder)]
    with pytest.raises(UserError, match=r"data\.shards' holds episodes of another task, seed"):
        gather(folder, seed=1)
    other = SimpleNamespace(name="toy", settings=lambda: {"size": 2})
    with pytest.raises(UserError, match="another task, seed or number"):
        collect(partial(make, 0), CHUNKS, folder, other, {"seed": 0})
    with pytest.raises(UserError, match="another task, seed or number"):
        collect(partial(make, 0), CHUNKS + 1, folder, TASK, {"seed": 0})
    assert [path.read_bytes() for path in shards_of(folder)] == before


def test_a_failure_at_once_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no fifth chunk"):
        collect(lambda chunk: fails(5), 1, tmp_path / "data", TASK, {}, workers=1)
    assert list(tmp_path.iterdir()) == []


def test_two_calls_do_not_write_the_same_folder(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def another(chunk: int) -> Iterator[Episode]:
        gather(folder)
        return make(0, chunk)

    with pytest.raises(UserError, match="another process is writing"):
        collect(another, 1, folder, TASK, {}, workers=1)


def test_a_worker_that_dies_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a worker process died"):
        gather(tmp_path / "data", lambda chunk: os._exit(3))


def test_workers_know_their_numbers() -> None:
    assert worker_number() is None
    with worker_pool(3) as pool:
        futures = [pool.submit(_slow_number) for _ in range(12)]
        assert {future.result() for future in futures} == {0, 1, 2}


def _slow_number() -> int | None:
    time.sleep(0.1)
    return worker_number()


def test_a_cached_dataset_is_made_once(tmp_path: Path) -> None:
    calls = []

    def make_it(folder: Path):
        calls.append(folder)
        return gather(folder)

    first = cached_dataset("toy", make_it)
    assert cached_dataset("toy", make_it).to_list() == first.to_list()
    assert len(calls) == 1
    assert [path.name for path in (tmp_path / "cache" / "datasets").iterdir()] == ["toy"]
