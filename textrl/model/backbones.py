"""What reads the history: tokens -> hidden states, with a cache for acting step by step.

A backbone is called as transformers' models are: `backbone(inputs_embeds=...,
past_key_values=cache, use_cache=True)` gives `last_hidden_state` and `past_key_values`;
`get_input_embeddings()` turns token ids into embeddings. Training asks for the hidden states at
some places only: `backbone(inputs_embeds=..., read_at=places)`, places (batch, states).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, GPT2Config, GPT2Model
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.gpt2.modeling_gpt2 import GPT2Block


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


class LastBlock(GPT2Block):
    """What follows the last block's attention is needed only where a state is read.

    Where every second token is a state, that saves a sixth of what two blocks compute.
    """

    def forward(
        self, hidden_states: Any, *others: Any, read_at: Tensor | None = None, **options: Any
    ) -> Tensor:
        """As GPT-2's; read_at: the places to go on with."""
        if read_at is None:
            return super().forward(hidden_states, *others, **options)
        attended, _ = self.attn(self.ln_1(hidden_states))
        hidden = at_places(hidden_states + attended, read_at)
        changed: Tensor = self.mlp(self.ln_2(hidden))
        return hidden + changed


class GPT2Backbone(GPT2Model):
    """GPT-2 that can stop computing where nobody reads."""

    _no_split_modules = ["GPT2Block", "LastBlock"]  # noqa: RUF012 (what FSDP takes as units)

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call]
        self.h[-1].__class__ = LastBlock  # the block that is there, with its weights as they begin

    @classmethod
    def is_custom_code(cls) -> bool:
        """Whether transformers treats it as a stranger's: it would not scale down, as GPT-2 does,
        the weights with which the residual layers begin."""
        return False

    def forward(
        self, inputs_embeds: Tensor, read_at: Tensor | None = None, **options: Any
    ) -> BaseModelOutputWithPast:
        """inputs_embeds (batch, time, width); read_at: needs a history from its beginning."""
        if read_at is None:
            whole: BaseModelOutputWithPast = super().forward(inputs_embeds=inputs_embeds, **options)
            return whole
        hidden = inputs_embeds + self.wpe.weight[: inputs_embeds.shape[1]]
        for block in self.h[:-1]:
            hidden = block(hidden)
        return BaseModelOutputWithPast(self.ln_f(self.h[-1](hidden, read_at=read_at)))


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


class GPT2Cache(DynamicCache):
    """Keys and values of what has been read."""

    def exchange(self, rows: Tensor, since: int) -> None:
        """Row i goes on as rows[i], from which it differs in what was read after `since` only."""
        layers: list[Any] = self.layers
        for part in (part for layer in layers for part in (layer.keys, layer.values)):
            part[:, :, since:] = part[:, :, since:][rows]


class RNNCache:
    """The state in which the history left a recurrent network; None before the first token."""

    def __init__(self) -> None:
        self.state: tuple[Tensor, ...] | None = None

    def get_seq_length(self) -> int:
        """Of single tokens nothing is kept."""
        return 0

    def batch_select_indices(self, indices: Tensor) -> None:
        """Go on with these episodes only, as transformers' caches do it."""
        if self.state is not None:
            self.state = tuple(part[:, indices] for part in self.state)


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
