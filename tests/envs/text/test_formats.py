"""textrl collect --from: rows of other people's formats become rows of ours, or are refused."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from textrl.data.conversation import FOREIGN_KEYS, BadRow, read_conversation
from textrl.data.dataset import load_episodes
from textrl.envs.text.formats import FORMATS, Row
from textrl.envs.text.sources import open_source
from textrl.errors import UserError, run_recipe
from textrl.recipes import collect

CASINO = Path(__file__).parents[4] / "shared" / "data" / "conversations" / "casino.jsonl"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the recipe; give its exit code and what it printed to each stream."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["collect", *map(str, arguments)])
        code = 0
        try:
            run_recipe(collect.main)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def said(*turns: str) -> list[Row]:
    """Messages as 'role: content'."""
    return [dict(zip(("role", "content"), turn.split(": ", 1), strict=True)) for turn in turns]


def convert(name: str, row: Row, keeps_calls: bool = True) -> list[Row]:
    found = FORMATS[name].convert(row, keeps_calls)
    for each in found:
        read_conversation(each)
    return found


def test_sharegpt() -> None:
    turns = [
        {"from": "human", "value": "hello "},
        {"from": "gpt", "value": "no", "reward": 2},
        {"from": "observation", "value": "rain"},
        {"from": "chatgpt", "value": "so it rains"},
    ]
    row = {"id": "x", "system": "Be brief.", "conversations": turns, "reward": 1, "weight": 3}
    (ours,) = convert("sharegpt", row)
    assert ours["reward"] == 1 and ours["weight"] == 3
    assert ours["messages"][2].pop("reward") == 2
    assert ours["messages"] == said(
        "system: Be brief.", "user: hello", "assistant: no", "tool: rain", "assistant: so it rains"
    )
    with pytest.raises(BadRow, match="message 1 is from 'narrator'"):
        convert("sharegpt", {"conversations": [{"from": "narrator", "value": "x"}]})


CALL = {"id": "1", "type": "function", "function": {"name": "sky", "arguments": '{"at": "sea"}'}}
TOOL = {"type": "function", "function": {"name": "sky", "parameters": {}}}
CALLING: Row = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Rain "}, {"type": "text", "text": "?"}],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL], "weight": 1},
        {"role": "tool", "tool_call_id": "1", "content": "dry"},
        {"role": "assistant", "content": "No."},
    ],
    "tools": [TOOL],
}


def test_openai_with_tool_calls_as_text() -> None:
    (ours,) = convert("openai", CALLING)
    assert ours["messages"] == said(
        f"system: Be brief.\n\nTools: {json.dumps([TOOL])}",
        "user: Rain ?",
        'assistant: <tool_call>\n{"name": "sky", "arguments": {"at": "sea"}}\n</tool_call>',
        "tool: dry",
        "assistant: No.",
    )
    old = {"role": "assistant", "content": "Let me see.", "function_call": {"name": "sky"}}
    (ours,) = convert("openai", {"messages": [*said("user: hm"), old]})
    assert ours["messages"][1]["content"].startswith("Let me see.\n<tool_call>")


def test_openai_rows_that_cannot_be_kept_are_refused_by_name() -> None:
    with pytest.raises(BadRow, match="message 3 calls 'sky': --tool-calls text"):
        convert("openai", CALLING, keeps_calls=False)
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    with pytest.raises(BadRow, match="message 1 has a part of type 'image_url'"):
        convert("openai", {"messages": [picture]})
    unlearned = {"role": "assistant", "content": "no", "weight": 0}
    with pytest.raises(BadRow, match="message 2 has weight 0"):
        convert("openai", {"messages": [*said("user: hm"), unlearned]})


def test_prompt_and_completion() -> None:
    (ours,) = convert("prompt-completion", {"prompt": "2 + 2 =", "completion": " 4", "reward": 1})
    assert ours == {"messages": said("user: 2 + 2 =", "assistant: 4"), "reward": 1}
    asked, answered = said("system: Count.", "user: 2 + 2 ="), said("assistant: 4")
    (ours,) = convert("prompt-completion", {"prompt": asked, "completion": answered})
    assert ours == {"messages": asked + answered}


def test_chosen_and_rejected() -> None:
    row: Row = {"prompt": "hello", "chosen": "hello there", "rejected": "no"}
    better, worse = convert("preference", row)
    assert better["messages"] == said("user: hello", "assistant: hello there")
    assert worse["messages"] == said("user: hello", "assistant: no")
    assert (better["reward"], worse["reward"]) == (1.0, 0.0)
    assert (better["behaviour"], worse["behaviour"]) == ("chosen", "rejected")
    better, worse = convert("preference", {**row, "score_chosen": 8.5, "score_rejected": 0})
    assert (better["reward"], worse["reward"]) == (8.5, 0)
    whole = {"chosen": said("user: a", "assistant: b"), "rejected": said("user: a", "assistant: c")}
    assert [each["messages"][1]["content"] for each in convert("preference", whole)] == ["b", "c"]
    with pytest.raises(BadRow, match="no 'prompt', and 'chosen' is text"):
        convert("preference", {"chosen": "a", "rejected": "b"})


def side(high: str, medium: str, low: str, points: int) -> Row:
    about = {"value2issue": {"High": high, "Medium": medium, "Low": low}}
    return {**about, "outcomes": {"points_scored": points, "satisfaction": "x"}}


def shares(*counts: str) -> Row:
    return dict(zip(("Firewood", "Water", "Food"), counts, strict=True))


def casino_row() -> Row:
    """As the Hub has them: every message has the same keys, most of them empty."""
    none: Row = {"data": None, "issue2youget": shares("", "", ""), "issue2theyget": None}
    deal = {"data": None, "issue2youget": shares("1", "3", "0")}
    deal["issue2theyget"] = shares("2", "0", "3")
    return {
        "chat_logs": [
            {"text": "Hello!", "task_data": none, "id": "mturk_agent_1"},
            {"text": "Hi.", "task_data": none, "id": "mturk_agent_2"},
            {"text": "So", "task_data": none, "id": "mturk_agent_2"},
            {"text": "Submit-Deal", "task_data": deal, "id": "mturk_agent_2"},
            {
                "text": "Accept-Deal",
                "task_data": {**none, "data": "accept_deal"},
                "id": "mturk_agent_1",
            },
        ],
        "participant_info": {
            "mturk_agent_1": side("Firewood", "Food", "Water", 22),
            "mturk_agent_2": side("Water", "Firewood", "Food", 19),
        },
        "annotations": [["Hello!", "small-talk"]],
    }


def test_casino() -> None:
    one, other = convert("casino", casino_row())
    assert (one["reward"], other["reward"]) == (22, 19)
    assert one["messages"][0]["content"] == (
        "You are negotiating with a campsite neighbour over 3 packages each of Food, Water and"
        " Firewood. Your priorities: High Firewood, Medium Food, Low Water (5, 4 and 3 points a"
        " package)."
    )
    deal = "Submit-Deal: I get 0 Food, 3 Water, 1 Firewood; you get 3 Food, 0 Water, 2 Firewood"
    assert [each["role"] for each in one["messages"]] == [
        "system",
        "assistant",
        "user",
        "assistant",
    ]
    assert one["messages"][2]["content"] == f"Hi.\nSo\n{deal}"
    assert [each["role"] for each in other["messages"][1:]] == ["user", "assistant", "user"]
    with pytest.raises(BadRow, match="no 'mturk_agent_1' of mturk_agent_1"):
        convert("casino", {**casino_row(), "participant_info": {}})


@pytest.mark.skipif(not CASINO.exists(), reason="needs ../shared/data/conversations")
def test_casino_is_written_as_the_data_of_the_reports_are() -> None:
    first = json.loads(CASINO.open().readline())["messages"]
    ours = convert("casino", casino_row())[0]["messages"]
    assert ours[0] == first[0]
    # A deal in the same words, from the other side.
    assert ours[2]["content"].splitlines()[-1] == first[-2]["content"]
    assert first[-1]["content"] == "Accept-Deal"


def test_files_of_every_kind(run: Run, tmp_path: Path) -> None:
    rows: list[Any] = [
        {
            "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "no"}],
            "stars": n,
        }
        for n in (1, 5)
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "document.json").write_text(json.dumps(rows, indent=2))
    Dataset.from_list(rows).to_parquet(tmp_path / "table.parquet")
    Dataset.from_list(rows).save_to_disk(str(tmp_path / "folder"))
    for name in ("lines.jsonl", "document.json", "table.parquet", "folder"):
        output = tmp_path / "talks" / f"{name}.jsonl"
        source = ("--from", "sharegpt", tmp_path / name, "--output", output)
        code, out, err = run(*source, "--reward-column", "stars")
        assert code == 0, err
        assert "2 conversations, 4 messages, 2 turns of the agent" in out
        found = [json.loads(line) for line in output.read_text().splitlines()]
        assert [row["reward"] for row in found] == [1, 5]
        code, out, err = run(*source)
        assert code == 2 and "exists already" in err
    assert run("--check", output)[0] == 0


def test_rows_of_one_pair_share_a_group(run: Run, tmp_path: Path) -> None:
    pairs = [{"prompt": str(n), "chosen": "yes", "rejected": "no"} for n in range(2)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    run("--from", "preference", tmp_path / "pairs.jsonl", "--output", tmp_path / "talks.jsonl")
    found = [json.loads(line) for line in (tmp_path / "talks.jsonl").read_text().splitlines()]
    assert [row["group"] for row in found] == ["row 1", "row 1", "row 2", "row 2"]


def test_bad_rows_are_named_and_refused_or_skipped(run: Run, tmp_path: Path) -> None:
    good = {"prompt": "a", "completion": "b"}
    lines = [
        json.dumps(good),
        "oops",
        json.dumps({"prompt": "a"}),
        json.dumps({**good, "prompt": " "}),
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    output = tmp_path / "talks.jsonl"
    source = ("--from", "prompt-completion", tmp_path / "rows.jsonl", "--output", output)
    code, out, err = run(*source)
    assert code == 2 and "3 rows" in err and not output.exists()
    assert [line.split(":")[0] for line in out.splitlines()] == ["line 2", "line 3", "line 4"]
    assert run(*source, "--on-bad-rows", "skip")[0] == 0
    assert len(output.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--from", "sharegtp", "x.json"), "did you mean 'sharegpt'?"),
        (("--from", "sharegpt"), "expected 2 arguments"),
        (("--from", "sharegpt", "nowhere.json"), "no such conversations"),
        (("--from", "casino", "x.jsonl", "--output", "folder"), "must end in .jsonl"),
        (("--from", "casino", "x.jsonl", "--output", ""), "--output is missing"),
    ],
)
def test_mistakes(run: Run, given: tuple[str, ...], told: str) -> None:
    output = () if "--output" in given else ("--output", "talks.jsonl")
    code, _, err = run(*given, *output)
    assert code == 2 and told in err and len(err.splitlines()) == 1


def test_names_agree() -> None:
    assert tuple(FORMATS) == collect.FORMAT_NAMES
    assert {*FOREIGN_KEYS.values()} < {*FORMATS}


def test_rows_of_another_task_or_format_get_a_hint(tmp_path: Path) -> None:
    talk = {"messages": said("user: a", "assistant: b")}
    chats = {"conversations": [{"from": "human", "value": "a"}]}
    for row, told in ((talk, "--task text"), (chats, "--from sharegpt, and .* --task text")):
        (tmp_path / "rows.jsonl").write_text(json.dumps(row))
        with pytest.raises(UserError, match=told):
            load_episodes(str(tmp_path / "rows.jsonl"))
        Dataset.from_list([row]).save_to_disk(str(tmp_path / told[-4:] / str(len(told))))
        with pytest.raises(UserError, match=told):
            load_episodes(str(tmp_path / told[-4:] / str(len(told))))
    with pytest.raises(BadRow, match="convert the file with textrl collect --from sharegpt"):
        read_conversation(chats)
    with pytest.raises(BadRow, match="episodes of a game: choose its --task"):
        read_conversation({"tokens": [1], "is_action": [True]})
    with pytest.raises(BadRow, match="--from openai keeps tool calls"):
        read_conversation(CALLING | {"messages": CALLING["messages"][2:]})
    Dataset.from_list([chats]).save_to_disk(str(tmp_path / "chats"))
    with pytest.raises(UserError, match="convert it with textrl collect --from sharegpt"):
        open_source(str(tmp_path / "chats"))
