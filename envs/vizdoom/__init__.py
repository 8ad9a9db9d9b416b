"""ViZDoom's My Way Home: the engine, environments, players who know the map, A2C, pictures."""

from dataclasses import dataclass

from textrl.config.options import option
from textrl.tasks.entry import TaskEntry


@dataclass(frozen=True)
class VizdoomCollect:
    """Who plays."""

    a2c: str = option(
        "", "a checkpoint of textrl train-a2c, whose policy plays instead of the medium player"
    )


TASK = TaskEntry(
    name="vizdoom",
    title="ViZDoom's My Way Home, a maze in the first person",
    task="textrl.envs.vizdoom.task:VizdoomTask",
    collect_options=VizdoomCollect,
)
