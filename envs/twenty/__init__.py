"""Twenty Questions: a small world of things, a crowd that asks, the best way to ask."""

from dataclasses import dataclass

from textrl.config.options import option
from textrl.tasks.entry import TaskEntry


@dataclass(frozen=True)
class TwentyCollect:
    """What else is written."""

    conversations: str = option("", "a JSONL file to write the games to as chat messages as well")


TASK = TaskEntry(
    name="twenty",
    title="Twenty Questions over a small world of things",
    task="textrl.envs.twenty.task:TwentyTask",
    collect_options=TwentyCollect,
)
