"""Judging a model: play the task under both decodings, beside the references, and sum it up."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.config import TrainConfig
from textrl.model import TextRLModel
from textrl.policy import Decoding, Policy
from textrl.report import Estimate, score_table
from textrl.rollout import play
from textrl.task import Reference, Task

SAMPLED_ROUNDS = 4  # a sample differs from game to game, so each episode is played this often


@dataclass(frozen=True)
class Result:
    """How a model plays under one decoding."""

    decoding: Decoding
    estimate: Estimate
    scores: NDArray[np.float64]
    metrics: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        low, high = self.estimate.interval
        return {
            "mean": self.estimate.mean,
            "stderr": self.estimate.stderr,
            "interval_95": [low, high],
            "episodes": self.estimate.count,
            **self.metrics,
        }


@dataclass(frozen=True)
class Judgement:
    """How a model plays, and how others do."""

    results: list[Result]
    references: dict[str, Reference]
    seconds: float  # of the model's play
    seed: int

    def describe(self, task: Task) -> str:
        """For people."""
        scores = {f"agent, {each.decoding.name}": each.estimate for each in self.results}
        ways = [f"\n{each.decoding.name}: {task.describe(each.metrics)}" for each in self.results]
        return "\n".join([score_table(scores, self.references), *ways])

    def to_json(self) -> dict[str, Any]:
        """For programs; the first result is the headline."""
        headline = self.results[0]
        return {
            "beta": headline.decoding.beta,
            "seed": self.seed,
            **headline.to_json(),
            "decoding": headline.decoding.name,
            "decodings": {each.decoding.name: each.to_json() for each in self.results},
            "references": {name: each.mean for name, each in self.references.items()},
            "references_stderr": {name: each.stderr for name, each in self.references.items()},
            "games_per_second": sum(len(each.scores) for each in self.results) / self.seconds,
        }


def evaluate(
    task: Task, model: TextRLModel, decoding: Decoding, episodes: int, seed: int
) -> Result:
    """Play this many episodes."""
    was_training = model.training
    model.train(False)
    played = play(task, Policy(model, task.language, decoding, seed), episodes, seed)
    model.train(was_training)
    scores = played.scores
    return Result(decoding, Estimate.of(scores), scores, task.metrics(scores, played.infos))


def play_both(
    task: Task, model: TextRLModel, episodes: int, beta: float | None, seed: int
) -> list[Result]:
    """Results of greedy and of sampled play; beta: None = as trained."""
    beta = model.config.beta if beta is None else beta
    greedy = evaluate(task, model, Decoding(beta, sample=False), episodes, seed)
    sampled = evaluate(task, model, Decoding(beta, sample=True), episodes * SAMPLED_ROUNDS, seed)
    return [greedy, sampled]


def judge(
    task: Task, model: TextRLModel, episodes: int, beta: float | None = None, seed: int = 0
) -> Judgement:
    """Play both ways and look up what others score."""
    began = time.perf_counter()
    results = play_both(task, model, episodes, beta, seed)
    seconds = time.perf_counter() - began
    return Judgement(results, task.references(seed), seconds, seed)


def quick_scores(task: Task, config: TrainConfig, model: TextRLModel) -> dict[str, float]:
    """The mean scores that training watches, greedy first."""
    return {
        decoding.name: evaluate(
            task, model, decoding, config.evaluate_episodes, config.seed
        ).estimate.mean
        for decoding in (
            Decoding(model.config.beta, sample=False),
            Decoding(model.config.beta, sample=True),
        )
    }
