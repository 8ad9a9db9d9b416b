"""Value-guided decoding: an agent on a language model as transformers' `generate` sees it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import (
    EosTokenCriteria,
    GenerationConfig,
    GenerationMixin,
    PreTrainedModel,
    StoppingCriteria,
    StopStringCriteria,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from textrl.errors import UserError
from textrl.losses.ops import of_actions
from textrl.losses.outputs import action_scores
from textrl.model.network import TextRLModel

ONE_BY_ONE = ("num_beams", "num_return_sequences", "streamer")
"""Options of `generate` that mean nothing where whole turns are compared."""


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
    candidates: int | None = None,
    **options: Any,
) -> Any:
    """As TextRLModel.generate."""
    if candidates_of(agent, candidates) > 1:
        turns = whole_turns(agent, input_ids, candidates, beta, attention_mask, **options)
        return torch.cat([turns.prompts, turns.chosen_tokens], dim=1)
    if attention_mask is not None:
        input_ids, attention_mask = left_padded(input_ids, attention_mask)
    decoder = decoder_of(agent, agent.config.beta if beta is None else beta)
    return decoder.generate(input_ids, attention_mask=attention_mask, **options)


def decoder_of(agent: TextRLModel, beta: float) -> Any:
    """The agent with transformers' `generate`."""
    decoder = GuidedDecoder(agent, beta)
    decoder.train(agent.training)
    return decoder


def candidates_of(agent: TextRLModel, candidates: int | None) -> int:
    """How many turns are compared; None = as trained.

    One, token by token, where nothing names them (CQL has no policy) or nothing compares them.
    """
    heads = agent.config.acts_by or agent.config.heads
    wanted = agent.config.candidates if candidates is None else candidates
    return wanted if "policy" in heads and "q" in heads else 1


@dataclass(frozen=True)
class WholeTurns:
    """The turns that were compared after each prompt, and which of them was chosen."""

    prompts: Tensor
    """(prompts, time), padded on the left."""
    tokens: Tensor
    """(prompts, candidates, time); what follows a turn's end means nothing."""
    lengths: Tensor
    """(prompts, candidates)"""
    is_finished: Tensor
    """(prompts, candidates): whether the turn came to its end."""
    q: Tensor
    """(prompts, candidates): the lower of the twin target Qs at the turn's last token."""
    v: Tensor | None
    """(prompts,): the value before the turn; None for an agent without V."""
    chosen: Tensor
    """(prompts,)"""

    @property
    def chosen_tokens(self) -> Tensor:
        """(prompts, time)"""
        return self.tokens[torch.arange(len(self.chosen), device=self.chosen.device), self.chosen]


@torch.inference_mode()
def whole_turns(
    agent: TextRLModel,
    input_ids: Tensor,
    candidates: int | None = None,
    beta: float | None = None,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> WholeTurns:
    """Turns sampled from the policy after each prompt, one of which is chosen by Q at its end.

    There Q knows the whole turn; at the first token it is an average over all that could follow.
    The one with the highest Q is chosen or, with do_sample, one drawn by softmax(beta Q). One that
    has not come to its end is chosen only where none has.
    """
    count = candidates_of(agent, candidates)
    beta = agent.config.beta if beta is None else beta
    for name in ONE_BY_ONE:
        if options.get(name) not in (None, 1):
            raise UserError(
                f"{name} is for turns chosen token by token: leave it out, or give candidates=1"
            )
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    prompts, mask = left_padded(input_ids, attention_mask)
    prompts_each = prompts.repeat_interleave(count, dim=0)
    mask_each = mask.repeat_interleave(count, dim=0)
    draws = options.pop("do_sample", False)
    decoder = decoder_of(agent, beta=0.0)  # the policy alone names them
    ends = Ends(prompts.shape[1], ending_criteria(decoder, options))
    said = decoder.generate(
        prompts_each,
        attention_mask=mask_each,
        do_sample=True,
        stopping_criteria=[ends],
        **options,
    )
    tokens = said[:, prompts.shape[1] :]
    is_finished = ends.lengths > 0
    lengths = torch.where(is_finished, ends.lengths, tokens.shape[1])
    q, v = _values_of_turns(agent, said, mask_each, lengths)
    q_each, finished_each = (each.view(-1, count) for each in (q, is_finished))
    allowed = finished_each | ~finished_each.any(dim=1, keepdim=True)
    scores = q_each.masked_fill(~allowed, -torch.inf)
    chosen = scores.argmax(dim=1)
    if draws:
        chosen = torch.multinomial((beta * scores).softmax(dim=1), 1)[:, 0] if beta else chosen
    return WholeTurns(
        prompts=prompts,
        tokens=tokens.view(len(prompts), count, -1),
        lengths=lengths.view(-1, count),
        is_finished=finished_each,
        q=q_each,
        v=None if v is None else v.view(-1, count)[:, 0],
        chosen=chosen,
    )


class Ends(StoppingCriteria):
    """Ends a row where one of the criteria does, and notes how long it has become."""

    def __init__(self, prompt: int, criteria: Sequence[Any]) -> None:
        self._prompt, self._criteria = prompt, criteria
        self.lengths = torch.zeros(0, dtype=torch.int64)
        """Tokens of each row after its prompt; 0 where it has not ended."""

    def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Tensor:
        if not len(self.lengths):
            self.lengths = torch.zeros(len(input_ids), dtype=torch.int64, device=input_ids.device)
        is_done = self.lengths > 0
        for each in self._criteria:
            is_done = is_done | each(input_ids, scores, **options).to(input_ids.device)
        is_new = is_done & (self.lengths == 0)
        self.lengths[is_new] = input_ids.shape[1] - self._prompt
        return is_done


def ending_criteria(decoder: Any, options: dict[str, Any]) -> list[Any]:
    """What ends a turn, taken out of the options of `generate`."""
    criteria = [*(options.pop("stopping_criteria", None) or [])]
    eos = options.get("eos_token_id", decoder.generation_config.eos_token_id)
    if eos is not None:
        criteria.append(EosTokenCriteria(eos_token_id=eos))
    strings = options.pop("stop_strings", None)
    tokenizer = options.pop("tokenizer", None)
    if strings:
        criteria.append(StopStringCriteria(tokenizer, strings))
    return criteria


def _values_of_turns(
    agent: TextRLModel, tokens: Tensor, mask: Tensor, lengths: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Q at the last token of each row's turn, and V before its first; mask: of the prompts."""
    prompt = mask.shape[1]
    last = prompt + lengths - 1  # the place of the turn's last token
    first = torch.full_like(last, prompt)
    whole = torch.cat([mask, mask.new_ones(len(mask), tokens.shape[1] - prompt)], dim=1)
    output = agent(
        tokens,
        torch.stack([first, last], dim=1) - 1,
        attention_mask=whole,
        position_ids=(whole.cumsum(dim=1) - 1).clamp_min(0),
    )
    assert output.target_q is not None
    taken = tokens.gather(1, last[:, None])
    q = of_actions(output.target_q[:, :, 1:].amin(dim=0), taken)[:, 0]
    return q, None if output.v is None else output.v[:, 0]
