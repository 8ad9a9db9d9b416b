"""What reads the history: tokens -> hidden states, with a cache for acting step by step.

A backbone is called as transformers' models are: `backbone(inputs_embeds=...,
past_key_values=cache, use_cache=True)` gives `last_hidden_state` and `past_key_values`;
`get_input_embeddings()` turns token ids into embeddings. Training asks for the hidden states at
some places only: GPT-2 is given packed histories, `backbone(inputs_embeds=..., packing=...)`, the
recurrent network `backbone(inputs_embeds=..., read_at=places)`, places (batch, states).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GPT2Config
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPast

from textrl.model.gpt2 import GPT2Backbone
from textrl.model.gpt2_cache import GPT2Cache


def at_places(hidden: Tensor, places: Tensor) -> Tensor:
    """Of hidden (batch, time, width) those at places (batch, states): (batch, states, width)."""
    return hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))


@dataclass(frozen=True)
class Shape:
    """A backbone's size. attention_heads and context: gpt2 only; cell: rnn only."""

    vocabulary: int
    layers: int
    width: int
    attention_heads: int
    context: int
    cell: str


def make_gpt2(shape: Shape) -> nn.Module:
    """GPT-2 with random weights.

    No dropout and, in the calls, no attention mask: padding on the right is harmless under a causal
    mask, and without either the attention kernel runs about 1.4 times as fast.
    """
    fast: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    fast["attn_implementation"] = "sdpa"
    # The same function as GPT-2's own `gelu_new`, as one fused kernel.
    fast["activation_function"] = "gelu_pytorch_tanh"
    return GPT2Backbone(
        GPT2Config(
            vocab_size=shape.vocabulary,
            n_layer=shape.layers,
            n_embd=shape.width,
            n_head=shape.attention_heads,
            n_positions=shape.context,
            bos_token_id=None,
            eos_token_id=None,
            **fast,
        )
    )


class RNNCache:
    """The state in which the history left a recurrent network; None before the first token."""

    def __init__(self) -> None:
        self.state: tuple[Tensor, ...] | None = None

    def batch_select_indices(self, indices: Tensor) -> None:
        """Go on with these episodes only, as transformers' caches do it."""
        if self.state is not None:
            self.state = tuple(part[:, indices] for part in self.state)

    def branch(self, parents: Tensor) -> None:
        """Row i goes on from row parents[i]; an episode may have several rows, its candidates."""
        self.batch_select_indices(parents)

    def settle(self, rows: Tensor) -> None:
        """Go on with one row of each episode."""
        self.batch_select_indices(rows)


class RNNBackbone(nn.Module):
    """The paper's encoder for its navigation tasks: a recurrent network over the tokens.

    The paper's input, a one-hot vector, is here the row that it picks from an embedding.
    """

    CELLS = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}  # noqa: RUF012

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.cells: nn.RNNBase = self.CELLS[shape.cell](
            shape.width, shape.width, num_layers=shape.layers, batch_first=True
        )

    def get_input_embeddings(self) -> nn.Embedding:
        """As transformers' models have it."""
        return self.embedding

    def forward(
        self,
        inputs_embeds: Tensor,
        past_key_values: RNNCache | None = None,
        use_cache: bool = False,
        read_at: Tensor | None = None,
    ) -> BaseModelOutputWithPast:
        """inputs_embeds (batch, time, width) -> last_hidden_state of the same shape, or of some."""
        before = past_key_values.state if past_key_values is not None else None
        # An LSTM's state is a pair, the others' a single tensor.
        is_pair = isinstance(self.cells, nn.LSTM)
        state = before if is_pair or before is None else before[0]
        hidden, state = self.cells(inputs_embeds, state)
        if past_key_values is not None:
            past_key_values.state = state if is_pair else (state,)
        if read_at is not None:
            hidden = at_places(hidden, read_at)
        return BaseModelOutputWithPast(hidden, past_key_values)  # type: ignore[arg-type]


@torch.no_grad()
def initialize_cells(cells: nn.RNNBase) -> None:
    """Orthogonal recurrent matrices, which neither amplify nor forget; no biases at first."""
    for name, parameter in cells.named_parameters():
        if getattr(parameter, "_is_hf_initialized", False):  # loaded from a checkpoint
            continue
        if parameter.ndim == 1:
            init.zeros_(parameter)
        elif "hh" in name:
            for gate in torch.split(parameter, cells.hidden_size):
                init.orthogonal_(gate)
        else:
            init.xavier_uniform_(parameter)


@dataclass(frozen=True)
class Backbone:
    """How to make a network, and the empty cache with which it acts."""

    make: Callable[[Shape], nn.Module]
    new_cache: Callable[[], Any]


BACKBONES = {"gpt2": Backbone(make_gpt2, GPT2Cache), "rnn": Backbone(RNNBackbone, RNNCache)}
