"""Remake the paper's experiments: plan -> train what is missing -> compare -> results/."""

import operator
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from tqdm import tqdm

from recipes.visits import draw_agents
from textrl.config import make_parser
from textrl.errors import UserError, run_recipe
from textrl.publish import saved_report
from textrl.report import over_seeds, table, write_json

EXAMPLE = "python recipes/reproduce.py --only gridworld --seeds 5"
TRAIN = Path(__file__).parent / "train.py"
SCORES = ("mean", "stderr")


@dataclass(frozen=True)
class Experiment:
    """One table of the paper: every method on every cell, as flags of recipes/train.py."""

    task: str
    cells: dict[str, str]
    methods: dict[str, str]
    published: dict[str, float]
    """The paper's figures, by method."""
    differences: tuple[tuple[str, str], ...]
    """Which methods are compared with which, seed by seed."""


@dataclass(frozen=True)
class Run:
    """One training run of an experiment."""

    cell: str
    method: str
    seed: int
    folder: Path
    flags: tuple[str, ...]


RNN = "--backbone rnn --width 128 --representation-hidden 256"  # appendix B's encoder
EXPERIMENTS = {
    "gridworld": Experiment(
        task="gridworld",
        cells={"gpt2": "--backbone gpt2", "rnn": RNN},
        methods={
            "filtered-bc": "--algo filtered-bc",
            "cql": "--algo cql",
            "cql+bisim": "--algo cql --bisim 0.05",
        },
        published={"filtered-bc": 0.28, "cql": 0.19, "cql+bisim": 0.68},
        differences=(("cql+bisim", "cql"), ("cql", "filtered-bc")),
    ),
}


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Remake the paper's tables and figures.", EXAMPLE)
    parser.add_argument(
        "--scale", default="quick", choices=("quick", "paper"), help="which presets to train"
    )
    parser.add_argument("--only", choices=tuple(EXPERIMENTS), help="one experiment (default: all)")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs of each method")
    parser.add_argument("--output", default="results", metavar="DIR", help="where results go")
    parser.add_argument("--runs", default="runs/reproduce", metavar="DIR", help="where runs go")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once"
    )
    parser.add_argument("--plan", action="store_true", help="show what is left to do, and stop")
    options = parser.parse_args()
    for name in ("seeds", "jobs"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    transformers.utils.logging.disable_progress_bar()

    for name in [options.only] if options.only else EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        runs = plan(experiment, options.scale, options.seeds, Path(options.runs) / options.scale)
        left = [run for run in runs if saved_report(run.folder) is None]
        print(f"{name}, {options.scale}: {len(runs) - len(left)} of {len(runs)} runs are done")
        if options.plan:
            print("\n".join(f"  {run.folder}" for run in left))
            continue
        if left:
            train_all(left, options.jobs)
        output = Path(options.output)
        output.mkdir(parents=True, exist_ok=True)
        results = compare(experiment, options.scale, runs)
        write_json(output / f"{name}.json", results)
        print(results_table(experiment, results))
        for cell in experiment.cells:
            chosen = [run for run in runs if run.cell == cell and run.seed == 0]
            figure = output / f"{name}-visits-{cell}.png"
            draw_agents(figure, {run.method: str(run.folder) for run in chosen})
            print(f"-> {figure}")


def plan(experiment: Experiment, scale: str, seeds: int, folder: Path) -> list[Run]:
    """Every run of the experiment, the first seed of all methods first."""
    return [
        Run(
            cell,
            method,
            seed,
            folder / experiment.task / cell / f"{method}-seed{seed}",
            (
                *("--task", experiment.task, "--preset", scale, "--seed", str(seed)),
                *of_cell.split(),
                *of_method.split(),
            ),
        )
        for seed in range(seeds)
        for cell, of_cell in experiment.cells.items()
        for method, of_method in experiment.methods.items()
    ]


def train_all(runs: Sequence[Run], jobs: int) -> None:
    """Train the runs, several at once; one that was interrupted goes on where it was."""
    threads = max(1, (os.cpu_count() or 1) // jobs)

    def train(run: Run) -> None:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        log = run.folder.with_name(f"{run.folder.name}.log")
        command = [sys.executable, str(TRAIN), *run.flags, "--output", str(run.folder)]
        command += ["--threads", str(threads), "--resume"]
        with log.open("w") as file:
            if subprocess.run(command, stdout=file, stderr=file, check=False).returncode:
                last = (log.read_text().strip().splitlines() or ["no output"])[-1]
                raise UserError(f"{run.folder} failed, see {log}: {last}")

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for _ in tqdm(pool.map(train, runs), total=len(runs), unit="run"):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what has not begun need not begin
            raise


def report_of(run: Run) -> dict[str, Any]:
    """The evaluation of a finished run."""
    report = saved_report(run.folder)
    if report is None:
        raise UserError(f"{run.folder} has no evaluation of its weights: remove it and start again")
    return report


def compare(experiment: Experiment, scale: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Means over seeds with intervals, and the differences seed by seed."""
    reports = {(run.cell, run.method, run.seed): report_of(run) for run in runs}
    seeds = sorted({run.seed for run in runs})
    first = report_of(runs[0])
    # How the episodes went besides their scores, as far as it can be averaged.
    headline = first["decodings"][first["decoding"]]
    kinds = [n for n, value in headline.items() if type(value) is float and n not in SCORES]

    def by_seed(cell: str, method: str, figure: str = "mean") -> list[float]:
        return [reports[cell, method, seed][figure] for seed in seeds]

    return {
        "task": experiment.task,
        "scale": scale,
        "decoding": first["decoding"],
        "methods": {
            method: {
                cell: {
                    **over_seeds(by_seed(cell, method)),
                    "episodes": first["episodes"],
                    "by_seed": by_seed(cell, method),
                    "metrics": {
                        kind: statistics.fmean(by_seed(cell, method, kind)) for kind in kinds
                    },
                }
                for cell in experiment.cells
            }
            for method in experiment.methods
        },
        "differences": {
            f"{ours} - {theirs}": {
                cell: over_seeds(
                    list(map(operator.sub, by_seed(cell, ours), by_seed(cell, theirs)))
                )
                for cell in experiment.cells
            }
            for ours, theirs in experiment.differences
        },
        "published": experiment.published,
        "references": first["references"],
        "optimum": first["references"].get("optimal"),
        "made": time.strftime("%Y-%m-%d"),
    }


def results_table(experiment: Experiment, results: dict[str, Any]) -> str:
    """Ours beside the paper's."""

    def shown(cell: dict[str, float]) -> str:
        return f"{cell['mean']:.3f} ({cell['low']:.3f} to {cell['high']:.3f})"

    rows = [
        [method, *map(shown, of_cell.values()), f"{experiment.published[method]:.2f}"]
        for method, of_cell in results["methods"].items()
    ]
    rows += [
        [name, *map(shown, of_cell.values()), ""]
        for name, of_cell in results["differences"].items()
    ]
    rows += [
        [name, *[f"{score:.3f}"] * len(experiment.cells), ""]
        for name, score in results["references"].items()
    ]
    return table(["method", *experiment.cells, "paper"], rows)


if __name__ == "__main__":
    run_recipe(main)
