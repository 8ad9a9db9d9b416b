"""The record of a study: what it names is done, wherever it is read; nothing in it gets lost."""

import json
import multiprocessing
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from textrl.config.train import TrainConfig
from textrl.errors import UserError
from textrl.recipes.reproducing import reproduce as recipe
from textrl.recipes.reproducing import study_runs
from textrl.recipes.reproducing.studies import STUDIES, Play, Study, StudyRun, Table, plan_study
from textrl.recipes.reproducing.study_record import add, finished, read, record_of
from textrl.recipes.reproducing.study_runs import train_one, train_runs

TINY = Study(
    name="tmaze",
    task="tmaze",
    title="Return against how long a cue must be carried",
    axis="corridor",
    flags="--max-steps 2 --evaluate-every 1 --evaluate-episodes 4 --no-final-evaluation"
    " --batch-size 4 --layers 1 --width 16 --attention-heads 2",
    size_flag="--corridor",
    episodes=20,
    tables=(Table("methods", {"cql": "", "exact-metric": ""}, {"gpt2": ""}, (3,)),),
    differences=(("exact-metric", "cql"),),
    play=Play(10),
    seeds=1,
)
RESULT = {"mean": 0.123456, "curve": {"2": 0.5}, "seconds": 1.0}


def options_for(folder: Path, **changed: object) -> Namespace:
    """As the command line gives them."""
    options = {
        "scale": "quick",
        "only": "tmaze",
        "methods": "",
        "seeds": None,
        "output": str(folder / "results"),
        "runs": str(folder / "runs"),
        "jobs": 1,
        "plan": False,
        "finished": False,
    }
    return Namespace(**{**options, **changed})


def write_one(record: Path, run: StudyRun) -> None:
    """In a process of its own."""
    add(record, run, RESULT)


def test_a_run_is_read_as_it_was_written_and_refused_with_other_flags(tmp_path: Path) -> None:
    record = record_of("samples", tmp_path)
    assert record == tmp_path / "runs" / "samples.jsonl"
    runs = plan_study(STUDIES["samples"], 1, tmp_path, ["cql"])
    assert not finished(runs, record)
    for run in (runs[2], runs[0]):
        add(record, run, RESULT)
    found = finished(runs, record)
    assert [*found] == [runs[0], runs[2]] and found[runs[0]]["mean"] == 0.1235
    names = [json.loads(line)["run"] for line in record.read_text().splitlines()]
    assert (
        names == sorted(names) == ["methods/gpt2/cql-100-seed100", "methods/gpt2/cql-500-seed100"]
    )
    record.write_text(record.read_text().replace("--max-steps 1200", "--max-steps 1201", 1))
    with pytest.raises(UserError, match="seed100 was made with other settings: remove its line"):
        finished(runs, record)
    record.write_text(record.read_text() + "{\n")
    with pytest.raises(UserError, match=r"samples\.jsonl:3 is not a finished run"):
        read(record)


def test_lines_of_others_are_kept(tmp_path: Path) -> None:
    record = record_of("samples", tmp_path)
    runs = plan_study(STUDIES["samples"], 5, tmp_path, ["cql"])[:6]
    record.parent.mkdir()
    record.write_text('{"run": "methods/gpt2/unheard-of-1-seed9", "flags": ""}\n')
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write_one, args=(record, run)) for run in runs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(read(record)) == 7 and len(finished(runs, record)) == 6


def test_a_study_goes_on_from_the_record_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here, then on another machine that has nothing but the results."""
    monkeypatch.setitem(STUDIES, "tmaze", TINY)
    trained = []

    def train_here(runs: list[StudyRun], jobs: int, record: Path) -> None:
        for run in runs:
            train_one(run, record)
            trained.append(run.method)

    monkeypatch.setattr(recipe, "train_runs", train_here)
    here, there = tmp_path / "here", tmp_path / "there"
    recipe.reproduce(options_for(here, methods="cql"))
    assert "0 of 1 runs are done" in capsys.readouterr().out and trained == ["cql"]
    assert not list((here / "runs").rglob("run"))  # what it worked with is gone
    shutil.copytree(here / "results", there / "results")
    recipe.reproduce(options_for(there, plan=True))
    told = capsys.readouterr().out
    assert "1 of 2 runs are done" in told and "exact-metric-3-seed100" in told
    recipe.reproduce(options_for(there))
    assert trained == ["cql", "exact-metric"]
    recipe.reproduce(options_for(there))
    assert "2 of 2 runs are done" in capsys.readouterr().out and len(trained) == 2
    results = json.loads((there / "results" / "tmaze.json").read_text())
    assert results["runs"] == {"done": 2, "planned": 2}
    result = read(record_of("tmaze", there / "results"))["methods/gpt2/cql-3-seed100"]
    assert [*result["curve"]] == ["1", "2"] and 0 <= result["mean"] <= 1
    assert (there / "results" / "tmaze.png").is_file()


def test_half_a_summary_is_not_taken_for_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = plan_study(TINY, 1, tmp_path / "runs", ["exact-metric"])
    monkeypatch.setattr(study_runs, "SUMMARY_STEPS", 2)
    give = study_runs.give_summary

    def give_half(name: str, run: TrainConfig, steps: int, folder: Path) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{")
        raise KeyboardInterrupt

    monkeypatch.setattr(study_runs, "give_summary", give_half)
    with pytest.raises(KeyboardInterrupt):
        train_one(run, tmp_path / "record.jsonl")
    monkeypatch.setattr(study_runs, "give_summary", give)
    train_one(run, tmp_path / "record.jsonl")
    assert [*read(tmp_path / "record.jsonl")] == [run.name]


@pytest.mark.skipif(sys.platform != "linux", reason="a process that is forked can be given a plan")
def test_workers_end_with_a_study_that_is_killed(tmp_path: Path) -> None:
    (run,) = plan_study(TINY, 1, tmp_path / "runs", ["cql"])
    long = replace(run, flags=(*run.flags, "--max-steps", "1000000"))
    study = multiprocessing.get_context("fork").Process(
        target=train_runs, args=([long], 1, tmp_path / "record.jsonl")
    )
    study.start()
    wait_for(lambda: (run.folder / "run" / "metrics.jsonl").exists())
    workers = psutil.Process(study.pid).children()
    assert workers
    study.kill()
    study.join()
    wait_for(lambda: not any(is_alive(worker) for worker in workers))


def wait_for(condition: Callable[[], bool], seconds: float = 600.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_the_records_that_are_tracked_are_of_todays_plans() -> None:
    results = Path(__file__).parents[2] / "results"
    for study in STUDIES.values():
        runs = plan_study(study, study.seeds, Path("runs"), ())
        record = record_of(study.name, results)
        assert {run.name for run in finished(runs, record)} == {*read(record)}
