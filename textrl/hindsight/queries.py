"""Which later step each history of a batch is asked about."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textrl.data.batches import Batch
from textrl.hindsight.survey import Survey
from textrl.losses.ops import at_end_of_action


@dataclass(frozen=True)
class Queries:
    """One for each history of a batch that has something to be asked; shapes (batch, actions).

    History t is the state before action token t.
    """

    step: Tensor
    """The token that completes the action asked about: t or later, in the same episode."""
    is_asked: Tensor
    """False on padding, and where nothing that follows is worth asking."""
    observation: Tensor | None
    """Class of the observation asked about; None: the query is the action."""
    actions: Tensor
    """The action tokens of the batch."""
    place: Tensor
    """Each one's place within its action, from 0."""
    end: Tensor
    """The token that completes the action under way, or the last there is."""
    tests: "CommonQueries | None" = None
    """By which pairs of histories are compared, where they are."""

    def to(self, device: torch.device) -> "Queries":
        """The same on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)


@dataclass(frozen=True)
class CommonQueries:
    """Queries that every history is asked, in place of what it met with."""

    observations: Tensor  # (tests,)
    shares: Tensor  # (tests,): how much each counts; their sum is 1
    values: Tensor  # (reward classes,): what each pays

    @classmethod
    def of(cls, survey: Survey, device: torch.device) -> "CommonQueries":
        """Those that the data ask most."""
        return cls(survey.tests.to(device), survey.shares.to(device), survey.values.to(device))


def draw_queries(batch: Batch, survey: Survey, seed: tuple[int, ...], longest: int) -> Queries:
    """For each history a later step of its episode, drawn by the survey's weights (on the CPU).

    seed decides which, together with an episode's place in the step: however that is spread over
    processes and passes, the same is asked. longest: more action tokens than any episode has.
    """
    weights = survey.weights(batch).double()
    episodes, actions = weights.shape
    places = batch.first_place + batch.place_stride * np.arange(episodes)
    dice = np.random.default_rng(seed).random((int(places[-1]) + 1, longest))
    until = weights.cumsum(dim=1)
    before = until - weights
    left = until[:, -1:] - before
    # At most as far as the last weight reaches, whatever the rounding.
    aim = before + torch.from_numpy(dice[places, :actions]) * left
    step = torch.searchsorted(until, aim.contiguous(), right=True)
    last = actions - 1 - (weights > 0).flip(1).to(torch.int64).argmax(dim=1, keepdim=True)
    index = torch.arange(actions).expand(episodes, -1)
    is_asked = batch.is_action & (index <= last) & (weights > 0).any(dim=1, keepdim=True)
    step = torch.where(is_asked, torch.minimum(step, last), index)
    begins = torch.nn.functional.pad(batch.ends_action, (1, 0))[:, :-1]
    start = torch.where(begins, index, 0).cummax(dim=1).values
    return Queries(
        step=step,
        is_asked=is_asked,
        observation=batch.observations.gather(1, step) if survey.about_observations else None,
        actions=batch.actions,
        place=index - start,
        end=at_end_of_action(index, batch.ends_action, batch.is_action),
    )
