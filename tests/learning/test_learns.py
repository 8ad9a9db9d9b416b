"""Runs that must learn: some seconds of training on a small list, judged by play."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from envs.wordle.task import WordleTask
from envs.wordle.words import WordList
from textrl.algorithms import ALGORITHMS
from textrl.batches import EpisodeBatches
from textrl.build import config_for
from textrl.config import TrainConfig
from textrl.dataset import best_episodes
from textrl.decoding import Decoding
from textrl.evaluation import evaluate
from textrl.model import TextRLModel
from textrl.trainer import train

# Nearly all end in "ight": to try them one after the other takes luck, "storm" tells many apart.
WORDS = ("light", "might", "night", "right", "sight", "fight", "tight", "eight", "flint", "storm")


@pytest.mark.parametrize(
    ("algo", "changes"),
    [
        ("bc", {}),
        ("filtered-bc", {}),
        ("cql", {"conservatism": 0.3, "return_lambda": 0.9}),
        ("ilql", {}),
        ("ilql", {"bisim": 0.05}),
    ],
)
def test_every_algorithm_learns_to_use_the_clues(
    algo: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    task = WordleTask(WordList("ight", WORDS, WORDS))
    rows = task.collect(6000, seed=0, folder=tmp_path / "games", workers=1)
    config = TrainConfig(
        algo=algo,  # type: ignore[arg-type]
        optimizer="muon",
        layers=2,
        width=32,
        batch_size=32,
        max_steps=400,
        warmup_steps=20,
        action_lambda=0.9,
        discount=1.0,
        evaluate_every=400,
        save_every=400,
        **changes,
    )
    algorithm = ALGORITHMS[algo]
    keep = best_episodes(rows, config.keep_top) if algorithm.filters_episodes else None
    torch.manual_seed(0)
    model = TextRLModel(config_for(task, config, algorithm.heads, algorithm.q_heads))
    untrained = evaluate(task, model, Decoding(beta=4.0, sample=True), episodes=200, seed=0)
    train(
        config,
        Accelerator(cpu=True),
        model,
        algorithm.make_loss(config),
        EpisodeBatches(rows, task.language, batch_size=config.batch_size, keep=keep),
        evaluate=lambda _: {"greedy": 0.0},
        export=lambda *_: None,
        output=tmp_path,
    )
    trained = evaluate(task, model, Decoding(beta=4.0, sample=True), episodes=200, seed=0)
    assert trained.estimate.mean > untrained.estimate.mean + 0.5
    assert trained.metrics["clue_violating_rate"] < 0.75 * untrained.metrics["clue_violating_rate"]
