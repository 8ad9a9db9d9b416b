"""Judging a model by play: the task under both decodings, beside the references, summed up."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.acting.rollout import play
from textrl.evaluation.report import Estimate, score_table
from textrl.model.network import TextRLModel
from textrl.tasks.task import Reference, Task


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
    variants: "dict[str, Judgement]"
    """The same of the task's variants, by name."""

    def describe(self, task: Task) -> str:
        """For people."""
        scores = {f"agent, {each.decoding.name}": each.estimate for each in self.results}
        ways = [f"\n{each.decoding.name}: {task.describe(each.metrics)}" for each in self.results]
        others = task.variants()
        told = [f"\n{name}:\n{each.describe(others[name])}" for name, each in self.variants.items()]
        return "\n".join([score_table(scores, self.references), *ways, *told])

    def to_json(self) -> dict[str, Any]:
        """For programs; the first result is the headline."""
        headline = self.results[0]
        variants = {name: each.to_json() for name, each in self.variants.items()}
        return {
            "beta": headline.decoding.beta,
            "candidates": headline.decoding.candidates,
            "temperature": headline.decoding.temperature,
            "seed": self.seed,
            **headline.to_json(),
            "decoding": headline.decoding.name,
            "decodings": {each.decoding.name: each.to_json() for each in self.results},
            "references": {name: each.mean for name, each in self.references.items()},
            "references_stderr": {name: each.stderr for name, each in self.references.items()},
            "games_per_second": sum(len(each.scores) for each in self.results) / self.seconds,
            **({"variants": variants} if variants else {}),
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
    task: Task,
    model: TextRLModel,
    episodes: int,
    beta: float | None,
    seed: int,
    candidates: int | None = None,
    temperature: float | None = None,
) -> list[Result]:
    """Results of greedy and of sampled play; beta, candidates, temperature: None = as trained."""
    greedy, sampled = (
        Decoding.of(model, sample, beta, candidates, temperature) for sample in (False, True)
    )
    return [
        evaluate(task, model, greedy, episodes, seed),
        evaluate(task, model, sampled, task.sampled_rounds * episodes, seed),
    ]


def judge_play(
    task: Task,
    model: TextRLModel,
    episodes: int,
    beta: float | None = None,
    seed: int = 0,
    candidates: int | None = None,
    temperature: float | None = None,
) -> Judgement:
    """Play both ways and look up what others score, in the task and in its variants."""
    began = time.perf_counter()
    results = play_both(task, model, episodes, beta, seed, candidates, temperature)
    seconds = time.perf_counter() - began
    variants = {
        name: judge_play(variant, model, episodes, beta, seed, candidates, temperature)
        for name, variant in task.variants().items()
    }
    return Judgement(results, task.references(seed), seconds, seed, variants)


def quick_play(task: Task, model: TextRLModel, episodes: int, seed: int) -> dict[str, float]:
    """The mean scores of few episodes, by decoding; greedy play first."""
    ways = [Decoding.of(model, sample) for sample in (False, True)]
    return {way.name: evaluate(task, model, way, episodes, seed).estimate.mean for way in ways}
