"""Kill work at random moments, go on, and compare with what was never killed.

    python -m tests.kills 50 --seed 0

Each child is forked from this process, which has imported everything, so that the moments fall into
the work and not into imports. It prints what was tried and exits with 1 at the first difference.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # comes with accelerate

from tests.hub_server import HubServer

HUB = HubServer()
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": "hf_canwrite"}
os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
# On a busy machine, threads that wait by turning in circles take the time of those they wait for.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# ruff: noqa: E402
from datasets import load_from_disk
from safetensors import safe_open

import textrl.envs.gridworld.task
import textrl.sharing.publish
import textrl.training.run  # noqa: F401 (the recipes import it late, and each child would anew)
from textrl.errors import run_recipe
from textrl.recipes import collect, push, reproduce, train
from textrl.recipes.reproducing.studies import STUDIES, Play, Study, Table

TINY = "--layers 1 --width 16 --attention-heads 2 --batch-size 8 --evaluate-every 10"
TINY += " --evaluate-episodes 4 --log-every 1"
RUN = f"--task gridworld --data data {TINY} --resume"
CLOCKED = ("seconds", "tokens_per_second", "waiting_for_data")
CLOCKED += ("made", "seconds_of_training", "seconds_per_run")
MOST_SECONDS = 600
# In place of the real one, whose runs take minutes: as they are, after a summary, in two stages.
METHODS = {"cql": "", "exact-metric": "", "hindsight": "--represent hindsight --represent-steps 20"}
STUDIES["tmaze"] = Study(
    name="tmaze",
    task="tmaze",
    title="Return against how long a cue must be carried",
    axis="corridor",
    flags=f"{TINY} --max-steps 40 --save-every 10 --no-final-evaluation",
    size_flag="--corridor",
    episodes=40,
    tables=(Table("methods", METHODS, {"gpt2": ""}, (3,)),),
    play=Play(10),
    seeds=1,
)


@dataclass(frozen=True)
class Work:
    """Something that can be killed, begun again, and looked at when it is done."""

    do: Callable[[], None]
    found: Callable[[], dict[str, str]]
    """What it left, by name; compared with what was never killed."""
    share: int
    """How often it is killed, of all."""


def recipe(module: object, words: str) -> Callable[[], None]:
    """Its main with this command line."""

    def do() -> None:
        sys.argv = ["textrl", *words.split()]
        run_recipe(module.main)  # type: ignore[attr-defined]

    return do


def again() -> None:
    """Collect, unless that is done; a finished dataset is never written over."""
    if not Path("games").exists():
        recipe(collect, "--task gridworld --episodes 4000 --output games --workers 2")()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def of_run(folder: Path) -> dict[str, str]:
    """Weights, what the optimizers remember, and metrics but for the clock."""
    files = [folder / "model.safetensors", *sorted(folder.glob("state/*/*.safetensors"))]
    found = {str(path.relative_to(folder)): digest(path) for path in files}
    return {**found, "metrics": rows_of(folder / "metrics.jsonl")}


def rows_of(path: Path) -> str:
    """The lines of a JSONL file, but for the clock."""
    lines = [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    return json.dumps(lines)


def timeless(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in CLOCKED}


def of_games() -> dict[str, str]:
    rows = load_from_disk("games")
    return {"rows": hashlib.sha256(json.dumps(rows.to_list()).encode()).hexdigest()}


def of_study() -> dict[str, str]:
    """The record, and the table made of it."""
    table = json.loads(Path("results/tmaze.json").read_text())
    record = rows_of(Path("results/runs/tmaze.jsonl"))
    return {"record": record, "table": json.dumps(timeless(table))}


def of_hub() -> dict[str, str]:
    return {name: hashlib.sha256(c).hexdigest() for name, c in hub_files().items()}


def hub_files() -> dict[str, bytes]:
    """What was pushed; the first commit is the Hub's own, and holds nothing of an agent."""
    repo = HUB.repos.get(("models", "mine/agent"))
    return dict(repo.files) if repo and len(repo.commits) > 1 else {}


WORK = {
    "train": Work(
        recipe(train, f"{RUN} --output run --max-steps 40 --save-every 10 --no-final-evaluation"),
        lambda: of_run(Path("run")),
        18,
    ),
    "save": Work(
        recipe(train, f"{RUN} --output run --max-steps 16 --save-every 1 --no-final-evaluation"),
        lambda: of_run(Path("run")),
        12,
    ),
    "collect": Work(again, of_games, 10),
    "push": Work(recipe(push, "agent mine/agent --no-evaluate"), of_hub, 7),
    "reproduce": Work(
        recipe(reproduce, "--only tmaze --jobs 1 --output results --runs runs"), of_study, 5
    ),
}


def child(work: Callable[[], None], folder: Path, log: Path) -> int:
    """Fork a process that works in the folder; its id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(stream, number)
        work()
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(pid: int, seconds: float) -> int | None:
    """Its exit status, or None where it has not ended by then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.002)
    return None


def wait_for_workers(group: int) -> None:
    """Those of a killed process have to end after it, by themselves."""
    until = time.monotonic() + MOST_SECONDS
    while alive := [each.pid for each in psutil.process_iter() if is_in(group, each)]:
        assert time.monotonic() < until, f"processes {alive} outlive their parent"
        time.sleep(0.1)


def is_in(group: int, process: psutil.Process) -> bool:
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def finish(work: Work, folder: Path, log: Path) -> dict[str, str]:
    """Let it come to its end; what it left."""
    status = wait(child(work.do, folder, log), MOST_SECONDS)
    assert status == 0, f"status {status}: {log.read_text()[-2000:]}"
    os.chdir(folder)
    return work.found()


def look(folder: Path) -> None:
    """Every file of its final name is whole."""
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or not path.is_file() or path.is_symlink():
            continue
        if path.suffix == ".safetensors":
            with safe_open(path, "pt") as opened:
                assert opened.keys()
        if path.suffix == ".json":
            json.loads(path.read_text())
    if (folder / "games").exists():
        assert len(load_from_disk(str(folder / "games"))) == 4000
    files = hub_files()
    assert not files or {"config.json", "model.safetensors", "task.json"} <= set(files)


def main() -> None:
    """Parse the command line and kill."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=WORK)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    names = [options.only] if options.only else list(WORK)
    shares = [WORK[name].share for name in names]
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        os.environ |= {"HF_HOME": str(base / "hf"), "TEXTRL_CACHE": str(base / "cache")}
        prepare(base)
        # In turn, so that few kills are of all kinds too.
        counts = dict.fromkeys(names, 0)
        for number in range(options.kills):
            behind = max(
                names, key=lambda n: WORK[n].share * (number + 1) / sum(shares) - counts[n]
            )
            counts[behind] += 1
        for name, count in counts.items():
            if count:
                kill_all(name, count, base, draw)


def prepare(base: Path) -> None:
    """The data that runs learn from, and an agent to push."""
    words = "--task gridworld --episodes 400 --output data --workers 1"
    finish(Work(recipe(collect, words), dict, 0), base, base / "log")
    words = f"--task gridworld --data data {TINY} --max-steps 2 --output agent"
    finish(Work(recipe(train, f"{words} --no-final-evaluation"), dict, 0), base, base / "log")


def place_for(base: Path, name: str) -> Path:
    folder = base / name
    folder.mkdir()
    for each in ("data", "agent"):
        (folder / each).symlink_to(base / each)
    HUB.repos.clear()
    return folder


def kill_all(name: str, count: int, base: Path, draw: random.Random) -> None:
    """So many kills of one kind of work, one to three of them before each end."""
    work = WORK[name]
    began = time.monotonic()
    expected = finish(work, place_for(base, f"{name}-whole"), base / "log")
    whole, done, late, ends = time.monotonic() - began, 0, 0, 0
    while done < count:
        folder = place_for(base, f"{name}-{done}-{late}")
        for _ in range(draw.randint(1, 3)):
            pid = child(work.do, folder, base / "log")
            seconds = draw.uniform(0.02, 1.0) * whole
            if wait(pid, seconds) is not None:
                late += 1
                break
            os.killpg(pid, signal.SIGKILL) if draw.random() < 0.5 else os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            done += 1
            wait_for_workers(pid)
            look(folder)
            if done == count:
                break
        found = finish(work, folder, base / "log")
        look(folder)
        assert found == expected, f"{name}: {differing(found, expected)} differ"
        ends += 1
        told = f"{done} kills, {ends} times gone on to the same end ({late} too late)"
        print(f"{name}: {told}", flush=True)


def differing(found: dict[str, str], expected: dict[str, str]) -> list[str]:
    return [n for n in sorted({*found, *expected}) if found.get(n) != expected.get(n)]


if __name__ == "__main__":
    main()
