"""The code in the documentation runs as it stands there."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from textrl.config import registry
from textrl.data.dataset import load_episodes, returns_by_behaviour
from textrl.recipes import evaluate, train

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
    # In one's own folder, with nothing of the toolkit changed.
    (tmp_path / "higher_task.py").write_text(code)
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "quick.yaml").write_text(preset)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_named", {})
    monkeypatch.delitem(sys.modules, "higher_task", raising=False)

    chosen = ("--task", "higher_task:HigherTask")
    run(monkeypatch, train.main, *chosen, "--threads", "1")
    assert json.loads(Path("runs/higher/task.json").read_text())["settings"] == {"guesses": 4}
    run(monkeypatch, evaluate.main, "runs/higher", *chosen, "--json", "report.json")
    report = json.loads(Path("report.json").read_text())
    data = next((tmp_path / "cache" / "datasets").iterdir())
    teachers = float(np.mean(returns_by_behaviour(load_episodes(str(data)))["forgetful"]))
    # Halving needs 1.625 wrong guesses of eight equally likely numbers.
    assert report["references"]["halving"] == -1.625
    assert teachers + 0.2 < report["decodings"]["greedy"]["mean"] <= -1.625


def test_the_lines_of_the_readme_run(small_run: Path, tmp_path: Path, monkeypatch) -> None:
    whole_game, code = blocks("README.md", "python")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "wordle").symlink_to(small_run)
    names: dict[str, object] = {}
    exec(code, names)
    thoughts = names["thoughts"]
    assert isinstance(thoughts, tuple) and len(thoughts) == 5
    assert names["reward"] in (-1.0, 0.0) and not names["truncated"]

    names = {}
    exec(whole_game, names)
    assert names["over"] and "[" in names["env"].render()
