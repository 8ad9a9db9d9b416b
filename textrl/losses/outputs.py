"""What a model says of its states, and how to act by it."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.utils.generic import ModelOutput

from textrl.losses.ops import legal_only


@dataclass
class TextRLOutput(ModelOutput):
    """What the heads say at each state: (batch, states, ...). A head that is not there is None."""

    representation: Tensor | None = None  # phi of the history, (batch, states, width)
    policy: Tensor | None = None  # logits of each action token, (batch, states, action tokens)
    q: Tensor | None = None  # (Q heads, batch, states, action tokens)
    target_q: Tensor | None = None  # their slow copies, without gradient
    v: Tensor | None = None  # (batch, states)
    slow_v: Tensor | None = None  # its slow copy, without gradient
    past_key_values: Any = None

    # Only where pairs of n histories are given. Only the predictions and inverse have a gradient.
    # z, by the slow copy of the encoder, as phi; of the pairs' histories (and of what follows them,
    # where observations have no classes), elsewhere it may be any
    target_representation: Tensor | None = None
    predicted_reward: Tensor | None = None  # of phi and the data's action, (n,)
    predicted_dynamics: Tensor | None = None  # (n, classes or 2 width)
    # Of z and an action of the current policy, as above; or of z and several tests, (n, tests).
    imagined_reward: Tensor | None = None
    imagined_dynamics: Tensor | None = None
    inverse: Tensor | None = None  # logits of the action between a history and the next, (n, ...)

    # Only where queries are given, (batch, actions, ...), see textrl.hindsight.
    answers: Tensor | None = None  # logits of the reward's class, then of the observation's
    next_reward: Tensor | None = None
    next_dynamics: Tensor | None = None


def action_scores(
    output: TextRLOutput, legal: Tensor | None, beta: float, acts_by: tuple[str, ...] = ()
) -> Tensor:
    """Log-scores of each action token: log pi + beta (min target Q - V), of whatever is there.

    Where the model has no Q, that is its policy alone, whatever beta is; where it has no policy
    (CQL), beta Q: beta is the softmax's inverse temperature. legal: (..., action tokens), or None.
    acts_by: the heads that count, policy or q; none named = those that are there.
    """
    scores: Tensor | None = None
    if output.target_q is not None and (not acts_by or "q" in acts_by):
        scores = output.target_q.amin(dim=0)
        scores = beta * (scores if output.v is None else scores - output.v[..., None])
        scores = legal_only(scores, legal)
    if output.policy is not None and (not acts_by or "policy" in acts_by):
        log_pi = legal_only(output.policy, legal).log_softmax(dim=-1)
        scores = log_pi if scores is None else scores + log_pi
    assert scores is not None, "a model without policy and Q cannot act"
    return scores
