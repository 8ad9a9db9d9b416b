"""Behaviour cloning: imitate the action tokens. Filtered BC: the same on the best episodes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.data.batches import Batch
from textrl.losses.ops import legal_only, log_softmax_of, masked_mean
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class BCTerms:
    """accuracy: how often the likeliest token was the one taken."""

    total: Tensor
    policy: Tensor
    accuracy: Tensor


def imitation_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy of the action tokens taken, among the legal ones: -mean log pi(a_k | h_k).

    logits: (batch, states, tokens); state k is the history before action k.
    """
    actions = batch.actions.shape[1]
    log_pi = log_softmax_of(logits[:, :actions], batch.log_legal_actions, batch.actions)
    return masked_mean(-log_pi, batch.counts, batch.action_count)


def bc_loss(outputs: TextRLOutput, batch: Batch, options: object = None) -> BCTerms:
    """Imitation of every action token of the batch."""
    assert outputs.policy is not None
    policy = imitation_loss(outputs.policy, batch)
    with torch.no_grad():
        said = outputs.policy[:, : batch.actions.shape[1]]
        likeliest = legal_only(said, batch.log_legal_actions).argmax(-1)
        hits = (likeliest == batch.actions).to(policy.dtype)
        accuracy = masked_mean(hits, batch.counts, batch.action_count)
    return BCTerms(total=policy, policy=policy, accuracy=accuracy)
