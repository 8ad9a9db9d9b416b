"""The study of the maze: one change at a time, on one dataset, judged in both tasks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.frame_task import SIDE, FrameTask
from textrl.config.command_line import parse_config
from textrl.config.presets import flat_settings
from textrl.envs.vizdoom.task import VizdoomTask
from textrl.model.network import TextRLModel
from textrl.recipes.reproducing.studies import MAZE, STUDIES, Play, StudyRun, plan_study
from textrl.recipes.reproducing.study_figure import draw_study
from textrl.recipes.reproducing.study_results import compare_study, study_rows
from textrl.recipes.reproducing.study_runs import played
from textrl.tasks.task import Reference

STUDY = STUDIES["maze"]


def settings_of(run: StudyRun) -> dict[str, Any]:
    """As a run of today would be begun."""
    return flat_settings(parse_config(run.flags, "", ""))


def changed(run: StudyRun, preset: StudyRun) -> dict[str, Any]:
    theirs = settings_of(preset)
    return {name: x for name, x in settings_of(run).items() if x != theirs[name]}


def test_methods_differ_from_the_preset_in_what_they_are_named_for(tmp_path: Path) -> None:
    runs = [run for run in plan_study(STUDY, 1, tmp_path, ()) if run.size == 2400]
    by_name = {run.method: run for run in runs}
    preset = by_name.pop("preset")
    assert {name: changed(run, preset) for name, run in by_name.items()} == {
        "returns": {"value": "return"},
        "returns-far": {"value": "return", "discount": 0.999},
        "sees-actions": {"hide_actions": False},
        "one-step-advantages": {"advantage_steps": 1},
        "still-frames": {"shift_frames": 0},
        "window-32": {"window": 32, "batch_size": 24},
        "window-64": {"window": 64, "batch_size": 12},
        "window-256": {"window": 256, "context": 514, "batch_size": 3},
    }
    sizes = {(each["window"], each["batch_size"]) for each in map(settings_of, runs)}
    assert {window * batch for window, batch in sizes} == {128 * 6}


def test_all_seeds_of_a_size_learn_from_the_same_data(tmp_path: Path) -> None:
    runs = plan_study(STUDY, 3, tmp_path, ())
    assert len(runs) == 3 * (len(MAZE) + 2)
    assert {run.seed for run in runs} == {100, 101, 102}
    assert {run.data_seed for run in runs} == {100}
    assert {run.data_seed for run in plan_study(STUDIES["samples"], 2, tmp_path, ())} >= {100, 101}


def test_play_is_sampled_where_the_study_says_so(
    make_model: Callable[..., TextRLModel],
) -> None:
    """The greedy agent does the same whatever the seed; samples differ."""
    task = FrameTask(spare=20)
    model = make_model(task.language, frame_shape=(SIDE, SIDE), patches=1, window=4)
    for sample in (False, True):
        found = [played(task, model, Play(5, sample), seed)["moves"] for seed in range(4)]
        assert (len(set(found)) > 1) == sample


def test_results_have_both_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    players = {"navigator": Reference(0.97, 0.0, "200 simulated episodes")}
    monkeypatch.setattr(VizdoomTask, "references", lambda self, seed: players)
    found = {}
    for run in plan_study(STUDY, 2, tmp_path, ["preset", "returns"]):
        mean = 0.5 + 0.1 * (run.seed - 100) + 0.2 * (run.method == "preset")
        curve = {"1250": 0.0, "2500": 0.0, "3750": 0.1, "5000": mean}
        hard = {"mean": mean - 0.6, "stderr": 0.1}
        found[run] = {"mean": mean, "seconds": 9.0, "curve": curve, "variants": {"hard": hard}}
    results = compare_study(STUDY, found, 30)
    assert results["optimum"] == 0.97 and results["variants"] == ["hard"]
    for key, mean in (("methods", 0.75), ("methods, hard", 0.15)):
        cell = results[key]["preset"]["gpt2"]["2400"]
        assert (cell["mean"], cell["seeds"]) == (pytest.approx(mean), 2)
    for key in ("differences", "differences, hard"):
        assert results[key]["returns - preset"]["gpt2"]["2400"]["mean"] == pytest.approx(-0.2)
    rows = {row[0]: row[2:] for row in study_rows(STUDY, results)}
    assert rows["preset (hard)"][-1].startswith("0.15") and rows["navigator"][-1] == "0.97"
    assert rows["returns (hard)"][0] == ""  # other sizes are the preset's alone
    assert draw_study(STUDY, results, tmp_path).is_file()
