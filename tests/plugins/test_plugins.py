"""Tasks and algorithms from outside: trained, saved, resumed, judged and published untouched."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.hub_server import HubServer

CODE = Path(__file__).parent / "coin_package.py"
TOKEN = "hf_canwrite"  # one that the local Hub takes
TASK, ALGO = "coin_package:CoinTask", "coin_package:SOFT"
TINY = ["--layers", "1", "--width", "16", "--attention-heads", "2", "--batch-size", "8"]
TINY += ["--episodes", "200", "--evaluate-episodes", "10", "--log-every", "1"]
NAMED = ["--task", TASK, "--algo", ALGO, "--smoothing", "0.2", "--bias", "0.7", *TINY]
NAMED += ["--schedule", "constant"]  # one that does not depend on where the run ends


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with the package in it, and nothing of ours."""
    shutil.copy(CODE, tmp_path)
    return tmp_path


def textrl(folder: Path, *arguments: object, fails: bool = False, path: str = "") -> str:
    """What the command prints, run in that folder."""
    environment = {**os.environ, "TEXTRL_CACHE": str(folder / "cache")}
    if path:
        environment["PYTHONPATH"] = os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "textrl.cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == (2 if fails else 0), done.stderr
    return done.stderr if fails else done.stdout


def weights(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, and a run of its task by its algorithm."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copy(CODE, folder)
    textrl(folder, "train", *NAMED, "--max-steps", "9", "--output", "run")
    return folder


def test_a_task_from_outside_is_saved_and_judged(trained: Path) -> None:
    saved = yaml.safe_load((trained / "run" / "training.yaml").read_text())
    assert (saved["task"], saved["bias"], saved["smoothing"]) == (TASK, 0.7, 0.2)
    described = json.loads((trained / "run" / "task.json").read_text())
    assert described == {"task": "coin", "settings": {"bias": 0.7}}
    told = textrl(trained, "evaluate", "run", "--task", TASK, "--json", "report.json")
    assert "optimal" in told
    assert json.loads((trained / "report.json").read_text())["task"] == "coin"
    told = textrl(trained, "collect", "--task", TASK, "--bias", "1", "--output", "data")
    assert "mostly right" in told


def test_a_run_that_goes_on_for_longer_is_exact(trained: Path) -> None:
    textrl(trained, "train", *NAMED, "--max-steps", "3", "--output", "parts")
    textrl(trained, "train", *NAMED, "--max-steps", "9", "--output", "parts", "--resume")
    assert weights(trained / "run") == weights(trained / "parts")


def test_an_algorithm_from_outside(elsewhere: Path) -> None:
    named = ("--task", "gridworld", "--algo", ALGO, "--smoothing", "0.3", *TINY)
    told = textrl(elsewhere, "train", *named, "--max-steps", "3", "--output", "run")
    assert "soft-bc" in told or "coin_package:SOFT" in told
    card = (elsewhere / "run" / "README.md").read_text()
    assert "behaviour cloning with smoothed labels" in card and "- soft-bc" in card
    # What acts is in the checkpoint: whoever evaluates it needs no code of the algorithm.
    assert "optimal" in textrl(elsewhere, "evaluate", "run", "--episodes", "5")
    refused = textrl(elsewhere, "train", *named[:4], "--expectile", "0.9", fails=True)
    assert refused.startswith("error: --expectile is for ilql and iql, not for gridworld with")


def test_what_a_file_names_is_not_run(trained: Path) -> None:
    """A stranger's checkpoint cannot have code imported by naming it."""
    refused = textrl(trained, "evaluate", "run", fails=True)
    assert refused.startswith("error: unknown task 'coin'") and len(refused.splitlines()) == 1
    shutil.copytree(trained / "run", trained / "strange")
    file = trained / "strange" / "task.json"
    file.write_text(file.read_text().replace('"coin"', f'"{TASK}"'))
    refused = textrl(trained, "evaluate", "strange", fails=True)
    assert refused.startswith(f"error: the task {TASK!r} is code: name it with --task")


def test_entry_points_need_no_module_name(elsewhere: Path) -> None:
    """An installed package declares what it brings; installed is what importlib.metadata finds."""
    metadata = elsewhere / "site" / "coins-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.move(elsewhere / CODE.name, elsewhere / "site")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: coins\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[textrl.tasks]\ncoin = coin_package:CoinTask\n"
        "[textrl.algorithms]\nsoft-bc = coin_package:SOFT\n"
    )
    site = str(elsewhere / "site")
    assert "say what you saw" in textrl(elsewhere, "--help", path=site)
    named = ("--task", "coin", "--algo", "soft-bc", "--bias", "0.2", *TINY, "--max-steps", "2")
    textrl(elsewhere, "train", *named, path=site)
    assert "right" in textrl(elsewhere, "evaluate", "runs/coin", path=site)
    both = ("--task", "coin,gridworld", "--preset", "quick", "--coin.bias", "1", "--max-steps", "1")
    both += ("--coin.algo", "soft-bc", "--gridworld.episodes", "100", "--coin.episodes", "100")
    textrl(elsewhere, "train", *both, "--no-final-evaluation", path=site)
    assert (elsewhere / "runs" / "coin-gridworld" / "model.safetensors").is_file()


def test_both_are_published(trained: Path, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert "unknown task 'coin'" in textrl(trained, "push", "run", "mine/coin", fails=True)
    told = textrl(trained, "push", "run", "mine/coin", "--task", TASK, "--algo", ALGO)
    assert "published as" in told and "config.json" in hub.model("mine/coin").files
