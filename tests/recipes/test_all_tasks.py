"""One agent of all tasks beside agents of one: what is trained, and the share of the gain kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from textrl.config.command_line import parse_config
from textrl.config.presets import COMBINED, save_config
from textrl.errors import UserError
from textrl.evaluation.report import write_json
from textrl.recipes.reproducing.all_tasks import (
    TASKS,
    compare_together,
    plan_together,
    together_rows,
)
from textrl.recipes.reproducing.experiments import Run
from textrl.recipes.reproducing.reproduce import comparable
from textrl.recipes.reproducing.runs import is_done, write_runs
from textrl.recipes.reproducing.summary import write_summary
from textrl.sharing.checkpoint import weights_digest

SCORES = {"bc": 1.0, "alone": 3.0, "together": 2.5}


def finished(run: Run, mean: float, stderr: float = 0.1) -> None:
    """Leave what a finished run leaves, as far as the comparison reads it."""
    played = {"mean": mean, "stderr": stderr, "episodes": 100}
    judged: dict[str, Any] = {"decodings": {"greedy": played, "sampled": {**played, "mean": 0.0}}}
    judged["references"] = {"optimal": 4.0}
    report = judged if run.setting else {"tasks": dict.fromkeys(TASKS, judged)}
    run.folder.mkdir(parents=True)
    (run.folder / "model.safetensors").write_bytes(b"weights")
    report = {**report, "weights": weights_digest(run.folder)}
    (run.folder / "evaluation.json").write_text(json.dumps(report))
    (run.folder / "metrics.jsonl").write_text('{"step": 1, "seconds": 120.0}\n')


def test_the_plan_has_one_agent_of_all_tasks_and_two_of_each(tmp_path: Path) -> None:
    runs = plan_together("quick", 2, tmp_path, tmp_path)
    assert len(runs) == len({run.folder for run in runs}) == 2 * (1 + 2 * len(TASKS))
    parsed = [parse_config(run.flags, "", "") for run in runs]
    algos = [{name: each.algo for name, each in config.members.items()} for config in parsed[:7]]
    assert algos == [
        {"wordle": "ilql", "gridworld": "cql", "vizdoom": "cql"},
        *({"wordle": "ilql"}, {"wordle": "bc"}, {"gridworld": "cql"}, {"gridworld": "bc"}),
        *({"vizdoom": "cql"}, {"vizdoom": "bc"}),
    ]
    assert parsed[0].task == "wordle,gridworld,vizdoom"
    assert {config.seed for config in parsed} == {0, 1}


def test_the_share_of_the_gain_by_hand(tmp_path: Path) -> None:
    runs = plan_together("quick", 1, tmp_path, tmp_path)
    for run in runs:
        finished(run, SCORES[run.method])
    results = compare_together("quick", runs)
    cells = results["tasks"]["gridworld"]
    # 1.5 of 2. Slopes: 1/2 of together's score, -0.75/2 of alone's, -0.25/2 of imitation's.
    assert cells["greedy"]["kept"]["share"] == pytest.approx(0.75)
    error = 0.1 * (0.5**2 + 0.375**2 + 0.125**2) ** 0.5
    assert cells["greedy"]["kept"]["stderr"] == pytest.approx(error)
    assert cells["sampled"]["kept"] is None  # no gain, no share of it
    assert results["minutes"] == 14
    rows = together_rows(results)
    assert rows[1] == ["wordle", "sampled", "0.000", "0.000", "0.000", "nothing to keep"]
    assert rows[2] == ["wordle", "greedy", "1.000", "3.000", "2.500", "75% +/- 12%"]
    assert len(rows) == 1 + 2 * len(TASKS)

    write_json(tmp_path / "combined.json", results)
    page = write_summary(tmp_path).read_text()
    assert "| wordle | greedy | 1.000 | 3.000 | 2.500 | 75% +/- 12% |" in page
    assert "together 2, wordle alone 2," in page and "all of them: 14" in page


def test_errors_of_several_seeds_shrink(tmp_path: Path) -> None:
    runs = plan_together("quick", 4, tmp_path, tmp_path)
    for run in runs:
        finished(run, SCORES[run.method])
    cell = compare_together("quick", runs)["tasks"]["vizdoom"]["greedy"]["bc"]
    assert (cell["seeds"], cell["stderr_over_episodes"]) == (4, pytest.approx(0.05))


def test_a_seed_counts_when_all_of_its_runs_are_done(tmp_path: Path) -> None:
    runs = plan_together("quick", 2, tmp_path, tmp_path)
    left = [runs[-1]]
    assert comparable(runs, left, COMBINED) == [run for run in runs if run.seed == 0]


def test_files_of_runs_are_told_apart_from_other_experiments(tmp_path: Path) -> None:
    runs = plan_together("quick", 1, tmp_path / "runs", tmp_path / "results")[:2]
    for run in runs:
        finished(run, 1.0)
    write_runs(runs)
    names = {file.name for file in (tmp_path / "results" / "runs").iterdir()}
    assert names == {"combined-together-seed0.json", "combined-wordle-alone-seed0.json"}


def test_an_agent_of_other_settings_is_no_run_of_the_plan(tmp_path: Path) -> None:
    (run, *_) = plan_together("quick", 1, tmp_path, tmp_path)
    flags = (*run.flags, "--wordle.expectile", "0.7")
    run.folder.mkdir(parents=True)
    begun = parse_config(flags, "", "")
    save_config(begun, run.folder / "training.yaml")
    with pytest.raises(UserError, match=r"was trained with --wordle.expectile 0.7, not"):
        is_done(run)
