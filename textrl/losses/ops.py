"""The few operations that the losses share."""

from typing import Protocol

import torch
from torch import Tensor


class Terms(Protocol):
    """What a loss returns: a frozen dataclass of named scalars."""

    @property
    def total(self) -> Tensor:
        """What is minimized."""


def masked_mean(values: Tensor, counts: Tensor, total: int) -> Tensor:
    """Sum of the values where `counts` is True, divided by `total`.

    total: how many there are in the whole step. It is given, not counted here, because a step may
    be spread over processes and micro-batches, whose sum has to equal one large batch's mean.
    """
    return torch.where(counts, values, 0.0).sum() / total


def of_actions(values: Tensor, actions: Tensor) -> Tensor:
    """The entries of the actions taken: values (..., batch, actions, tokens) without the last."""
    index = actions.expand(values.shape[:-1])[..., None]
    return values.gather(-1, index).squeeze(-1)


def legal_only(values: Tensor, legal: Tensor) -> Tensor:
    """values (..., tokens) with minus infinity at tokens that the grammar does not allow."""
    return values.masked_fill(~legal, -torch.inf)


def next_states(values: Tensor, actions: int) -> Tensor:
    """Align values of states with the actions that lead there: (batch, states) -> (batch, actions).

    Action k leads to state k + 1. Where no end state was read, a zero stands after the last action.
    """
    return torch.nn.functional.pad(values, (0, actions + 1 - values.shape[1]))[:, 1:]


def lambda_returns(
    rewards: Tensor,
    next_values: Tensor,
    has_next: Tensor,
    is_last: Tensor,
    discount: float,
    mix: float,
) -> Tensor:
    """G_k = r_k + discount ((1 - mix) V_{k+1} + mix G_{k+1}); all (batch, actions).

    mix = 0 is the one-step target, mix = 1 the return to the episode's end. After the last action
    there is no G: it takes all of V if the episode was cut there (has_next), nothing if it ended.
    """
    share = torch.where(is_last, 1.0, 1.0 - mix)
    one_step = rewards + discount * torch.where(has_next, share * next_values, 0.0)
    steps = torch.arange(rewards.shape[1], device=rewards.device)
    ahead = steps[None, :] - steps[:, None]
    # mix ** 0 = 1 also for mix = 0: the diagonal is the step's own reward.
    decay = torch.where(ahead >= 0, (discount * mix) ** ahead.clamp(min=0).to(rewards.dtype), 0.0)
    return one_step @ decay.T
