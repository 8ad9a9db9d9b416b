"""The T-maze: a cue at the start, a corridor of noise, and an arm to choose by the cue."""

from dataclasses import dataclass

from textrl.config.options import option
from textrl.tasks.entry import TaskEntry


@dataclass(frozen=True)
class TMazeOptions:
    """What a run may set of the game."""

    corridor: int = option(10, "cells between the cue and the junction", minimum=1, maximum=1000)


TASK = TaskEntry(
    name="tmaze",
    title="a cue to be carried through a corridor of noise",
    task="textrl.envs.tmaze.task:TMazeTask",
    options=TMazeOptions,
)
