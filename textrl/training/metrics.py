"""The curves of a run: averages of the losses' terms, as lines of JSON and to trackers."""

import json
import os
from dataclasses import fields
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import Tensor

from textrl.errors import UserError
from textrl.training.state import TrainingState

METRICS_FILE = "metrics.jsonl"
SPEED = "tokens_per_second"
"""Which every line of training has, and no line of an evaluation."""


class MetricsLog:
    """Averages of the loss's terms as lines of JSON, and to the trackers that accelerate runs."""

    def __init__(self, path: Path, accelerator: Accelerator, resumed: TrainingState) -> None:
        """resumed: where the run goes on; lines of an existing file after it are dropped."""
        self._accelerator = accelerator
        # Name -> sum since the last line, how many steps are in it, the last of them.
        self._sums: dict[str, tuple[Tensor, int, int]] = {}
        self._seconds_then, self._tokens = resumed.seconds, 0
        self._file = None
        if accelerator.is_main_process:
            self._file = path.open("ab")
            self._file.truncate(resumed.metrics_bytes)
            self._file.seek(0, os.SEEK_END)

    @property
    def bytes(self) -> int:
        """Length of the file so far."""
        return self._file.tell() if self._file else 0

    def add(self, step: int, terms: object, tokens: int = 0, prefix: str = "") -> None:
        """Take in the terms of one micro-batch of a step; prefix: of their names."""
        for field in fields(terms):  # type: ignore[arg-type]
            value, name = getattr(terms, field.name).detach().float(), prefix + field.name
            total, steps, last = self._sums.get(name, (torch.zeros_like(value), 0, -1))
            self._sums[name] = (total + value, steps + (step != last), step)
        self._tokens += tokens

    def write(self, step: int, seconds: float, **others: float) -> dict[str, float]:
        """Write the averages since the last line, each over the steps that had it; return them."""
        names = list(self._sums)
        sums = torch.stack([self._sums[name][0] for name in names])
        steps = torch.tensor([self._sums[name][1] for name in names], device=sums.device)
        means = (self._accelerator.reduce(sums, "sum") / steps).tolist()
        speed = self._tokens * self._accelerator.num_processes / (seconds - self._seconds_then)
        line = {**dict(zip(names, means, strict=True)), **others, SPEED: round(speed)}
        self.note(step, seconds, line)
        self._sums, self._tokens, self._seconds_then = {}, 0, seconds
        return line

    def note(self, step: int, seconds: float, values: dict[str, float]) -> None:
        """Write one line as it is."""
        if self._file:
            line = {"step": step, "seconds": round(seconds, 2), **values}
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        self._accelerator.log(values, step=step)

    def close(self) -> None:
        """Close the file and the trackers."""
        if self._file:
            self._file.close()
        # Not end_training, which would end the group of processes as well, whoever still needs it.
        for tracker in self._accelerator.trackers:
            tracker.finish()


Curves = dict[str, tuple[list[int], list[float]]]
"""Name -> the steps at which a figure was written, and its values."""


def read_curves(folder: Path) -> Curves:
    """The curves of a run, those of its evaluations first."""
    path = folder / METRICS_FILE
    if not path.is_file():
        raise UserError(f"{str(folder)!r} has no {METRICS_FILE}: is it the folder of a run?")
    evaluations: Curves = {}
    others: Curves = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            values = json.loads(line)
            step = int(values.pop("step"))
        except (ValueError, KeyError, AttributeError) as error:
            raise UserError(f"{path}: line {number} is damaged: {error}") from error
        of = others if SPEED in values else evaluations
        for name, value in values.items():
            if name != "seconds" and isinstance(value, int | float):
                steps, found = of.setdefault(name, ([], []))
                steps.append(step)
                found.append(float(value))
    # Some figures are logged of the training batches and of what is held out.
    clear = {f"{n} (training)" if n in evaluations else n: each for n, each in others.items()}
    return {**evaluations, **clear}
