"""The tasks that one agent learns: a run, and its checkpoint, has members, most often one.

Several have their tokens side by side in one model, and a batch of each in every step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from transformers import PreTrainedTokenizerFast

from textrl.config.train import TrainConfig
from textrl.data.batches import Batch, Batches
from textrl.data.language import BEGIN, PAD, ActionGrammar, TokenLanguage, word_tokenizer
from textrl.errors import UserError, unknown
from textrl.tasks.entry import task_class
from textrl.tasks.task import AnyTask, Share, Task

T = TypeVar("T", bound=AnyTask)
LONGEST_REASON = 300


@dataclass(frozen=True)
class JoinedLanguage:
    """The tokens of several tasks. Ids: padding, each one's begin, observations, then actions."""

    tokens: tuple[str, ...]
    actions: tuple[str, ...]
    grammar: ActionGrammar | None = None  # each task has its own

    @classmethod
    def of(cls, tasks: Mapping[str, Task]) -> "JoinedLanguage":
        """Each token named as <task>/<token>."""
        begins = [f"{name}/{BEGIN}" for name in tasks]
        languages = {name: task.language for name, task in tasks.items()}
        seen = [f"{name}/{each}" for name, of in languages.items() for each in of.observations]
        said = [f"{name}/{each}" for name, of in languages.items() for each in of.actions]
        return cls((PAD, *begins, *seen, *said), tuple(said))

    @property
    def first_action(self) -> int:
        """The id of the first action token."""
        return len(self.tokens) - len(self.actions)

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The language as a transformers tokenizer."""
        return word_tokenizer(self.tokens)


class Members:
    """The tasks of a run or of a checkpoint, by name, in the order in which the model has them."""

    def __init__(self, tasks: Mapping[str, Any]) -> None:
        self.tasks: dict[str, Any] = dict(tasks)
        self.name = ",".join(tasks)
        first, *others = self.tasks.values()
        self.language: TokenLanguage = JoinedLanguage.of(tasks) if others else first.language
        # Of several, each has its own.
        self.observation_classes = 0 if others else first.observation_classes
        shapes = {task.frame_shape for task in tasks.values() if task.frame_shape}
        if len(shapes) > 1:
            raise UserError(
                f"the frames of {self.name} have different shapes, and one model has one encoder:"
                " leave one of the tasks out"
            )
        self.frame_shape: tuple[int, ...] | None = shapes.pop() if shapes else None

    @classmethod
    def of_run(cls, run: TrainConfig) -> "Members":
        """The tasks that a training run asks for."""
        return cls(
            {
                name: task_class(name).from_config(member, run)
                for name, member in run.members.items()
            }
        )

    @classmethod
    def of_saved(
        cls, name: str, settings: Mapping[str, Any], folder: Path | None = None
    ) -> "Members":
        """The tasks that a checkpoint's or a dataset's task.json describes; folder: its own."""
        parts = name.split(",")
        try:
            each = {part: settings[part] for part in parts} if len(parts) > 1 else {name: settings}
            return cls({n: task_class(n).from_settings(of, folder) for n, of in each.items()})
        except UserError:
            raise
        except Exception as error:  # a stranger's settings can be anything
            told = str(error)[:LONGEST_REASON]
            raise UserError(f"the settings of the task {name!r} are damaged: {told}") from error

    def one(self, name: str | None = None) -> tuple[int, Any]:
        """The number of one of them, and the task; name: which, where there are several."""
        if name is None and len(self.tasks) == 1:
            name = self.name
        if name is None:
            raise UserError(f"this agent plays {self.name}: say which of them with --task")
        if name not in self.tasks:
            raise unknown("task", name, self.tasks)
        return list(self.tasks).index(name), self.tasks[name]

    def summary(self) -> str:
        """For cards."""
        if len(self.tasks) == 1:
            return str(self.tasks[self.name].summary())
        return "\n".join(f"- {name}: {task.summary()}" for name, task in self.tasks.items())

    def settings(self) -> dict[str, Any]:
        """Of the task or, where there are several, of each."""
        each = {name: task.settings() for name, task in self.tasks.items()}
        return each if len(each) > 1 else each[self.name]

    def batches(self, run: TrainConfig, share: Share = Share()) -> tuple[Batches, int]:
        """A process's share of a run's batches, and of how many episodes they are."""
        found = [
            self.tasks[name].batches(member, run, share)
            for name, member in run.sized_members.items()
        ]
        batches, episodes = zip(*found, strict=True)
        return MemberBatches(batches, list(run.proportions.values())), sum(episodes)


class MemberBatches:
    """In every step a batch of each member, in that task's own numbers."""

    def __init__(self, batches: Sequence[Batches], proportions: Sequence[float]) -> None:
        """Both in the order of the members."""
        self._batches = batches
        self._shares = [each / sum(proportions) for each in proportions]
        self.ahead = max(each.ahead for each in batches)

    def step(self, step: int) -> list[Batch]:
        """This process's micro-batches of step 0, 1, 2, ..."""
        return [
            replace(batch, member=number, share=share)
            for number, (of, share) in enumerate(zip(self._batches, self._shares, strict=True))
            for batch in of.step(step)
        ]


def expect(task: AnyTask, kind: type[T], what: str) -> T:
    """The task, if it is of this kind; what: needs it, for the error."""
    if not isinstance(task, kind):
        # A kind that stands for many tasks, as Task does, has no name of its own.
        wanted = f"the task {kind.name!r}" if hasattr(kind, "name") else "a task that is played"
        raise UserError(f"{what} is for agents of {wanted}: this one is of {task.name!r}")
    return task
