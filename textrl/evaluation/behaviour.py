"""What a policy does at logged histories: its own chances, and those of who was logged."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.acting.decoding import Decoding
from textrl.data.batches import Batch
from textrl.data.dataset import Rows
from textrl.data.language import TokenLanguage
from textrl.evaluation.fitted import FittedQ
from textrl.evaluation.offline import small_batches
from textrl.losses.ops import legal_only
from textrl.losses.outputs import TextRLOutput, action_scores
from textrl.model.network import TextRLModel


@dataclass(frozen=True)
class Behaviour:
    """Who was logged, as far as a model can tell: its policy, or a head on its representation."""

    model: TextRLModel
    head: FittedQ | None = None

    @torch.no_grad()
    def odds(self, output: TextRLOutput, batch: Batch) -> Tensor:
        """The chance of each action token, (batch, states, tokens)."""
        if self.head is None:
            assert output.policy is not None
            return legal_only(output.policy, batch.legal).softmax(-1)
        assert output.representation is not None
        said: Tensor = self.head(output.representation.float())
        return legal_only(said, batch.legal).softmax(-1)


def odds_of(output: TextRLOutput, batch: Batch, decoding: Decoding) -> Tensor:
    """The chance of each action token, (batch, states, tokens), token by token as it acts."""
    scores = action_scores(output, batch.legal, decoding.beta, decoding.acts_by)
    if decoding.sample:
        return (scores / decoding.temperature).softmax(-1)
    return torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype)


def said_of(
    model: TextRLModel, rows: Rows, language: TokenLanguage
) -> Iterator[tuple[NDArray[np.integer], Batch, TextRLOutput]]:
    """What a model says of rows, batch by batch: which rows, the batch, the output."""
    was_training = model.training
    model.train(False)
    for picks, batch in small_batches(rows, language):
        batch = batch.to(model.device)
        with torch.no_grad():  # not around the loop: two of these may take turns
            output = model(batch.tokens, batch.state_positions, frames=batch.frames)
        yield picks, batch, output
    model.train(was_training)
