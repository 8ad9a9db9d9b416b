"""task.json: which task a dataset's rows or a checkpoint are of."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from textrl.errors import UserError

TASK_FILE = "task.json"
LARGEST = 32_000_000
"""Bytes of it; a word list of 50,000 words has 450,000."""


class Described(Protocol):
    """What can be told of a task, so that it can be made again."""

    name: str

    def settings(self) -> dict[str, Any]:
        """What makes this task this task (its word list, its map), as JSON."""


def describe_task(task: Described) -> dict[str, Any]:
    """What task.json holds: enough to make the same task again."""
    return {"task": task.name, "settings": task.settings()}


def read_task_file(path: Path) -> tuple[str, dict[str, Any]]:
    """The name of the task and its settings."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        saved = json.loads(path.read_text())
        return str(saved["task"]), dict(saved["settings"])
    except FileNotFoundError:
        raise UserError(f"{str(path.parent)!r} has no {path.name}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {error}") from error


def check_same_task(folder: Path, task: str, needed: Mapping[str, Any]) -> None:
    """Refuse a dataset folder that says it is of another task or, say, another word list.

    needed: the settings that its rows must share to be of use.
    """
    if not (folder / TASK_FILE).is_file():
        return  # rows of unknown origin are judged by their tokens alone
    other, settings = read_task_file(folder / TASK_FILE)
    if other != task:
        raise UserError(f"{str(folder)!r} holds episodes of the task {other!r}, not of {task!r}")
    for name, ours in needed.items():
        if settings.get(name) != ours:
            raise UserError(
                f"{str(folder)!r} was made with {name} {settings.get(name)!r},"
                f" this run has {ours!r}"
            )
