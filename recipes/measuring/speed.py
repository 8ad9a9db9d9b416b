"""Measure speed as ratios within one run: training step, play, scoring."""

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.data.windows import RowFiles, RowReader
from textrl.evaluation.play import evaluate
from textrl.model.network import TextRLModel
from textrl.model.patches import PatchEncoder
from textrl.recipes.measuring.steps import (
    Bench,
    language_model_steps,
    median_of,
    now,
    take_turns,
    training_steps,
)
from textrl.tasks.task import Task

ROUNDS = 5  # the steps take turns, so that a slow moment of the machine hits all of them
BISIMULATION_WEIGHT = 0.05
EARLY, LATE = 100, 500  # decisions of an episode between which acting must not slow down


def measure(name: str, preset: str, backbone: str) -> dict[str, float]:
    """The figures of a task at a preset's size."""
    transformers.utils.logging.disable_progress_bar()
    bench = Bench.of(name, preset, backbone)
    model, figures = step_figures(bench)
    if bench.member.window:
        figures.update(acting_cost(bench.task, model))
    else:
        figures["eval_games_per_second"] = play_rate(bench.task, model, sample=False)
        figures["eval_sampled_games_per_second"] = play_rate(bench.task, model, sample=True)
    if name in OF_ONE_TASK:
        figures.update(OF_ONE_TASK[name](bench))
    figures["threads"] = torch.get_num_threads()
    return figures


def step_figures(bench: Bench) -> tuple[TextRLModel, dict[str, float]]:
    """Of training steps: as they are, with the language model's optimizer, with bisimulation."""
    run, members, algo = bench.run, bench.members, bench.member.algo
    steps = bench.steps()
    compared = replace(run, bisimulation=replace(run.bisimulation, weight=BISIMULATION_WEIGHT))
    model, plain = training_steps(members, run, steps)
    _, by_adamw = training_steps(members, replace(run, optimizer="adamw"), steps)
    _, bisimulation = training_steps(members, compared, bench.steps(compared))
    bare = language_model_steps(model.config, run, steps)
    fused = language_model_steps(model.config, run, steps, "gelu_pytorch_tanh")
    rounds = take_turns(plain, by_adamw, bisimulation, bare, fused, rounds=ROUNDS)
    figures = {
        f"{algo}_step_seconds": median_of(rounds, lambda step, *_: step),
        "bisim_step_seconds": median_of(rounds, lambda _, __, bisim, *___: bisim),
        "lm_step_seconds": median_of(rounds, lambda *all: all[3]),
        f"{algo}_step_over_lm_step": median_of(rounds, lambda *all: all[0] / all[3]),
        f"{algo}_step_over_lm_step_same_optimizer": median_of(rounds, lambda *all: all[1] / all[3]),
        f"{algo}_step_over_fused_lm_step_same_optimizer": median_of(
            rounds, lambda *all: all[1] / all[4]
        ),
        "bisim_step_over_step": median_of(rounds, lambda *all: all[2] / all[0]),
    }
    threads = torch.get_num_threads()
    if threads > 1:
        figures["two_threads_over_one"] = threads_over_one(plain, 2)
    return model, figures


def threads_over_one(train: Callable[[], float], threads: int) -> float:
    """How many times as many steps a second as one thread takes."""
    before = torch.get_num_threads()

    def by(count: int) -> Callable[[], float]:
        def run() -> float:
            torch.set_num_threads(count)
            began = time.perf_counter()
            train()
            return time.perf_counter() - began

        return run

    rounds = take_turns(by(1), by(threads), rounds=ROUNDS)
    torch.set_num_threads(before)
    return median_of(rounds, lambda one, several: one / several)


def play_rate(task: Task, model: TextRLModel, sample: bool) -> float:
    """Episodes per second of play in batches; untrained agents play the longest ones."""
    games = 500
    decoding = Decoding.of(model, sample)
    evaluate(task, model, decoding, games, seed=0)
    began = now()
    evaluate(task, model, decoding, games, seed=0)
    return games / (now() - began)


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
        "collect_over_engine": rates["share"],
    }


def of_vizdoom(bench: Bench) -> dict[str, float]:
    """What only the maze has."""
    rates = encoding_rates(bench.task)
    own = f"encoded_frames_per_second_{bench.member.filters.replace(',', '_')}_"
    return {
        **collecting_rate(),
        "decoded_frames_per_second": decoding_rate(bench.rows, bench.task),
        # Of the preset's filters, in whichever precision is faster here, as a run would take it.
        "encoder_frames_per_second": max(
            rate for name, rate in rates.items() if name.startswith(own)
        ),
        **rates,
    }


def of_wordle(bench: Bench) -> dict[str, float]:
    """What only Wordle has."""
    return {"scored_guesses_per_second": scoring_rate(bench.task)}


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
