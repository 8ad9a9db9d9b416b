"""Runs that must learn: some seconds of training on a small list, judged by play."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from textrl.acting.decoding import Decoding
from textrl.config.presets import configure
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.evaluation.play import evaluate
from textrl.model.build import config_for
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.loop import Hooks, train_loop

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
        ("iql", {"return_lambda": 0.9, "advantage_scale": 0.3}),
    ],
)
def test_every_algorithm_learns_to_use_the_clues(
    algo: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    task = WordleTask(WordList("ight", WORDS, WORDS))
    rows = task.collect(6000, seed=0, folder=tmp_path / "games", workers=1)
    run = configure(
        "wordle",
        algo=algo,
        optimizer="muon",
        layers=2,
        width=32,
        batch_size=32,
        max_steps=400,
        warmup_steps=20,
        **({"action_lambda": 0.9} if algo == "ilql" else {}),
        discount=1.0,
        evaluate_every=400,
        save_every=400,
        **changes,
    )
    (member,) = run.members.values()
    batches, episodes = task.batches(member, run, rows=rows)
    assert (episodes < len(rows)) == (algo == "filtered-bc")
    torch.manual_seed(0)
    model = TextRLModel(config_for(Members({"wordle": task}), run))
    untrained = evaluate(task, model, Decoding(beta=4.0, sample=True), episodes=200, seed=0)
    train_loop(
        run,
        Accelerator(cpu=True),
        model,
        make_loss(run),
        batches,
        Hooks(evaluate=lambda _: {"greedy": 0.0}, export=lambda *_: None),
        tmp_path,
    )
    trained = evaluate(task, model, Decoding(beta=4.0, sample=True), episodes=200, seed=0)
    assert trained.estimate.mean > untrained.estimate.mean + 0.5
    assert trained.metrics["clue_violating_rate"] < 0.75 * untrained.metrics["clue_violating_rate"]
