"""Remake the experiments: plan -> train what is missing -> compare -> results/."""

import argparse
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from textrl.config.presets import COMBINED
from textrl.errors import UserError, unknown
from textrl.evaluation.report import over_seeds, table, write_json
from textrl.recipes.reproducing.all_tasks import compare_together, plan_together, together_rows
from textrl.recipes.reproducing.experiments import (
    EXPERIMENTS,
    GREEDY,
    OPE,
    PEOPLE,
    THEORY,
    THEORY_PARTS,
    Experiment,
    Run,
    look_up,
    plan,
)
from textrl.recipes.reproducing.figures import draw, draw_hypothesis
from textrl.recipes.reproducing.ope import calibrate
from textrl.recipes.reproducing.people import Where, study_people
from textrl.recipes.reproducing.runs import (
    is_done,
    machine,
    minutes_of,
    report_of,
    train_all,
    write_runs,
)
from textrl.recipes.reproducing.studies import STUDIES, Study, plan_study
from textrl.recipes.reproducing.study_figure import draw_study
from textrl.recipes.reproducing.study_record import finished, record_of
from textrl.recipes.reproducing.study_results import compare_study, study_rows
from textrl.recipes.reproducing.study_runs import train_runs
from textrl.recipes.reproducing.summary import table_rows, write_summary
from textrl.sharing.publish import saved_report

SCORES = ("mean", "stderr")


def reproduce(options: argparse.Namespace) -> None:
    """Do what the command line of recipes/reproduce.py asks for."""
    transformers.utils.logging.disable_progress_bar()
    is_quick = options.scale == "quick"
    names = [*EXPERIMENTS, *[COMBINED, OPE] * is_quick, *(STUDIES if is_quick else ()), THEORY]
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    folder = Path(options.runs) / options.scale
    for name in [options.only] if options.only else names:
        if name == THEORY:
            if not options.finished:
                reproduce_theory(folder, output, options.plan)
            continue
        if name in STUDIES:
            reproduce_study(STUDIES[name], options, folder, output)
            continue
        if name in PEOPLE:
            where = Where(Path(options.conversations), options.backbone, folder, output)
            seeds = options.seeds or 3
            study_people(name, where, seeds, options.jobs, options.plan, options.threads)
            continue
        if name == OPE:
            calibrate(folder, output, options.plan, options.finished)
            continue
        experiment = EXPERIMENTS.get(name)
        if experiment is None:
            runs = plan_together(options.scale, options.seeds or 1, folder, output)
        else:
            seeds = options.seeds or experiment.seeds
            runs = plan(experiment, options.scale, seeds, folder, output)
        left = [run for run in runs if not is_done(run)]
        print(f"{name}, {options.scale}: {len(runs) - len(left)} of {len(runs)} runs are done")
        if options.plan:
            print("\n".join(f"  {run.folder}" for run in left))
            continue
        if options.finished:
            runs = comparable(runs, left, name)
            if not runs:  # what earlier runs have left in results/ stays
                continue
        elif left:
            train_all(left, options.jobs, options.threads)
        write_runs(runs)
        if experiment is None:
            results = compare_together(options.scale, runs)
            rows = together_rows(results)
            figures = []
        else:
            results = compare(experiment, options.scale, runs)
            rows = table_rows(experiment, results)
            figures = [*draw(experiment, runs, output), draw_hypothesis(experiment, runs, output)]
        write_json(output / f"{name}.json", results)
        print(table(rows[0], rows[1:]))
        for figure in figures:
            print(f"-> {figure}")
    if not options.plan:
        print(f"-> {write_summary(output)}")


def reproduce_study(study: Study, options: argparse.Namespace, runs: Path, output: Path) -> None:
    """Train what the record of a study lacks, and compare what it then has."""
    methods = [name for name in options.methods.split(",") if name]
    known = {name for table in study.tables for name in table.methods}
    for name in methods:
        if name not in known:
            raise unknown("method", name, known)
    record = record_of(study.name, output)
    # Whatever is trained now: all runs that there are get reported.
    every = plan_study(study, max(options.seeds or 0, study.seeds), runs, ())
    chosen = plan_study(study, options.seeds or study.seeds, runs, methods)
    done = finished(every, record)
    left = [run for run in chosen if run not in done]
    print(f"{study.name}: {len(chosen) - len(left)} of {len(chosen)} runs are done")
    if options.plan:
        print("\n".join(f"  {run.folder}" for run in left))
        return
    if left and not options.finished:
        train_runs(left, options.jobs, record)
        done = finished(every, record)
    if not done:
        return
    results = compare_study(study, done, len(every))
    write_json(output / f"{study.name}.json", results)
    rows = study_rows(study, results)
    print(table(rows[0], rows[1:]))
    print(f"-> {draw_study(study, results, output)}")


def comparable(runs: Sequence[Run], left: Sequence[Run], name: str) -> list[Run]:
    """The runs whose method is done in every setting with that seed, without those that are left.

    The agent of all tasks is compared with all the others: there a seed is done as a whole.
    """
    missing = {(run.method, run.seed) for run in left}
    seeds = {run.seed for run in left} if name == COMBINED else set()
    return [r for r in runs if (r.method, r.seed) not in missing and r.seed not in seeds]


def reproduce_theory(runs: Path, output: Path, only_plan: bool) -> None:
    """Measure the parts of the theory that are missing, and a gridworld agent if there is one."""
    folder = runs / THEORY
    numbers = folder / "theory.json"
    done = json.loads(numbers.read_text()) if numbers.is_file() else {}
    left = [part for part in THEORY_PARTS if part not in done]
    agent = runs / "gridworld" / "gpt2" / "cql+bisim-seed0"
    has_agent = saved_report(agent) is not None and not (folder / "theory-agent.json").is_file()
    print(f"theory: {len(THEORY_PARTS) - len(left)} of {len(THEORY_PARTS)} parts are done")
    if only_plan:
        print("\n".join(f"  {part}" for part in left))
        return
    for flags in [*(("--only", part) for part in left), *([("--agent", str(agent))] * has_agent)]:
        command = [sys.executable, "-m", "textrl.cli", THEORY, *flags, "--output", str(folder)]
        if subprocess.run(command, check=False).returncode:
            raise UserError(f"the theory failed: {shlex.join(command)}")
    for file in sorted(folder.glob("theory*")):
        shutil.copy(file, output)
        print(f"-> {output / file.name}")


class Table:
    """What the reports of an experiment's runs say, by column, method and seed."""

    def __init__(self, experiment: Experiment, runs: Sequence[Run]) -> None:
        self._experiment = experiment
        self._reports = {(run.setting, run.method, run.seed): report_of(run) for run in runs}
        self.seeds = {
            method: sorted({run.seed for run in runs if run.method == method})
            for method in experiment.methods
        }

    def by_seed(self, column: str, method: str, figure: str = "mean") -> dict[int, float]:
        """A figure of each seed's run."""
        setting, keys = self._experiment.columns[column]
        return {
            seed: look_up(self._reports[setting, method, seed], keys)[figure]
            for seed in self.seeds[method]
        }

    def cell(self, column: str, method: str) -> dict[str, Any]:
        """One cell of the table, with what else is known of its runs."""
        setting, keys = self._experiment.columns[column]
        means = self.by_seed(column, method)
        played = look_up(self._reports[setting, method, min(means)], keys)
        # How the episodes went besides their scores, as far as it can be averaged: how long it took
        # those that succeeded, for instance, is unknown of a seed where none did.
        figures = {name: self.by_seed(column, method, name).values() for name in played}
        kinds = [
            name
            for name, values in figures.items()
            if name not in SCORES and all(type(x) is float for x in values)
        ]
        return {
            **over_seeds(list(means.values())),
            "episodes": played["episodes"],
            "stderr_over_episodes": statistics.fmean(figures["stderr"]),
            "by_seed": list(means.values()),
            "metrics": {kind: statistics.fmean(figures[kind]) for kind in kinds},
            "published": self._experiment.paper(column, method),
        }

    def difference(self, column: str, method: str, other: str) -> dict[str, Any]:
        """How much better a method is than another, seed by seed."""
        ours, theirs = self.by_seed(column, method), self.by_seed(column, other)
        return over_seeds([ours[seed] - theirs[seed] for seed in ours if seed in theirs])


def compare(experiment: Experiment, scale: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Means over seeds with intervals, and the differences seed by seed, of the runs there are."""
    found = Table(experiment, runs)
    seeds = found.seeds
    methods = [method for method in experiment.methods if seeds[method]]
    first = report_of(runs[0])
    return {
        "task": experiment.task,
        "scale": scale,
        "methods": {
            method: {column: found.cell(column, method) for column in experiment.columns}
            for method in methods
        },
        "differences": {
            f"{ours} - {theirs}": {
                column: found.difference(column, ours, theirs) for column in experiment.columns
            }
            for ours, theirs in experiment.differences
            if {*seeds[ours]} & {*seeds[theirs]}
        },
        "references": {
            column: look_up(first, keys[: -len(GREEDY)])["references"]
            for column, (_, keys) in experiment.columns.items()
        },
        "optimum": first["references"].get(experiment.best_player),
        "minutes_per_run": {
            method: statistics.fmean(minutes_of(run) for run in runs if run.method == method)
            for method in methods
        },
        "minutes": sum(map(minutes_of, runs)),
        "machine": machine(),
        "made": time.strftime("%Y-%m-%d"),
    }
