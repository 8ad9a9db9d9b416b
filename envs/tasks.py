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
from textrl.config import TrainConfig
from textrl.errors import UserError, unknown
from textrl.model import TextRLModel
from textrl.task import AnyTask, LoggedTask

TASKS: dict[str, Any] = {
    "gridworld": GridworldTask,
    "text": TextTask,
    "twenty": TwentyTask,
    "vizdoom": VizdoomTask,
    "wordle": WordleTask,
}


def make_task(config: TrainConfig) -> AnyTask:
    """The task that a training run asks for."""
    if config.task not in TASKS:
        raise unknown("task", config.task, TASKS)
    return TASKS[config.task].from_config(config)


def load_agent(name: str, base: str | None = None) -> tuple[TextRLModel, AnyTask]:
    """The model in a checkpoint folder or Hub repo, and its task.

    base: where the language model under an adapter is, if not where it was in training.
    """
    model, saved = load_model(name, base)
    return model, task_of_checkpoint(saved, checkpoint_folder(name))


def task_of_checkpoint(saved: Mapping[str, Any], folder: Path | None = None) -> AnyTask:
    """The task that a checkpoint's or a dataset's task.json describes.

    folder: where that file lies, which is all that a logged task has of its tokenizer.
    """
    if str(saved["task"]) not in TASKS:
        raise unknown("task", str(saved["task"]), TASKS)
    kind = TASKS[saved["task"]]
    try:
        if issubclass(kind, LoggedTask):
            if folder is None:
                raise UserError(f"the task {saved['task']!r} has to be loaded with load_agent")
            return kind.from_checkpoint(saved["settings"], folder)
        return kind.from_settings(saved["settings"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(
            f"the settings of the task {saved['task']!r} are damaged: {error}"
        ) from error
