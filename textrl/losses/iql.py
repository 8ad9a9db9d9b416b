"""Implicit Q-learning (Kostrikov et al. 2022) per action token, the policy by n-step advantages."""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.algorithms.iql import DECISIONS_PER_UNIT, IQLOptions
from textrl.data.batches import Batch
from textrl.losses.ops import (
    lambda_returns,
    log_softmax_of,
    masked_mean,
    next_states,
    of_actions,
)
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class IQLTerms:
    """The terms of the loss, then averages worth watching."""

    total: Tensor
    policy: Tensor
    q: Tensor
    v: Tensor
    mean_q: Tensor
    mean_v: Tensor
    mean_weight: Tensor  # of an action in the policy's loss; far below 1, few of them are imitated


@dataclass(frozen=True)
class Told:
    """What values are to learn of a batch: rewards, their discount, what followed the windows."""

    rewards: Tensor
    discount: float
    return_after: Tensor
    values: Tensor  # the slow V of every state


def huber(errors: Tensor, border: float) -> Tensor:
    """errors squared; beyond the border their slope stays what it is there. border 0: none."""
    if not border:
        return errors.square()
    size = errors.abs()
    return torch.where(size < border, errors.square(), border * (2 * size - border))


def told(batch: Batch, values: Tensor, options: IQLOptions) -> Told:
    """The batch as the chosen kind of value sees it; values: the slow V of every state."""
    if options.value == "return":
        return Told(batch.rewards, options.discount, batch.return_after, values)
    values = values.clamp(max=0.0)  # nobody is nearer than there
    rewards = torch.where(batch.is_action, -1 / DECISIONS_PER_UNIT, 0.0).to(values.dtype)
    is_last = batch.is_action & ~torch.nn.functional.pad(batch.is_action, (0, 1))[:, 1:]
    ahead = next_states(values, batch.actions.shape[1])
    after = (batch.left / -DECISIONS_PER_UNIT).to(values.dtype)
    # After a time limit nobody knows how far it would have been.
    is_known = batch.left >= 0
    if options.return_cut:
        is_known = is_known & (after > ahead - 2 * options.return_cut)
    after = torch.where(is_known, after, ahead)
    return Told(rewards, 1.0, torch.where(is_last & batch.is_followed, after, 0.0), values)


def n_step_advantages(seen: Told, batch: Batch, steps: int) -> tuple[Tensor, Tensor]:
    """What an action and the next ones bring above V, and where all `steps` of them are there.

    Both (batch, actions). An episode that ends earlier is complete; a window or a time limit that
    cuts it is not: over fewer steps every action looks more like the best.
    """
    actions = batch.actions.shape[1]
    ahead, is_whole = seen.values, torch.ones_like(seen.values, dtype=torch.bool)
    at_states = (0, seen.values.shape[1] - actions)
    is_action = torch.nn.functional.pad(batch.is_action, at_states)
    for _ in range(steps):
        following = torch.where(batch.has_next, next_states(ahead, actions), 0.0)
        brought = torch.nn.functional.pad(seen.rewards + seen.discount * following, at_states)
        reaches = ~batch.has_next | next_states(is_whole, actions)
        ahead = torch.where(is_action, brought, seen.values)
        is_whole = is_action & torch.nn.functional.pad(reaches, at_states)
    return (ahead - seen.values)[:, :actions], is_whole[:, :actions]


def iql_loss(outputs: TextRLOutput, batch: Batch, options: IQLOptions) -> IQLTerms:
    """Twin Q to lambda-returns of the slow V, V to an expectile, the policy to good actions.

    V's expectile is of the lower target Q of the action taken, or of its return. The policy's loss
    is -exp(advantage / scale) log pi(action), the weight no larger than the cap.

    State k is the history before action k; its successor is the state before the episode's next
    action token. The last one's next value is 0 if terminated, V at the history's end if truncated.
    Values count in units of reward_scale.
    """
    assert outputs.policy is not None and outputs.q is not None and outputs.v is not None
    assert outputs.target_q is not None and outputs.slow_v is not None
    actions = batch.actions.shape[1]
    counts, total = batch.counts, batch.action_count
    v, scale = outputs.v[:, :actions], options.reward_scale
    with torch.no_grad():
        seen = told(batch, outputs.slow_v, options)
        returns = lambda_returns(
            rewards=seen.rewards,
            next_values=next_states(seen.values, actions),
            has_next=batch.has_next,
            mix=torch.where(batch.is_followed, options.return_lambda, 0.0),
            discount=seen.discount,
            return_after=seen.return_after,
            cut=options.return_cut,
        )
        learned = returns
        if options.v_learns == "q":
            learned = of_actions(outputs.target_q[:, :, :actions], batch.actions).amin(dim=0)
        advantages, is_whole = n_step_advantages(seen, batch, options.advantage_steps)
        weights = (advantages / (scale * options.advantage_scale)).exp()
        weights = weights.clamp(max=options.weight_cap)
        weights = torch.where(is_whole, weights, 0.0)
    gap = (learned - v) / scale
    lean = torch.where(gap > 0, options.expectile, 1 - options.expectile)
    v_loss = masked_mean(lean * huber(gap, options.huber), counts, total)
    q_taken = of_actions(outputs.q[:, :, :actions], batch.actions)
    q_loss = masked_mean(huber((q_taken - returns) / scale, options.huber).sum(0), counts, total)
    log_pi = log_softmax_of(outputs.policy[:, :actions], batch.log_legal_actions, batch.actions)
    policy = masked_mean(-weights * log_pi, counts, total)
    return IQLTerms(
        total=options.policy_weight * policy + options.value_weight * (q_loss + v_loss),
        policy=policy,
        q=q_loss,
        v=v_loss,
        mean_q=masked_mean(q_taken.detach().mean(0), counts, total),
        mean_v=masked_mean(v.detach(), counts, total),
        mean_weight=masked_mean(weights, counts, total),
    )
