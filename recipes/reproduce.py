"""Remake the experiments: plan -> train what is missing -> compare -> results/."""

import json
import os
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

from recipes.experiments import EXPERIMENTS, GREEDY, Experiment, Run, look_up, plan
from recipes.figures import draw, draw_hypothesis
from recipes.runs import is_done, machine, minutes_of, report_of, train_all, write_runs
from recipes.summary import table_rows, write_summary
from recipes.theory import PARTS
from recipes.together import compare_together, plan_together, together_rows
from textrl.config import COMBINED
from textrl.errors import UserError, run_recipe
from textrl.parser import make_parser
from textrl.publish import saved_report
from textrl.report import over_seeds, table, write_json

EXAMPLE = "python recipes/reproduce.py --only gridworld --seeds 5"
MEASURE_THEORY = Path(__file__).parent / "theory.py"
THEORY = "theory"
SCORES = ("mean", "stderr")


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Remake the paper's tables and figures.", EXAMPLE)
    parser.add_argument(
        "--scale", default="quick", choices=("quick", "paper"), help="which presets to train"
    )
    parser.add_argument(
        "--only", choices=(*EXPERIMENTS, COMBINED, THEORY), help="one experiment (default: all)"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="runs of each method (default: 5; 3 of vizdoom and twenty, 1 of combined)",
    )
    parser.add_argument("--output", default="results", metavar="DIR", help="where results go")
    parser.add_argument("--runs", default="runs/reproduce", metavar="DIR", help="where runs go")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once"
    )
    parser.add_argument("--plan", action="store_true", help="show what is left to do, and stop")
    parser.add_argument(
        "--finished", action="store_true", help="train nothing: compare the runs that are done"
    )
    options = parser.parse_args()
    for name in ("seeds", "jobs"):
        if (getattr(options, name) or 1) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    names = [*EXPERIMENTS, *[COMBINED] * (options.scale == "quick"), THEORY]
    if options.only and options.only not in names:
        raise UserError(f"--only {options.only} --scale paper: the paper has no agent of all tasks")
    transformers.utils.logging.disable_progress_bar()

    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    folder = Path(options.runs) / options.scale
    for name in [options.only] if options.only else names:
        if name == THEORY:
            if not options.finished:
                reproduce_theory(folder, output, options.plan)
            continue
        experiment = EXPERIMENTS.get(name)
        if experiment is None:
            runs = plan_together(options.scale, options.seeds or 1, folder)
        else:
            seeds = options.seeds or experiment.seeds
            runs = plan(experiment, options.scale, seeds, folder)
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
            train_all(left, options.jobs)
        write_runs(name, runs, output / "runs")
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
    left = [part for part in PARTS if part not in done]
    agent = runs / "gridworld" / "gpt2" / "cql+bisim-seed0"
    has_agent = saved_report(agent) is not None and not (folder / "theory-agent.json").is_file()
    print(f"theory: {len(PARTS) - len(left)} of {len(PARTS)} parts are done")
    if only_plan:
        print("\n".join(f"  {part}" for part in left))
        return
    for flags in [*(("--only", part) for part in left), *([("--agent", str(agent))] * has_agent)]:
        command = [sys.executable, str(MEASURE_THEORY), *flags, "--output", str(folder)]
        if subprocess.run(command, check=False).returncode:
            raise UserError(f"the theory failed: {shlex.join(command)}")
    for file in sorted(folder.glob("theory*")):
        shutil.copy(file, output)
        print(f"-> {output / file.name}")


def compare(experiment: Experiment, scale: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Means over seeds with intervals, and the differences seed by seed, of the runs there are."""
    reports = {(run.setting, run.method, run.seed): report_of(run) for run in runs}
    seeds = {
        method: sorted({run.seed for run in runs if run.method == method})
        for method in experiment.methods
    }
    methods = [method for method in experiment.methods if seeds[method]]
    first = report_of(runs[0])

    def by_seed(column: str, method: str, figure: str = "mean") -> dict[int, float]:
        setting, keys = experiment.columns[column]
        return {
            seed: look_up(reports[setting, method, seed], keys)[figure] for seed in seeds[method]
        }

    def cell(column: str, method: str) -> dict[str, Any]:
        setting, keys = experiment.columns[column]
        means = by_seed(column, method)
        played = look_up(reports[setting, method, min(means)], keys)
        # How the episodes went besides their scores, as far as it can be averaged: how long it took
        # those that succeeded, for instance, is unknown of a seed where none did.
        figures = {name: by_seed(column, method, name).values() for name in played}
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
            "published": experiment.paper(column, method),
        }

    def difference(column: str, method: str, other: str) -> dict[str, Any]:
        ours, theirs = by_seed(column, method), by_seed(column, other)
        return over_seeds([ours[seed] - theirs[seed] for seed in ours if seed in theirs])

    return {
        "task": experiment.task,
        "scale": scale,
        "methods": {
            method: {column: cell(column, method) for column in experiment.columns}
            for method in methods
        },
        "differences": {
            f"{ours} - {theirs}": {
                column: difference(column, ours, theirs) for column in experiment.columns
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


if __name__ == "__main__":
    run_recipe(main)
