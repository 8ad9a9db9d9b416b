"""What a user can get wrong ends in one line and exit code 2, and overwrites nothing."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from textrl.errors import run_recipe
from textrl.recipes import collect, evaluate, train
from textrl.training import run as training

Run = Callable[..., str]


@pytest.fixture
def fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Run a recipe that must fail; give its one line of error."""
    monkeypatch.chdir(tmp_path)

    def run(recipe: object, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["recipe", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            run_recipe(recipe.main)  # type: ignore[attr-defined]
        *progress, error = capsys.readouterr().err.strip().splitlines()
        assert stopped.value.code == 2
        assert error.startswith("error: ")
        assert not any("Traceback" in line or "rror:" in line for line in progress), progress
        return error

    return run


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--task", "wordel"], "did you mean 'wordle'?"),
        (["--algo", "ilq"], "did you mean 'ilql'?"),
        (["--preset", "quik"], "did you mean 'quick'?"),
        (["--lerning-rate", "1e-3"], "did you mean '--learning-rate'?"),
        (["--max-steps", "many"], "--max-steps must be a whole number, not 'many'"),
        (["--max-steps", "0"], "--max-steps must be at least 1"),
        (["--learning-rate", "nan"], "--learning-rate must be a number"),
        (["--words", "nowhere.txt"], "nowhere.txt"),
        (["--data", "nowhere.jsonl"], "no such dataset: 'nowhere.jsonl'"),
        (["--backbone", "gpt3"], "did you mean 'gpt2'?"),
        (["--cell", "grru"], "did you mean 'gru'?"),
        (["--representation-bound", "-1"], "--representation-bound must be at least 0"),
        (["--bisim", "-0.05"], "--bisim must be at least 0"),
        (["--bisim", "some"], "--bisim must be a number, not 'some'"),
        (["--bisim-distance", "l22"], "did you mean 'l2'?"),
        (["--bisim-actions", "datas"], "did you mean 'data'?"),
        (["--bisim-every", "0"], "--bisim-every must be at least 1"),
        (["--width", "100", "--attention-heads", "3"], "attention_heads"),
    ],
)
def test_a_wrong_argument_is_named(fails: Run, arguments: list[str], expected: str) -> None:
    assert expected in fails(train, *arguments)
    assert not Path("runs").exists()


def test_a_tracker_that_is_not_installed(fails: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "find_spec", lambda name: None)
    assert "pip install 'offline-textrl[wandb]'" in fails(train, "--tracker", "wandb")


def test_words_of_other_lengths(fails: Run, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("crane\nslates\n")
    assert "slates" in fails(train, "--words", words)


def test_an_output_folder_with_something_else_in_it_is_left_alone(
    fails: Run, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("important")
    assert "is not empty" in fails(train, "--output", "thesis")
    assert "is not empty" in fails(train, "--output", "thesis", "--resume")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter1.tex"]
    (tmp_path / "file").write_text("important")
    assert "is a file" in fails(train, "--output", "file")


def test_an_output_folder_with_another_run_is_left_alone(fails: Run, small_run: Path) -> None:
    before = {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()}
    assert "--resume" in fails(train, "--output", small_run)
    changed = fails(train, "--output", small_run, "--resume", "--seed", 5)
    assert "cannot resume with --seed 5" in changed
    assert before == {path: path.read_bytes() for path in small_run.rglob("*") if path.is_file()}


def test_datasets_that_cannot_be_used(fails: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "cannot read the dataset" in fails(train, "--data", "empty")
    (tmp_path / "other.jsonl").write_text('{"text": "hello"}\n')
    assert "has no column 'tokens'" in fails(train, "--data", "other.jsonl")
    (tmp_path / "broken.jsonl").write_text('{"tokens": [1, 2')
    assert "cannot read the dataset" in fails(train, "--data", "broken.jsonl")
    row = {
        "tokens": [1, 9999],
        "is_action": [False, True],
        "reward": [0.0, 0.0],
        "observation": [-1, -1],
        "terminated": True,
        "truncated": False,
        "episode_return": 0.0,
        "behaviour": "nobody",
    }
    (tmp_path / "foreign.jsonl").write_text(json.dumps(row) + "\n")
    assert "row 0: a token id is not in the vocabulary" in fails(train, "--data", "foreign.jsonl")
    assert not (tmp_path / "runs").exists()


def test_data_of_another_word_list(fails: Run, small_data: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("crane\nslate\nmoist\n")
    assert "was made with words" in fails(train, "--words", words, "--data", small_data)


def test_checkpoints_that_cannot_be_used(fails: Run, small_run: Path, tmp_path: Path) -> None:
    assert "nowhere" in fails(evaluate, "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no config.json" in fails(evaluate, tmp_path / "empty")
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.json", "task.json", "model.safetensors"):
        (copy / name).write_bytes((small_run / name).read_bytes())
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert str(copy) in fails(evaluate, copy)
    (copy / "model.safetensors").write_bytes(weights)
    task = json.loads((copy / "task.json").read_text())
    (copy / "task.json").write_text(json.dumps({**task, "task": "chess"}))
    assert "unknown task 'chess'" in fails(evaluate, copy)


def test_collect_refuses_a_folder_that_exists(fails: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "exists already" in fails(collect, "--task", "wordle", "--output", "there")
    assert "at least 1" in fails(collect, "--task", "wordle", "--output", "new", "--episodes", 0)
    assert "did you mean 'wordle'" in fails(collect, "--task", "wordl", "--output", "new")
    assert not (tmp_path / "new").exists()
