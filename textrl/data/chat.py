"""Conversations as tokens, by a tokenizer and its chat template: the language of text tasks."""

import bisect
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from transformers import PreTrainedTokenizerBase

from textrl.data.conversation import AGENT, BadRow, Conversation, Message
from textrl.errors import UserError, first_line

PLAIN_TEMPLATE = (
    "{% if bos_token %}{{ bos_token }}{% endif %}"
    "{% for message in messages %}"
    "{{ message['role'] + ': ' + message['content'] | trim }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:' }}{% endif %}"
)
"""For tokenizers without a template of their own, such as GPT-2's."""
SOME_DAY = "26 Jul 2024"
"""Llama's templates tell the date; a row's tokens must not depend on the day they are read."""
PROBE = "probeprobe"


@dataclass(frozen=True)
class Segment:
    """Text that is tokenized by itself: between two of them no token reaches over."""

    text: str
    is_action: bool = False
    reward: float = 0.0


@dataclass(frozen=True)
class Spelled:
    """A conversation as tokens; columns as in a dataset's row."""

    tokens: list[int]
    is_action: list[bool]
    reward: list[float]
    ends_action: list[bool]
    truncated: bool
    rest: float = float("nan")
    """The discounted return after the last token, where the turn goes on beyond the context."""
    messages_cut: int = 0
    is_turn_cut: bool = False
    """One turn and what it answers were together longer than the context."""

    @property
    def is_cut(self) -> bool:
        """Whether anything was left out."""
        return self.is_turn_cut or self.messages_cut > 0


class TextLanguage:
    """The tokens of a tokenizer. Every one of them is an action, and its number is its id."""

    first_action = 0
    grammar = None

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocabulary: int) -> None:
        """vocabulary: how many tokens the model knows, which may be more than the tokenizer's."""
        if len(tokenizer) > vocabulary:
            raise UserError(
                f"the tokenizer has {len(tokenizer):,} tokens, its model only {vocabulary:,}:"
                " resize the model's embeddings or take the tokenizer that belongs to it"
            )
        self._tokenizer, self._vocabulary = tokenizer, vocabulary
        if not tokenizer.chat_template:
            if not tokenizer.eos_token:
                raise UserError(
                    "the tokenizer has neither a chat template nor an EOS token, so that no turn"
                    " would end: set its chat_template"
                )
            tokenizer.chat_template = PLAIN_TEMPLATE
        special = {*tokenizer.all_special_tokens}
        special |= {str(t) for t in tokenizer.added_tokens_decoder.values() if t.special}
        self.control_tokens = tuple(sorted(special, key=lambda token: (-len(token), token)))
        """Which no message may contain: the template's own."""
        self._control = re.compile("|".join(map(re.escape, self.control_tokens)) or r"(?!)")
        # Some tokenizers put a space before the first word of whatever they are given.
        word = self._encode("word")
        self._anchor = tokenizer.eos_token or ""
        self._anchor_ids = self._encode(self._anchor) if self._anchor else []
        anchored = self._encode(f"{self._anchor}word")[len(self._anchor_ids) :]
        if anchored == word:
            self._anchor, self._anchor_ids = "", []
        self._tail, self.turn_end = self._end_of_turn()

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """Every token, in the order of the ids."""
        known = self._tokenizer.convert_ids_to_tokens([*range(len(self._tokenizer))])
        unused = range(len(self._tokenizer), self._vocabulary)
        return (*map(str, known), *(f"<unused {i}>" for i in unused))

    @property
    def actions(self) -> tuple[str, ...]:
        """All of them."""
        return self.tokens

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """With a chat template, its own or the plain one."""
        return self._tokenizer

    @property
    def digest(self) -> str:
        """Of what decides how a conversation is written down."""
        told = "\0".join([str(self._tokenizer.chat_template), *self.control_tokens])
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    @cached_property
    def turn_end_ids(self) -> tuple[int, ...]:
        """The tokens with which the agent ends its turn; none where the template has no end."""
        return tuple(self._encode(self.turn_end)) if self.turn_end else ()

    def render(self, messages: Sequence[Message], prompt: bool = False) -> str:
        """The messages as text; prompt: and what comes before the assistant's next turn."""
        shown = [{"role": each.role, "content": each.content} for each in messages]
        text = self._tokenizer.apply_chat_template(
            shown, tokenize=False, add_generation_prompt=prompt, date_string=SOME_DAY
        )
        return str(text)

    def check(self, conversation: Conversation) -> None:
        """Refuse what the template cannot write or what would be taken for its own marks."""
        for number, message in enumerate(conversation.messages, start=1):
            found = self._control.search(message.content)
            if found:
                raise BadRow(
                    "control token",
                    f"message {number} contains {found[0]!r}, a control token of the tokenizer",
                    "remove it from the text",
                )
        self._render_checked(conversation.messages)

    def prompt(self, messages: Sequence[Message], context: int) -> list[int]:
        """The history before the assistant's next turn, as training saw such histories.

        It has `context` tokens at most: what makes it longer is left out as in `spell`.
        """
        found = self._fit(messages, len(messages), context, prompt=True, truncated=True)
        if found is not None:
            return found.tokens
        return self._spell(self._segments(messages[-1:], prompt=True)).tokens[-context:]

    def spell(self, conversation: Conversation, context: int, discount: float = 1.0) -> Spelled:
        """A conversation as tokens, `context` at most.

        Where it is too long, the earliest messages are left out, up to one of the user; a system
        message at the beginning stays as long as it fits. If one turn and what it answers are
        together too long, the beginning of what it answers is left out, up to half of the context,
        and then the end of the turn, which counts as cut off there. discount: per action token.
        """
        messages, is_cut_off = conversation.messages, conversation.truncated
        last = max(i for i, message in enumerate(messages) if message.role == AGENT)
        # What follows the last turn matters only where the conversation would have gone on: there
        # the history ends before a next turn, whose value stands for what is not known.
        if is_cut_off and last < len(messages) - 1:
            found = self._fit(messages, last, context, prompt=True, truncated=True)
            if found is not None:
                return found
        answered = messages[: last + 1]
        found = self._fit(answered, last, context, prompt=False, truncated=is_cut_off)
        return found or self._cut_turn(answered, context, is_cut_off, discount)

    def _fit(
        self, messages: Sequence[Message], before: int, context: int, prompt: bool, truncated: bool
    ) -> Spelled | None:
        """As many of the last messages as fit; they begin before message number `before`."""
        has_system = messages[0].role == "system"
        starts = [i for i in range(before) if messages[i].role == "user" and i > has_system]
        # (whether the system message stays, the first of the others), the longest first.
        parts = [(True, start) for start in (int(has_system), *starts)]
        if has_system:
            parts.append((False, parts[-1][1]))

        def part(number: int) -> Sequence[Message]:
            keeps_system, start = parts[number]
            return (*messages[: has_system and keeps_system], *messages[start:])

        # By the length of the whole text, which is nearly that of its segments; then exactly.
        first = 0
        if len(parts) > 1 and self._is_too_long(part(0), context):
            fits = range(1, len(parts) - 1)
            first = 1 + bisect.bisect_left(
                fits, True, key=lambda n: not self._is_too_long(part(n), context)
            )
        for number in range(first, len(parts)):
            tokens = self._spell(self._segments(part(number), prompt), truncated)
            if len(tokens.tokens) <= context:
                return replace(tokens, messages_cut=len(messages) - len(part(number)))
        return None

    def _is_too_long(self, messages: Sequence[Message], context: int) -> bool:
        text = self._render_checked(messages)
        # No need to encode a megabyte to see that.
        return len(text) > context * self._longest_token or len(self._encode(text)) > context

    @cached_property
    def _longest_token(self) -> int:
        return max(map(len, self.tokens))

    def _cut_turn(
        self, messages: Sequence[Message], context: int, truncated: bool, discount: float
    ) -> Spelled:
        """The last turn and what it answers, each without what is too long."""
        start = max((i for i, message in enumerate(messages) if message.role == "user"), default=0)
        *seen, turn, _ = self._segments(messages[start:], prompt=False)
        *read, action = self._encode_in_turn([*seen, turn])
        history = [token for ids in read for token in ids]
        history = history[-max(context // 2, context - len(action)) :]
        kept = action[: context - len(history)]
        beyond = len(action) - len(kept)
        is_end = [False] * (len(history) + len(kept) - 1) + [not beyond]
        return Spelled(
            tokens=history + kept,
            is_action=[False] * len(history) + [True] * len(kept),
            reward=[turn.reward if end else 0.0 for end in is_end],
            ends_action=is_end,
            truncated=truncated or beyond > 0,
            rest=turn.reward * discount ** (beyond - 1) if beyond else math.nan,
            messages_cut=start,
            is_turn_cut=True,
        )

    def _segments(self, messages: Sequence[Message], prompt: bool) -> list[Segment]:
        """The text in parts: what was seen, a turn, what was seen, ..., what was seen.

        The history before a turn is exactly what the template writes to prompt for it, or else the
        agent would meet other histories than it learned from.
        """
        whole = self._render_checked(messages, prompt)
        segments, end = [], 0
        for number, message in enumerate(messages):
            if message.role != AGENT or number == 0:  # a turn before anything was seen is no choice
                continue
            history = self._render_checked(messages[:number], prompt=True)
            through = self._render_checked(messages[: number + 1])
            turn = through[len(history) :]
            if not (through.startswith(history) and whole.startswith(history)):
                raise _unlike(number, "what it writes before the turn to prompt for it")
            if not whole.startswith(through):  # it writes the last turn in another way
                turn = message.content.strip() + self._tail
                if not whole.startswith(history + turn):
                    raise _unlike(number, "the same turn when the conversation has gone on")
            if not turn.endswith(self._tail):
                raise _unlike(number, f"its usual end of a turn, {self._tail!r}")
            segments.append(Segment(whole[end : len(history)]))
            turn = turn[: len(turn) - len(self._tail)] + self.turn_end
            segments.append(Segment(turn, is_action=True, reward=message.reward))
            end = len(history) + len(turn)
        return [*segments, Segment(whole[end:])]

    def _render_checked(self, messages: Sequence[Message], prompt: bool = False) -> str:
        try:
            return self.render(messages, prompt)
        except Exception as error:  # a template is somebody's program: it can raise anything
            raise BadRow(
                "template",
                f"the tokenizer's chat template refuses the messages ({first_line(error)})",
                "it may want user and assistant to alternate, or no system message",
            ) from None

    def _spell(self, segments: Sequence[Segment], truncated: bool = False) -> Spelled:
        tokens: list[int] = []
        is_action: list[bool] = []
        reward: list[float] = []
        ends_action: list[bool] = []
        for segment, ids in zip(segments, self._encode_in_turn(segments), strict=True):
            if segment.is_action and not (tokens and ids):
                raise BadRow("template", "a turn or what it answers has no token", "remove it")
            silent = max(0, len(ids) - 1)
            tokens += ids
            is_action += [segment.is_action] * len(ids)
            # The reward belongs to the token that completes the turn.
            reward += [0.0] * silent + [segment.reward] * bool(ids)
            ends_action += [False] * silent + [segment.is_action] * bool(ids)
        return Spelled(tokens, is_action, reward, ends_action, truncated)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _encode_in_turn(self, segments: Sequence[Segment]) -> list[list[int]]:
        """Each segment's tokens, as they follow the ones before."""
        first, *others = [segment.text for segment in segments]
        texts = [first, *(self._anchor + text for text in others)]
        read: Any = self._tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        return [read[0], *(ids[len(self._anchor_ids) :] for ids in read[1:])]

    def _end_of_turn(self) -> tuple[str, str]:
        """What the template writes after a turn, and how much of it the agent has to say itself.

        That is all up to a control token, such as ChatML's <|im_end|>; where there is none, all.
        """
        try:
            written = self.render([Message("user", PROBE), Message(AGENT, PROBE)])
        except Exception as error:
            raise UserError(
                f"the tokenizer's chat template cannot be used: {first_line(error)}"
            ) from error
        before, found, tail = written.rpartition(PROBE)
        if not found or PROBE not in before:
            raise UserError("the tokenizer's chat template does not show every message's content")
        mark = self._control.search(tail)
        return tail, tail[: mark.end()] if mark else tail


def _unlike(number: int, what: str) -> BadRow:
    return BadRow(
        "template",
        f"the tokenizer's chat template does not repeat, for message {number + 1}, {what}",
        "use a template that writes turn after turn, or simpler messages",
    )
