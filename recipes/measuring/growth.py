"""What a step costs as one size after the other grows, and memory as the data do."""

import gc
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import transformers
from datasets import concatenate_datasets

from textrl.algorithms.ilql import ILQLOptions
from textrl.config.presets import configure
from textrl.data.batches import EpisodeBatches
from textrl.losses.ilql import ilql_loss
from textrl.model.build import new_model
from textrl.recipes.measuring.heads import random_batch
from textrl.recipes.measuring.steps import Bench
from textrl.tasks.members import Members
from textrl.training.optimizers import make_optimizers

EPISODES, TOKENS, VOCABULARY = 32, 64, 200
"""Of a step, unless one of them grows; half of the tokens are actions."""
SIZES: dict[str, tuple[int, ...]] = {
    "width": (64, 128, 256, 512),
    "layers": (1, 2, 4, 8),
    "context": (32, 64, 128, 256, 512),
    "vocabulary": (200, 2_000, 20_000, 150_000),
}
GAMES = (10_000, 100_000, 1_000_000, 10_000_000)
STEPS = 3
READ = 40  # steps whose batches are read of each number of games


@dataclass(frozen=True)
class Figure:
    """One of a series."""

    what: str
    size: int
    value: float
    unit: str


def growth() -> list[Figure]:
    """CPU milliseconds of a step for each size, then what reading more and more games takes."""
    transformers.utils.logging.disable_progress_bar()
    games = reading()  # first: what large networks have left free would hide what games take
    found = [
        Figure(what, size, 1e3 * step_seconds(**{what: size}), "CPU ms a step")
        for what, sizes in SIZES.items()
        for size in sizes
    ]
    return [*found, *games]


def step_seconds(
    width: int = 128, layers: int = 2, context: int = TOKENS, vocabulary: int = VOCABULARY
) -> float:
    """CPU seconds of an ILQL step of a new GPT-2 by AdamW, on random tokens."""
    language = SimpleNamespace(first_action=0, actions=range(vocabulary), tokens=range(vocabulary))
    task: Any = SimpleNamespace(language=language, observation_classes=0, frame_shape=None)
    run = configure("wordle", width=width, layers=layers, context=context, optimizer="adamw")
    model = new_model(Members({"wordle": task}), run)
    (optimizer,) = make_optimizers(model, run)
    # A vocabulary of 150,000 has 230 MB of logits for 32 x 32 states and a head, and more to learn.
    batch = random_batch(EPISODES if vocabulary < 10_000 else 2, context, vocabulary)
    began = 0.0
    for step in range(1 + STEPS):
        if step == 1:  # the first one warms up
            began = time.process_time()
        ilql_loss(model(batch.tokens, batch.state_positions), batch, ILQLOptions()).total.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.update_targets(run.target_rate)
    return (time.process_time() - began) / STEPS


def reading() -> list[Figure]:
    """Batches of a dataset of so many games, which are 20,000 different ones again and again."""
    bench = Bench.of("wordle", "quick", "gpt2")
    found = []
    for games in GAMES:
        rows = concatenate_datasets([bench.rows] * max(1, games // len(bench.rows)))
        rows = rows.select(range(games))
        gc.collect()
        forget_peak()
        before, began = memory(), time.process_time()
        batches = EpisodeBatches(rows, bench.task.language, batch_size=64, packs=True)
        for step in range(READ):
            batches.step(step)
        seconds = (time.process_time() - began) / READ
        found.append(Figure("games", games, 1e3 * seconds, "CPU ms a batch"))
        found.append(Figure("games", games, (memory() - before) / 1e6, "MB more at the peak"))
    return found


def forget_peak() -> None:
    """Let the most that this process has held be what it holds now; only Linux can."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def memory() -> int:
    """The most that this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
