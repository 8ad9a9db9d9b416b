"""The paper's experiments: planned, trained once, compared over seeds; figures of visits."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from textrl.config.presets import COMBINED
from textrl.errors import UserError
from textrl.recipes.reproducing import figures, visits
from textrl.recipes.reproducing.experiments import EXPERIMENTS, Experiment, Run, plan
from textrl.recipes.reproducing.reproduce import compare
from textrl.recipes.reproducing.runs import has_agent, is_done, train_all, write_runs
from textrl.recipes.reproducing.summary import REMARKS, section, table_rows
from textrl.sharing.checkpoint import weights_digest
from textrl.sharing.publish import saved_report

ROOT = Path(__file__).parents[2]
FAST = "--max-steps 3 --batch-size 8 --episodes 200 --layers 1 --width 16 --attention-heads 2"
TINY = Experiment(
    task="gridworld",
    title="Gridworld",
    table="Figure 2 of the paper",
    settings={"gpt2": FAST},
    methods={"cql": "--algo cql", "cql+bisim": "--algo cql --bisim 0.05"},
    published={"": {"cql": 0.19, "cql+bisim": 0.68}},
    differences=(("cql+bisim", "cql"),),
)
WAYS = {"safe_goal": 0.5, "unsafe_goal": 0.25, "lava": 0.25, "time_out": 0.0}


def finished(run: Run, mean: float) -> None:
    """Leave what a finished run leaves, as far as the comparison reads it."""
    run.folder.mkdir(parents=True)
    (run.folder / "model.safetensors").write_bytes(b"weights")
    played = {"mean": mean, "stderr": 0.01, "episodes": 1000, **WAYS}
    report: dict[str, Any] = {"decoding": "greedy", "decodings": {"greedy": played}, **played}
    report["task"] = "gridworld"
    report["references"] = {"random": 0.09, "optimal": 0.965}
    report["weights"] = weights_digest(run.folder)
    (run.folder / "evaluation.json").write_text(json.dumps(report))
    (run.folder / "metrics.jsonl").write_text('{"step": 1, "seconds": 90.0}\n')


def test_every_method_runs_on_every_cell_with_every_seed(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["gridworld"]
    runs = plan(experiment, "quick", 5, tmp_path, tmp_path)
    assert len(runs) == len({run.folder for run in runs}) == 2 * 3 * 5
    assert [run.seed for run in runs] == sorted(run.seed for run in runs)
    both = next(
        run for run in runs if (run.setting, run.method, run.seed) == ("rnn", "cql+bisim", 3)
    )
    flags = " ".join(both.flags)
    for part in (
        "--task gridworld",
        "--preset quick",
        "--seed 3",
        "--backbone rnn",
        "--bisim 0.05",
    ):
        assert part in flags


def test_the_comparison_by_hand(tmp_path: Path) -> None:
    runs = plan(TINY, "quick", 3, tmp_path, tmp_path)
    scores = {"cql": [0.2, 0.4, 0.6], "cql+bisim": [0.5, 0.6, 1.0]}
    for run in runs:
        finished(run, scores[run.method][run.seed])
    results = compare(TINY, "quick", runs)
    cell = results["methods"]["cql"]["gpt2"]
    assert (cell["mean"], cell["seeds"], cell["episodes"]) == (pytest.approx(0.4), 3, 1000)
    # Deviation 0.2, two degrees of freedom: 4.303 x 0.2 / sqrt(3).
    assert cell["high"] - cell["mean"] == pytest.approx(0.49687, abs=1e-4)
    assert cell["metrics"] == WAYS
    difference = results["differences"]["cql+bisim - cql"]["gpt2"]
    assert difference["mean"] == pytest.approx(0.9 / 3)  # of 0.3, 0.2, 0.4
    assert difference["low"] == pytest.approx(0.3 - 4.303 * 0.1 / 3**0.5, abs=1e-4)
    assert results["optimum"] == 0.965
    assert results["minutes_per_run"] == {"cql": 1.5, "cql+bisim": 1.5}
    assert results["minutes"] == pytest.approx(1.5 * len(runs))
    assert cell["published"] == 0.19
    header, *rows = table_rows(TINY, results)
    assert header == ["method", "gpt2", "paper"]
    assert rows[0] == ["cql", "0.400 (-0.097 to 0.897)", "0.19"]
    assert rows[-1] == ["optimal", "0.965", ""]
    header, *rows = table_rows(replace(TINY, published={}), results)
    assert (header, rows[-1]) == (["method", "gpt2"], ["optimal", "0.965"])
    fewer = compare(TINY, "quick", runs[:-1])  # the last is CQL with bisimulation
    assert fewer["methods"]["cql"]["gpt2"] == cell
    assert fewer["methods"]["cql+bisim"]["gpt2"]["by_seed"] == [0.5, 0.6]
    assert fewer["differences"]["cql+bisim - cql"]["gpt2"]["mean"] == pytest.approx(0.25)
    none = compare(TINY, "quick", [run for run in runs if run.method == "cql"])
    assert [*none["methods"]] == ["cql"] and not none["differences"]
    single = compare(TINY, "quick", runs[: len(TINY.methods)])
    assert table_rows(TINY, single)[1] == ["cql", "0.200", "0.19"]  # one seed has no interval


def test_the_page_says_how_long_it_took_and_why_it_came_out_so(tmp_path: Path) -> None:
    runs = plan(TINY, "quick", 2, tmp_path, tmp_path)
    for run in runs:
        finished(run, mean=0.1 * run.seed)
    results = compare(TINY, "quick", runs)
    page = section(TINY, results, tmp_path)
    assert "Minutes of one run: cql 2, cql+bisim 2; all of them: 6." in page
    assert REMARKS["gridworld"].strip() in page
    # What was thought of one scale does not hold for another.
    assert REMARKS["gridworld"].strip() not in section(
        TINY, {**results, "scale": "paper"}, tmp_path
    )
    assert {*REMARKS} == {*EXPERIMENTS, COMBINED}


def test_every_run_leaves_a_file_that_says_how_it_was_made(tmp_path: Path) -> None:
    runs = plan(TINY, "quick", 1, tmp_path / "runs", tmp_path / "results")
    for run in runs:
        finished(run, mean=0.25)
    write_runs(runs)
    files = sorted((tmp_path / "results" / "runs").iterdir())
    names = ["gridworld-gpt2-cql+bisim-seed0.json", "gridworld-gpt2-cql-seed0.json"]
    assert [file.name for file in files] == names
    content = json.loads(files[0].read_text())
    assert (content["mean"], content["minutes"]) == (0.25, 1.5)
    assert content["flags"].endswith("--algo cql --bisim 0.05")


def test_what_was_written_down_counts_where_the_agents_are_gone(tmp_path: Path) -> None:
    runs = plan(TINY, "quick", 2, tmp_path / "runs", tmp_path / "results")
    for run in runs:
        finished(run, mean=0.1 * (1 + run.seed))
        (run.folder / "metrics.jsonl").write_text(
            '{"step": 20, "bisimulation": 3.0, "seconds": 90.0}\n'
        )
    write_runs(runs)
    before = compare(TINY, "quick", runs)
    shutil.rmtree(tmp_path / "runs")
    assert all(map(is_done, runs)) and not any(map(has_agent, runs))
    assert compare(TINY, "quick", runs) == before
    assert figures.draw_hypothesis(TINY, runs, tmp_path).is_file()
    assert figures.draw_visits(TINY, runs, tmp_path) == []  # which need the agents
    # A preset that has changed since makes other agents.
    longer = replace(TINY, settings={"gpt2": f"{FAST} --discount 0.5"})
    assert not any(map(is_done, plan(longer, "quick", 2, tmp_path / "runs", tmp_path / "results")))
    # How often it saves changes nothing.
    saved = replace(TINY, settings={"gpt2": f"{FAST} --save-every 7"})
    assert all(map(is_done, plan(saved, "quick", 2, tmp_path / "runs", tmp_path / "results")))


def test_each_experiment_has_its_own_points_of_the_hypothesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last mean of five measured losses against the score; no other experiment's points."""
    runs = plan(TINY, "quick", 2, tmp_path, tmp_path)
    for run in runs:
        finished(run, mean=0.1 * (1 + run.seed))
        losses = [9.0] * 5 + [1.0 + run.seed] * 4 + [6.0 + run.seed]
        steps = range(20, 201, 20)
        pairs = zip(steps, losses, strict=True)
        lines = [{"step": step, "bisimulation": loss, "seconds": 1.0} for step, loss in pairs]
        (run.folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.append(figure) or path)
    assert figures.draw_hypothesis(TINY, runs, tmp_path).name == "hypothesis-gridworld.png"
    (axes,) = drawn[0].axes
    points = [each.get_offsets().tolist() for each in axes.collections]
    assert points == [[[2.0, 0.1], [3.0, 0.2]]] * 2  # of CQL, and of CQL with bisimulation


def test_runs_are_trained_once_and_the_visits_drawn(tmp_path: Path) -> None:
    runs = plan(TINY, "quick", 1, tmp_path / "runs", tmp_path / "results")
    train_all(runs, jobs=2)
    reports = [saved_report(run.folder) for run in runs]
    assert all(report and report["episodes"] == 1000 for report in reports)
    before = [(run.folder / "evaluation.json").stat().st_mtime_ns for run in runs]
    left = [run for run in runs if saved_report(run.folder) is None]
    train_all(left, jobs=2)
    assert before == [(run.folder / "evaluation.json").stat().st_mtime_ns for run in runs]

    figure = tmp_path / "visits.png"
    command = [sys.executable, str(ROOT / "recipes" / "visits.py"), *[str(r.folder) for r in runs]]
    done = subprocess.run(
        [*command, "--output", str(figure), "--episodes", "20"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "cql-seed0: mean return" in done.stdout


def test_threads_of_runs_are_the_cores_there_are_for_them_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def note(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("textrl.recipes.reproducing.runs.subprocess.run", note)
    monkeypatch.setattr("textrl.recipes.reproducing.runs.os.cpu_count", lambda: 6)
    run = Run("", "cql", 0, tmp_path / "run", ("--task", "gridworld"))
    train_all([run], jobs=2)
    train_all([run], jobs=2, threads=1)
    assert [each[each.index("--threads") + 1] for each in commands] == ["3", "1"]


def test_a_run_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    run = Run("gpt2", "cql", 0, tmp_path / "runs" / "bad", ("--task", "gridwrold"))
    with pytest.raises(UserError, match=r"bad failed, see .*bad\.log: .*did you mean 'gridworld'"):
        train_all([run], jobs=1)


def test_visits_are_drawn_of_gridworld_agents_only(small_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="plays wordle, which has no map"):
        visits.draw_agents(tmp_path / "visits.png", {"agent": str(small_run)}, episodes=2)
    assert not (tmp_path / "visits.png").exists()


def test_a_run_of_other_settings_is_no_run_of_the_plan(tmp_path: Path) -> None:
    (run, *_) = plan(TINY, "quick", 1, tmp_path, tmp_path)
    assert not is_done(run)
    train_all([run], jobs=1)
    assert is_done(run)
    longer = replace(TINY, settings={"gpt2": FAST.replace("--max-steps 3", "--max-steps 4")})
    (other, *_) = plan(longer, "quick", 1, tmp_path, tmp_path)
    with pytest.raises(UserError, match=r"was trained with --max-steps 3, not 4: remove it"):
        is_done(other)
