"""GPT-2 without what its users here do not need: padding, hidden states that nobody reads, and
copies of a history for each candidate that goes on from it."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import GPT2Config, GPT2Model
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

from textrl.model.gpt2_cache import GPT2Cache
from textrl.model.packing import Packing


class Block(GPT2Block):
    """GPT-2's, which also reads packed histories, and goes on with cached ones."""

    is_last = False

    def forward(
        self,
        hidden_states: Any,
        *others: Any,
        packing: Packing | None = None,
        cache: GPT2Cache | None = None,
        **options: Any,
    ) -> Tensor:
        """As GPT-2's; with packing, hidden_states (rows, width) -> the same.

        With a cache (rows, time, width), what each row has read since.
        """
        if packing is None and cache is None:
            return super().forward(hidden_states, *others, **options)
        if packing is not None:
            attended = self._attended(hidden_states, packing)
            if self.is_last:
                attended, hidden_states = map(packing.at_states, (attended, hidden_states))
        else:
            assert cache is not None
            attended = self._attended_since(hidden_states, cache)
            if self.is_last:
                attended, hidden_states = attended[:, -1:], hidden_states[:, -1:]
        hidden = hidden_states + self.attn.c_proj(attended)
        after: Tensor = hidden + self.mlp(self.ln_2(hidden))
        return after

    def _attended(self, hidden: Tensor, packing: Packing) -> Tensor:
        """What each token's heads take from the tokens up to it, side by side: (rows, width)."""
        heads = self.attn.num_heads
        groups = self.attn.c_attn(self.ln_1(hidden)).split(packing.sizes)
        found = []
        for part, (episodes, tokens) in zip(groups, packing.shapes, strict=True):
            each = part.view(episodes, tokens, 3, heads, -1)
            query, key, value = each.permute(2, 0, 3, 1, 4).unbind(0)
            attended = scaled_dot_product_attention(query, key, value, is_causal=True)
            found.append(attended.transpose(1, 2).reshape(episodes * tokens, -1))
        return torch.cat(found) if len(found) > 1 else found[0]

    def _attended_since(self, hidden: Tensor, cache: GPT2Cache) -> Tensor:
        """The same of tokens that follow those in the cache, which takes them in."""
        rows, time, width = hidden.shape
        read = self.attn.c_attn(self.ln_1(hidden)).view(rows, time, 3, self.attn.num_heads, -1)
        attended = cache.attend(self.attn.layer_idx, read.permute(2, 0, 3, 1, 4))
        return attended.transpose(1, 2).reshape(rows, time, width)


class LastBlock(Block):
    """What follows the last block's attention is needed only where a state is read.

    Where every second token is a state, that saves a sixth of what two blocks compute.
    """

    is_last = True


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
        self,
        inputs_embeds: Tensor,
        packing: Packing | None = None,
        past_key_values: GPT2Cache | None = None,
        **options: Any,
    ) -> BaseModelOutputWithPast:
        """inputs_embeds (batch, time, width); or with packing (rows, width) -> (states, width).

        past_key_values: what was read before; then only the last token's hidden state is given.
        """
        cache = past_key_values
        if packing is not None:
            parts = zip(inputs_embeds.split(packing.sizes), packing.shapes, strict=True)
            placed = [
                (part.view(*shape, -1) + self.wpe.weight[: shape[1]]).flatten(0, 1)
                for part, shape in parts
            ]
            hidden = torch.cat(placed)
        elif cache is not None:
            rows, time, _ = inputs_embeds.shape
            before = cache.get_seq_length()
            if before + time > len(self.wpe.weight):
                raise IndexError(f"{before + time} tokens, but places for {len(self.wpe.weight)}")
            cache.expect(rows, time)
            hidden = inputs_embeds + self.wpe.weight[before : before + time]
        else:
            whole: BaseModelOutputWithPast = super().forward(inputs_embeds=inputs_embeds, **options)
            return whole
        for block in self.h:
            hidden = block(hidden, packing=packing, cache=cache)
        return BaseModelOutputWithPast(self.ln_f(hidden), cache)  # type: ignore[arg-type]
