"""What the data say of queries: which rewards there are, and at which observations they differ."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.config.train import RepresentationConfig, TrainConfig
from textrl.data.batches import Batch, collate, read_rows
from textrl.data.dataset import best_episodes
from textrl.data.language import TokenLanguage
from textrl.errors import UserError
from textrl.tasks.members import Members, expect
from textrl.tasks.task import Task

REWARD_CLASSES = 16
"""At most. More different rewards than that are told apart by quantiles."""
EPISODES = 20_000
"""So many episodes, evenly spaced over the data, tell enough."""
ROWS = 1_000  # read at once
MOST_TESTS = 16


@dataclass(frozen=True)
class Survey:
    """How the queries of one task are drawn and answered."""

    borders: Tensor
    """(classes - 1,): between neighbouring classes of rewards."""
    weight: Tensor
    """(observation classes,): how often each observation is asked about, against the others."""
    about_observations: bool
    """Queries name an observation; else an action."""
    answerable: float = 1.0
    """The share of the data's histories that a later step asks something."""
    values: Tensor = field(default_factory=lambda: torch.zeros(0))
    """(classes,): the mean reward of each class."""
    tests: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """(tests,): the observations that are asked about most."""
    shares: Tensor = field(default_factory=lambda: torch.zeros(0))
    """(tests,): how often, against each other; their sum is 1."""

    @property
    def reward_classes(self) -> int:
        """How many answers there are."""
        return len(self.borders) + 1

    def class_of(self, rewards: Tensor) -> Tensor:
        """The classes of rewards of any shape."""
        return torch.bucketize(rewards.contiguous(), self.borders.to(rewards.device), right=True)

    def weights(self, batch: Batch) -> Tensor:
        """(batch, actions): how often each step is asked about, against the others."""
        if not self.about_observations:
            return batch.ends_action.double()
        seen = batch.observations
        # What an episode ends without having observed has no class.
        known = self.weight.to(seen.device)[seen.clamp_min(0)]
        return known * (batch.ends_action & (seen >= 0))


def surveys_of(members: Members, run: TrainConfig) -> list[Survey]:
    """Of the episodes that each of a run's tasks is learned from."""
    found = []
    for name, member in run.members.items():
        task = expect(members.tasks[name], Task, "hindsight")
        rows, top = task.rows(member), getattr(member.algo_options, "keep_top", None)
        keep = np.arange(len(rows)) if top is None else best_episodes(rows, top)
        classes = task.observation_classes
        found.append(survey(rows, keep, task.language, classes, run.representation))
        if run.bisimulation.asks and not found[-1].about_observations:
            raise UserError(
                f"--metric hindsight: the rewards in {name}'s data never differ at the same"
                " observation, by which histories could be compared: use --metric next"
            )
    return found


def survey(
    rows: Any,
    keep: NDArray[np.int64],
    language: TokenLanguage,
    classes: int,
    options: RepresentationConfig,
) -> Survey:
    """Look through the rows of a task's data to keep. classes: of its observations."""
    if options.query == "observation" and not classes:
        raise UserError(
            "--represent-query observation: the observations of this task have no classes: ask"
            " about actions"
        )
    rewards: dict[float, int] = {}
    for batch in blocks(rows, keep, language):
        values, counts = np.unique(batch.rewards[batch.ends_action].numpy(), return_counts=True)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            rewards[value] = rewards.get(value, 0) + count
    found = Survey(borders_between(rewards), torch.ones(max(1, classes), dtype=torch.float64), True)
    found = replace(found, values=class_means(rewards, found))
    differs = torch.zeros_like(found.weight)
    if classes:
        table = np.zeros((classes, found.reward_classes))
        for batch in blocks(rows, keep, language):
            asked = batch.ends_action & (batch.observations >= 0)
            at = (batch.observations[asked].numpy(), found.class_of(batch.rewards[asked]).numpy())
            np.add.at(table, at, 1)
        differs = torch.from_numpy(impurity(table))
        most: dict[str, Any] = asked_most(differs, torch.from_numpy(table.sum(axis=1)))
        found = replace(found, **most)
    about = options.query == "observation" or (options.query == "auto" and bool(differs.any()))
    if about and not differs.any():
        raise UserError(
            "--represent-query observation: the data's rewards never differ at the same"
            " observation: ask about actions"
        )
    if options.draw == "informative" and about:
        found = replace(found, weight=differs)
    found = replace(found, about_observations=about)
    asked_histories, histories = 0, 0
    for batch in blocks(rows, keep, language):
        later = found.weights(batch).flip(1).cumsum(1).flip(1)
        asked_histories += int((batch.is_action & (later > 0)).sum())
        histories += int(batch.is_action.sum())
    return replace(found, answerable=asked_histories / histories)


def blocks(rows: Any, keep: NDArray[np.int64], language: TokenLanguage) -> Iterator[Batch]:
    """The surveyed episodes, some at a time."""
    chosen = keep[np.unique(np.linspace(0, len(keep) - 1, EPISODES).astype(np.int64))]
    for start in range(0, len(chosen), ROWS):
        block = read_rows(rows, chosen[start : start + ROWS])
        yield collate(block, np.arange(len(block.lengths)), language)


def borders_between(counts: dict[float, int]) -> Tensor:
    """Halfway between neighbouring rewards or, of too many, between their quantiles."""
    values = np.array(sorted(counts))
    if len(values) > REWARD_CLASSES:
        often = np.cumsum([counts[value] for value in values.tolist()])
        shares = np.arange(1, REWARD_CLASSES) / REWARD_CLASSES
        # A reward that many share is one class, however many quantiles it covers.
        last = np.unique(np.searchsorted(often, shares * often[-1]))
        last = last[last < len(values) - 1]
        return torch.from_numpy((values[last] + values[last + 1]) / 2).float()
    return torch.from_numpy((values[1:] + values[:-1]) / 2).float()


def class_means(counts: dict[float, int], found: Survey) -> Tensor:
    """The mean reward of each class."""
    values = torch.tensor(list(counts), dtype=torch.float32)
    often = torch.tensor(list(counts.values()), dtype=torch.float32)
    classes, zeros = found.class_of(values), torch.zeros(found.reward_classes)
    return zeros.index_add(0, classes, values * often) / zeros.index_add(0, classes, often)


def asked_most(weight: Tensor, seen: Tensor) -> dict[str, Tensor]:
    """The observations that queries drawn by weight name most often, and how often."""
    mass = weight * seen
    tests = mass.argsort(descending=True, stable=True)[: min(MOST_TESTS, int((mass > 0).sum()))]
    return {"tests": tests, "shares": (mass[tests] / mass[tests].sum()).float()}


def impurity(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - sum p^2 of each row's counts: the chance that two draws differ. 2 p (1 - p) of two."""
    total = table.sum(axis=1, keepdims=True)
    shares = table / np.maximum(total, 1)
    return np.where(total[:, 0] > 0, 1 - np.square(shares).sum(axis=1), 0.0).clip(min=0)
