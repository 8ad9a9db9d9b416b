"""From names to what the page shows: which of them are data, which are agents, of what task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textrl.config.presets import load_config
from textrl.config.train import CONFIG_FILE
from textrl.data.dataset import load_episodes
from textrl.data.task_file import TASK_FILE, check_same_task, read_task_file
from textrl.envs.text.index import make_index
from textrl.envs.text.sources import open_source
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.model.build import model_of_member
from textrl.recipes.viewing.agents import Agent, agent_of
from textrl.recipes.viewing.curves import titles
from textrl.recipes.viewing.shelf import Conversations, Episodes, Shelf
from textrl.recipes.viewing.web import Exhibition
from textrl.sharing.checkpoint import checkpoint_folder, load_checkpoint
from textrl.tasks.members import Members
from textrl.tasks.task import Task
from textrl.training.metrics import METRICS_FILE, read_curves


def load_exhibition(
    names: Sequence[str], data: str | None, task: str | None, base: str | None
) -> Exhibition:
    """names: data, or agents; data: to browse instead of what the first agent learned from."""
    if is_data(names[0]):
        if len(names) > 1 or data:
            raise UserError(
                f"{names[0]!r} is data, of which one is shown at a time: textrl view RUN --data"
                f" {names[0]}"
            )
        return Exhibition(shelf_of_data(names[0]))
    for name in names[1:]:
        if is_data(name):
            raise UserError(f"{name!r} is data: give it with --data")
    folders = [checkpoint_folder(name) for name in names]
    agents: list[Agent] = []
    tasks: list[Any] = []
    for name, title in zip(names, titles([Path(name) for name in names]), strict=True):
        model, members = load_checkpoint(name, base)
        number, found = members.one(task)
        agents.append(agent_of(title, model_of_member(model, number), found))
        tasks.append(found)
    for name, other in zip(names, tasks, strict=True):
        if type(other) is not type(tasks[0]) or not can_share(tasks[0], other):
            raise UserError(f"{name!r} plays another task than {names[0]!r}: show them one by one")
    curves = {
        agent.name: read_curves(folder)
        for agent, folder in zip(agents, folders, strict=True)
        if (folder / METRICS_FILE).is_file()
    }
    return Exhibition(shelf_of_task(tasks[0], folders[0], data), agents, curves)


def is_data(name: str) -> bool:
    """A file, or a folder that is no checkpoint."""
    path = Path(name)
    return path.is_file() or (path.is_dir() and not (path / "config.json").is_file())


def can_share(ours: Any, theirs: Any) -> bool:
    """Whether two agents can be asked about the same episodes; conversations are anybody's."""
    return isinstance(ours, TextTask) or ours.settings() == theirs.settings()


def shelf_of_data(name: str) -> Shelf:
    """Data without an agent."""
    path = Path(name)
    if not (path / TASK_FILE).is_file():
        return conversations(name)
    task, settings = read_task_file(path / TASK_FILE)
    _, found = Members.of_saved(task, settings, path).one()
    return Episodes(name, load_episodes(name), found.language)


def conversations(name: str) -> Conversations:
    """The good rows of a file; bad ones are left out, as collect --check tells."""
    index = make_index(open_source(name), None)
    if not len(index):
        raise UserError(f"{name!r} has no conversation to show: textrl collect --check shows why")
    return Conversations(index)


def shelf_of_task(task: Any, folder: Path, data: str | None) -> Shelf:
    """What an agent learned from, or other data of its task; folder: the agent's."""
    if isinstance(task, TextTask):
        name = data or task.settings()["data"]
        try:
            return conversations(name)
        except UserError as error:
            hint = "" if data else ": give --data, since what it learned from is not here"
            raise UserError(f"{error}{hint}") from error
    assert isinstance(task, Task)
    if data:
        check_same_task(Path(data), task.name, task.data_settings())
        return Episodes(data, load_episodes(data), task.language)
    if not (folder / CONFIG_FILE).is_file():
        raise UserError(f"{str(folder)!r} does not say what it learned from: give --data")
    member = load_config(folder / CONFIG_FILE).members[task.name]
    return Episodes(member.data or f"{task.name}'s own data", task.rows(member), task.language)
