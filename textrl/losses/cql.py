"""Conservative Q-learning (Kumar et al. 2020) with double-Q targets, per action token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.algorithms.cql import CQLOptions
from textrl.data.batches import Batch
from textrl.losses.ops import (
    conservative_loss,
    lambda_returns,
    legal_only,
    masked_mean,
    next_states,
    of_actions,
)
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class CQLTerms:
    """The terms of the loss, then averages worth watching."""

    total: Tensor
    q: Tensor
    conservative: Tensor
    mean_q: Tensor
    accuracy: Tensor  # how often the greedy token was the one taken


def double_q_values(q: Tensor, target_q: Tensor, legal: Tensor | None) -> Tensor:
    """Value of each state: the target's Q of the token that the online Q likes best.

    q, target_q: (heads, batch, states, tokens); legal: (batch, states, tokens) -> (heads, batch,
    states).
    """
    best = legal_only(q, legal).argmax(dim=-1, keepdim=True)
    return target_q.gather(-1, best).squeeze(-1)


def cql_loss(outputs: TextRLOutput, batch: Batch, options: CQLOptions) -> CQLTerms:
    """(Q(a) - (r + discount Qbar(s', argmax Q(s'))))^2 + conservatism (logsumexp Q - Q(a)).

    State k is the history before action k; its successor is the state before the episode's next
    action token. The last one's next value is 0 if terminated, that of the history's end if
    truncated. Sums over the Q heads, each with its own target. Values count in units of
    reward_scale.
    """
    assert outputs.q is not None and outputs.target_q is not None
    actions = batch.actions.shape[1]
    counts, total = batch.counts, batch.action_count
    q, legal = outputs.q[:, :, :actions], batch.log_legal_actions
    with torch.no_grad():
        mix = torch.where(batch.is_followed, options.return_lambda, 0.0)
        values = double_q_values(outputs.q, outputs.target_q, batch.log_legal)
        targets = [
            lambda_returns(
                rewards=batch.rewards,
                next_values=next_states(value, actions),
                has_next=batch.has_next,
                mix=mix,
                discount=options.discount,
                return_after=batch.return_after,
            )
            for value in values
        ]
        greedy = legal_only(q.amin(dim=0), legal).argmax(dim=-1)
        hits = (greedy == batch.actions).to(q.dtype)
    q_taken = of_actions(q, batch.actions)
    scale = options.reward_scale
    error = (q_taken - torch.stack(targets)) / scale
    q_loss = masked_mean(error.square().sum(0), counts, total)
    conservative = conservative_loss(q, legal, batch.actions, counts, total, scale)
    return CQLTerms(
        total=options.value_weight * q_loss + options.conservatism * conservative,
        q=q_loss,
        conservative=conservative,
        mean_q=masked_mean(q_taken.detach().mean(0), counts, total),
        accuracy=masked_mean(hits, counts, total),
    )
