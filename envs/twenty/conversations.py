"""The episodes of Twenty Questions as conversations, for tools that train on chats."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textrl.data.language import Language
from textrl.envs.twenty.env import as_written
from textrl.envs.twenty.things import QUESTION_WORDS

FIRST_MESSAGE = "I am thinking of something. What is it?"


def conversation(row: Mapping[str, Any], language: Language) -> dict[str, Any]:
    """A row of a dataset as messages: the agent is the assistant, who answers is the user.

    A message of the assistant carries the reward that its question earned.
    """
    messages: list[dict[str, Any]] = [{"role": "user", "content": FIRST_MESSAGE}]
    words: list[str] = []
    rewards: list[float] = []
    for token, is_action, reward in zip(
        row["tokens"][1:], row["is_action"][1:], row["reward"][1:], strict=True
    ):
        word = language.tokens[token]
        if not is_action:
            messages.append({"role": "user", "content": word.capitalize()})
            continue
        words.append(word)
        rewards.append(reward)
        if len(words) == QUESTION_WORDS:
            content = as_written(" ".join(words))
            messages.append({"role": "assistant", "content": content, "reward": sum(rewards)})
            words, rewards = [], []
    return {
        "messages": messages,
        "terminated": row["terminated"],
        "episode_return": row["episode_return"],
        "behaviour": row["behaviour"],
    }


def write_conversations(rows: Iterable[Mapping[str, Any]], language: Language, path: Path) -> None:
    """One conversation a line, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(conversation(row, language)) + "\n")
