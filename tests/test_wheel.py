"""The wheel: what is in it, and that every task trains from it where the source tree is not."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tiny_lms import save_chat_lm

ROOT = Path(__file__).parents[1]
TINY = ["--layers", "1", "--width", "16", "--attention-heads", "2", "--batch-size", "4"]
TINY += ["--max-steps", "2", "--evaluate-episodes", "2", "--log-every", "1"]
TINY += ["--no-final-evaluation"]
LINKS = {"envs": "textrl/envs", "recipes": "textrl/recipes"}
"""Folders of the tree, and where they are in the package."""


def tracked() -> list[str]:
    """The files that git knows of, or will: new ones that it does not ignore count too."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the tracked files: what else lies about in the tree is no part of it."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: there is nothing to compare the wheel with")
    folder = tmp_path_factory.mktemp("wheel")
    for name in tracked():
        target = folder / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(folder / "tree")]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("offline_textrl-*.whl")
    return built


def test_it_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        inside = {name for name in file.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in inside} == {"textrl"}
    expected = set()
    for name in tracked():
        top, _, rest = name.partition("/")
        if top in LINKS:
            expected.add(f"{LINKS[top]}/{rest}")
        elif top == "textrl" and not (ROOT / name).is_symlink():
            expected.add(name)
    expected = {name for name in expected if not name.endswith("lists/derive.py")}  # a tool
    assert {name for name in inside if not name.endswith("lists/derive.py")} == expected


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel alone in it; what it depends on is linked, not downloaded."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", str(wheel)], check=True, capture_output=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    # A path in a .pth file: the .pth files there, such as an editable install's, are not read.
    (packages / "linked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def run(folder: Path, *arguments: object) -> str:
    """What the installed command prints, far from the source tree."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["TEXTRL_CACHE"] = str(folder / "cache")
    command = [str(folder / "env" / "bin" / "textrl"), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_is_the_wheel_s(installed: Path) -> None:
    python = installed / "env" / "bin" / "python"
    code = "import textrl; print(textrl.__file__)"
    told = subprocess.run([python, "-c", code], cwd=installed, capture_output=True, text=True)
    assert Path(told.stdout.strip()).is_relative_to(installed / "env")
    for name in ("envs", "recipes"):
        found = subprocess.run([python, "-c", f"import {name}"], cwd=installed, capture_output=True)
        assert found.returncode != 0
    assert "vizdoom" in run(installed, "--help")


@pytest.mark.parametrize("task", ["wordle", "gridworld", "twenty", "vizdoom", "wordle,gridworld"])
def test_every_task_trains(installed: Path, task: str) -> None:
    small = ["--episodes", "24", *TINY]
    if task == "vizdoom":
        pytest.importorskip("vizdoom", reason="the engine is not installed")
        small += ["--window", "8", "--context", "64", "--evaluate-episodes", "1"]
    if "," in task:
        own = ["episodes", "batch-size", "evaluate-episodes"]
        values = dict(zip(own, ("24", "4", "2"), strict=True))
        flags = [f for t in task.split(",") for n in own for f in (f"--{t}.{n}", values[n])]
        small = [*TINY[:6], *flags, "--max-steps", "2", "--no-final-evaluation"]
    output = task.replace(",", "-")
    run(installed, "train", "--task", task, *small)
    assert json.loads((installed / "runs" / output / "task.json").read_text())["task"] == task


def test_conversations_train(installed: Path, tmp_path: Path) -> None:
    save_chat_lm(tmp_path / "lm")
    row = {
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "hello you", "reward": 1.0},
        ]
    }
    (tmp_path / "talks.jsonl").write_text("\n".join([json.dumps(row)] * 12) + "\n")
    named = ["--task", "text", "--data", tmp_path / "talks.jsonl", "--backbone", tmp_path / "lm"]
    small = ["--context", "64", "--batch-size", "2", "--accumulation", "1", "--max-steps", "2"]
    run(installed, "train", *named, *small)
    assert (installed / "runs" / "text" / "evaluation.json").is_file()
