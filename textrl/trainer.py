"""The training loop: one for every task and algorithm, over whatever accelerate drives."""

import contextlib
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from accelerate.utils import convert_to_fp32
from torch import Tensor, nn
from tqdm import tqdm

from textrl.algorithms import Loss, make_bisimulation
from textrl.batches import Batch, Batches
from textrl.checkpoint import TrainingState, load_memory, load_state, memory_of, save_state
from textrl.config import TrainConfig
from textrl.losses.bisimulation import (
    COLLAPSED,
    BisimulationTerms,
    BisimulationWeights,
    bisimulation_loss,
)
from textrl.losses.ops import Terms
from textrl.metrics import METRICS_FILE, MetricsLog
from textrl.model import TextRLModel
from textrl.muon import Muon
from textrl.pairs import Pairs, draw_pairs
from textrl.prefetch import Prefetch

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
    batches: Batches,
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
    state = load_state(output / "state", model) or TrainingState(0, -math.inf, 0.0, 0)
    wrapped, *steppers = accelerator.prepare(model, *optimizers)
    # Afterwards: where the model is spread over processes, so is what the optimizers remember.
    load_memory(output / "state", optimizers)
    log = MetricsLog(output / METRICS_FILE, accelerator, resumed=state)
    bisimulation = make_bisimulation(config)
    # The world model learns beside the agent: its gradient must not eat into the agent's share.
    has_world = "world" in model.config.heads
    world = {id(p): p for p in model.world.parameters()} if has_world else {}
    agent = [p for p in model.parameters() if p.requires_grad and id(p) not in world]
    from_data = config.bisim_actions == "data"
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
    waited, logged = 0.0, time.perf_counter()
    ahead = Prefetch(batches, config.max_steps, batches.ahead)
    with contextlib.closing(log), ahead as upcoming, bar as progress:
        for step in range(state.step, config.max_steps):
            rate = schedule(step, config)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * optimizer.defaults["lr"]
            waiting = time.perf_counter()
            parts = upcoming.step(step)
            waited += time.perf_counter() - waiting
            has_pairs = has_world and step % config.compares_every == 0
            for number, batch in enumerate(parts, start=1):
                seed = (config.seed, step, accelerator.process_index, number)
                pairs = draw_pairs(batch, seed, from_data) if has_pairs else None
                pairs = pairs and pairs.to(accelerator.device)
                batch = batch.to(accelerator.device)
                is_last = number == len(parts)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(wrapped):
                    total, terms, compared = loss_of(
                        wrapped, loss, bisimulation, batch, pairs, classes_of(model, batch)
                    )
                    # Every part is divided by the whole step's count already. Processes average
                    # their gradients, and the sum is what is wanted.
                    accelerator.backward(total * batch.share * accelerator.num_processes)
                of_game = "" if batch.game is None else f"{model.config.game(batch.game).name}/"
                log.add(step, terms, batch.tokens.numel(), of_game)
                if compared is not None:
                    log.add(step, compared, prefix=of_game)
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
                    waiting_for_data=waited / (time.perf_counter() - logged),
                )
                waited, logged = 0.0, time.perf_counter()
                room = [name for name in SHOWN if name in shown]
                room += [name for name in shown if name.endswith("/total")]  # of each game
                progress.set_postfix({name: f"{shown[name]:.4g}" for name in room}, refresh=False)
                if has_collapsed(shown) and not has_warned:
                    has_warned = True
                    progress.write(
                        "warning: the representations have collapsed (embedding_spread in"
                        f" {METRICS_FILE}): lower --bisim, or try --bisim-inverse 1"
                    )
            evaluates = at_end or done % config.evaluate_every == 0
            saves = at_end or done % config.save_every == 0
            whole = whole_model(accelerator, wrapped) if evaluates or saves else None
            if evaluates:
                if whole is not None:
                    scores = evaluate(whole)
                    log.note(done, seconds, scores)
                    progress.write(describe(done, scores))
                    if next(iter(scores.values())) > best_score:
                        best_score = next(iter(scores.values()))
                        export(whole, output / "best")
                accelerator.wait_for_everyone()
            if saves:
                state = TrainingState(done, best_score, seconds, log.bytes)
                memory = memory_of(optimizers, keep=whole is not None)
                if whole is not None:
                    # In this order: where the last step's state is, its model is as well.
                    export(whole, output)
                    save_state(output / "state", whole.saved_state(), memory, state)
                    if publish is not None and not at_end:
                        publish()
                accelerator.wait_for_everyone()
    return state


def whole_model(accelerator: Accelerator, wrapped: nn.Module) -> TextRLModel | None:
    """The model to play and to save, on the main process; None on others.

    Every process has to call this: where the model is spread over them, each sends its part.
    """
    model: TextRLModel = accelerator.unwrap_model(wrapped)
    if accelerator.distributed_type == DistributedType.FSDP:
        weights = accelerator.get_state_dict(wrapped)
        if accelerator.is_main_process:
            model = TextRLModel(model.config)
            # Assigned, each keeps its precision: that of a frozen language model may be half.
            model.load_state_dict(weights, assign=True)
            model.to(accelerator.device)
    return model if accelerator.is_main_process else None


def loss_of(
    model: nn.Module,
    loss: Loss,
    bisimulation: BisimulationWeights,
    batch: Batch,
    pairs: Pairs | None,
    classes: int,
) -> tuple[Tensor, Terms, BisimulationTerms | None]:
    """What to minimize, the algorithm's terms, and the bisimulation loss's if there are pairs.

    classes: of observations; 0 = they have none.
    """
    outputs = model(
        batch.tokens, batch.state_positions, pairs=pairs, frames=batch.frames, game=batch.game
    )
    # Whatever precision the model computes in, sums over thousands of tokens need single precision.
    outputs = convert_to_fp32(outputs)
    terms = loss(outputs, batch)
    if pairs is None:
        return terms.total, terms, None
    added, compared = bisimulation_loss(outputs, batch, pairs, classes, bisimulation)
    return terms.total + added, terms, compared


def make_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the backbone's hidden matrices and AdamW for the rest.

    Biases, norms and embeddings are not decayed.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrices = {n: p for n, p in trained.items() if p.ndim >= 2 and id(p) not in embeddings}
    hidden = {}
    if config.optimizer == "muon":
        hidden = {n: p for n, p in matrices.items() if n.startswith("backbone.") and p.ndim == 2}
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
    """Whether representations (of a game) have become nearly one point, if these metrics tell."""
    spreads = [name for name in means if name.endswith("embedding_spread")]
    return any(
        means[name] <= COLLAPSED * means[name.replace("_spread", "_norm")] for name in spreads
    )


def classes_of(model: TextRLModel, batch: Batch) -> int:
    """How many classes of observations a batch's game has."""
    if batch.game is None:
        return model.config.observation_classes
    return model.config.game(batch.game).observation_classes


def describe(step: int, scores: dict[str, float]) -> str:
    """One line about an evaluation."""
    return f"step {step}: " + ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
