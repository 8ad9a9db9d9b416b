"""Rows of other people's formats -> rows of ours, as docs/text.md has them."""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textrl.data.conversation import AGENT, ROW_KEYS, BadRow

Row = dict[str, Any]
KEPT = (*(key for key in ROW_KEYS if key != "messages"), "group")
"""Keys of ours that a row of any format may have already."""
SHAREGPT_ROLES = {
    **{"human": "user", "user": "user", "system": "system"},
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "model", "bing", "bard", "bot"), AGENT),
    "function_call": AGENT,
    **dict.fromkeys(("tool", "observation", "function_response"), "tool"),
}
OPENAI_ROLES = {
    **{role: role for role in ("system", "user", AGENT, "tool")},
    **{"developer": "system", "function": "tool"},
}
CASINO_SIDES = ("mturk_agent_1", "mturk_agent_2")
CASINO_ISSUES = ("Food", "Water", "Firewood")
CASINO_SYSTEM = (
    "You are negotiating with a campsite neighbour over 3 packages each of Food, Water and"
    " Firewood. Your priorities: High {High}, Medium {Medium}, Low {Low} (5, 4 and 3 points a"
    " package)."
)


@dataclass(frozen=True)
class Format:
    """A format by its name on the command line."""

    title: str
    convert: Callable[[Row, bool], list[Row]]
    """(row, whether tool calls are kept as text) -> rows of ours; BadRow says what is wrong."""


def from_sharegpt(row: Row, keeps_calls: bool) -> list[Row]:
    """{"conversations": [{"from": "human", "value": "..."}, {"from": "gpt", ...}]}"""
    messages = [system] if (system := _system(row.get("system"))) else []
    for number, turn in enumerate(_listed(row, "conversations"), start=1):
        said = str(turn.get("from")).lower()
        if said not in SHAREGPT_ROLES:
            known = ", ".join(SHAREGPT_ROLES)
            what = f"message {number} is from {turn.get('from')!r}"
            raise BadRow("unknown role", what, f"give one of {known}")
        if said == "function_call" and not keeps_calls:
            raise _no_calls(number, [str(turn.get("value"))[:40]])
        messages.append(_message(SHAREGPT_ROLES[said], turn.get("value"), turn.get("reward")))
    return [_row(row, _with_tools(messages, row.get("tools"), keeps_calls))]


def from_openai(row: Row, keeps_calls: bool) -> list[Row]:
    """{"messages": [...], "tools": [...]}, as files for OpenAI's fine-tuning have it."""
    messages = _openai_messages(_listed(row, "messages"), keeps_calls)
    tools = row.get("tools") or row.get("functions")
    return [_row(row, _with_tools(messages, tools, keeps_calls))]


def from_prompt_completion(row: Row, keeps_calls: bool) -> list[Row]:
    """{"prompt": ..., "completion": ...}, each a text or a list of messages."""
    asked = _side(row, "prompt", "user", keeps_calls)
    return [_row(row, [*asked, *_side(row, "completion", AGENT, keeps_calls)])]


def from_preference(row: Row, keeps_calls: bool) -> list[Row]:
    """{"prompt": ..., "chosen": ..., "rejected": ...}: two rows, of which the first earned more.

    They earned score_chosen and score_rejected, or else 1 and 0. Without a prompt, the two are
    whole conversations, lists of messages.
    """
    asked = [] if row.get("prompt") is None else _side(row, "prompt", "user", keeps_calls)
    found = []
    for name, reward in (("chosen", 1.0), ("rejected", 0.0)):
        if not asked and isinstance(row.get(name), str):
            what = f"no 'prompt', and {name!r} is text"
            raise BadRow("no messages", what, "give the prompt, or messages in a list")
        earned = row.get(f"score_{name}")
        given = {"reward": reward if earned is None else earned, "behaviour": name}
        said = _side(row, name, AGENT, keeps_calls)
        found.append(_row({**row, **given}, [*asked, *said]))
    return found


def from_casino(row: Row, keeps_calls: bool) -> list[Row]:
    """kchawla123/casino on the Hub: one row for each side, which earned the points it scored."""
    talk, people = _listed(row, "chat_logs"), row.get("participant_info")
    found = []
    for side in CASINO_SIDES:
        try:
            about = people[side]  # type: ignore[index]
            priorities = CASINO_SYSTEM.format(**about["value2issue"])
            points = about["outcomes"]["points_scored"]
        except (KeyError, TypeError) as error:
            what = f"no {error} of {side} in 'participant_info'"
            raise BadRow("wrong type", what, "give the rows as the Hub has them") from None
        messages: list[Row] = [{"role": "system", "content": priorities}]
        for turn in talk:
            role, content = AGENT if turn.get("id") == side else "user", _casino_text(turn)
            if messages[-1]["role"] == role:  # what one says in two messages is one turn
                messages[-1]["content"] += f"\n{content}"
            else:
                messages.append({"role": role, "content": content})
        found.append(_row({"reward": points, "behaviour": "people"}, messages))
    return found


FORMATS = {
    "sharegpt": Format("conversations of from and value", from_sharegpt),
    "openai": Format("OpenAI's fine-tuning rows", from_openai),
    "prompt-completion": Format("prompt and completion", from_prompt_completion),
    "preference": Format("prompt, chosen and rejected", from_preference),
    "casino": Format("kchawla123/casino as on the Hub", from_casino),
}
"""What `textrl collect --from` reads."""


def _row(given: Mapping[str, Any], messages: list[Row]) -> Row:
    kept = {key: given[key] for key in KEPT if given.get(key) is not None}
    return {"messages": messages, **kept}


def _message(role: str, content: Any, reward: Any = None) -> Row:
    earned = {} if reward is None else {"reward": reward}
    # What is no text is for the reader of our rows to refuse.
    return {
        "role": role,
        "content": content.strip() if isinstance(content, str) else content,
        **earned,
    }


def _system(text: Any) -> Row | None:
    return _message("system", text) if isinstance(text, str) and text.strip() else None


def _listed(row: Row, key: str) -> list[Row]:
    found = row.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        have = ", ".join(map(repr, row)) or "none"
        what = f"no list of objects under {key!r} (keys: {have})"
        raise BadRow("no messages", what, "is it of another --from format?")
    return found


def _side(row: Row, key: str, role: str, keeps_calls: bool) -> list[Row]:
    """A prompt, or what followed it: a text or messages."""
    found = row.get(key)
    if isinstance(found, str):
        return [_message(role, found)]
    return _openai_messages(_listed(row, key), keeps_calls)


def _openai_messages(given: Sequence[Row], keeps_calls: bool) -> list[Row]:
    found = []
    for number, message in enumerate(given, start=1):
        role = message.get("role")
        if message.get("weight") == 0:
            what = f"message {number} has weight 0: it is not to be learned from"
            raise BadRow("weight", what, "a row here is learned from as a whole: remove the weight")
        content = _text_of(number, message)
        if calls := _calls_of(message):
            if not keeps_calls:
                raise _no_calls(number, [str(call.get("name")) for call in calls])
            content = "\n".join([content] * bool(content.strip()) + [*map(_call_text, calls)])
        known = OPENAI_ROLES.get(role, role) if isinstance(role, str) else role
        found.append({**_message("", content, message.get("reward")), "role": known})
    return found


def _text_of(number: int, message: Row) -> str:
    """A message's content, which may be in parts; none where it is a call or a refusal."""
    content = message.get("content")
    if content is None:
        return str(message.get("refusal") or "")
    if not isinstance(content, list):
        return str(content)
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind not in ("text", "refusal"):
            what = f"message {number} has a part of type {kind!r}"
            raise BadRow("not text", what, "only text can be read: remove the row")
    return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)


def _calls_of(message: Row) -> list[Row]:
    """The functions that a message calls: names and arguments."""
    calls = [call.get("function") or call for call in message.get("tool_calls") or []]
    return [*calls, message["function_call"]] if message.get("function_call") else calls


def _call_text(call: Row) -> str:
    """As Hermes and Qwen write a call; arguments come as text of JSON or as JSON."""
    arguments = call.get("arguments", {})
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):  # a model may have written no JSON: kept as it is
            arguments = json.loads(arguments)
    told = json.dumps({"name": call.get("name"), "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{told}\n</tool_call>"


def _no_calls(number: int, names: Sequence[str]) -> BadRow:
    what = f"message {number} calls {', '.join(map(repr, names))}"
    return BadRow("tool call", what, "--tool-calls text keeps calls as text")


def _with_tools(messages: list[Row], tools: Any, keeps_calls: bool) -> list[Row]:
    """The tools that could be called stand in the system message, where the agent reads them."""
    if not tools or not keeps_calls:
        return messages
    told = tools if isinstance(tools, str) else json.dumps(tools, ensure_ascii=False)
    first = messages[0] if messages and messages[0]["role"] == "system" else None
    text = f"{first['content']}\n\nTools: {told}" if first else f"Tools: {told}"
    return [_message("system", text), *(messages[1:] if first else messages)]


def _casino_text(turn: Row) -> str:
    """What was said, and in a deal what each side would get."""
    text, data = str(turn.get("text")), turn.get("task_data") or {}
    mine, theirs = data.get("issue2youget") or {}, data.get("issue2theyget") or {}
    if not any(mine.values()):
        return text

    def told(share: Mapping[str, Any]) -> str:
        return ", ".join(f"{share[issue]} {issue}" for issue in CASINO_ISSUES)

    return f"{text}: I get {told(mine)}; you get {told(theirs)}"
