"""Measure speed as ratios within one run: training step, play, scoring."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers
from datasets import Dataset
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from envs.tasks import make_task
from envs.vizdoom.task import VizdoomTask
from envs.wordle.task import WordleTask
from textrl.algorithms import ALGORITHMS, make_bisimulation
from textrl.batches import Batch
from textrl.build import config_for
from textrl.config import TrainConfig
from textrl.decoding import Decoding
from textrl.errors import run_recipe
from textrl.evaluation import evaluate
from textrl.model import TextRLModel
from textrl.pairs import draw_pairs
from textrl.parser import make_parser
from textrl.policy import Policy
from textrl.report import table, write_json
from textrl.settings import read_preset
from textrl.task import Task
from textrl.trainer import loss_of, make_optimizers
from textrl.windows import RowReader, make_batches

EXAMPLE = "python recipes/benchmark.py --task wordle --json benchmark.json"
PRESETS = Path(__file__).parent / "configs"
EPISODES = 20_000  # enough for the lengths to be typical
ROUNDS = 5  # the steps take turns, so that a slow moment of the machine hits all of them
STEPS_PER_ROUND = 20  # one of them measures the bisimulation loss where its weight is 0
BISIMULATION_WEIGHT = 0.05
EARLY, LATE = 100, 500  # decisions of an episode between which acting must not slow down
Steps = Mapping[int, list[Batch]]
"""Of each step: the batches that it is read in."""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure the speed of training and play, as ratios within one run.", EXAMPLE
    )
    parser.add_argument("--task", default="wordle", help="which task")
    parser.add_argument("--preset", default="quick", help="whose model size and batch to measure")
    parser.add_argument("--backbone", choices=("gpt2", "rnn"), default="gpt2", help="which one")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file too")
    options = parser.parse_args()
    config = read_preset(PRESETS, options.task, options.preset)
    config = replace(config, backbone=options.backbone)
    task = make_task(config)
    transformers.utils.logging.disable_progress_bar()

    torch.manual_seed(0)
    rows = task.default_dataset(min(EPISODES, config.episodes), seed=0)
    # A step over frames takes as long as dozens of others; the first of all would measure more.
    numbers = range(1, 3) if task.frame_shape else range(STEPS_PER_ROUND)

    def steps_of(config: TrainConfig) -> Steps:
        batches = make_batches(rows, task, config)
        return {number: batches.step(number) for number in numbers}

    steps = steps_of(config)
    model, plain = training_steps(task, config, steps)
    with_loss = replace(config, bisim=BISIMULATION_WEIGHT)
    _, bisimulation = training_steps(task, with_loss, steps_of(with_loss))
    language_model = language_model_steps(model, config, steps)
    rounds = take_turns(plain, bisimulation, language_model)
    figures = {
        f"{config.algo}_step_seconds": statistics.median(of_plain for of_plain, _, _ in rounds),
        "bisim_step_seconds": statistics.median(of_bisim for _, of_bisim, _ in rounds),
        "lm_step_seconds": statistics.median(of_lm for _, _, of_lm in rounds),
        # Of each round first: what is measured at nearly the same moment is compared.
        f"{config.algo}_step_over_lm_step": statistics.median(
            of_plain / of_lm for of_plain, _, of_lm in rounds
        ),
        "bisim_step_over_step": statistics.median(
            of_bisim / of_plain for of_plain, of_bisim, _ in rounds
        ),
    }
    if config.window:
        figures.update(acting_cost(task, model))
    else:
        figures["eval_games_per_second"] = play_rate(task, model)
    if isinstance(task, VizdoomTask):
        figures.update(collecting_rate())
        figures["decoded_frames_per_second"] = decoding_rate(rows, task)
    if isinstance(task, WordleTask):
        figures["scored_guesses_per_second"] = scoring_rate(task)
    figures["threads"] = torch.get_num_threads()
    shown = [
        [name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"]
        for name, value in figures.items()
    ]
    print(table(["figure", "value"], shown))
    if options.json:
        write_json(Path(options.json), figures)


def training_steps(
    task: Task, config: TrainConfig, steps: Steps
) -> tuple[TextRLModel, Callable[[], float]]:
    """A new model and a function that trains it for these steps, as the trainer would."""
    algorithm = ALGORITHMS[config.algo]
    model = TextRLModel(config_for(task, config, algorithm.heads, algorithm.q_heads))
    loss, weights = algorithm.make_loss(config), make_bisimulation(config)

    def total(step: int, batch: Batch) -> torch.Tensor:
        has_pairs = step % config.compares_every == 0
        pairs = draw_pairs(batch, (step,)) if has_pairs else None
        return loss_of(model, loss, weights, batch, pairs, task.observation_classes)[0]

    after = partial(model.update_targets, config.target_rate)
    return model, stepper(model, config, total, steps, after)


def language_model_steps(
    model: TextRLModel, config: TrainConfig, steps: Steps
) -> Callable[[], float]:
    """The same for a bare GPT-2 language model of the same size on the same tokens, by AdamW."""
    size = model.config
    bare = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=size.vocabulary,
            n_layer=size.layers,
            n_embd=size.width,
            n_head=size.attention_heads,
            n_positions=size.context,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
            use_cache=False,
            attn_implementation="sdpa",
        )
    )

    def total(_: int, batch: Batch) -> torch.Tensor:
        return bare(input_ids=batch.tokens, labels=batch.tokens).loss

    return stepper(bare, replace(config, optimizer="adamw"), total, steps, after=lambda: None)


def take_turns(*runs: Callable[[], float]) -> list[tuple[float, ...]]:
    """Seconds of a step of each, round by round."""
    rounds = [tuple(run() for run in runs) for _ in range(ROUNDS + 1)]
    return rounds[1:]  # the first one warms up


def stepper(
    model: nn.Module,
    config: TrainConfig,
    loss: Callable[[int, Batch], torch.Tensor],
    steps: Steps,
    after: Callable[[], None],
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
            after()
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
    from envs.vizdoom.speed import compare

    rates = compare(seconds=12.0)
    return {
        "collected_decisions_per_second": rates["collect"],
        "bare_decisions_per_second": rates["bare"],
        "collect_over_bare": rates["share"],
    }


def decoding_rate(rows: Dataset, task: Task) -> float:
    """Frames per second from the memory map to arrays, window by window."""
    reader = RowReader(rows, task.frame_shape)
    windows = [(row, first) for row in range(min(100, len(rows))) for first in range(0, 30, 10)]
    began = time.perf_counter()
    for row, first in windows:
        reader.frames(row, first, first + 10)
    return 10 * len(windows) / (time.perf_counter() - began)


def scoring_rate(task: WordleTask) -> float:
    """Guesses coloured per second, by one lookup for a whole batch."""
    random = np.random.default_rng(0)
    guesses = random.integers(len(task.words.guesses), size=1_000_000)
    answers = random.integers(len(task.words.answers), size=len(guesses))
    table = task.words.table
    began = time.perf_counter()
    table[guesses, answers]
    return len(guesses) / (time.perf_counter() - began)


if __name__ == "__main__":
    run_recipe(main)
