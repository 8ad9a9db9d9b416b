"""The switch gridworld: rules, environments, behaviour policies, exact solutions, pictures."""

from dataclasses import dataclass

from textrl.config.options import option
from textrl.tasks.entry import TaskEntry


@dataclass(frozen=True)
class GridworldOptions:
    """What a run may set of the game."""

    layout: str = option("default", "map: default, or a file")


TASK = TaskEntry(
    name="gridworld",
    title="a grid whose goal depends on the way taken",
    task="textrl.envs.gridworld.task:GridworldTask",
    options=GridworldOptions,
)
