"""Rows of conversations: what they may hold, and what is said of those that hold something else."""

import json

import pytest

from textrl.data.conversation import BadRow, Conversation, Message, parse_line, read_conversation

USER = {"role": "user", "content": "hi"}
AGENT = {"role": "assistant", "content": "hello"}


def fault_of(line: bytes | object) -> BadRow:
    """What is wrong with a line, given as bytes or as what JSON it is."""
    with pytest.raises(BadRow) as found:
        parse_line(line if isinstance(line, bytes) else json.dumps(line).encode())
    return found.value


def test_a_row_by_hand() -> None:
    row = {
        "messages": [
            {"role": "system", "content": "Be kind."},
            USER,
            {**AGENT, "reward": 1},
            USER,
            {**AGENT, "reward": -0.25},
            USER,
        ],
        "reward": 2,
        "truncated": True,
        "weight": 3,
        "behaviour": "night shift",
        "id": 17,  # nobody's business
    }
    found = parse_line(json.dumps(row).encode() + b"\r\n")
    assert [message.reward for message in found.messages] == [0, 0, 1.0, 0, 1.75, 0]
    assert found.messages[0] == Message("system", "Be kind.")
    assert (found.truncated, found.weight, found.behaviour) == (True, 3.0, "night shift")
    assert found.episode_return == 2.75


def test_what_is_null_is_as_good_as_none() -> None:
    row = {"messages": [{**USER, "reward": None}, AGENT], "reward": None, "weight": None}
    plain = Conversation((Message("user", "hi"), Message("assistant", "hello")))
    assert read_conversation({**row, "terminated": None, "behaviour": None}) == plain


@pytest.mark.parametrize(
    ("ending", "truncated"),
    [
        ({}, False),
        ({"terminated": True}, False),
        ({"terminated": False}, True),
        ({"truncated": True}, True),
        ({"truncated": False}, False),
        ({"terminated": True, "truncated": False}, False),
    ],
)
def test_endings(ending: dict[str, bool], truncated: bool) -> None:
    assert read_conversation({"messages": [USER, AGENT], **ending}).truncated is truncated


@pytest.mark.parametrize(
    ("line", "kind", "told"),
    [
        (b"not json", "not JSON", "not JSON: Expecting value: column 1"),
        (b'[{"messages": []},\n', "not JSON", "write one conversation a line"),
        (b"{\n", "not JSON", "write one conversation a line"),
        (b"[" * 100_000, "not JSON", "write one conversation a line"),
        (b'{"messages": "caf\xe9"}', "not UTF-8", "byte 18 of the line is not UTF-8 (0xe9)"),
        (b'{"messages": [], "messages": []}', "duplicate key", "'messages' occurs twice"),
        ([1], "wrong type", "the row is a list"),
        ({"prompt": "x"}, "no messages", "no 'messages' (keys: 'prompt')"),
        ({"messages": "x"}, "wrong type", "'messages' is text ('x')"),
        ({"messages": []}, "no assistant turn", "remove the row"),
        ({"messages": [USER]}, "no assistant turn", "remove the row"),
        ({"messages": [AGENT, USER]}, "no assistant turn", "after another message"),
        ({"messages": ["x", AGENT]}, "wrong type", "message 1 is text ('x')"),
        ({"messages": [{"content": "x"}, AGENT]}, "unknown role", "message 1 has no role"),
        ({"messages": [{**USER, "role": "usr"}]}, "unknown role", "did you mean 'user'?"),
        ({"messages": [{**USER, "role": "Human"}]}, "unknown role", "here it is called 'user'"),
        ({"messages": [{"role": "user"}, AGENT]}, "empty content", "message 1 (user) has no"),
        ({"messages": [{**USER, "content": " \n"}]}, "empty content", "(user) is empty"),
        ({"messages": [{**USER, "content": ["x"]}]}, "wrong type", "is a list: only text"),
        ({"messages": [{**USER, "content": "x" * 1_000_001}]}, "too long", "1,000,001"),
        ({"messages": [{**USER, "content": "\ud800"}, AGENT]}, "not UTF-8", "\\ud800"),
        ({"messages": [USER, {**AGENT, "reward": "1"}]}, "reward", "is text ('1')"),
        ({"messages": [USER, {**AGENT, "reward": True}]}, "reward", "is true"),
        ({"messages": [USER, {**AGENT, "reward": float("nan")}]}, "reward", "is nan"),
        ({"messages": [USER, {**AGENT, "reward": 1e39}]}, "reward", "must be a finite number"),
        ({"messages": [USER, AGENT], "reward": float("-inf")}, "reward", "'reward' is -inf"),
        ({"messages": [USER, AGENT], "reward": 10**400}, "reward", "'reward' is inf"),
        ({"messages": [{**USER, "reward": 1}, AGENT]}, "reward", "belong to the assistant's"),
        ({"messages": [{**AGENT, "reward": 1}, USER, AGENT]}, "reward", "no history to act from"),
        ({"messages": [USER, AGENT], "weight": 0}, "weight", "'weight' is 0"),
        ({"messages": [USER, AGENT], "weight": "2"}, "weight", "must be a number"),
        ({"messages": [USER, AGENT], "behaviour": 3}, "wrong type", "'behaviour' is a number"),
        ({"messages": [USER, AGENT], "terminated": 1}, "wrong type", "'terminated' is a number"),
        ({"messages": [USER, AGENT], "rewards": 1}, "misspelt key", "did you mean 'reward'?"),
        ({"messages": [USER, {**AGENT, "rewards": 1}]}, "misspelt key", "did you mean 'reward'?"),
    ],
)
def test_a_bad_row_is_named(line: bytes | object, kind: str, told: str) -> None:
    fault = fault_of(line)
    assert fault.kind == kind
    assert told in str(fault)


@pytest.mark.parametrize("value", [True, False])
def test_an_episode_ends_in_one_way(value: bool) -> None:
    row = {"messages": [USER, AGENT], "terminated": value, "truncated": value}
    assert fault_of(row).kind == "ending"
