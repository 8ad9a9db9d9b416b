"""The tasks by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.gridworld.task import GridworldTask
from envs.text.task import TextTask
from envs.twenty.task import TwentyTask
from envs.vizdoom.task import VizdoomTask
from envs.wordle.task import WordleTask
from textrl.checkpoint import checkpoint_folder, load_model
from textrl.combined import CombinedTask, RunTask, one_of
from textrl.combined_config import CombinedConfig
from textrl.config import TrainConfig
from textrl.errors import UserError, unknown
from textrl.model import TextRLModel
from textrl.task import LoggedTask, Task

TASKS: dict[str, Any] = {
    "gridworld": GridworldTask,
    "text": TextTask,
    "twenty": TwentyTask,
    "vizdoom": VizdoomTask,
    "wordle": WordleTask,
}


def make_task(config: TrainConfig) -> RunTask:
    """The task that a training run asks for."""
    if isinstance(config, CombinedConfig):
        for name in config.members:
            if issubclass(TASKS[name], LoggedTask):
                raise UserError(
                    f"--task {config.task}: {name} has the tokens of its language model and is"
                    " learned alone: leave it out"
                )
        return CombinedTask({name: make_task(each) for name, each in config.members.items()})
    if config.task not in TASKS:
        raise unknown("task", config.task, TASKS)
    return TASKS[config.task].from_config(config)


def load_checkpoint(name: str, base: str | None = None) -> tuple[TextRLModel, RunTask]:
    """The model in a checkpoint folder or Hub repo, and its task or tasks.

    base: where the language model under an adapter is, if not where it was in training.
    """
    model, saved = load_model(name, base)
    return model, task_of_checkpoint(saved, checkpoint_folder(name))


def load_agent(
    name: str, game: str | None = None, base: str | None = None
) -> tuple[TextRLModel, Task | LoggedTask]:
    """The same, of one task: of an agent of several, the one that `game` names."""
    model, task = load_checkpoint(name, base)
    if not isinstance(task, CombinedTask):
        return model, task
    if game is None:
        raise UserError(f"{name!r} plays {task.name}: say which of them with --task")
    return one_of(model, task, game)


def task_of_checkpoint(saved: Mapping[str, Any], folder: Path | None = None) -> RunTask:
    """The task that a checkpoint's or a dataset's task.json describes.

    folder: where that file lies, which is all that a logged task has of its tokenizer.
    """
    name, settings = str(saved["task"]), saved["settings"]
    try:
        if "," in name:
            each = {one: {"task": one, "settings": settings[one]} for one in name.split(",")}
            return CombinedTask({one: task_of_checkpoint(each[one]) for one in each})
        if name not in TASKS:
            raise unknown("task", name, TASKS)
        if not issubclass(TASKS[name], LoggedTask):
            return TASKS[name].from_settings(settings)
        if folder is None:
            raise UserError(f"the task {name!r} has to be loaded with load_agent")
        return TASKS[name].from_checkpoint(settings, folder)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"the settings of the task {name!r} are damaged: {error}") from error
