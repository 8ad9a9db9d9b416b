"""The runs of an experiment: train those that are missing, and read what finished ones left."""

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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


def train_all(runs: Sequence[Run], jobs: int) -> None:
    """Train the runs, several at once; one that was interrupted goes on where it was."""
    threads = max(1, (os.cpu_count() or 1) // jobs)

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
    return saved_report(run.folder) is not None


def report_of(run: Run) -> dict[str, Any]:
    """The evaluation of a finished run."""
    report = saved_report(run.folder)
    if report is None:
        raise UserError(f"{run.folder} has no evaluation of its weights: remove it and start again")
    return report


def write_runs(experiment: str, runs: Sequence[Run], folder: Path) -> None:
    """What each run was and how its agent plays: EXPERIMENT[-SETTING]-METHOD-seedN.json."""
    folder.mkdir(exist_ok=True)
    for run in runs:
        named = [experiment, run.setting, f"{run.method}-seed{run.seed}.json"]
        how = {"flags": shlex.join(run.flags), "minutes": round(minutes_of(run), 2)}
        write_json(folder / "-".join(filter(None, named)), {**how, **report_of(run)})


def minutes_of(run: Run) -> float:
    """How long a finished run has trained, evaluations on the way included."""
    *_, last = (run.folder / METRICS_FILE).read_text().splitlines()
    return float(json.loads(last)["seconds"]) / 60


def machine() -> dict[str, Any]:
    """What the runs are made on."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
