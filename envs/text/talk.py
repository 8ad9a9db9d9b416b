"""Talking with a trained agent: its answers, token by token or many at once, and their values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import TextStreamer
from transformers.generation.streamers import BaseStreamer

from textrl.data.conversation import Message
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.losses.ops import of_actions
from textrl.model.network import TextRLModel


@dataclass(frozen=True)
class Saying:
    """How answers are chosen. beta: the weight of Q - V against log pi."""

    beta: float
    sample: bool = False
    temperature: float = 1.0
    longest: int = 256
    """Tokens of an answer."""


@dataclass(frozen=True)
class TokenValue:
    """What the heads said when a token was chosen. A head that is not there is None."""

    text: str
    log_pi: float | None
    q: float | None
    """The lower of the twin target Qs."""
    v: float | None


@dataclass(frozen=True)
class Answer:
    """What the agent said."""

    text: str
    tokens: tuple[int, ...]
    """With those that end its turn, if it came to the end."""
    is_finished: bool


class Speaker:
    """An agent that answers messages as its training data wrote them down."""

    def __init__(self, model: TextRLModel, task: TextTask) -> None:
        self.model, self.language = model, task.language
        self.tokenizer: Any = task.language.tokenizer()
        self.control_tokens = task.language.control_tokens
        # Most templates end a turn with a token that nothing else contains; some with mere text.
        self._end_id, self._end_text = None, None
        if task.language.turn_end.endswith(tuple(self.control_tokens)):
            self._end_id = task.language.turn_end_ids[-1]
        elif task.language.turn_end:
            self._end_text = task.language.turn_end

    def prompt(self, messages: Sequence[Message], longest: int) -> list[int]:
        """The history before the agent's next turn, with room for an answer in the context."""
        for message in messages:
            for token in self.control_tokens:
                if token in message.content:
                    raise UserError(f"a message contains the control token {token!r}: remove it")
        room = self.model.config.context - longest
        if room < 1:
            raise UserError(
                f"an answer of {longest} tokens leaves no room for what it answers: the agent reads"
                f" {self.model.config.context} in all; lower --max-new-tokens"
            )
        return self.language.prompt(messages, room)

    def answer(
        self,
        conversations: Sequence[Sequence[Message]],
        how: Saying,
        streamer: BaseStreamer | None = None,
    ) -> list[Answer]:
        """The agent's next turn in each of some conversations; streamer: hears it as it comes."""
        prompts = [self.prompt(messages, how.longest) for messages in conversations]
        width = max(map(len, prompts))
        tokens = torch.zeros(len(prompts), width, dtype=torch.int64)
        mask = torch.zeros_like(tokens)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        # As the agent's scores have it, without what the language model's own settings add.
        chosen: dict[str, Any] = {"do_sample": how.sample, "repetition_penalty": 1.0}
        if how.sample:
            chosen |= {"temperature": how.temperature, "top_k": 0, "top_p": 1.0}
        said = self.model.generate(
            tokens.to(self.model.device),
            beta=how.beta,
            attention_mask=mask.to(self.model.device),
            max_new_tokens=how.longest,
            eos_token_id=self._end_id,
            pad_token_id=0,
            stop_strings=[self._end_text] if self._end_text else None,
            tokenizer=self.tokenizer if self._end_text else None,
            streamer=streamer,
            **chosen,
        )
        return [self._read(row) for row in said[:, width:].tolist()]

    def _read(self, tokens: list[int]) -> Answer:
        """What was said before the end of the turn; what follows it in a batch is nothing."""
        is_finished = False
        if self._end_id in tokens:
            tokens, is_finished = tokens[: tokens.index(self._end_id) + 1], True
        elif self._end_text:
            for count in range(1, len(tokens) + 1):
                if self._end_text in self.tokenizer.decode(tokens[:count]):
                    tokens, is_finished = tokens[:count], True
                    break
        text = self.tokenizer.decode(tokens, skip_special_tokens=True)
        if self._end_text and is_finished:
            text = text.partition(self._end_text)[0]
        return Answer(text.strip(), tuple(tokens), is_finished)

    def streamer(self) -> TextStreamer:
        """Writes an answer to standard output as it comes."""
        return TextStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)

    @torch.inference_mode()
    def values(self, messages: Sequence[Message], answer: Answer, longest: int) -> list[TokenValue]:
        """What the heads say at each token of an answer to these messages."""
        prompt = self.prompt(messages, longest)
        tokens = torch.tensor([[*prompt, *answer.tokens]], device=self.model.device)
        count = len(answer.tokens)
        positions = torch.arange(count, device=self.model.device)[None] + len(prompt) - 1
        said = self.model(tokens, positions)
        actions = tokens[:, len(prompt) :]
        found: dict[str, list[float | None]] = dict.fromkeys(("log_pi", "q", "v"), [None] * count)
        if said.policy is not None:
            log_pi = said.policy.log_softmax(dim=-1)
            found["log_pi"] = of_actions(log_pi, actions)[0].tolist()
        if said.target_q is not None:
            found["q"] = of_actions(said.target_q.amin(dim=0), actions)[0].tolist()
        if said.v is not None:
            found["v"] = said.v[0].tolist()
        texts = [self.tokenizer.decode([token]) for token in answer.tokens]
        columns = zip(texts, found["log_pi"], found["q"], found["v"], strict=True)
        return [TokenValue(*column) for column in columns]


def describe_values(values: Sequence[TokenValue]) -> str:
    """A table of what the heads said, for people."""
    lines = [f"{'token':<20} {'pi':>8} {'Q':>9} {'V':>9} {'Q - V':>9}"]

    def shown(value: float | None, width: int = 9) -> str:
        return f"{'' if value is None else format(value, '.3f'):>{width}}"

    for each in values:
        chance = None if each.log_pi is None else torch.tensor(each.log_pi).exp().item()
        gap = None if each.q is None or each.v is None else each.q - each.v
        columns = (shown(chance, 8), shown(each.q), shown(each.v), shown(gap))
        lines.append(f"{each.text!r:<20} " + " ".join(columns))
    return "\n".join(lines)


def values_json(values: Sequence[TokenValue]) -> list[Mapping[str, Any]]:
    """The same for programs."""
    return [
        {"token": each.text, "log_pi": each.log_pi, "q": each.q, "v": each.v} for each in values
    ]
