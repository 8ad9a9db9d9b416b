"""Offline reinforcement learning from observation histories, with language models.

from textrl import configure, load_agent, train

folder = train(configure("gridworld", preset="quick", max_steps=200))
model, task = load_agent(str(folder))
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("offline-textrl")
except PackageNotFoundError:  # the bare source tree
    __version__ = "0"

if TYPE_CHECKING:
    from textrl.acting.decoding import Decoding as Decoding
    from textrl.acting.policy import Policy as Policy
    from textrl.acting.rollout import play as play
    from textrl.algorithms.algorithm import Algorithm as Algorithm
    from textrl.config.options import option as option
    from textrl.config.presets import configure as configure
    from textrl.config.train import TrainConfig as TrainConfig
    from textrl.errors import UserError as UserError
    from textrl.evaluation.judge import judge as judge
    from textrl.model.network import TextRLModel as TextRLModel
    from textrl.sharing.checkpoint import load_agent as load_agent
    from textrl.tasks.entry import TaskEntry as TaskEntry
    from textrl.tasks.task import LoggedTask as LoggedTask
    from textrl.tasks.task import Task as Task
    from textrl.training.run import train as train

# torch and transformers take seconds to import: a name brings what it needs when it is asked for.
_PLACES = {
    "Algorithm": "textrl.algorithms.algorithm",
    "Decoding": "textrl.acting.decoding",
    "LoggedTask": "textrl.tasks.task",
    "Policy": "textrl.acting.policy",
    "Task": "textrl.tasks.task",
    "TaskEntry": "textrl.tasks.entry",
    "TextRLModel": "textrl.model.network",
    "TrainConfig": "textrl.config.train",
    "UserError": "textrl.errors",
    "configure": "textrl.config.presets",
    "judge": "textrl.evaluation.judge",
    "load_agent": "textrl.sharing.checkpoint",
    "option": "textrl.config.options",
    "play": "textrl.acting.rollout",
    "train": "textrl.training.run",
}
__all__ = [*_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'textrl' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
