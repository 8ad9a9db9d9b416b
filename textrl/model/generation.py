"""Value-guided decoding: an agent on a language model as transformers' `generate` sees it."""

from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from textrl.losses.outputs import action_scores
from textrl.model.network import TextRLModel


class GuidedDecoder(PreTrainedModel, GenerationMixin):
    """A language model whose logits are the agent's scores: log pi + beta (min target Q - V)."""

    _supports_sdpa = True

    def __init__(self, agent: TextRLModel, beta: float) -> None:
        super().__init__(agent.config.lm_config())  # by which the cache is made
        self.agent, self.beta = agent, beta
        self.generation_config = GenerationConfig(**(agent.config.generation or {}))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = True,
        return_dict: bool = True,
    ) -> CausalLMOutputWithPast:
        """The scores at the last token, (batch, 1, tokens), which is all that is asked for."""
        output = self.agent(
            input_ids,
            past_key_values=past_key_values if use_cache else None,
            attention_mask=attention_mask,
            position_ids=position_ids,
        )
        scores: Any = action_scores(output, None, self.beta, self.agent.config.acts_by)
        return CausalLMOutputWithPast(logits=scores, past_key_values=output.past_key_values)


def left_padded(tokens: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same prompts with their padding before them, so that what is generated follows them."""
    order = attention_mask.argsort(dim=1, stable=True)
    return tokens.gather(1, order), attention_mask.gather(1, order)


@torch.inference_mode()
def generate(
    agent: TextRLModel,
    input_ids: Tensor,
    beta: float | None = None,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> Any:
    """As TextRLModel.generate."""
    if attention_mask is not None:
        input_ids, attention_mask = left_padded(input_ids, attention_mask)
    decoder: Any = GuidedDecoder(agent, agent.config.beta if beta is None else beta)
    decoder.train(agent.training)
    return decoder.generate(input_ids, attention_mask=attention_mask, **options)
