"""Implicit language Q-learning (Snell et al. 2023): values by expectiles, per action token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.algorithms.ilql import ILQLOptions
from textrl.data.batches import Batch
from textrl.losses.bc import imitation_loss
from textrl.losses.ops import (
    at_end_of_action,
    conservative_loss,
    lambda_returns,
    masked_mean,
    next_states,
    of_actions,
)
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class ILQLTerms:
    """The terms of the loss, then averages worth watching."""

    total: Tensor
    policy: Tensor
    q: Tensor
    v: Tensor
    conservative: Tensor
    mean_q: Tensor
    mean_v: Tensor


def expectile_value_loss(
    v: Tensor, target_q: Tensor, counts: Tensor, total: float, expectile: float
) -> Tensor:
    """Expectile regression of V on the target Q of the action taken.

    v, target_q, counts: (batch, actions); counts is True where an action token really is.
    """
    gap = target_q - v
    weight = torch.where(gap > 0, expectile, 1 - expectile)
    return masked_mean(weight * gap.square(), counts, total)


def ilql_loss(outputs: TextRLOutput, batch: Batch, options: ILQLOptions) -> ILQLTerms:
    """Twin Q to r + discount V(next), V to an expectile of min target Q, CQL's term, and imitation.

    The Q that V learns is that of the token taken or, with whole_actions, of the action's last one.

    State k is the history before action k; its successor is the state before the episode's next
    action token. The last one's next value is 0 if terminated, V at the history's end if truncated.
    Values count in units of reward_scale.
    """
    assert outputs.policy is not None and outputs.q is not None
    assert outputs.v is not None and outputs.target_q is not None
    actions = batch.actions.shape[1]
    counts, total = batch.counts, batch.action_count
    v = outputs.v[:, :actions]
    with torch.no_grad():
        target_q = of_actions(outputs.target_q[:, :, :actions], batch.actions).amin(dim=0)
        if options.whole_actions:
            target_q = at_end_of_action(target_q, batch.ends_action, batch.is_action)
        mix = torch.where(batch.ends_action, options.return_lambda, options.action_lambda)
        returns = lambda_returns(
            rewards=batch.rewards,
            next_values=next_states(outputs.v, actions),
            has_next=batch.has_next,
            mix=torch.where(batch.is_followed, mix, 0.0),
            discount=options.discount,
            return_after=batch.return_after,
        )
    q_taken = of_actions(outputs.q[:, :, :actions], batch.actions)
    scale = options.reward_scale
    q_loss = masked_mean(((q_taken - returns) / scale).square().sum(0), counts, total)
    v_loss = expectile_value_loss(v / scale, target_q / scale, counts, total, options.expectile)
    conservative = conservative_loss(
        outputs.q[:, :, :actions], batch.log_legal_actions, batch.actions, counts, total, scale
    )
    policy = imitation_loss(outputs.policy, batch)
    return ILQLTerms(
        total=policy
        + options.value_weight * (q_loss + v_loss)
        + options.conservatism * conservative,
        policy=policy,
        q=q_loss,
        v=v_loss,
        conservative=conservative,
        mean_q=masked_mean(q_taken.detach().mean(0), counts, total),
        mean_v=masked_mean(v.detach(), counts, total),
    )
