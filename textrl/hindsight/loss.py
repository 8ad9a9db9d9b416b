"""The hindsight loss: representations that answer what later steps of the episode ask.

Two histories are alike if every test has the same outcome (predictive state representations,
Littman et al. 2001). A later step of the data is such a test: what was earned there, given what was
observed or done.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.bisimulation.loss import dynamics_fit
from textrl.config.train import RepresentationConfig
from textrl.data.batches import Batch
from textrl.hindsight.queries import Queries
from textrl.hindsight.survey import REWARD_CLASSES, Survey
from textrl.losses.ops import masked_mean
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class HindsightTerms:
    """Negative log-likelihoods, and a squared error; means over the histories asked."""

    query_reward: Tensor
    query_observation: Tensor  # 0 where queries name observations
    next_reward: Tensor  # squared error
    next_observation: Tensor


def hindsight_loss(
    outputs: TextRLOutput,
    batch: Batch,
    queries: Queries,
    survey: Survey,
    options: RepresentationConfig,
) -> tuple[Tensor, HindsightTerms]:
    """weight (-log P(r_k | phi(h_t), query k)) + next ((r - r_t)^2 - log P(o_t | phi(h_t), a_t)).

    Means over the histories t that are asked, and over all. Within an action of several tokens,
    what comes next is what comes when it is complete. Sums are divided by the whole step's number
    of histories, times the share of them that the data can ask: known beforehand, so that the parts
    of a step add up to it.
    """
    assert outputs.answers is not None and outputs.next_reward is not None
    assert outputs.next_dynamics is not None
    counts, total = batch.counts, batch.action_count
    asked, asked_total = counts * queries.is_asked, total * survey.answerable
    reward_logits = outputs.answers[..., : survey.reward_classes]
    right = survey.class_of(batch.rewards.gather(1, queries.step))
    query_reward = masked_mean(cross_entropy(reward_logits, right), asked, asked_total)
    query_observation = torch.zeros_like(query_reward)
    classes = outputs.answers.shape[-1] - REWARD_CLASSES
    if queries.observation is None and classes:
        seen = batch.observations.gather(1, queries.step)
        logits = outputs.answers[..., REWARD_CLASSES:]
        found = cross_entropy(logits, seen.clamp_min(0))
        query_observation = masked_mean(found, asked * (seen >= 0), asked_total)
    next_reward, next_observation = next_fit(outputs, batch, queries, classes)
    terms = HindsightTerms(
        query_reward=query_reward,
        query_observation=query_observation,
        next_reward=next_reward,
        next_observation=next_observation,
    )
    added = options.weight * (query_reward + query_observation)
    return added + options.next * (next_reward + next_observation), terms


def next_fit(
    outputs: TextRLOutput, batch: Batch, queries: Queries, classes: int
) -> tuple[Tensor, Tensor]:
    """How far what is predicted to come next is from what came: rewards, observations."""
    assert outputs.next_reward is not None and outputs.next_dynamics is not None
    counts, total = batch.counts, batch.action_count
    off = outputs.next_reward - batch.rewards.gather(1, queries.end)
    seen = batch.observations.gather(1, queries.end)
    is_known = seen >= 0 if classes else batch.has_next.gather(1, queries.end)
    if classes:
        following = outputs.next_dynamics.new_zeros(())  # which nobody reads
    else:
        assert outputs.target_representation is not None
        z = outputs.target_representation.detach()
        after = (queries.end + 1).clamp_max(z.shape[1] - 1)
        following = z.gather(1, after[..., None].expand(-1, -1, z.shape[-1])).flatten(0, 1)
    fit = dynamics_fit(outputs.next_dynamics.flatten(0, 1), seen.flatten(), following, classes)
    return (
        masked_mean(off.square(), counts, total),
        masked_mean(fit.view(seen.shape), counts * is_known, total),
    )


def cross_entropy(logits: Tensor, right: Tensor) -> Tensor:
    """-log of the right class's odds: logits (batch, actions, classes) -> (batch, actions)."""
    found = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), right.flatten(), reduction="none"
    )
    return found.view(right.shape)
