"""How long it takes to a score: minutes, steps, episodes."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from accelerate.utils import set_seed

from textrl.config.presets import configure
from textrl.errors import UserError
from textrl.evaluation.judge import Watch
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.loop import Hooks, train_loop
from textrl.training.run import start
from textrl.training.units import value_units


class Reached(Exception):
    """The score is there: nothing is left to train."""


def time_to(
    name: str, preset: str, backbone: str, score: float, every: int, seed: int, threads: int
) -> dict[str, float]:
    """Train as the preset does until greedy play has this score; every: steps between evaluations.

    The minutes are of training and evaluation, without the dataset. The learning rate falls as it
    does in the whole run.
    """
    transformers.utils.logging.disable_progress_bar()
    changes: dict[str, Any] = {
        "evaluate_every": every,
        "seed": seed,
        "threads": threads,
    }
    run = configure(name, preset, backbone=backbone, **changes)
    run_size = sum(member.batch_size for member in run.sized_members.values())
    members = Members.of_run(run)
    watch = Watch(members, run)
    found: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        accelerator = start(run, Path(folder))
        batches, _ = members.batches(run)
        units = value_units(members, run, None)
        set_seed(run.seed)
        model = new_model(members, run, units)

        def evaluate(model: TextRLModel) -> dict[str, float]:
            scores = watch(model)
            found.append((model.config.steps, next(iter(scores.values()))))
            if found[-1][1] >= score:
                raise Reached
            return scores

        hooks = Hooks(evaluate=evaluate, export=lambda model, folder: None)
        began, began_cpu = time.perf_counter(), time.process_time()
        try:
            loss = make_loss(run, units)
            train_loop(run, accelerator, model, loss, batches, hooks, Path(folder))
        except Reached:
            pass
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - began_cpu
    steps, last = found[-1]
    if last < score:
        best = max(value for _, value in found)
        raise UserError(f"--until {score}: not reached in {steps} steps, the best was {best:.3f}")
    return {
        "until_score": score,
        "score": last,
        "minutes": seconds / 60,
        "cpu_minutes": cpu_seconds / 60,
        "steps": steps,
        "episodes": steps * run_size,
        "threads": torch.get_num_threads(),
    }
