"""Logged conversations: reading them, checking them, learning from them, talking with the agent."""

from dataclasses import dataclass
from typing import Literal

from textrl.config.options import option
from textrl.tasks.entry import Activity, TaskEntry


@dataclass(frozen=True)
class TextOptions:
    """What of the data is used, and for what."""

    held_out: float = option(
        0.05,
        "share of the conversations held out for evaluation, at least one",
        above=0,
        maximum=0.5,
    )
    group_by: str = option(
        "",
        "column that identifies rows that belong together, such as those of one"
        " dialogue or user, which are held out together (default: the column"
        " 'group', if there is one)",
    )
    on_bad_rows: Literal["refuse", "skip"] = option(
        "refuse", "what to do if a row of the data cannot be used", free=True
    )


@dataclass(frozen=True)
class TextPlay:
    """How to talk with an agent."""

    values: bool = option(False, "show pi, Q and V of each token")
    system: str = option("", "a system message to begin with")
    max_new_tokens: int = option(
        0, "most tokens of an answer; 0 is 256, or half of what the agent can read", minimum=0
    )
    temperature: float = option(1.0, "temperature of --sample and --candidates", above=0)
    candidates: int = option(
        0,
        "whole answers to sample, of which the one with the highest Q at its"
        " end is given; 1 is token by token, 0 as trained",
        minimum=0,
    )
    prompts: str = option(
        "",
        "answer the prompts in this file instead, one message or JSON object"
        " with messages per line; - is standard input",
    )
    batch_size: int = option(8, "prompts answered in one batch", minimum=1)
    answers: str = option("", "file to write the answers to, as JSONL; without it, standard output")
    base: str = option("", "where an adapter's language model is, if not where it was in training")


TASK = TaskEntry(
    name="text",
    title="conversations that you have logged, with any causal language model",
    task="textrl.envs.text.task:TextTask",
    options=TextOptions,
    playing=Activity(TextPlay, "textrl.envs.text.chat:start"),
    is_learned_alone=True,
)
