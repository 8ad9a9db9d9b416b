"""The theory's recipe: numbers and figures, whole or not at all; mistakes in one line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from textrl.errors import UserError
from textrl.recipes import theory

ROOT = Path(__file__).parents[2]
FAST = ["--task", "gridworld", "--max-steps", "3", "--batch-size", "8", "--episodes", "200"]
FAST += ["--layers", "1", "--width", "16", "--attention-heads", "2", "--threads", "1"]
FAST += ["--no-final-evaluation"]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["theory.py", *map(str, arguments)])
    theory.main()


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_numbers_and_figures_of_all_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "--seeds", 2, "--max-horizon", 3, "--jobs", 1, "--output", tmp_path)
    pictures = {path.stem for path in tmp_path.glob("*.png") if is_picture(path)}
    assert pictures == {
        f"theory-{name}" for name in ("suboptimality", "needed", "clusters", "lemma")
    }
    found = json.loads((tmp_path / "theory.json").read_text())
    assert set(found) == {"suboptimality", "clusters", "lemma", "tests"}
    assert "--only lemma --seeds 2 --max-horizon 3" in found["lemma"]["made"]["by"]
    lemma = found["lemma"]["readings"]
    assert lemma["on-policy"]["violations"] == lemma["every-action"]["violations"] == 0
    assert lemma["on-policy, optimum"]["violations"] > 0
    # Two families and two random POMDPs at two horizons, five epsilons.
    assert lemma["on-policy"]["checked"] == 8 * 5
    needs = {
        (each["family"], each["horizon"], each["states"]): each["episodes"]
        for each in found["suboptimality"]["needed"]
        if each["scale"] == 1.0
    }
    assert needs["switch", 3, "histories"] > 2 * needs["switch", 3, "every-action"]
    assert needs["listening", 3, "on-policy"] is None
    told = capsys.readouterr().out
    assert "never" in told and "tests, hindsight queries" in told
    assert len(found["tests"]["merged"]) == 4 * 2
    assert not list(tmp_path.glob(".*"))  # nothing half written

    # One part again: the others stay as they were.
    before = (tmp_path / "theory.json").read_text()
    options: list[Any] = ["--only", "clusters", "--seeds", 1, "--max-horizon", 3, "--jobs", 1]
    run(monkeypatch, *options, "--output", tmp_path)
    after = json.loads((tmp_path / "theory.json").read_text())
    assert after["lemma"] == json.loads(before)["lemma"]
    assert "--seeds 1" in after["clusters"]["made"]["by"]
    run(monkeypatch, *options, "--output", tmp_path, "--json", tmp_path / "other" / "n.json")
    assert set(json.loads((tmp_path / "other" / "n.json").read_text())) == {"clusters"}


def test_clusters_of_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = tmp_path / "agent"
    train = [sys.executable, str(ROOT / "recipes" / "train.py"), *FAST, "--output", str(agent)]
    subprocess.run(train, check=True, capture_output=True)
    output = tmp_path / "results"
    run(monkeypatch, "--agent", agent, "--histories", 200, "--seeds", 2, "--output", output)
    found = json.loads((output / "theory-agent.json").read_text())
    assert found["histories"] == [10, 30, 100, 200] and found["steps"] == 3
    counts = [each["mean"][-1] for each in found["clusters"]]
    assert counts == sorted(counts, reverse=True) and 1 <= counts[-1] < counts[0] <= 200
    assert is_picture(output / "theory-agent.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds must be at least 1, not 0"),
        (["--max-horizon", "20"], "--max-horizon must be 3 to 9, not 20"),
        (["--only", "lema"], "did you mean 'lemma'"),
        (["--agent", "no-such-agent"], "no-such-agent"),
        (["--agent", "x", "--only", "lemma"], "leave out --only"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=message):
        run(monkeypatch, *arguments, "--output", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(theory, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs scipy: pip install 'offline-textrl\[theory\]'"):
        run(monkeypatch, "--output", tmp_path)


def test_a_file_that_is_no_json_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theory.json").write_text("mine")
    arguments = ["--only", "clusters", "--seeds", 1, "--max-horizon", 3, "--jobs", 1]
    with pytest.raises(UserError, match="is not JSON"):
        run(monkeypatch, *arguments, "--output", tmp_path)
    assert (tmp_path / "theory.json").read_text() == "mine"
