"""Measure speed as ratios within one run: training step, play, scoring."""

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from accelerate import Accelerator
from datasets import Dataset
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.config.presets import configure
from textrl.config.train import TrainConfig
from textrl.data.batches import Batch
from textrl.data.windows import RowFiles, RowReader
from textrl.evaluation.play import evaluate
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.model.patches import PatchEncoder
from textrl.tasks.members import Members, expect
from textrl.tasks.task import Task
from textrl.training.learner import Learner, make_loss
from textrl.training.metrics import METRICS_FILE, MetricsLog
from textrl.training.optimizers import make_optimizers
from textrl.training.state import TrainingState

EPISODES = 20_000  # enough for the lengths to be typical
ROUNDS = 5  # the steps take turns, so that a slow moment of the machine hits all of them
STEPS_PER_ROUND = 20  # one of them measures the bisimulation loss where its weight is 0
BISIMULATION_WEIGHT = 0.05
EARLY, LATE = 100, 500  # decisions of an episode between which acting must not slow down
Steps = Mapping[int, list[Batch]]
"""Of each step: the batches that it is read in."""


def measure(name: str, preset: str, backbone: str) -> dict[str, float]:
    """The figures of a task at a preset's size."""
    transformers.utils.logging.disable_progress_bar()
    run = configure(name, preset, backbone=backbone)
    members = Members.of_run(run)
    (member,) = run.members.values()
    task = expect(members.one()[1], Task, "the benchmark")
    torch.manual_seed(0)
    rows = task.default_dataset(min(EPISODES, member.episodes), seed=0)
    # A step over frames takes as long as dozens of others; the first of all would measure more.
    numbers = range(1, 3) if task.frame_shape else range(STEPS_PER_ROUND)

    def steps_of(run: TrainConfig) -> Steps:
        batches, _ = task.batches(member, run, rows=rows)
        return {number: batches.step(number) for number in numbers}

    steps = steps_of(run)
    model, plain = training_steps(members, run, steps)
    compared = replace(run, bisimulation=replace(run.bisimulation, weight=BISIMULATION_WEIGHT))
    _, bisimulation = training_steps(members, compared, steps_of(compared))
    language_model = language_model_steps(model, run, steps)
    rounds = take_turns(plain, bisimulation, language_model)
    algo = member.algo
    figures = {
        f"{algo}_step_seconds": statistics.median(of_plain for of_plain, _, _ in rounds),
        "bisim_step_seconds": statistics.median(of_bisim for _, of_bisim, _ in rounds),
        "lm_step_seconds": statistics.median(of_lm for _, _, of_lm in rounds),
        # Of each round first: what is measured at nearly the same moment is compared.
        f"{algo}_step_over_lm_step": statistics.median(
            of_plain / of_lm for of_plain, _, of_lm in rounds
        ),
        "bisim_step_over_step": statistics.median(
            of_bisim / of_plain for of_plain, of_bisim, _ in rounds
        ),
    }
    if member.window:
        figures.update(acting_cost(task, model))
    else:
        figures["eval_games_per_second"] = play_rate(task, model)
    if name in OF_ONE_TASK:
        figures.update(OF_ONE_TASK[name](task, rows))
    figures["threads"] = torch.get_num_threads()
    return figures


def training_steps(
    members: Members, run: TrainConfig, steps: Steps
) -> tuple[TextRLModel, Callable[[], float]]:
    """A new model and a function that trains it for these steps, as a run would."""
    model = new_model(members, run)
    accelerator = Accelerator(cpu=True)
    learner = Learner(run, accelerator, model, make_loss(run))
    with tempfile.TemporaryDirectory() as folder:
        learner.restore(Path(folder))
        log = MetricsLog(Path(folder) / METRICS_FILE, accelerator, TrainingState(0, 0.0, 0.0, 0))

    def train() -> float:
        began = time.perf_counter()
        for step, batches in steps.items():
            learner.step(step, batches, log)
        return (time.perf_counter() - began) / len(steps)

    return model, train


def language_model_steps(model: TextRLModel, run: TrainConfig, steps: Steps) -> Callable[[], float]:
    """The same for a bare GPT-2 language model of the same size on the same tokens, by AdamW."""
    size = model.config
    fast: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    fast["attn_implementation"] = "sdpa"
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

    def total(_: int, batch: Batch) -> torch.Tensor:
        loss: torch.Tensor = bare(input_ids=batch.tokens, labels=batch.tokens).loss
        return loss

    return stepper(bare, replace(run, optimizer="adamw"), total, steps)


def take_turns(*runs: Callable[[], float]) -> list[tuple[float, ...]]:
    """Seconds of a step of each, round by round."""
    rounds = [tuple(run() for run in runs) for _ in range(ROUNDS + 1)]
    return rounds[1:]  # the first one warms up


def stepper(
    model: nn.Module,
    config: TrainConfig,
    loss: Callable[[int, Batch], torch.Tensor],
    steps: Steps,
) -> Callable[[], float]:
    """A function that trains for the steps once and returns the mean seconds of one."""
    optimizers = make_optimizers(model, config)

    def run() -> float:
        began = time.perf_counter()
        for step, batches in steps.items():
            for batch in batches:
                loss(step, batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        return (time.perf_counter() - began) / len(steps)

    return run


def play_rate(task: Task, model: TextRLModel) -> float:
    """Episodes per second of greedy play in batches; untrained agents play the longest ones."""
    games = 500
    decoding = Decoding.of(model, sample=False)
    evaluate(task, model, decoding, games, seed=0)
    began = time.perf_counter()
    evaluate(task, model, decoding, games, seed=0)
    return games / (time.perf_counter() - began)


def acting_cost(task: Task, model: TextRLModel, episodes: int = 16) -> dict[str, float]:
    """Seconds of a decision early and late in long episodes, each a mean over a whole window."""
    random = np.random.default_rng(0)
    shape = (episodes, *(task.frame_shape or ()))
    policy = Policy(model, task.language, Decoding.of(model, sample=True), seed=0)
    frame = random.integers(256, size=shape, dtype=np.uint8) if task.frame_shape else None
    prompt = task.prompt(episodes)
    model.train(False)
    policy.begin(prompt, frame)
    seconds = []
    for _ in range(LATE + model.config.window):
        began = time.perf_counter()
        policy.act()
        policy.observe(prompt[:, 1:], frame)
        seconds.append(time.perf_counter() - began)
    early, late = (statistics.fmean(seconds[at:][: model.config.window]) for at in (EARLY, LATE))
    return {"act_seconds": early, "act_late_over_early": late / early}


def collecting_rate() -> dict[str, float]:
    """Decisions per second of collecting, of engines that do nothing else, and their ratio."""
    from textrl.envs.vizdoom.speed import compare

    rates = compare(seconds=12.0)
    return {
        "collected_decisions_per_second": rates["collect"],
        "bare_decisions_per_second": rates["bare"],
        "collect_over_bare": rates["share"],
    }


def of_vizdoom(task: Task, rows: Dataset) -> dict[str, float]:
    """What only the maze has."""
    return {
        **collecting_rate(),
        "decoded_frames_per_second": decoding_rate(rows, task),
        **encoding_rates(task),
    }


def of_wordle(task: Any, rows: Dataset) -> dict[str, float]:
    """What only Wordle has."""
    return {"scored_guesses_per_second": scoring_rate(task)}


def decoding_rate(rows: Dataset, task: Task) -> float:
    """Frames per second from the memory map to arrays, window by window."""
    reader = RowReader(RowFiles(rows), task.frame_shape)
    windows = [(row, first) for row in range(min(100, len(rows))) for first in range(0, 30, 10)]
    began = time.perf_counter()
    for row, first in windows:
        reader.frames(row, first, first + 10)
    return 10 * len(windows) / (time.perf_counter() - began)


def encoding_rates(task: Task, frames: int = 528, rounds: int = 7) -> dict[str, float]:
    """Frames per second through the encoder and back, by its filters and precision.

    528 frames are a step of 16 windows of 32 decisions. The kinds take turns, so that whatever else
    the machine does meets all of them; what counts is each one's fastest turn.
    """
    assert task.frame_shape is not None
    pixels = torch.randint(0, 256, (frames, *task.frame_shape), dtype=torch.uint8)
    encoders = {
        f"encoded_frames_per_second_{'_'.join(map(str, filters))}_{precision}": PatchEncoder(
            task.frame_shape, 1, 128, filters, precision
        )
        for filters in ((32, 64, 32), (16, 32, 32))
        for precision in ("float32", "bfloat16")
    }
    fastest = dict.fromkeys(encoders, math.inf)
    for _ in range(rounds):
        for name, encoder in encoders.items():
            began = time.perf_counter()
            encoder(pixels).sum().backward()
            fastest[name] = min(fastest[name], time.perf_counter() - began)
    return {name: frames / seconds for name, seconds in fastest.items()}


def scoring_rate(task: Any) -> float:
    """Guesses coloured per second, by one lookup for a whole batch."""
    random = np.random.default_rng(0)
    guesses = random.integers(len(task.words.guesses), size=1_000_000)
    answers = random.integers(len(task.words.answers), size=len(guesses))
    table = task.words.table
    began = time.perf_counter()
    table[guesses, answers]
    return len(guesses) / (time.perf_counter() - began)


OF_ONE_TASK: dict[str, Callable[..., dict[str, float]]] = {
    "vizdoom": of_vizdoom,
    "wordle": of_wordle,
}
