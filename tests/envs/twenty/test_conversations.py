"""Episodes as conversations: by hand, and by the recipe that makes datasets."""

import json
import sys
from pathlib import Path

import pytest

from textrl.data.dataset import load_episodes
from textrl.envs.twenty.conversations import conversation
from textrl.envs.twenty.task import TwentyTask
from textrl.envs.twenty.things import World
from textrl.errors import UserError
from textrl.recipes import collect


def test_a_conversation_by_hand(zoo: World) -> None:
    language = TwentyTask(zoo).language
    text = "<begin> is it an animal ? yes is it a bat ? yes"
    words = text.split()
    row = {
        "tokens": [language.tokens.index(word) for word in words],
        "is_action": [word not in ("<begin>", "yes") for word in words],
        "reward": [0.0] * 5 + [-1.0] + [0.0] * 7,
        "terminated": True,
        "episode_return": -1.0,
        "behaviour": "expert",
    }
    assert conversation(row, language) == {
        "messages": [
            {"role": "user", "content": "I am thinking of something. What is it?"},
            {"role": "assistant", "content": "Is it an animal?", "reward": -1.0},
            {"role": "user", "content": "Yes"},
            {"role": "assistant", "content": "Is it a bat?", "reward": 0.0},
            {"role": "user", "content": "Yes"},
        ],
        "terminated": True,
        "episode_return": -1.0,
        "behaviour": "expert",
    }


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["collect.py", *arguments, "--workers", "1"])
    collect.main()


def test_the_recipe_writes_the_same_episodes_as_conversations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    twenty = ["--task", "twenty", "--episodes", "50"]
    run(monkeypatch, *twenty, "--output", "games", "--conversations", "chats/games.jsonl")
    lines = [json.loads(line) for line in Path("chats/games.jsonl").read_text().splitlines()]
    rows = load_episodes("games")
    assert len(lines) == len(rows) == 50
    for line, row in zip(lines, rows, strict=True):
        said = [each for each in line["messages"] if each["role"] == "assistant"]
        assert len(line["messages"]) == 1 + 2 * len(said) == 1 + (len(row["tokens"]) - 1) // 3
        assert sum(each["reward"] for each in said) == row["episode_return"]
        assert all(each["content"].endswith("?") for each in said)

    with pytest.raises(UserError, match=r"games.jsonl' exists already"):
        run(monkeypatch, *twenty, "--output", "more", "--conversations", "chats/games.jsonl")
    with pytest.raises(UserError, match="choose --task twenty"):
        run(monkeypatch, "--task", "wordle", "--output", "more", "--conversations", "x.jsonl")
    assert not Path("more").exists()
