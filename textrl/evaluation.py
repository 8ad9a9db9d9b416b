"""Judging a model: play the task under both decodings and sum it up."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.config import TrainConfig
from textrl.model import TextRLModel
from textrl.policy import Decoding, Policy
from textrl.report import Estimate
from textrl.rollout import play
from textrl.task import Task


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
