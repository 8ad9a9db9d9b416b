"""How a package declares a task: enough for --help, without loading the task itself."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textrl.config.options import NoOptions
from textrl.config.registry import TASKS, find

if TYPE_CHECKING:
    from textrl.tasks.task import AnyTask


@dataclass(frozen=True)
class Activity:
    """Something that people do with one task only: play against its agents, say.

    options: what the command line asks of it; function: module:function that does it.
    """

    options: type
    function: str

    def load(self) -> Any:
        """The function."""
        return load_object(self.function)


@dataclass(frozen=True)
class TaskEntry:
    """A task by name. An entry point of the group textrl.tasks names an object of this class."""

    name: str
    title: str
    """In a line, for --help."""
    task: str
    """Module:class of the task itself."""
    options: type = NoOptions
    """What a training run may set of it: a frozen dataclass, see textrl.config.options."""
    collect_options: type = NoOptions
    """What only making its data asks for."""
    playing: Activity | None = None
    """How a person plays against its agents, or talks with them: recipes/play.py."""
    presets: Path | None = None
    """The folder of its presets, quick.yaml and so on, if not that of all."""
    is_learned_alone: bool = False
    """It cannot be one of several tasks of a run."""

    def load(self) -> "type[AnyTask]":
        """The task's class."""
        loaded: type[AnyTask] = load_object(self.task)
        return loaded


def load_object(name: str) -> Any:
    """What module:name is."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def task_class(name: str) -> "type[AnyTask]":
    """The class of a task by name: what its entry loads, or the class itself if that was named."""
    loaded: type[AnyTask] = find(TASKS, name).load()
    return loaded
