"""A killed run goes on as if nothing had happened, and processes share the work exactly."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from textrl.bisimulation.loss import BisimulationTerms

ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "recipes" / "train.py")
OF_PAIRS = "--task tmaze --corridor 3 --bisim 0.05 --metric hindsight"
SETTINGS = "--layers 1 --width 16 --attention-heads 2 --batch-size 8 --evaluate-every 1000"
SETTINGS += " --evaluate-episodes 4 --log-every 1 --threads 2 --save-every 4 --no-final-evaluation"


def arguments(data: Path, output: Path, steps: int) -> list[str]:
    """The arguments of a small run."""
    where = ["--data", str(data), "--output", str(output), "--max-steps", str(steps)]
    return [*where, *SETTINGS.split()]


def lines_of(run: Path) -> list[dict[str, float]]:
    """The metrics of each step."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "total" in line]


def losses(run: Path) -> list[float]:
    """The total loss of each step."""
    return [line["total"] for line in lines_of(run)]


def test_the_same_command_gives_the_same_weights_with_two_threads(
    small_data: Path, tmp_path: Path
) -> None:
    """At the preset's own size: only then do threads share the work of indexing backwards."""
    for name in ("one", "two"):
        command = [sys.executable, RECIPE, "--data", str(small_data), "--threads", "2"]
        command += ["--output", str(tmp_path / name), "--max-steps", "16", "--no-final-evaluation"]
        command += ["--bisim", "0.02", "--evaluate-every", "100", "--evaluate-episodes", "4"]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    ("extra", "data"),
    [
        ("--optimizer adamw", "small_data"),
        ("--optimizer muon", "small_data"),
        (
            "--optimizer muon --bisim 0.05 --bisim-inverse 0.1 --bisim-fit 1 --bisim-stride 3",
            "small_data",
        ),
        ("--represent hindsight --represent-steps 30 --represent-finetune 10", "small_data"),
        (OF_PAIRS, "maze_data"),
    ],
)
def test_killed_and_resumed_equals_uninterrupted(
    tmp_path: Path, extra: str, data: str, request: pytest.FixtureRequest
) -> None:
    small_data: Path = request.getfixturevalue(data)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    # Long enough that the kill comes while training is under way.
    run_whole = [sys.executable, RECIPE, *arguments(small_data, whole, 60), *extra.split()]
    run_broken = [sys.executable, RECIPE, *arguments(small_data, broken, 60), *extra.split()]
    subprocess.run(run_whole, check=True, cwd=ROOT, capture_output=True)
    victim = subprocess.Popen(run_broken, cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((broken / "state").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert not (broken / "state" / "step-00000060").exists(), "the kill came too late to test"
    subprocess.run([*run_broken, "--resume"], check=True, cwd=ROOT, capture_output=True)

    for name in ("model.safetensors", "state/step-00000060/optimizer.safetensors"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()
    assert losses(whole) == losses(broken)
    assert len(losses(broken)) == 60


def test_resuming_a_finished_run_changes_nothing(small_data: Path, small_run: Path) -> None:
    before = (small_run / "model.safetensors").read_bytes()
    command = [sys.executable, RECIPE, "--output", str(small_run), "--resume"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert (small_run / "model.safetensors").read_bytes() == before
    assert len(losses(small_run)) == 12


def test_measuring_the_bisimulation_loss_changes_nothing(
    small_data: Path, small_run: Path, tmp_path: Path
) -> None:
    often = tmp_path / "often"  # small_run measures at its first step alone
    command = [sys.executable, RECIPE, *arguments(small_data, often, 12), "--bisim-every", "1"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    diagnostics = {field.name for field in fields(BisimulationTerms)}
    for run, steps in ((small_run, [1]), (often, list(range(1, 13)))):
        lines = lines_of(run)
        measured = [line for line in lines if diagnostics <= line.keys()]
        assert [line["step"] for line in measured] == steps
        assert not any(diagnostics & line.keys() for line in lines if line not in measured)
        assert all(line["embedding_norm"] > 0 for line in measured)
    assert losses(often) == losses(small_run)
    ours, theirs = (load_file(run / "model.safetensors") for run in (often, small_run))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        # Only the world model, which nobody acts by, has learned more.
        assert torch.equal(weight, theirs[name]) != name.startswith("world."), name


def test_ctrl_c_saves_before_it_leaves(small_data: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    # It would not be saved for long: what is there afterwards, the interruption has saved.
    seldom = ["--save-every", "100000", "--max-steps", "300"]
    run_whole = [sys.executable, RECIPE, *arguments(small_data, whole, 300), *seldom]
    run_broken = [sys.executable, RECIPE, *arguments(small_data, broken, 300), *seldom]
    subprocess.run(run_whole, check=True, cwd=ROOT, capture_output=True)
    leaving = subprocess.Popen(run_broken, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    metrics = broken / "metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    leaving.send_signal(signal.SIGINT)
    _, told = leaving.communicate(timeout=120)
    assert leaving.returncode == 130 and "--resume continues" in told
    (state,) = (broken / "state").iterdir()
    assert 0 < int(state.name.removeprefix("step-")) < 300
    subprocess.run([*run_broken, "--resume"], check=True, cwd=ROOT, capture_output=True)
    ours, theirs = ((run / "model.safetensors").read_bytes() for run in (broken, whole))
    assert ours == theirs


@pytest.mark.parametrize(
    ("extra", "in_parts", "data"),
    [
        ("", "4", "small_data"),
        # These compare the same pairs of histories.
        ("--bisim 0.05 --bisim-fit 1", "2", "small_data"),
        (OF_PAIRS, "2", "maze_data"),
        ("--represent hindsight --represent-steps 8 --represent-finetune 6", "4", "small_data"),
    ],
)
def test_two_processes_and_accumulation_follow_one(
    tmp_path: Path, extra: str, in_parts: str, data: str, request: pytest.FixtureRequest
) -> None:
    small_data: Path = request.getfixturevalue(data)
    one, two, parts = tmp_path / "one", tmp_path / "two", tmp_path / "parts"
    for run, accumulation in ((one, "1"), (parts, in_parts)):
        command = [sys.executable, RECIPE, *arguments(small_data, run, 20), *extra.split()]
        command += ["--accumulation", accumulation]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    file = ROOT / "recipes" / "configs" / "accelerate" / "two-cpus.yaml"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(file)]
    launch += ["--main_process_port", "0", RECIPE]  # any free port
    command = [*launch, *arguments(small_data, two, 20), *extra.split()]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    assert len(losses(one)) == 20
    assert losses(two) == pytest.approx(losses(one), abs=1e-4)
    assert losses(parts) == pytest.approx(losses(one), abs=1e-4)
    assert losses(two) != losses(one), "the runs were not split at all"
    compared = [
        [line["bisimulation"] for line in lines_of(run) if "bisimulation" in line]
        for run in (one, two, parts)
    ]
    assert compared[1] == pytest.approx(compared[0], rel=1e-4)
    assert compared[2] == pytest.approx(compared[0], rel=1e-4) or in_parts == "4"
