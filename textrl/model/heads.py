"""The layers between hidden states and numbers: the representation, and heads per action token."""

import torch
from torch import Tensor, nn

from textrl.model.config import TextRLConfig


class ZeroLinear(nn.Linear):
    """A last layer that starts at zero: at first, what it ends says nothing."""


class Residual(nn.Sequential):
    """h -> h + layers(h). With a last layer that starts at zero, it starts as the identity."""

    def forward(self, hidden: Tensor) -> Tensor:
        changed = hidden
        for layer in self:
            changed = layer(changed)
        return hidden + changed


def felt(phi: Tensor, share: float) -> Tensor:
    """The same numbers; only a share of the gradient goes on its way back."""
    if share == 1:
        return phi
    return phi.detach() + share * (phi - phi.detach())


def two_layer_head(width: int, outputs: int, inputs: int = 1) -> nn.Sequential:
    """The paper's head: two layers, the hidden one twice the transformer's width."""
    return nn.Sequential(
        nn.Linear(inputs * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, outputs)
    )


def quiet_head(width: int, outputs: int, inputs: int = 1) -> nn.Sequential:
    """The same on a language model: it starts at zero.

    Its input is normalized, because a pretrained model's hidden states may be of any size.
    """
    return nn.Sequential(
        nn.LayerNorm(inputs * width),
        nn.Linear(inputs * width, 2 * width),
        nn.ReLU(),
        ZeroLinear(2 * width, outputs),
    )


def low_rank_head(width: int, outputs: int, rank: int, inputs: int = 1) -> nn.Sequential:
    """quiet_head whose last matrix (2 width x outputs) is a product through `rank` numbers."""
    return nn.Sequential(
        nn.LayerNorm(inputs * width),
        nn.Linear(inputs * width, 2 * width),
        nn.ReLU(),
        nn.Linear(2 * width, rank, bias=False),
        ZeroLinear(rank, outputs),
    )


class SharedHead(nn.Module):
    """Q of a token as the agreement of a query with that token's output embedding, plus a level.

    Q(phi)[a] = query(phi) . embedding[a] / norm + level(phi). The embeddings are the language
    model's own and take no gradient here: no parameter is of the vocabulary's size. norm: their
    mean length, so that how fast Q learns does not depend on how large the model made them.
    """

    def __init__(self, width: int, norm: float, inputs: int = 1) -> None:
        super().__init__()
        self.width, self.norm = width, norm
        self.query = quiet_head(width, width + 1, inputs)

    def forward(self, phi: Tensor, embeddings: Tensor) -> Tensor:
        """phi (..., inputs x width), embeddings (tokens, width) -> (..., tokens)."""
        query, level = self.query(phi).split([self.width, 1], dim=-1)
        query = (query / self.norm).to(embeddings.dtype)
        # In place, because a tensor of the vocabulary's size is large; the product needs it not.
        return torch.nn.functional.linear(query, embeddings.detach()).to(level.dtype).add_(level)


def representation_of(config: TextRLConfig) -> nn.Module:
    """The layer between backbone and heads; on a language model it starts as the identity."""
    width, hidden = config.width, config.representation_hidden
    last = ZeroLinear if config.lm else nn.Linear
    if not hidden:
        return Residual(last(width, width)) if config.lm else last(width, width)
    layers = [nn.Linear(width, hidden), nn.ReLU(), last(hidden, width)]
    return Residual(*layers) if config.lm else nn.Sequential(*layers)


def token_head(config: TextRLConfig, inputs: int = 1) -> nn.Module:
    """A head of the kind that config.q_head names, on `inputs` representations side by side."""
    width, tokens = config.width, config.action_tokens
    if config.q_head == "shared":
        return SharedHead(width, config.embedding_norm, inputs)
    if config.q_head == "low-rank":
        return low_rank_head(width, tokens, config.q_rank, inputs)
    return (quiet_head if config.lm else two_layer_head)(width, tokens, inputs)
