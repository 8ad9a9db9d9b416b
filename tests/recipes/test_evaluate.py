"""Judging a checkpoint from the command line."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(name: str, *arguments: object) -> str:
    """What a recipe prints."""
    command = [sys.executable, str(ROOT / "recipes" / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout


def test_the_report_has_what_programs_and_people_read(small_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    beta = json.loads((small_run / "config.json").read_text())["beta"]
    how = ("--episodes", 20, "--beta", beta, "--json", out, "--against", small_run)
    printed = run("evaluate", small_run, *how)
    report = json.loads(out.read_text())
    assert report["task"] == "wordle" and report["episodes"] == 20 and report["beta"] == beta
    assert set(report["references"]) == {
        "random",
        "clue_consistent",
        "crowd",
        "partitions",
        "optimal",
    }
    assert set(report["decodings"]) == {"greedy", "sampled"}
    assert report["mean"] == report["decodings"]["greedy"]["mean"]
    assert report["decodings"]["sampled"]["episodes"] == 80
    histogram = report["histogram"]
    assert sum(histogram.values()) == 20
    wrong = sum(count * (6 if n == "lost" else int(n) - 1) for n, count in histogram.items())
    assert report["mean"] == -wrong / 20
    for name in ("optimal", "clue_consistent", "agent, greedy", "agent, sampled"):
        assert name in printed
    # Against itself, at the beta that it was trained with: the same games, move by move.
    assert f"compared with {small_run}" in printed
    assert printed.count("no clear difference: +0.000") == 2
    for name in ("greedy", "sampled"):
        assert report["against"][name]["difference"] == 0.0


def test_every_recipe_explains_itself() -> None:
    for name in ("train", "evaluate", "collect", "push", "benchmark", "play"):
        help_text = run(name, "--help")
        assert "example:" in help_text and f"  textrl {name} " in help_text
        assert "default" in help_text
