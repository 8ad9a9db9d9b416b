"""Training steps to measure: the same batches again and again, as a run takes them."""

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from textrl.config.presets import configure
from textrl.config.train import MemberConfig, TrainConfig
from textrl.data.batches import Batch, cheapest_cuts
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members, expect
from textrl.tasks.task import Task
from textrl.training.learner import Learner, make_loss
from textrl.training.metrics import METRICS_FILE, MetricsLog
from textrl.training.optimizers import make_optimizers
from textrl.training.run import be_deterministic
from textrl.training.state import TrainingState

EPISODES = 20_000  # enough for the lengths to be typical
STEPS_PER_ROUND = 20  # one of them measures the bisimulation loss where its weight is 0
Steps = Mapping[int, list[Batch]]
"""Of each step: the batches that it is read in."""


@dataclass(frozen=True)
class Bench:
    """A task at a preset's size, and episodes of it."""

    run: TrainConfig
    members: Members
    member: MemberConfig
    task: Task
    rows: Dataset

    @classmethod
    def of(cls, name: str, preset: str, backbone: str, **changes: Any) -> "Bench":
        """changes: to the preset, as configure takes them."""
        run = configure(name, preset, backbone=backbone, **changes)
        members = Members.of_run(run)
        (member,) = run.members.values()
        task = expect(members.one()[1], Task, "the benchmark")
        be_deterministic(run.deterministic, torch.device("cpu"))
        torch.manual_seed(0)
        rows = task.default_dataset(min(EPISODES, member.episodes), seed=0)
        return cls(run, members, member, task, rows)

    def steps(self, run: TrainConfig | None = None) -> Steps:
        """The batches of as many steps as a round has; run: with other settings."""
        batches, _ = self.task.batches(self.member, run or self.run, rows=self.rows)
        # A step over frames takes as long as dozens of others; the first of all would measure more.
        numbers = range(1, 3) if self.task.frame_shape else range(STEPS_PER_ROUND)
        return {number: batches.step(number) for number in numbers}


def training_steps(
    members: Members, run: TrainConfig, steps: Steps
) -> tuple[TextRLModel, Callable[[], float]]:
    """A new model and a function that trains it for these steps, as a run would.

    The function gives the seconds of a step.
    """
    model = new_model(members, run)
    accelerator = Accelerator(cpu=True)
    learner = Learner(run, accelerator, model, make_loss(run))
    with tempfile.TemporaryDirectory() as folder:
        learner.restore(Path(folder))
        log = MetricsLog(Path(folder) / METRICS_FILE, accelerator, TrainingState(0, 0.0, 0.0, 0))

    def train() -> float:
        began = now()
        for step, batches in steps.items():
            learner.step(step, batches, log)
        return (now() - began) / len(steps)

    return model, train


def language_model_steps(
    size: Any, run: TrainConfig, steps: Steps, activation: str = "gelu_new"
) -> Callable[[], float]:
    """The same for a bare GPT-2 language model of this size on the same tokens, by AdamW.

    It reads them as a batch of language modelling is read: in passes of similar length, padded.
    activation: GPT-2's own, or gelu_pytorch_tanh, which is the same function in one kernel.
    """
    fast: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    fast |= {"attn_implementation": "sdpa", "activation_function": activation}
    bare = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.vocabulary,
            n_layer=size.layers,
            n_embd=size.width,
            n_head=size.attention_heads,
            n_positions=size.context,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
            **fast,
        )
    )
    optimizers = make_optimizers(bare, replace(run, optimizer="adamw"))
    passes = [[tokens for batch in step for tokens in passes_of(batch)] for step in steps.values()]

    def train() -> float:
        began = now()
        for parts in passes:
            for tokens in parts:
                bare(input_ids=tokens, labels=tokens).loss.backward()
            nn.utils.clip_grad_norm_(bare.parameters(), run.clip_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return (now() - began) / len(passes)

    return train


def passes_of(batch: Batch) -> Sequence[Tensor]:
    """The tokens of a batch, cut by length so that padding and passes cost least together."""
    if not batch.groups:
        return [batch.tokens]
    lengths = 1 + batch.state_positions.amax(dim=1).cummax(dim=0).values
    cuts = [0, *cheapest_cuts(lengths.numpy()), len(lengths)]
    return [batch.tokens[first:end, : int(lengths[end - 1])] for first, end in pairwise(cuts)]


def now() -> float:
    """Of one thread its own time, so that other work on the machine counts little."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def take_turns(*runs: Callable[[], float], rounds: int) -> list[tuple[float, ...]]:
    """Seconds of a step of each, round by round."""
    found = [tuple(run() for run in runs) for _ in range(rounds + 1)]
    return found[1:]  # the first one warms up


def median_of(rounds: list[tuple[float, ...]], figure: Callable[..., float]) -> float:
    """Of a figure of each round: what is measured at nearly the same moment is compared."""
    return statistics.median(figure(*each) for each in rounds)
