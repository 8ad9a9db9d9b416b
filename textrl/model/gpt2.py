"""GPT-2 without what its users here do not need: padding, and hidden states that nobody reads."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, GPT2Config, GPT2Model
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from textrl.model.packing import Packing


class Block(GPT2Block):
    """GPT-2's, which also reads packed histories."""

    def forward(
        self, hidden_states: Any, *others: Any, packing: Packing | None = None, **options: Any
    ) -> Tensor:
        """As GPT-2's; or with packing, hidden_states (rows, width) -> the same."""
        if packing is None:
            return super().forward(hidden_states, *others, **options)
        hidden = hidden_states + self.attn.c_proj(self._attended(hidden_states, packing))
        changed: Tensor = self.mlp(self.ln_2(hidden))
        return hidden + changed

    def _attended(self, hidden: Tensor, packing: Packing) -> Tensor:
        """What each token's heads take from the tokens up to it, side by side: (rows, width)."""
        heads = self.attn.num_heads
        read = self.attn.c_attn(self.ln_1(hidden))
        found = []
        for part, (episodes, tokens) in zip(
            read.split(packing.sizes), packing.shapes, strict=True
        ):
            each = part.view(episodes, tokens, 3, heads, -1)
            query, key, value = each.permute(2, 0, 3, 1, 4).unbind(0)
            attended = torch.nn.functional.scaled_dot_product_attention(
                query, key, value, is_causal=True
            )
            found.append(attended.transpose(1, 2).reshape(episodes * tokens, -1))
        return torch.cat(found) if len(found) > 1 else found[0]


class LastBlock(Block):
    """What follows the last block's attention is needed only where a state is read.

    Where every second token is a state, that saves a sixth of what two blocks compute.
    """

    def forward(
        self, hidden_states: Any, *others: Any, packing: Packing | None = None, **options: Any
    ) -> Tensor:
        """As GPT-2's; or with packing, hidden_states (rows, width) -> (states, width)."""
        if packing is None:
            return super().forward(hidden_states, *others, **options)
        attended = packing.at_states(self._attended(hidden_states, packing))
        hidden = packing.at_states(hidden_states) + self.attn.c_proj(attended)
        changed: Tensor = self.mlp(self.ln_2(hidden))
        return hidden + changed


class GPT2Backbone(GPT2Model):
    """GPT-2 that does not compute what nobody reads."""

    _no_split_modules = ["Block", "LastBlock"]  # noqa: RUF012 (what FSDP takes as units)

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call]
        for block in self.h:  # those that are there, with their weights as they begin
            block.__class__ = Block
        self.h[-1].__class__ = LastBlock

    @classmethod
    def is_custom_code(cls) -> bool:
        """Whether transformers treats it as a stranger's: it would not scale down, as GPT-2 does,
        the weights with which the residual layers begin."""
        return False

    def forward(
        self, inputs_embeds: Tensor, packing: Packing | None = None, **options: Any
    ) -> BaseModelOutputWithPast:
        """inputs_embeds (batch, time, width); or with packing (rows, width) -> (states, width)."""
        if packing is None:
            whole: BaseModelOutputWithPast = super().forward(inputs_embeds=inputs_embeds, **options)
            return whole
        parts = zip(inputs_embeds.split(packing.sizes), packing.shapes, strict=True)
        hidden = torch.cat(
            [
                (part.view(*shape, -1) + self.wpe.weight[: shape[1]]).flatten(0, 1)
                for part, shape in parts
            ]
        )
        for block in self.h:
            hidden = block(hidden, packing=packing)
        return BaseModelOutputWithPast(self.ln_f(hidden))


class GPT2Cache(DynamicCache):
    """Keys and values of what has been read."""

    def exchange(self, rows: Tensor, since: int) -> None:
        """Row i goes on as rows[i], from which it differs in what was read after `since` only."""
        layers: list[Any] = self.layers
        for part in (part for layer in layers for part in (layer.keys, layer.values)):
            part[:, :, since:] = part[:, :, since:][rows]
