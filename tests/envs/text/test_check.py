"""textrl collect --check: every bad row named, the first rows shown, a summary."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import chat_tokenizers
from textrl.data.chat import TextLanguage
from textrl.data.conversation import Conversation, Message
from textrl.envs.text import check
from textrl.envs.text.check import printable, show
from textrl.errors import run_recipe
from textrl.recipes import collect

USER = {"role": "user", "content": "hello"}
AGENT = {"role": "assistant", "content": "no", "reward": 1}
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


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Three good rows, of which the template refuses nothing, and four bad ones."""
    rows: list[Any] = [
        {"messages": [USER, AGENT], "behaviour": "day"},
        {"messages": [USER]},
        {"messages": [USER, {**AGENT, "reward": None}, USER, AGENT], "weight": 2},
        {"messages": [USER, {**AGENT, "reward": "a lot"}]},
        {"messages": [USER, {**AGENT, "content": "no\x1b[2J <|endoftext|>"}]},
        {"messages": [{**USER, "content": "hello " * 200}, {**AGENT, "reward": -3}]},
    ]
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\nnonsense")
    return path


def test_the_format_alone(run: Run, mixed: Path) -> None:
    code, out, err = run("--check", mixed)
    lines = out.splitlines()
    assert code == 2
    assert lines[0].startswith("line 2: no message of the assistant")
    assert lines[1] == "line 4: the reward of message 2 is text ('a lot'): it must be a number"
    assert lines[2].startswith("line 7: not JSON")
    assert f"{mixed}: 4 conversations, 10 messages, 5 turns of the agent" in out
    assert "rewards: 4 turns earned one, and a turn from -3 to 1" in out
    assert "tokens" not in out
    assert err.splitlines()[-1] == (
        f"error: 3 rows of {str(mixed)!r} are bad: fix them, or leave them out with"
        " --on-bad-rows skip"
    )


def test_as_tokens(run: Run, mixed: Path, gpt2: Path) -> None:
    told = run("--check", mixed, "--backbone", gpt2, "--context", 64, "--on-bad-rows", "skip")
    code, out, _ = told
    assert code == 0
    assert "line 5: message 2 contains '<|endoftext|>', a control token" in out
    assert "\x1b" not in out
    assert "line 1: 15 tokens, 4 the agent's, ended\n" in out
    assert "    assistant:>>> |n|o|<|endoftext|><<< (+1)" in out
    assert "the agent's, ended, weight 2\n" in out
    assert "line 6: 64 tokens, 4 the agent's, ended, 0 messages cut, and within a message\n" in out
    assert "longer than --context 64: 1 conversations lose their beginning, 1 of them" in out
    table = [line.split() for line in out.splitlines()[-6:]]
    assert table[2:] == [
        ["no", "assistant", "turn", "1"],
        ["reward", "1"],
        ["control", "token", "1"],
        ["not", "JSON", "1"],
    ]


def test_a_file_of_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    code, _, err = run("--check", tmp_path / "empty.jsonl")
    assert (code, err.splitlines()[-1][:6]) == (2, "error:")
    assert run("--check", tmp_path / "nowhere.jsonl")[0] == 2


def test_a_reward_that_cannot_be_right(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"messages": [USER, {**AGENT, "reward": n % 5}]}) for n in range(30)]
    lines[17] = json.dumps({"messages": [USER, {**AGENT, "reward": 3e7}]})
    (tmp_path / "talks.jsonl").write_text("\n".join(lines))
    code, out, _ = run("--check", tmp_path / "talks.jsonl")
    assert code == 0 and "warning: line 18: a return of 3e+07" in out
    lines[17] = json.dumps({"messages": [USER, {**AGENT, "reward": 1e30}]})
    (tmp_path / "talks.jsonl").write_text("\n".join(lines))
    code, out, _ = run("--check", tmp_path / "talks.jsonl")
    assert code == 2 and "line 18: the reward of message 2 is 1e+30: at most 1e+15" in out


def test_many_bad_rows_are_told_in_few_lines(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "FAULTS_SHOWN", 3)
    (tmp_path / "bad.jsonl").write_text("x\n" * 10)
    code, out, _ = run("--check", tmp_path / "bad.jsonl")
    assert code == 2
    assert out.splitlines()[3] == "... and 7 more bad rows"
    assert ["not", "JSON", "10"] in [line.split() for line in out.splitlines()]


def test_marks_and_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = chat_tokenizers.gpt2()
    language = TextLanguage(tokenizer, len(tokenizer))
    talk = Conversation((Message("user", "hello"), Message("assistant", "é thank you", -0.5)))
    plain = show(language.spell(talk, 100), language)
    assert plain.splitlines()[1] == "    assistant:>>> |é| thank| you|<|endoftext|><<< (-0.5)"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = show(language.spell(talk, 100), language)
    assert coloured != plain
    assert coloured.replace(check.BOLD, "").replace(check.PLAIN, "") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert show(language.spell(talk, 100), language) == plain
    assert printable("a\x1b[31m\tb\n\u202e") == "a\\x1b[31m\\tb\n\\u202e"


def test_nobody_plays_conversations(run: Run, tmp_path: Path) -> None:
    code, _, err = run("--task", "text", "--output", tmp_path / "new")
    assert (code, "its episodes are your own" in err) == (2, True)
    assert "--task is missing" in run("--output", tmp_path / "new")[2]
