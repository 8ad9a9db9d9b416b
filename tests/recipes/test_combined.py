"""Two tasks in one run: exact resume, two processes, evaluation of each, play of one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from textrl.envs.wordle.play.opponent import load_opponent
from textrl.errors import UserError, run_recipe
from textrl.recipes import evaluate, visits
from textrl.recipes import train as train_recipe
from textrl.sharing.checkpoint import load_agent

ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "recipes" / "train.py")
SETTINGS = "--task wordle,gridworld --layers 1 --width 16 --attention-heads 2 --threads 1"
SETTINGS += " --wordle.batch-size 8 --wordle.evaluate-episodes 4 --gridworld.episodes 64"
SETTINGS += " --gridworld.batch-size 4 --gridworld.evaluate-episodes 4 --gridworld.accumulation 2"
SETTINGS += " --schedule constant --evaluate-every 4 --save-every 2 --log-every 1 --mix wordle=2"
SETTINGS += " --no-final-evaluation"


@pytest.fixture(scope="module")
def command(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives the arguments of a run, the last of which is its folder."""

    def arguments(name: str, steps: int) -> list[str]:
        output = tmp_path_factory.getbasetemp() / f"combined-{name}"
        data = ["--wordle.data", str(small_data), "--max-steps", str(steps)]
        return [*SETTINGS.split(), *data, "--output", str(output)]

    return arguments


@pytest.fixture(scope="module")
def train(command: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that trains a small agent of both tasks in this process; gives its folder."""
    cache = tmp_path_factory.mktemp("cache")

    def run(name: str, steps: int, *others: str) -> Path:
        arguments = command(name, steps)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("TEXTRL_CACHE", str(cache))
            patched.setattr(sys, "argv", ["train.py", *arguments, *others])
            train_recipe.main()
        return Path(arguments[-1])

    return run


@pytest.fixture(scope="module")
def agent(train: Any) -> Path:
    """Four steps in one go."""
    return train("whole", 4)


def lines_of(run: Path) -> list[dict[str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "wordle/total" in line]


def test_interrupted_and_resumed_equals_uninterrupted(agent: Path, train: Any) -> None:
    broken = train("broken", 2)
    settings = (broken / "training.yaml").read_text()
    (broken / "training.yaml").write_text(settings.replace("max_steps: 2", "max_steps: 4"))
    train("broken", 4, "--resume")
    for name in ("model.safetensors", "state/step-00000004/optimizer.safetensors"):
        assert (agent / name).read_bytes() == (broken / name).read_bytes()
    names = [f"{task}/{term}" for task in ("wordle", "gridworld") for term in ("total", "q")]
    assert len(lines_of(agent)) == 4
    for ours, theirs in zip(lines_of(agent), lines_of(broken), strict=True):
        assert [ours[name] for name in names] == [theirs[name] for name in names]


def test_two_processes_learn_what_one_does(agent: Path, command: Any) -> None:
    file = str(ROOT / "recipes" / "configs" / "accelerate" / "two-cpus.yaml")
    launch = ("-m", "accelerate.commands.launch", "--config_file", file)
    arguments = command("two", 4)
    start = [sys.executable, *launch, "--main_process_port", "0", RECIPE]
    subprocess.run([*start, *arguments], check=True, cwd=ROOT, capture_output=True)
    two = Path(arguments[-1])
    for ours, theirs in zip(lines_of(agent), lines_of(two), strict=True):
        for name in ("wordle/total", "gridworld/total", "gradient_norm"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-4)
    ours, theirs = load_file(agent / "model.safetensors"), load_file(two / "model.safetensors")
    assert all((ours[name] - theirs[name]).abs().max() < 1e-5 for name in ours)


def run(recipe: Any, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["recipe", *map(str, arguments)])
    recipe.main()


def test_each_task_is_judged(
    agent: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    both, one = tmp_path / "both.json", tmp_path / "one.json"
    run(evaluate, monkeypatch, agent, "--episodes", 8, "--json", both)
    printed = capsys.readouterr().out
    report = json.loads(both.read_text())
    assert report["task"] == "wordle,gridworld"
    acted = {name: (each["beta"], each["candidates"]) for name, each in report["tasks"].items()}
    assert acted == {"wordle": (64, 4), "gridworld": (100, 1)}
    for words in ("wordle, beta 64", "clue_consistent", "gridworld, beta 100", "memoryless"):
        assert words in printed
    arguments = ("--task", "gridworld", "--episodes", 8, "--against", agent, "--json", one)
    run(evaluate, monkeypatch, agent, *arguments)
    alone = json.loads(one.read_text())
    assert alone["against"]["greedy"]["difference"] == 0.0
    for name in ("mean", "decodings", "references"):
        assert alone[name] == report["tasks"]["gridworld"][name]
    assert report["weights"] == alone["weights"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--beta", 3), "--beta is about one task: say which with --task"),
        (("--candidates", 3), "--candidates is about one task: say which with --task"),
        (("--data", "talks.jsonl"), "--data is about one task: say which with --task"),
        (
            ("--data", "talks.jsonl", "--task", "gridworld"),
            "--data is for agents that learned from logs: this one plays gridworld",
        ),
        (("--task", "gridwrld"), "did you mean 'gridworld'?"),
    ],
)
def test_evaluating_wrongly(
    agent: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["evaluate", str(agent), *map(str, arguments)])
    with pytest.raises(SystemExit):
        run_recipe(evaluate.main)
    assert message in capsys.readouterr().err


def test_conversations_are_learned_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "both"
    arguments = ("--task", "wordle,text", "--optimizer", "adamw", "--output", str(output))
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    with pytest.raises(SystemExit) as left:
        run_recipe(train_recipe.main)
    errors = capsys.readouterr().err
    assert left.value.code == 2 and len(errors.splitlines()) == 1
    assert "text uses the tokens of its language model and can only be trained alone" in errors
    assert not output.exists()


def test_one_of_its_tasks_can_be_loaded_and_played(
    agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opponent = load_opponent(str(agent))
    assert opponent.task.name == "wordle" and opponent.decoding.beta == 64.0
    model, task = load_agent(str(agent), "gridworld")
    assert model.config.steps == 4 and task.name == "gridworld"
    assert model.config.vocabulary == len(task.language.tokens)
    assert torch.isfinite(model(torch.from_numpy(task.prompt(1))).q).all()
    with pytest.raises(UserError, match=r"plays wordle,gridworld: say which"):
        load_agent(str(agent))
    figure = tmp_path / "visits.png"
    arguments = ("--task", "gridworld", "--episodes", 4, "--output", figure)
    run(visits, monkeypatch, agent, *arguments)
    assert figure.is_file()


def test_what_the_folder_holds(agent: Path) -> None:
    saved = json.loads((agent / "task.json").read_text())
    assert saved["task"] == "wordle,gridworld" and set(saved["settings"]) == {"wordle", "gridworld"}
    members = json.loads((agent / "config.json").read_text())["members"]
    assert [member["name"] for member in members] == ["wordle", "gridworld"]
    lines = (agent / "metrics.jsonl").read_text().splitlines()
    scores = [json.loads(line) for line in lines if "above the data" in line]
    assert set(scores[0]) >= {"wordle/greedy", "wordle/sampled", "gridworld/greedy"}
    assert "- gridworld: A gridworld of" in (agent / "README.md").read_text()
    assert (agent / "best" / "training.yaml").read_text() == (agent / "training.yaml").read_text()
