"""The runs of an experiment: train those that are missing, and read what finished ones left."""

import hashlib
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from textrl.config.command_line import parse_config
from textrl.config.options import flag
from textrl.config.presets import SHARED, flat_settings, load_config
from textrl.config.train import CONFIG_FILE
from textrl.data.progress import progress_bar
from textrl.errors import UserError
from textrl.evaluation.report import write_json
from textrl.recipes.reproducing.experiments import Run
from textrl.sharing.publish import saved_report
from textrl.training.metrics import METRICS_FILE

FREE = [name for name, option in SHARED.items() if option.is_free]
UNIMPORTANT = (*FREE, "threads", "deterministic", "bisim_every")
"""Settings that do not change what a run's agent becomes, beyond the last bits."""
SMOOTH = 100
"""Training steps over which a curve averages."""


def train_all(runs: Sequence[Run], jobs: int, threads: int | None = None) -> None:
    """Train the runs, several at once; one that was interrupted goes on where it was.

    threads: of each; None = what all of them together have cores for.
    """
    threads = threads or max(1, (os.cpu_count() or 1) // jobs)

    def train(run: Run) -> None:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        log = run.folder.with_name(f"{run.folder.name}.log")
        command = [
            sys.executable,
            "-m",
            "textrl.cli",
            "train",
            *run.flags,
            "--output",
            str(run.folder),
        ]
        command += ["--threads", str(threads), "--resume"]
        with log.open("w") as file:
            if subprocess.run(command, stdout=file, stderr=file, check=False).returncode:
                last = (log.read_text().strip().splitlines() or ["no output"])[-1]
                raise UserError(f"{run.folder} failed, see {log}: {last}")
        write_runs([run])

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for _ in progress_bar(iterable=pool.map(train, runs), total=len(runs), unit="run"):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)  # what has not begun need not begin
            raise


def is_done(run: Run) -> bool:
    """Whether the run has been trained and judged, with the settings that it has today."""
    begun = run.folder / CONFIG_FILE
    if begun.is_file():
        today = flat_settings(parse_config(run.flags, "", ""))
        for name, then in flat_settings(load_config(begun)).items():
            owner, _, own_name = name.rpartition(".")
            if own_name not in UNIMPORTANT and today.get(name) != then:
                raise UserError(
                    f"{run.folder} was trained with {flag(own_name, owner)} {then}, not"
                    f" {today.get(name)}: remove it, or choose another --runs"
                )
    return has_agent(run) or kept_record(run) is not None


def has_agent(run: Run) -> bool:
    """Whether its agent is there to play, and not only what was written down of it."""
    return saved_report(run.folder) is not None


def report_of(run: Run) -> dict[str, Any]:
    """The evaluation of a finished run, and how it was made."""
    record = new_record(run) if has_agent(run) else kept_record(run)
    if record is None:
        raise UserError(f"{run.folder} has no evaluation of its weights: remove it and start again")
    return record


def new_record(run: Run) -> dict[str, Any]:
    """What is worth keeping of a run whose folder is there."""
    lines = [json.loads(line) for line in (run.folder / METRICS_FILE).read_text().splitlines()]
    return {
        "flags": shlex.join(run.flags),
        "settings": settings_digest(run),
        "minutes": round(float(lines[-1]["seconds"]) / 60, 2),
        "bisimulation_curve": bisimulation_curve(lines),
        **(saved_report(run.folder) or {}),
    }


def kept_record(run: Run) -> dict[str, Any] | None:
    """What another machine has left of this run in results/runs, if its settings are today's."""
    if run.kept is None or not run.kept.is_file():
        return None
    record: dict[str, Any] = json.loads(run.kept.read_text())
    return record if record.get("settings") == settings_digest(run) else None


def settings_digest(run: Run) -> str:
    """Of all that decides what a run's agent becomes."""
    settings = flat_settings(parse_config(run.flags, "", ""))
    important = {
        name: value
        for name, value in settings.items()
        if name.rpartition(".")[2] not in UNIMPORTANT
    }
    return hashlib.sha256(json.dumps(important, sort_keys=True).encode()).hexdigest()[:16]


def write_runs(runs: Sequence[Run]) -> None:
    """What each run was and how its agent plays, for later tables on any machine."""
    for run in runs:
        if run.kept is not None:
            run.kept.parent.mkdir(parents=True, exist_ok=True)
            write_json(run.kept, report_of(run))


def minutes_of(run: Run) -> float:
    """How long a finished run has trained, evaluations on the way included."""
    return float(report_of(run)["minutes"])


def bisimulation_curve(lines: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Steps and the loss there, each a mean of the measurements in the steps before."""
    groups: dict[int, list[float]] = {}
    for line in lines:
        if "bisimulation" in line:
            end = -(-line["step"] // SMOOTH) * SMOOTH
            groups.setdefault(end, []).append(line["bisimulation"])
    return [[float(step), statistics.fmean(losses)] for step, losses in groups.items()]


def machine() -> dict[str, Any]:
    """What the runs are made on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
