"""One agent of several tasks beside agents of one task each: how much of their gain it keeps."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textrl.config.presets import COMBINED
from textrl.evaluation.report import over_seeds
from textrl.recipes.reproducing.experiments import (
    GREEDY,
    SAMPLED,
    Run,
    kept_file,
    look_up,
)
from textrl.recipes.reproducing.runs import machine, minutes_of, report_of

TITLE = "One agent for all tasks"
PAGE = "docs/combined.md"
TASKS = ("wordle", "gridworld", "vizdoom")
TOGETHER = "together"
METHODS = ("bc", "alone", TOGETHER)
"""Imitation, reinforcement learning, both on one task; and the agent of all tasks."""
ALONE = {
    "vizdoom": "--algo cql --episodes 600 --max-steps 2000 --filters 32,64,32 --no-hide-actions"
    " --temperature 1 --final-learning-rate 0.05"
}
"""Where the agent of all tasks learns one of them otherwise than that task's own preset does."""
DECODINGS = {"sampled": SAMPLED, "greedy": GREEDY}


def plan_together(scale: str, seeds: int, folder: Path, results: Path) -> list[Run]:
    """Every run, the longest first."""
    runs = []
    for seed in range(seeds):
        common = ("--preset", scale, "--seed", str(seed))
        here = folder / COMBINED
        name = f"{TOGETHER}-seed{seed}"
        kept = kept_file(results, COMBINED, name)
        flags: tuple[str, ...] = ("--task", ",".join(TASKS), *common)
        runs.append(Run("", TOGETHER, seed, here / name, flags, kept))
        for task in TASKS:
            own = ALONE.get(task, "").split()
            for method, more in (("alone", own), ("bc", [*own, "--algo", "bc"])):
                name = f"{method}-seed{seed}"
                kept = kept_file(results, COMBINED, task, name)
                flags = ("--task", task, *common, *more)
                runs.append(Run(task, method, seed, here / task / name, flags, kept))
    return runs


def compare_together(scale: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Of each task, played in both ways: the three agents, and the share of the gain that is kept.

    The gain is what the agent of that task alone scores above imitation.
    """
    scores: dict[str, Any] = {}
    for task in TASKS:
        scores[task] = {}
        for decoding, keys in DECODINGS.items():
            played = {method: played_by(runs, task, method, keys) for method in METHODS}
            cells = {
                method: {
                    **over_seeds([each["mean"] for each in of_method]),
                    "episodes": of_method[0]["episodes"],
                    "stderr_over_episodes": error_of_mean(of_method),
                    "by_seed": [each["mean"] for each in of_method],
                }
                for method, of_method in played.items()
            }
            scores[task][decoding] = {**cells, "kept": share_kept(cells)}
    return {
        "task": ",".join(TASKS),
        "scale": scale,
        "tasks": scores,
        "references": {
            task: report_of(next(run for run in runs if run.setting == task))["references"]
            for task in TASKS
        },
        "minutes_per_run": {
            " ".join(filter(None, kind)): statistics.fmean(
                minutes_of(run) for run in runs if (run.setting, run.method) == kind
            )
            for kind in dict.fromkeys((run.setting, run.method) for run in runs)
        },
        "minutes": sum(map(minutes_of, runs)),
        "machine": machine(),
        "made": time.strftime("%Y-%m-%d"),
    }


def played_by(
    runs: Sequence[Run], task: str, method: str, keys: tuple[str, ...]
) -> list[dict[str, Any]]:
    """How the agents of a method played a task, by seed."""
    if method == TOGETHER:
        keys = ("tasks", task, *keys)
    setting = "" if method == TOGETHER else task
    chosen = [run for run in runs if (run.setting, run.method) == (setting, method)]
    return [look_up(report_of(run), keys) for run in chosen]


def error_of_mean(played: Sequence[Mapping[str, float]]) -> float:
    """The standard error that a mean over seeds has from its episodes alone."""
    return math.hypot(*(each["stderr"] for each in played)) / len(played)


def share_kept(cells: Mapping[str, Mapping[str, float]]) -> dict[str, float] | None:
    """(together - bc) / (alone - bc) with its standard error; None where alone gains nothing.

    The error is that of the episodes, to first order; how much training differs from seed to seed
    is not in it.
    """
    bc, alone, together = (cells[method]["mean"] for method in METHODS)
    gain = alone - bc
    if gain <= 0:
        return None
    share = (together - bc) / gain
    slopes = {"bc": share - 1, "alone": -share, TOGETHER: 1.0}
    errors = [slope / gain * cells[name]["stderr_over_episodes"] for name, slope in slopes.items()]
    return {"share": share, "stderr": math.hypot(*errors)}


def together_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Header and rows of the table: a line for each task and way to play it."""
    rows = [["task", "play", "BC", "alone", "together", "kept of the gain"]]
    for task, decodings in results["tasks"].items():
        for decoding, cells in decodings.items():
            means = [f"{cells[method]['mean']:.3f}" for method in METHODS]
            kept = cells["kept"]
            told = "nothing to keep"
            if kept is not None:
                told = f"{kept['share']:.0%} +/- {1.96 * kept['stderr']:.0%}"
            rows.append([task, decoding, *means, told])
    return rows
