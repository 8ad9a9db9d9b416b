"""Disks that are full or read-only, data that vanish, clocks that jump: one line, and nothing lost.

A full disk is a small tmpfs, which root alone may mount; a read-only one too.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_lms import save_chat_lm
from textrl.data.dataset import load_episodes
from textrl.data.progress import progress_bar
from textrl.errors import run_recipe
from textrl.recipes import collect as collect_recipe
from textrl.recipes import distill, evaluate, train
from textrl.sharing.checkpoint import load_checkpoint

TINY = "--task gridworld --layers 1 --width 16 --attention-heads 2 --batch-size 8 --max-steps 4"
TINY += " --evaluate-every 100 --evaluate-episodes 4 --save-every 2 --threads 1"
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a recipe here; what it printed, or its one line of error if it is to fail."""

    def go(recipe: Any, words: str, fails: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["textrl", *words.split()])
        code: Any = 0
        try:
            run_recipe(recipe.main)
        except SystemExit as ended:
            code = ended.code
        out, err = capfd.readouterr()
        assert code == (2 if fails else 0), err
        assert "Traceback" not in err
        return err.strip().splitlines()[-1] if fails else out

    return go


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walks") / "data"
    with pytest.MonkeyPatch.context() as patch:
        words = f"textrl --task gridworld --episodes 100 --output {folder} --workers 1"
        patch.setattr(sys, "argv", words.split())
        collect_recipe.main()
    return folder


@pytest.fixture
def agent(data: Path, tmp_path: Path, run: Run) -> Path:
    folder = tmp_path / "agent"
    run(train, f"{TINY} --data {data} --output {folder} --no-final-evaluation")
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A disk of so many kilobytes, all but `left` of which are taken."""
    mounted: list[Path] = []

    def mount(kilobytes: int, left: int | None = None) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only root can mount a tmpfs, and not in every container")
        mounted.append(place)
        if left is not None:
            fill(place, left)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, left: int = 0) -> None:
    """Leave so many kilobytes free."""
    free = shutil.disk_usage(place).free - left * 1024
    if free > 0:
        (place / "filler").write_bytes(b"x" * free)


FULL = "No space left|os error 28|cannot write"


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("left", [0, 40])
def test_training_on_a_full_disk(
    disk: Callable[..., Path], data: Path, run: Run, left: int
) -> None:
    place = disk(4096, left)
    told = run(train, f"{TINY} --data {data} --output {place}/run", fails=True)
    assert is_full(told)
    (place / "filler").unlink()
    assert not list(place.rglob("*.partial"))
    run(train, f"{TINY} --data {data} --output {place}/run --resume")
    load_checkpoint(str(place / "run"))


def is_full(told: str) -> bool:
    return any(sign in told for sign in FULL.split("|")) or pytest.fail(told)


def test_a_full_disk_leaves_the_agent_as_it_was(
    disk: Callable[..., Path], data: Path, run: Run
) -> None:
    place = disk(4096)
    run(train, f"{TINY} --data {data} --output {place}/run")
    kept = ("model.safetensors", "config.json", "task.json", "evaluation.json")
    before = {name: (place / "run" / name).read_bytes() for name in kept}
    fill(place)
    more = TINY.replace("--max-steps 4", "--max-steps 8")
    assert is_full(run(train, f"{more} --data {data} --output {place}/run --resume", fails=True))
    assert {name: (place / "run" / name).read_bytes() for name in kept} == before
    run(evaluate, f"{place}/run --episodes 4")  # which writes nothing


@pytest.mark.parametrize("left", [0, 60])
def test_collecting_on_a_full_disk(disk: Callable[..., Path], run: Run, left: int) -> None:
    place = disk(4096, left)
    words = f"--task gridworld --episodes 2000 --workers 1 --output {place}/data"
    assert is_full(run(collect_recipe, words, fails=True))
    assert not (place / "data").exists()
    (place / "filler").unlink()
    run(collect_recipe, words)
    assert len(load_episodes(str(place / "data"))) == 2000


@pytest.mark.parametrize("left", [0, 20])
def test_distilling_onto_a_full_disk(
    disk: Callable[..., Path], tmp_path: Path, run: Run, left: int
) -> None:
    save_chat_lm(tmp_path / "lm")
    said = [{"role": "user", "content": "how much?"}, {"role": "assistant", "content": "two"}]
    rows = [{"messages": said, "reward": n % 3} for n in range(20)]
    (tmp_path / "talks.jsonl").write_text("\n".join(map(json.dumps, rows)))
    small = "--max-steps 2 --batch-size 2 --context 64 --evaluate-episodes 2 --threads 1"
    where = f"--backbone {tmp_path}/lm --data {tmp_path}/talks.jsonl --output {tmp_path}/talker"
    run(train, f"--task text --algo ilql {where} {small} --no-final-evaluation")
    place = disk(1024, left)
    before = files_of(tmp_path / "talker")
    told = run(distill, f"{tmp_path}/talker --output {place}/lm --steps 1", fails=True)
    assert is_full(told)
    assert files_of(tmp_path / "talker") == before
    assert not (place / "lm" / "model.safetensors").exists()


def test_a_read_only_disk(disk: Callable[..., Path], data: Path, agent: Path, run: Run) -> None:
    place = disk(4096)
    shutil.copytree(agent, place / "agent")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    for recipe, words in (
        (train, f"{TINY} --data {data} --output {place}/new"),
        (
            train,
            f"{TINY.replace('steps 4', 'steps 8')} --data {data} --output {place}/agent --resume",
        ),
        (collect_recipe, f"--task gridworld --episodes 10 --workers 1 --output {place}/data"),
    ):
        assert "Read-only file system" in run(recipe, words, fails=True)
    run(evaluate, f"{place}/agent --episodes 4")  # which writes nothing


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write anything")
def test_missing_permissions(data: Path, agent: Path, tmp_path: Path, run: Run) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert "Permission denied" in run(
        train, f"{TINY} --data {data} --output {locked}/run", fails=True
    )
    (agent / "model.safetensors").chmod(0)
    assert "ermission denied" in run(evaluate, f"{agent} --episodes 4", fails=True)


def test_data_that_vanish(data: Path, tmp_path: Path, run: Run) -> None:
    """Before a run and between its two halves."""
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    run(train, f"{TINY} --data {mine} --output {tmp_path}/run --no-final-evaluation")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    more = f"{TINY.replace('steps 4', 'steps 8')} --data {mine} --output {tmp_path}/run --resume"
    for path in mine.glob("*.arrow"):
        path.unlink()
    assert "cannot read the dataset" in run(train, more, fails=True)
    shutil.rmtree(mine)
    assert "no such dataset" in run(train, more, fails=True)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_data_that_vanish_while_they_are_read(data: Path, tmp_path: Path, run: Run) -> None:
    """Maps are opened anew for each window of steps."""
    mine = tmp_path / "data"
    shutil.copytree(data, mine)
    from textrl.data import batches

    read, asked = batches.read_rows, []

    def vanishing(*arguments: Any) -> Any:
        asked.append(arguments)
        if len(asked) == 3:
            shutil.rmtree(mine)
        return read(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "read_rows", vanishing)
        patch.setattr(batches, "WINDOW_STEPS", 1)
        words = f"{TINY} --data {mine} --output {tmp_path}/run --no-final-evaluation"
        assert "No such file" in run(train, words, fails=True)


def test_a_clock_that_jumps(
    data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back by a day at every second look: nothing that is written down goes back with it."""
    real, looks = time.time, 0

    def jumping() -> float:
        nonlocal looks
        looks += 1
        return real() - 86_400 * (looks % 2)

    monkeypatch.setattr(time, "time", jumping)
    run(train, f"{TINY} --log-every 1 --data {data} --output {tmp_path}/run --no-final-evaluation")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    seconds = [line["seconds"] for line in lines if "total" in line]
    assert seconds == sorted(seconds) and seconds[0] > 0 and seconds[-1] < 600
    assert all(line["tokens_per_second"] > 0 for line in lines if "tokens_per_second" in line)
    with progress_bar(total=3, mininterval=0) as bar:
        for _ in range(3):
            bar.update()
            assert "nan" not in str(bar)
