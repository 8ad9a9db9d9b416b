"""Talking with a trained agent: its answers, token by token or many at once, and their values."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from transformers import TextStreamer
from transformers.generation.streamers import BaseStreamer

from textrl.data.conversation import Message
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.losses.ops import of_actions
from textrl.model.generation import WholeTurns, candidates_of, whole_turns
from textrl.model.network import TextRLModel


@dataclass(frozen=True)
class Saying:
    """How answers are chosen. beta: the weight of Q - V against log pi.

    candidates: more than 1 are sampled whole and compared by Q at their end; 1 is token by token.
    """

    beta: float
    candidates: int = 1
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
class Candidate:
    """A whole turn that the agent might have taken."""

    text: str
    q: float
    """The lower of the twin target Qs at its last token."""
    is_finished: bool
    is_chosen: bool


@dataclass(frozen=True)
class Answer:
    """What the agent said."""

    text: str
    tokens: tuple[int, ...]
    """With those that end its turn, if it came to the end."""
    is_finished: bool
    candidates: tuple[Candidate, ...] = ()
    """The whole turns that were compared; none where it was chosen token by token."""
    v: float | None = None
    """Of the history before the turn, where whole turns were compared."""


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
        """The agent's next turn in each of some conversations; streamer: hears it as it comes,
        or as a whole where whole turns are compared."""
        prompts = [self.prompt(messages, how.longest) for messages in conversations]
        width = max(map(len, prompts))
        tokens = torch.zeros(len(prompts), width, dtype=torch.int64)
        mask = torch.zeros_like(tokens)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        # As the agent's scores have it, without what the language model's own settings add.
        chosen: dict[str, Any] = {"do_sample": how.sample, "repetition_penalty": 1.0}
        is_whole = candidates_of(self.model, how.candidates) > 1
        if how.sample or is_whole:
            chosen |= {"temperature": how.temperature, "top_k": 0, "top_p": 1.0}
        options: dict[str, Any] = {
            **chosen,
            "beta": how.beta,
            "candidates": how.candidates,
            "attention_mask": mask.to(self.model.device),
            "max_new_tokens": how.longest,
            "eos_token_id": self._end_id,
            "pad_token_id": 0,
            "stop_strings": [self._end_text] if self._end_text else None,
            "tokenizer": self.tokenizer if self._end_text else None,
        }
        asked = tokens.to(self.model.device)
        if is_whole:
            found = self._read_whole(whole_turns(self.model, asked, **options))
            for answer in found if streamer is not None else ():
                print(answer.text, flush=True)
            return found
        said = self.model.generate(asked, streamer=streamer, **options)
        return [self._read(row) for row in said[:, width:].tolist()]

    def _read_whole(self, turns: WholeTurns) -> list[Answer]:
        """The chosen turn after each prompt, with those that it was compared with."""
        found = []
        for row, chosen in enumerate(turns.chosen.tolist()):
            lengths, finished = turns.lengths[row].tolist(), turns.is_finished[row].tolist()
            read = [
                self._read(tokens[:length])
                for tokens, length in zip(turns.tokens[row].tolist(), lengths, strict=True)
            ]
            candidates = [
                Candidate(each.text, q, is_finished, number == chosen)
                for number, (each, q, is_finished) in enumerate(
                    zip(read, turns.q[row].tolist(), finished, strict=True)
                )
            ]
            v = None if turns.v is None else float(turns.v[row])
            found.append(replace(read[chosen], candidates=tuple(candidates), v=v))
        return found

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


def describe_candidates(answer: Answer) -> str:
    """A table of the whole turns that were compared, for people."""
    gap = "" if answer.v is None else f"{'Q - V':>9}"
    lines = [f"  {'Q':>9} {gap}  the turns compared"]
    for each in answer.candidates:
        beyond = "" if answer.v is None else f"{each.q - answer.v:>9.3f}"
        mark, cut = ">" if each.is_chosen else " ", "" if each.is_finished else " (cut off)"
        lines.append(f"{mark} {each.q:>9.3f} {beyond}  {each.text!r}{cut}")
    lines += [] if answer.v is None else [f"V before them {answer.v:.3f}"]
    return "\n".join(lines)


def candidates_json(answer: Answer) -> dict[str, Any]:
    """The same for programs."""
    return {"v": answer.v, "candidates": [asdict(each) for each in answer.candidates]}


def values_json(values: Sequence[TokenValue]) -> list[Mapping[str, Any]]:
    """The same for programs."""
    return [
        {"token": each.text, "log_pi": each.log_pi, "q": each.q, "v": each.v} for each in values
    ]
