"""Judging an agent as its tasks allow: a game is played, a log is held against what was logged.

`judge` and `compare` have one function for each kind of task.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from textrl.acting.decoding import Decoding
from textrl.config.train import MemberConfig, TrainConfig
from textrl.errors import UserError
from textrl.evaluation.offline import OfflineJudgement, judge_offline
from textrl.evaluation.ope import Candidate, Evaluator, Logs
from textrl.evaluation.play import Judgement, judge_play, play_both, quick_play
from textrl.evaluation.report import Estimate, paired_difference
from textrl.evaluation.verdict import logs_of
from textrl.model.build import model_of_member
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members
from textrl.tasks.task import AnyTask, LoggedTask, Task


@dataclass(frozen=True)
class How:
    """How to judge. episodes: None = as many as a complete evaluation takes; beta, candidates,
    temperature: None = as trained."""

    episodes: int | None = None
    beta: float | None = None
    seed: int = 0
    candidates: int | None = None
    temperature: float | None = None


@singledispatch
def judge(task: AnyTask, model: TextRLModel, how: How = How()) -> Any:
    """How well the model does in one task."""
    raise NotImplementedError(f"{type(task).__name__} is neither a Task nor a LoggedTask")


@judge.register
def _(task: Task, model: TextRLModel, how: How = How()) -> Judgement:
    count = how.episodes or task.full_evaluation()
    chosen = how.beta, how.seed, how.candidates, how.temperature
    return judge_play(task, model, count, *chosen)


@judge.register
def _(task: LoggedTask, model: TextRLModel, how: How = How()) -> OfflineJudgement:
    return judge_offline(task, model, how.episodes, how.beta)


@singledispatch
def compare(
    task: AnyTask, ours: Any, name: str, other: TextRLModel, how: How
) -> tuple[str, dict[str, Any]]:
    """How another model does beside one that was judged, for people and for programs."""
    raise NotImplementedError


@compare.register
def _(
    task: Task, ours: Judgement, name: str, other: TextRLModel, how: How
) -> tuple[str, dict[str, Any]]:
    """Episode by episode, each at its own beta."""
    episodes = len(ours.results[0].scores)
    found: dict[str, Any] = {}
    told = [f"compared with {name}, episode by episode:"]
    for mine, theirs in zip(
        ours.results, play_both(task, other, episodes, None, how.seed), strict=True
    ):
        difference = paired_difference(mine.scores, theirs.scores, episodes)
        told.append(f"  {mine.decoding.name}: {in_words(difference)}")
        found[mine.decoding.name] = {
            "difference": difference.mean,
            "interval_95": list(difference.interval),
        }
    return "\n".join(told), found


@compare.register
def _(
    task: LoggedTask, ours: OfflineJudgement, name: str, other: TextRLModel, how: How
) -> tuple[str, dict[str, Any]]:
    """The same held-out episodes, seen by the other model."""
    theirs = judge_offline(task, other, ours.episodes)
    return f"{name}\n{theirs.describe(task)}", theirs.to_json()


@singledispatch
def check_comparable(task: AnyTask, name: str, theirs: AnyTask, other: TextRLModel) -> None:
    """Refuse an agent that cannot be compared in this task, before anything is played."""


@check_comparable.register
def _(task: Task, name: str, theirs: AnyTask, other: TextRLModel) -> None:
    if (theirs.name, theirs.settings()) != (task.name, task.settings()):
        raise UserError(f"{name!r} plays another task or word list: the two cannot be compared")


@check_comparable.register
def _(task: LoggedTask, name: str, theirs: AnyTask, other: TextRLModel) -> None:
    if len(task.language.actions) != other.config.action_tokens:
        raise UserError(f"{name!r} has other tokens: the two cannot be compared")


def in_words(difference: Estimate) -> str:
    """Which is better, by how much, and whether that is sure."""
    low, high = difference.interval
    interval = f"(95%: {low:+.3f} to {high:+.3f})"
    if low > 0 or high < 0:
        word = "better" if difference.mean > 0 else "worse"
        return f"{word} by {abs(difference.mean):.3f} {interval}"
    return f"no clear difference: {difference.mean:+.3f} {interval}"


@dataclass(frozen=True)
class RunJudgement:
    """How a model does in each of its tasks."""

    members: dict[str, Judgement | OfflineJudgement]

    def describe(self, members: Members) -> str:
        """For people."""
        told = {name: each.describe(members.tasks[name]) for name, each in self.members.items()}
        if len(told) == 1:
            return next(iter(told.values()))
        return "\n\n".join(
            f"{name}, beta {self.members[name].to_json()['beta']:g}\n{text}"
            for name, text in told.items()
        )

    def to_json(self) -> dict[str, Any]:
        """For programs: the only task's report, or each one's under its name."""
        found = {name: each.to_json() for name, each in self.members.items()}
        return next(iter(found.values())) if len(found) == 1 else {"tasks": found}


def judge_run(members: Members, model: TextRLModel, how: How = How()) -> RunJudgement:
    """Judge each task."""
    return RunJudgement(
        {
            name: judge(task, model_of_member(model, number), how)
            for number, (name, task) in enumerate(members.tasks.items())
        }
    )


@singledispatch
def quick_scores(
    task: AnyTask, member: MemberConfig, seed: int, model: TextRLModel
) -> dict[str, float]:
    """What training watches; the first decides which model is the best."""
    raise NotImplementedError


@quick_scores.register
def _(task: Task, member: MemberConfig, seed: int, model: TextRLModel) -> dict[str, float]:
    return quick_play(task, model, member.evaluate_episodes, seed)


@quick_scores.register
def _(task: LoggedTask, member: MemberConfig, seed: int, model: TextRLModel) -> dict[str, float]:
    return judge_offline(task, model, member.evaluate_episodes).figures


class Watch:
    """The scores that training watches; the first decides which model is the best.

    Scores of different tasks cannot be added. So of several there is one more, which comes first:
    how many standard deviations of its data's returns the model's score lies above their mean, a
    mean over the tasks.
    """

    def __init__(self, members: Members, run: TrainConfig) -> None:
        self._members, self._run = members, run
        several = len(members.tasks) > 1
        self._logs: Logs | None = None  # read when they are first asked for
        if run.select in ("offline", "likelihood") and several:
            raise UserError(f"--select {run.select} is for one task: {members.name} are several")
        if run.select == "play" and not all(isinstance(t, Task) for t in members.tasks.values()):
            raise UserError(f"--select play: nothing can be played in {members.name}")
        self._returns = {
            name: task.returns(run.members[name]) for name, task in members.tasks.items() if several
        }

    def __call__(self, model: TextRLModel) -> dict[str, float]:
        """Of the model as it is now."""
        (name, task), *_ = self._members.tasks.items()
        if self._run.select == "offline" or (
            self._run.select == "likelihood" and isinstance(task, Task)
        ):
            return self._offline(name, task, model)
        scores = {
            name: quick_scores(
                task, self._run.members[name], self._run.seed, model_of_member(model, number)
            )
            for number, (name, task) in enumerate(self._members.tasks.items())
        }
        if len(scores) == 1:
            return next(iter(scores.values()))
        flat = {f"{name}/{way}": x for name, each in scores.items() for way, x in each.items()}
        return {"above the data": self._above_the_data(scores), **flat}

    def _offline(self, name: str, task: AnyTask, model: TextRLModel) -> dict[str, float]:
        """What the run selects by, without playing."""
        if self._logs is None:
            self._logs = logs_of(task, self._run.members[name])
        evaluator = Evaluator(self._logs, model, [model] if "policy" in model.config.heads else [])
        if self._run.select == "likelihood":
            said = evaluator.likelihood(model)
            if said is None:
                raise UserError(
                    "--select likelihood needs a policy, which this algorithm does not have"
                )
            return {"log_likelihood": said}
        decoding = Decoding.of(model, sample=True, candidates=1)  # of others nothing can be said
        found = evaluator.estimate(Candidate(name, model, decoding))
        figures = {"estimated_return": found.robust.mean, "overlap": found.overlap}
        if isinstance(task, LoggedTask):
            episodes = self._run.members[name].evaluate_episodes
            figures |= judge_offline(task, model, episodes).figures
        return figures

    def _above_the_data(self, scores: Mapping[str, Mapping[str, float]]) -> float:
        above = []
        for name, each in scores.items():
            returns = self._returns[name]
            gap = next(iter(each.values())) - float(returns.mean())
            above.append(gap / (float(returns.std()) or 1.0))
        return float(np.mean(above))
