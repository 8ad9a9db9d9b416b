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

from textrl.algorithms import Loss, make_bisimulation
from textrl.batches import EpisodeBatches
from textrl.checkpoint import TrainingState, load_state, save_state
from textrl.config import TrainConfig
from textrl.losses.bisimulation import COLLAPSED, bisimulation_loss
from textrl.model import TextRLModel
from textrl.muon import Muon
from textrl.pairs import draw_pairs

METRICS_FILE = "metrics.jsonl"
# What the progress bar has room for; the metrics file has everything.
SHOWN = ("total", "policy", "q", "v", "conservative", "mean_q", "bisimulation", "tokens_per_second")
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
    bisimulation = make_bisimulation(config)
    # The world model learns beside the agent: its gradient must not eat into the agent's share.
    world = {id(p): p for p in model.world.parameters()}
    agent = [p for p in model.parameters() if p.requires_grad and id(p) not in world]
    has_warned = False
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
            has_pairs = bisimulation.is_trained or step % config.bisim_every == 0
            for number, batch in enumerate(parts, start=1):
                seed = (config.seed, step, accelerator.process_index, number)
                pairs = draw_pairs(batch, seed).to(accelerator.device) if has_pairs else None
                batch = batch.to(accelerator.device)
                is_last = number == len(parts)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(wrapped):
                    outputs = wrapped(batch.tokens, batch.state_positions, pairs=pairs)
                    terms = loss(outputs, batch)
                    total = terms.total
                    if pairs is not None:
                        added, compared = bisimulation_loss(
                            outputs, batch, pairs, model.config.observation_classes, bisimulation
                        )
                        total = total + added
                        log.add(step, compared)
                    # Every part is divided by the whole step's count already. Processes average
                    # their gradients, and the sum is what is wanted.
                    accelerator.backward(total * accelerator.num_processes)
                log.add(step, terms, batch.tokens.numel())
            norm = accelerator.clip_grad_norm_(agent, config.clip_norm)
            if has_pairs:
                accelerator.clip_grad_norm_(world.values(), config.clip_norm)
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
                progress.set_postfix(
                    {name: f"{shown[name]:.4g}" for name in SHOWN if name in shown}, refresh=False
                )
                if has_collapsed(shown) and not has_warned:
                    has_warned = True
                    progress.write(
                        f"warning: the representations have collapsed (spread"
                        f" {shown['embedding_spread']:.2g}, norm {shown['embedding_norm']:.2g}):"
                        " lower --bisim, or try --bisim-inverse 1"
                    )
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


def has_collapsed(means: dict[str, float]) -> bool:
    """Whether the representations have become (nearly) one point, if this line of metrics tells."""
    norm = means.get("embedding_norm", 0.0)
    return norm > 0 and means["embedding_spread"] < COLLAPSED * norm


def describe(step: int, scores: dict[str, float]) -> str:
    """One line about an evaluation."""
    return f"step {step}: " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items())


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

    def add(self, step: int, terms: object, tokens: int = 0) -> None:
        """Take in the terms of one micro-batch of a step."""
        for field in fields(terms):  # type: ignore[arg-type]
            value = getattr(terms, field.name).detach().float()
            total, steps, last = self._sums.get(field.name, (torch.zeros_like(value), 0, -1))
            self._sums[field.name] = (total + value, steps + (step != last), step)
        self._tokens += tokens

    def write(self, step: int, seconds: float, **others: float) -> dict[str, float]:
        """Write the averages since the last line, each over the steps that had it; return them."""
        names = list(self._sums)
        sums = torch.stack([self._sums[name][0] for name in names])
        steps = torch.tensor([self._sums[name][1] for name in names], device=sums.device)
        means = (self._accelerator.reduce(sums, "sum") / steps).tolist()
        speed = self._tokens * self._accelerator.num_processes / (seconds - self._seconds_then)
        line = {**dict(zip(names, means, strict=True)), **others, "tokens_per_second": round(speed)}
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
        self._accelerator.end_training()
