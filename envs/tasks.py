"""The tasks by name."""

from collections.abc import Mapping
from typing import Any

from envs.gridworld.task import GridworldTask
from envs.twenty.task import TwentyTask
from envs.vizdoom.task import VizdoomTask
from envs.wordle.task import WordleTask
from textrl.checkpoint import load_model
from textrl.combined import CombinedTask, one_of
from textrl.combined_config import CombinedConfig
from textrl.config import TrainConfig
from textrl.errors import UserError, unknown
from textrl.model import TextRLModel
from textrl.task import Task

TASKS: dict[str, Any] = {
    "gridworld": GridworldTask,
    "twenty": TwentyTask,
    "vizdoom": VizdoomTask,
    "wordle": WordleTask,
}


def make_task(config: TrainConfig) -> Task | CombinedTask:
    """The task that a training run asks for."""
    if isinstance(config, CombinedConfig):
        return CombinedTask({name: make_task(each) for name, each in config.members.items()})
    if config.task not in TASKS:
        raise unknown("task", config.task, TASKS)
    return TASKS[config.task].from_config(config)


def load_agent(name: str, game: str | None = None) -> tuple[TextRLModel, Task]:
    """The model in a checkpoint folder or Hub repo, and its task.

    game: which task, of an agent of several.
    """
    model, saved = load_model(name)
    task = task_of_checkpoint(saved)
    if not isinstance(task, CombinedTask):
        return model, task
    if game is None:
        raise UserError(f"{name!r} plays {task.name}: say which of them with --task")
    return one_of(model, task, game)


def task_of_checkpoint(saved: Mapping[str, Any]) -> Task | CombinedTask:
    """The task that a checkpoint's or a dataset's task.json describes."""
    name, settings = str(saved["task"]), saved["settings"]
    try:
        if "," in name:
            each = {one: {"task": one, "settings": settings[one]} for one in name.split(",")}
            return CombinedTask({one: task_of_checkpoint(each[one]) for one in each})
        if name in TASKS:
            return TASKS[name].from_settings(settings)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"the settings of the task {name!r} are damaged: {error}") from error
    raise unknown("task", name, TASKS)
