"""Measure speed as ratios within one run: training step, play, scoring."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import transformers
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from envs.tasks import make_task
from envs.wordle.task import WordleTask
from textrl.algorithms import ALGORITHMS
from textrl.batches import Batch, EpisodeBatches
from textrl.config import TrainConfig, make_parser, read_preset
from textrl.errors import UserError, run_recipe
from textrl.evaluation import evaluate
from textrl.model import TextRLModel, config_for
from textrl.policy import Decoding
from textrl.report import table, write_json
from textrl.task import Task
from textrl.trainer import make_optimizers

EXAMPLE = "python recipes/benchmark.py --task wordle --json benchmark.json"
PRESETS = Path(__file__).parent / "configs"
EPISODES = 20_000  # enough for the lengths to be typical
ROUNDS = 7  # the two steps take turns, so that a slow moment of the machine hits both
STEPS_PER_ROUND = 8


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure the speed of training and play, as ratios within one run.", EXAMPLE
    )
    parser.add_argument("--task", default="wordle", help="which task")
    parser.add_argument("--preset", default="quick", help="whose model size and batch to measure")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file too")
    options = parser.parse_args()
    config = read_preset(PRESETS, options.task, options.preset)
    task = make_task(config)
    if not isinstance(task, WordleTask):
        raise UserError(f"there is no benchmark of {options.task} yet: --task wordle")
    transformers.utils.logging.disable_progress_bar()

    torch.manual_seed(0)
    model = TextRLModel(config_for(task, config, ALGORITHMS["ilql"].heads))
    ilql, language_model = time_steps(task, model, config)
    played = play_rate(task, model)
    figures = {
        "ilql_step_seconds": ilql,
        "lm_step_seconds": language_model,
        "ilql_step_over_lm_step": ilql / language_model,
        "eval_games_per_second": played,
        "scored_guesses_per_second": scoring_rate(task),
        "threads": torch.get_num_threads(),
    }
    rows = [
        [name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"]
        for name, value in figures.items()
    ]
    print(table(["figure", "value"], rows))
    if options.json:
        write_json(Path(options.json), figures)


def time_steps(task: Task, model: TextRLModel, config: TrainConfig) -> tuple[float, float]:
    """Median seconds of an ILQL step and of a bare GPT-2 language-model step on the same tokens.

    ILQL has the preset's optimizer, the language model AdamW, as is usual.
    """
    rows = task.default_dataset(EPISODES, seed=0)
    batches = EpisodeBatches(rows, task.language, batch_size=config.batch_size)
    steps = [batches.step(step)[0] for step in range(STEPS_PER_ROUND)]
    loss = ALGORITHMS["ilql"].make_loss(config)
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

    def ilql_loss(batch: Batch) -> torch.Tensor:
        return loss(model(batch.tokens, batch.state_positions), batch).total

    def language_model_loss(batch: Batch) -> torch.Tensor:
        return bare(input_ids=batch.tokens, labels=batch.tokens).loss

    ilql = stepper(
        model, config, ilql_loss, steps, after=lambda: model.update_targets(config.target_rate)
    )
    usual = replace(config, optimizer="adamw")
    lm = stepper(bare, usual, language_model_loss, steps, after=lambda: None)
    times = [(ilql(), lm()) for _ in range(ROUNDS + 1)][1:]  # the first round warms up
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def stepper(
    model: nn.Module,
    config: TrainConfig,
    loss: Callable[[Batch], torch.Tensor],
    batches: list[Batch],
    after: Callable[[], None],
) -> Callable[[], float]:
    """A function that trains on the batches once and returns the mean seconds of a step."""
    optimizers = make_optimizers(model, config)

    def run() -> float:
        began = time.perf_counter()
        for batch in batches:
            loss(batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            after()
        return (time.perf_counter() - began) / len(batches)

    return run


def play_rate(task: Task, model: TextRLModel) -> float:
    """Games per second of greedy play in batches; an untrained agent plays the longest games."""
    games = 2 * task.full_evaluation()
    decoding = Decoding(beta=model.config.beta, sample=False)
    evaluate(task, model, decoding, games, seed=0)
    began = time.perf_counter()
    evaluate(task, model, decoding, games, seed=0)
    return games / (time.perf_counter() - began)


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
