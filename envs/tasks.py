"""The tasks by name."""

from collections.abc import Mapping
from typing import Any

from envs.gridworld.task import GridworldTask
from envs.twenty.task import TwentyTask
from envs.vizdoom.task import VizdoomTask
from envs.wordle.task import WordleTask
from textrl.config import TrainConfig
from textrl.errors import UserError, unknown
from textrl.task import Task

TASKS: dict[str, Any] = {
    "gridworld": GridworldTask,
    "twenty": TwentyTask,
    "vizdoom": VizdoomTask,
    "wordle": WordleTask,
}


def make_task(config: TrainConfig) -> Task:
    """The task that a training run asks for."""
    if config.task not in TASKS:
        raise unknown("task", config.task, TASKS)
    return TASKS[config.task].from_config(config)


def task_of_checkpoint(saved: Mapping[str, Any]) -> Task:
    """The task that a checkpoint's or a dataset's task.json describes."""
    if str(saved["task"]) not in TASKS:
        raise unknown("task", str(saved["task"]), TASKS)
    try:
        return TASKS[saved["task"]].from_settings(saved["settings"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(
            f"the settings of the task {saved['task']!r} are damaged: {error}"
        ) from error
