"""The few operations that the losses share."""

from typing import Protocol

import torch
from torch import Tensor

from textrl.data.batches import Batch


class Terms(Protocol):
    """What a loss returns: a frozen dataclass of named scalars."""

    @property
    def total(self) -> Tensor:
        """What is minimized."""


def masked_mean(values: Tensor, counts: Tensor, total: float) -> Tensor:
    """Sum of the values where `counts` is True, divided by `total`.

    counts: numbers may stand for True, by which the values are multiplied, and 0 for False.
    total: the sum of counts in the whole step. It is given, not counted here, because a step may
    be spread over processes and micro-batches, whose sum has to equal one large batch's mean.
    """
    if counts.dtype != torch.bool:
        counts, values = counts > 0, values * counts
    return torch.where(counts, values, 0.0).sum() / total


def of_actions(values: Tensor, actions: Tensor) -> Tensor:
    """The entries of the actions taken: values (..., batch, actions, tokens) without the last."""
    index = actions.expand(values.shape[:-1])[..., None]
    return values.gather(-1, index).squeeze(-1)


def legal_only(values: Tensor, legal: Tensor | None) -> Tensor:
    """values (..., tokens) with minus infinity at tokens that the grammar does not allow.

    legal: None where every token is allowed, so that a large vocabulary needs no mask of its size.
    It may be a batch's `log_legal` as well: a sum costs a CPU a sixth of what filling in does.
    """
    if legal is None:
        return values
    return values.masked_fill(~legal, -torch.inf) if legal.dtype == torch.bool else values + legal


def log_softmax_of(values: Tensor, legal: Tensor | None, actions: Tensor) -> Tensor:
    """The log-softmax over legal tokens at the actions taken: values without the last dimension."""
    return of_actions(legal_only(values, legal).log_softmax(dim=-1), actions)


def conservative_loss(
    q: Tensor,
    legal: Tensor | None,
    actions: Tensor,
    counts: Tensor,
    total: float,
    scale: float = 1.0,
) -> Tensor:
    """CQL's regularizer, summed over the Q heads: logsumexp over legal tokens - Q of the one taken.

    q: (heads, batch, actions, tokens); legal without the heads; actions: (batch, actions).
    scale: what a value of 1 is in here.
    """
    # Which is how unlikely the token is by the softmax of Q, in one kernel that has no trouble with
    # infinities. Padding has an arbitrary grammar state; it is masked out of the mean.
    gap = -log_softmax_of(q if scale == 1 else q / scale, legal, actions)
    return masked_mean(gap.sum(0), counts, total)


def at_end_of_action(values: Tensor, ends_action: Tensor, is_action: Tensor) -> Tensor:
    """For every token of an action, the value at its last one; all (batch, actions).

    An action that a time limit cut in its middle ends at the last token that there is.
    """
    is_followed = torch.nn.functional.pad(is_action, (0, 1))[:, 1:]
    place = torch.arange(values.shape[1], device=values.device)
    ends = torch.where(ends_action | ~is_followed, place, values.shape[1])
    # The first end at or after each place.
    index = ends.flip(1).cummin(dim=1).values.flip(1)
    return values.gather(1, index)


def next_states(values: Tensor, actions: int) -> Tensor:
    """Align values of states with the actions that lead there: (batch, states) -> (batch, actions).

    Action k leads to state k + 1. Where no end state was read, a zero stands after the last action.
    """
    return torch.nn.functional.pad(values, (0, actions + 1 - values.shape[1]))[:, 1:]


def lambda_returns(
    rewards: Tensor,
    next_values: Tensor,
    has_next: Tensor,
    mix: Tensor,
    discount: float,
    return_after: Tensor | None = None,
    cut: float = 0.0,
) -> Tensor:
    """G_k = r_k + discount ((1 - mix_k) V_{k+1} + mix_k G_{k+1}); all (batch, actions).

    mix = 0 is the one-step target, mix = 1 the return to the episode's end. has_next is False where
    no value follows (a terminal action, padding). After a window's last action the return that
    really followed, return_after (0 elsewhere), stands for G. Where no action follows at all there
    is no G to mix in: give mix = 0 there, and an episode that was cut takes all of V.

    cut: no G counts for less than V_{k+1} - cut; 0 = however little it is.
    """
    known = (1 - mix) * next_values
    if return_after is not None:
        known = known + mix * return_after
    one_step = rewards + discount * torch.where(has_next, known, 0.0)
    carried = discount * torch.where(has_next, mix, 0.0)
    returns = torch.empty_like(rewards)
    following = torch.zeros_like(rewards[:, 0])
    # What is left of that after return_after, which one_step counts already.
    least = next_values - cut - (0.0 if return_after is None else return_after) if cut else None
    for k in reversed(range(rewards.shape[1])):
        if least is not None:
            following = torch.maximum(following, least[:, k])
        following = one_step[:, k] + carried[:, k] * following
        returns[:, k] = following
    return returns


def returns_to_go(batch: Batch, discount: float) -> Tensor:
    """The discounted return that followed each action token, as far as it was logged."""
    return lambda_returns(
        rewards=batch.rewards,
        next_values=torch.zeros_like(batch.rewards),
        has_next=batch.has_next,
        mix=torch.ones_like(batch.rewards),
        discount=discount,
        return_after=batch.return_after,
    )
