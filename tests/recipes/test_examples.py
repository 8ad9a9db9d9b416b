"""The code in the documentation runs as it stands there."""

import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from envs import tasks
from recipes import evaluate, train
from textrl.dataset import load_episodes, returns_by_behaviour

ROOT = Path(__file__).parents[2]


def blocks(file: str, kind: str) -> list[str]:
    """The fenced blocks of a language in a Markdown file."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(monkeypatch: pytest.MonkeyPatch, main: object, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["recipe", *arguments])
    main()  # type: ignore[operator]


def test_the_task_of_the_guide_learns_and_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,), (preset,) = (
        blocks("docs/add-a-task.md", "python"),
        blocks("docs/add-a-task.md", "yaml"),
    )
    (tmp_path / "higher_task.py").write_text(code)
    spec = spec_from_file_location("higher_task", tmp_path / "higher_task.py")
    assert spec is not None and spec.loader is not None
    higher = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "higher_task", higher)
    spec.loader.exec_module(higher)
    (tmp_path / "configs" / "higher").mkdir(parents=True)
    (tmp_path / "configs" / "higher" / "quick.yaml").write_text(preset)
    monkeypatch.setitem(tasks.TASKS, "higher", higher.HigherTask)
    monkeypatch.setattr(train, "PRESETS", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)

    run(monkeypatch, train.main, "--task", "higher", "--threads", "1")
    run(monkeypatch, evaluate.main, "runs/higher", "--json", "report.json")
    report = json.loads(Path("report.json").read_text())
    data = next((tmp_path / "cache" / "datasets").iterdir())
    teachers = float(np.mean(returns_by_behaviour(load_episodes(str(data)))["forgetful"]))
    # Halving needs 1.625 wrong guesses of eight equally likely numbers.
    assert report["references"]["halving"] == -1.625
    assert teachers + 0.2 < report["decodings"]["greedy"]["mean"] <= -1.625


def test_the_lines_of_the_readme_run(small_run: Path, tmp_path: Path, monkeypatch) -> None:
    (code,) = blocks("README.md", "python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "wordle").symlink_to(small_run)
    names: dict[str, object] = {}
    exec(code, names)
    thoughts = names["thoughts"]
    assert isinstance(thoughts, tuple) and len(thoughts) == 5
    assert names["reward"] in (-1.0, 0.0) and not names["truncated"]
