"""A logged conversation: what a row must hold, and what is wrong with one that does not."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from textrl.data.outliers import LARGEST_REWARD
from textrl.errors import unknown

AGENT = "assistant"
ROLES = ("system", "user", AGENT, "tool")
OTHER_NAMES = {"human": "user", "customer": "user", "gpt": AGENT, "bot": AGENT, "model": AGENT}
"""What other formats call our roles."""
FOREIGN_KEYS = {
    "conversations": "sharegpt",
    "completion": "prompt-completion",
    "chosen": "preference",
    "chat_logs": "casino",
}
"""Keys by which rows of other formats are known, and what `textrl collect --from` calls those."""
ROW_KEYS = ("messages", "reward", "terminated", "truncated", "weight", "behaviour", "group")
GROUP = "group"
"""The key that names a row's group, unless another one is to."""
MESSAGE_KEYS = ("role", "content", "reward")
LONGEST_MESSAGE = 1_000_000  # characters
NEARLY_THE_SAME = 0.9  # of two keys, by difflib's ratio: 'rewards' and 'reward'


class BadRow(Exception):
    """A row that cannot be learned from."""

    def __init__(self, kind: str, what: str, remedy: str) -> None:
        """kind: by which bad rows are counted. The message is 'what: remedy'."""
        super().__init__(f"{what}: {remedy}")
        self.kind = kind


@dataclass(frozen=True)
class Message:
    """What somebody said, and what it earned."""

    role: str
    content: str
    reward: float = 0.0


@dataclass(frozen=True)
class Conversation:
    """Messages in order; the assistant's are the agent's actions."""

    messages: tuple[Message, ...]
    truncated: bool = False
    """It was cut off and would have gone on; otherwise it came to its end."""
    weight: float = 1.0
    behaviour: str = "logged"
    """Who was the assistant."""
    group: str = ""
    """Rows of one group are not independent of each other; "" = it is alone."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What was said, whoever said it, by which a conversation is known again: the two sides of
        one differ in roles and instructions alone."""
        return tuple(message.content for message in self.messages if message.role != "system")

    @property
    def episode_return(self) -> float:
        """The undiscounted sum of rewards."""
        return math.fsum(message.reward for message in self.messages)


def parse_line(line: bytes, group_by: str = GROUP) -> Conversation:
    """The conversation in a line of JSON; BadRow says what is wrong with it.

    group_by: the key that names its group.
    """
    return read_conversation(decode_line(line), group_by)


def decode_line(line: bytes) -> Any:
    """What a line of JSON holds."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRow(
            "not UTF-8",
            f"byte {error.start + 1} of the line is not UTF-8 (0x{line[error.start]:02x})",
            "save the file as UTF-8",
        ) from None
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("[") or text.strip() in ("{", "}", "]"):
            remedy = "write one conversation a line, not one JSON document over many lines"
        else:
            remedy = "each line must be one complete JSON object"
        # Python's message ends in the place, of which line 1 is no news.
        fault = str(error).replace("line 1 ", "") or type(error).__name__
        raise BadRow("not JSON", f"not JSON: {fault}", remedy) from None


def other_format(keys: Iterable[str]) -> str | None:
    """What `textrl collect --from` calls the format of rows with these keys, if it knows them."""
    return next((FOREIGN_KEYS[key] for key in keys if key in FOREIGN_KEYS), None)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRow("duplicate key", f"the key {twice!r} occurs twice in one object", "keep one")
    return found


def read_conversation(row: object, group_by: str = GROUP) -> Conversation:
    """Check one row, as JSON or Arrow gives it; a value of null is as good as none."""
    if not isinstance(row, Mapping):
        raise BadRow(
            "wrong type", f"the row is {_kind(row)}", "it must be an object with 'messages'"
        )
    given = {key: value for key, value in row.items() if value is not None}
    _refuse_misspelt(given, ROW_KEYS)
    if "messages" not in given:
        keys = ", ".join(map(repr, given)) or "none"
        remedy = "give a list of {role, content}"
        if other := other_format(given):
            remedy = f"convert the file with textrl collect --from {other}"
        elif "is_action" in given:
            remedy = "these are episodes of a game: choose its --task"
        raise BadRow("no messages", f"no 'messages' (keys: {keys})", remedy)
    if not isinstance(given["messages"], list):
        raise BadRow(
            "wrong type",
            f"'messages' is {_kind(given['messages'])}",
            "it must be a list of {role, content}",
        )
    messages = [read_message(i, each) for i, each in enumerate(given["messages"], start=1)]
    turns = [i for i, message in enumerate(messages) if message.role == AGENT]
    if not [i for i in turns if i > 0]:
        raise BadRow(
            "no assistant turn",
            "no message of the assistant after another message",
            "without one there is nothing to learn: remove the row",
        )
    if turns[0] == 0 and messages[0].reward:
        raise BadRow(
            "reward",
            "message 1 is the assistant's and has a reward, but no history to act from",
            "put a user or system message before it, or remove the reward",
        )
    if "reward" in given:
        last = messages[turns[-1]]
        earned = last.reward + _number(given["reward"], "reward", "'reward'")
        messages[turns[-1]] = Message(AGENT, last.content, earned)
    weight = _number(given.get("weight", 1.0), "weight", "'weight'")
    if weight <= 0:
        raise BadRow("weight", f"'weight' is {weight:g}", "give one above 0, or remove the row")
    behaviour = given.get("behaviour", Conversation.behaviour)
    if not isinstance(behaviour, str):
        raise BadRow("wrong type", f"'behaviour' is {_kind(behaviour)}", "give text or nothing")
    group = given.get(group_by, "")
    if isinstance(group, bool) or not isinstance(group, str | int):
        remedy = "give text, a whole number or nothing"
        raise BadRow("wrong type", f"{group_by!r} is {_kind(group)}", remedy)
    return Conversation(tuple(messages), _is_truncated(given), weight, behaviour, str(group))


def read_message(number: int, message: object) -> Message:
    """Check one message of a row; number: which one, counted from 1."""
    called = f"message {number}"
    if not isinstance(message, Mapping):
        remedy = "it must be an object with role and content"
        raise BadRow("wrong type", f"{called} is {_kind(message)}", remedy)
    given = {key: value for key, value in message.items() if value is not None}
    _refuse_misspelt(given, MESSAGE_KEYS)
    role, content = given.get("role"), given.get("content")
    if not isinstance(role, str) or role not in ROLES:
        if not isinstance(role, str):
            what = f"{called} has no role" if role is None else f"its role is {_kind(role)}"
            raise BadRow("unknown role", what, f"give one of {', '.join(ROLES)}")
        if role.lower() in OTHER_NAMES:
            remedy = f"here it is called {OTHER_NAMES[role.lower()]!r}"
            raise BadRow("unknown role", f"{called}: unknown role {role!r}", remedy)
        raise BadRow("unknown role", called, str(unknown("role", role, ROLES)))
    if content is None:
        remedy = "textrl collect --from openai keeps tool calls as text"
        remedy = remedy if "tool_calls" in given else "give text"
        raise BadRow("empty content", f"{called} ({role}) has no content", remedy)
    if not isinstance(content, str):
        remedy = "only text can be read: textrl collect --from openai joins text parts"
        raise BadRow("wrong type", f"the content of {called} is {_kind(content)}", remedy)
    if not content.strip():
        raise BadRow("empty content", f"the content of {called} ({role}) is empty", "remove it")
    if len(content) > LONGEST_MESSAGE:
        raise BadRow(
            "too long",
            f"{called} has {len(content):,} characters, the limit is {LONGEST_MESSAGE:,}",
            "shorten it or remove the row",
        )
    try:
        content.encode()
    except UnicodeEncodeError as error:
        what = f"{called} has half of a surrogate pair (\\u{ord(content[error.start]):04x})"
        raise BadRow("not UTF-8", what, "write the character itself or both halves") from None
    if "reward" not in given:
        return Message(role, content)
    if role != AGENT:
        remedy = "rewards belong to the assistant's messages"
        raise BadRow("reward", f"{called} is the {role}'s and has a reward", remedy)
    return Message(role, content, _number(given["reward"], "reward", f"the reward of {called}"))


def _number(value: object, kind: str, called: str) -> float:
    """A finite number that single precision can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRow(kind, f"{called} is {_kind(value)}", "it must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(number)):
            raise BadRow(kind, f"{called} is {number}", "it must be a finite number")
    if abs(number) > LARGEST_REWARD:
        raise BadRow(kind, f"{called} is {number:g}", f"at most {LARGEST_REWARD:g} can be learned")
    return number


def _is_truncated(given: Mapping[str, Any]) -> bool:
    for name in ("terminated", "truncated"):
        if not isinstance(given.get(name, False), bool):
            remedy = "it must be true or false"
            raise BadRow("wrong type", f"{name!r} is {_kind(given[name])}", remedy)
    truncated = given.get("truncated", not given.get("terminated", True))
    terminated = given.get("terminated", not truncated)
    if terminated and truncated:
        what = "both 'terminated' and 'truncated' are true"
        raise BadRow("ending", what, "a conversation came to its end or was cut off, never both")
    if not terminated and not truncated:
        what = "both 'terminated' and 'truncated' are false"
        raise BadRow("ending", what, "say which of the two it was, or leave both out")
    return bool(truncated)


def _refuse_misspelt(given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Other keys are nobody's business, but 'rewards' would be lost without a word."""
    for key in given:
        near = None if key in known else _nearest(key, known)
        if near is not None and near not in given:
            what = f"unknown key {key!r}"
            raise BadRow("misspelt key", what, f"did you mean {near!r}? Rename or remove it")


@lru_cache(maxsize=1000)
def _nearest(key: str, known: tuple[str, ...]) -> str | None:
    near = difflib.get_close_matches(key, known, n=1, cutoff=NEARLY_THE_SAME)
    return near[0] if near else None


def _kind(value: object) -> str:
    """For people: what a value is, in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"{str(value).lower()}"
    if isinstance(value, str):
        return f"text ({value[:20]!r})"
    if isinstance(value, int | float):
        return f"a number ({value})"
    return "a list" if isinstance(value, list) else "an object"
