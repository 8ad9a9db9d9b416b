"""The training loop: one for every task and algorithm, over whatever accelerate drives."""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from tqdm import tqdm

from textrl.algorithms import Loss
from textrl.batches import EpisodeBatches
from textrl.checkpoint import TrainingState, load_state, save_state
from textrl.config import TrainConfig
from textrl.losses.ops import Terms
from textrl.model import TextRLModel
from textrl.muon import Muon

METRICS_FILE = "metrics.jsonl"
Evaluate = Callable[[TextRLModel], dict[str, float]]
Export = Callable[[TextRLModel, Path], None]
Publish = Callable[[], None]


def train(
    config: TrainConfig,
    accelerator: Accelerator,
    model: TextRLModel,
    loss: Loss,
    batches: EpisodeBatches,
    evaluate: Evaluate,
    export: Export,
    output: Path,
    publish: Publish | None = None,
) -> TrainingState:
    """Train the model and leave it in `output`; goes on from output/state if there is one.

    evaluate: plays the model, gives scores (higher is better; the first decides what is best).
    export: writes the model as a checkpoint folder for people. publish: called after each save but
    the last, when the folder is as others may see it.
    """
    optimizers = make_optimizers(model, config)
    state = load_state(output / "state", model, optimizers) or TrainingState(0, -math.inf, 0.0, 0)
    wrapped, *steppers = accelerator.prepare(model, *optimizers)
    log = MetricsLog(output / METRICS_FILE, accelerator, resumed=state)
    began = time.perf_counter() - state.seconds
    best_score = state.best_score
    bar = tqdm(
        initial=state.step,
        total=config.max_steps,
        unit="step",
        dynamic_ncols=True,
        mininterval=0.2 if sys.stderr.isatty() else 30,  # a log file needs no animation
        disable=not accelerator.is_main_process,
    )
    with contextlib.closing(log), bar as progress:
        for step in range(state.step, config.max_steps):
            rate = schedule(step, config)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * optimizer.defaults["lr"]
            parts = batches.step(step)
            for number, batch in enumerate(parts, start=1):
                batch = batch.to(accelerator.device)
                is_last = number == len(parts)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(wrapped):
                    outputs = wrapped(batch.tokens, batch.state_positions)
                    terms = loss(outputs, batch)
                    # Every part is divided by the whole step's count already. Processes average
                    # their gradients, and the sum is what is wanted.
                    accelerator.backward(terms.total * accelerator.num_processes)
                log.add(terms, batch.tokens.numel())
            norm = accelerator.clip_grad_norm_(wrapped.parameters(), config.clip_norm)
            for stepper in steppers:
                stepper.step()
                stepper.zero_grad()
            model.update_targets(config.target_rate)
            progress.update()

            done = model.config.steps = step + 1
            at_end = done == config.max_steps
            seconds = time.perf_counter() - began
            if at_end or done % config.log_every == 0:
                shown = log.write(
                    done,
                    seconds,
                    learning_rate=rate * config.learning_rate,
                    gradient_norm=float(norm),
                )
                progress.set_postfix(shown, refresh=False)
            if at_end or done % config.evaluate_every == 0:
                if accelerator.is_main_process:
                    scores = evaluate(model)
                    log.note(done, seconds, scores)
                    progress.write(describe(done, scores))
                    if next(iter(scores.values())) > best_score:
                        best_score = next(iter(scores.values()))
                        export(model, output / "best")
                accelerator.wait_for_everyone()
            if at_end or done % config.save_every == 0:
                state = TrainingState(done, best_score, seconds, log.bytes)
                if accelerator.is_main_process:
                    # In this order: where the last step's state is, its model is as well.
                    export(model, output)
                    save_state(output / "state", model, optimizers, state)
                    if publish is not None and not at_end:
                        publish()
                accelerator.wait_for_everyone()
    return state


def make_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the backbone's hidden matrices and AdamW for the rest.

    Biases, norms and embeddings are not decayed.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrices = {n: p for n, p in trained.items() if p.ndim == 2 and id(p) not in embeddings}
    hidden = {n: p for n, p in matrices.items() if config.optimizer == "muon" and ".h." in n}
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in matrices.items() if name not in hidden]},
        {"params": [p for name, p in trained.items() if name not in matrices], "weight_decay": 0.0},
    ]
    rate, decay = config.learning_rate, config.weight_decay
    adamw = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=decay, fused=True)
    if not hidden:
        return [adamw]
    return [adamw, Muon(hidden.values(), lr=config.matrix_learning_rate, weight_decay=decay)]


def schedule(step: int, config: TrainConfig) -> float:
    """Share of the peak learning rate: linear warm-up, then constant or half a cosine down."""
    warm_up = min(1.0, (step + 1) / max(1, config.warmup_steps))
    if config.schedule == "constant":
        return warm_up
    cosine = 0.5 * (1 + math.cos(math.pi * step / config.max_steps))
    return warm_up * (config.final_learning_rate + (1 - config.final_learning_rate) * cosine)


def describe(step: int, scores: dict[str, float]) -> str:
    """One line about an evaluation."""
    return f"step {step}: " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items())


class MetricsLog:
    """Averages of the loss's terms as lines of JSON, and to the trackers that accelerate runs."""

    def __init__(self, path: Path, accelerator: Accelerator, resumed: TrainingState) -> None:
        """resumed: where the run goes on; lines of an existing file after it are dropped."""
        self._accelerator = accelerator
        self._sums: dict[str, Tensor] = {}
        self._step_then, self._seconds_then, self._tokens = resumed.step, resumed.seconds, 0
        self._file = None
        if accelerator.is_main_process:
            self._file = path.open("ab")
            self._file.truncate(resumed.metrics_bytes)
            self._file.seek(0, os.SEEK_END)

    @property
    def bytes(self) -> int:
        """Length of the file so far."""
        return self._file.tell() if self._file else 0

    def add(self, terms: Terms, tokens: int) -> None:
        """Take in one micro-batch."""
        for field in fields(terms):  # type: ignore[arg-type]
            value = getattr(terms, field.name).detach()
            self._sums[field.name] = (
                self._sums[field.name] + value if field.name in self._sums else value
            )
        self._tokens += tokens

    def write(self, step: int, seconds: float, **others: float) -> dict[str, float]:
        """Write the averages since the last line and return them."""
        names = list(self._sums)
        stacked = self._accelerator.reduce(
            torch.stack([self._sums[n].float() for n in names]), "sum"
        )
        means = dict(zip(names, (stacked / (step - self._step_then)).tolist(), strict=True))
        speed = self._tokens * self._accelerator.num_processes / (seconds - self._seconds_then)
        self.note(step, seconds, {**means, **others, "tokens_per_second": round(speed)})
        self._sums, self._tokens, self._step_then, self._seconds_then = {}, 0, step, seconds
        return {**{name: round(mean, 3) for name, mean in means.items()}, "tok/s": round(speed)}

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
        self._accelerator.end_training()
