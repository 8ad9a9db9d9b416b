"""Is it better than what there is? Estimates of several policies, their differences, and words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textrl.acting.decoding import Decoding
from textrl.config.train import MemberConfig
from textrl.data.batches import read_rows
from textrl.errors import UserError
from textrl.evaluation.estimators import Interval
from textrl.evaluation.offline import FEW, FULL_EVALUATION, too_few
from textrl.evaluation.ope import Candidate, Evaluator, Logs, PolicyEstimate
from textrl.evaluation.report import table
from textrl.model.network import TextRLModel
from textrl.tasks.task import AnyTask, LoggedTask, Task

FIT_EPISODES = 1_000
DATA, AGENT, IMITATION = "the data", "the agent", "its imitation alone"


@dataclass(frozen=True)
class Verdict:
    """What policies are estimated to earn, beside what the data earned."""

    earned: Interval
    estimates: Mapping[str, PolicyEstimate]
    groups: int
    caveats: Sequence[str]

    def is_too_far(self, name: str) -> bool:
        """Whether a policy does too much that the data do not show."""
        if name == DATA:
            return False
        return self.estimates[name].too_far

    def difference(self, name: str, other: str) -> Interval:
        """How much more one is estimated to earn than another."""
        found = {DATA: self.earned, **{n: each.robust for n, each in self.estimates.items()}}
        return found[name].minus(found[other])

    def in_words(self, name: str, other: str) -> str:
        """Which of the two is better, as far as that can be said."""
        difference = self.difference(name, other)
        low, high = difference.interval
        told = f"{difference.mean:+.3f} (95%: {low:+.3f} to {high:+.3f})"
        far = [each for each in (name, other) if self.is_too_far(each)]
        if far:
            verb = "are" if len(far) > 1 else "is"
            return f"cannot be said: {' and '.join(far)} {verb} too far from the data; {told}"
        if low > 0 or high < 0:
            return f"{'better' if difference.mean > 0 else 'worse'} by an estimated {told}"
        return f"no clear difference: {told}"

    def pairs(self) -> list[tuple[str, str]]:
        """The agent against everybody else."""
        return [(AGENT, DATA), *((AGENT, name) for name in self.estimates if name != AGENT)]

    @property
    def best(self) -> str:
        """The policy with the highest estimate, of those that are near enough to the data."""
        near = [name for name in self.estimates if not self.is_too_far(name)]
        means = {name: self.estimates[name].robust.mean for name in near}
        return max({DATA: self.earned.mean, **means}.items(), key=lambda each: each[1])[0]

    def describe(self) -> str:
        """For people."""
        low, high = self.earned.interval
        rows = [
            [f"{DATA}, as logged", f"{self.earned.mean:.3f}", f"{low:.3f} to {high:.3f}", "", ""]
        ]
        for name, found in self.estimates.items():
            low, high = found.robust.interval
            weight = f"{found.effective:.0f} of {found.episodes}"
            interval = f"{low:.3f} to {high:.3f}"
            rows.append(
                [name, f"{found.robust.mean:.3f}", interval, weight, f"{found.overlap:.2f}"]
            )
        header = ["estimated, not played", "return", "95%", "effective episodes", "overlap"]
        told = [table(header, rows), ""]
        told += [
            f"{name} against {other}: {self.in_words(name, other)}" for name, other in self.pairs()
        ]
        told.append(f"highest, of those near enough to the data to say: {self.best}")
        return "\n".join([*told, *(f"caveat: {each}" for each in self.caveats)])

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "data": self.earned.to_json(),
            "policies": {name: each.to_json() for name, each in self.estimates.items()},
            "differences": {
                f"{name} - {other}": {
                    **self.difference(name, other).to_json(),
                    "verdict": self.in_words(name, other),
                }
                for name, other in self.pairs()
            },
            "best": self.best,
            "groups": self.groups,
            "caveats": list(self.caveats),
        }


def logs_of(
    task: AnyTask, member: MemberConfig | None, fit: int = FIT_EPISODES, judge: int | None = None
) -> Logs:
    """Logged episodes of a task: those that it learns from to fit on, others to judge by.

    member: how a game's data were made, which a log knows by itself.
    """
    judge = judge or FULL_EVALUATION
    if isinstance(task, LoggedTask):
        rows, _ = task.held_out(judge)
        learned, groups = task.learned(fit), task.held_out_groups(judge)
        return Logs(learned, rows, groups, task.language, ends_when_cut=False)
    if not isinstance(task, Task) or member is None or member.window or task.frame_shape:
        raise UserError(f"{task.name}: only whole episodes without frames can be judged offline")
    data = task.rows(member)
    if len(data) < 2:
        raise UserError("one episode is too few to judge by")
    order = np.random.default_rng(0).permutation(len(data))
    judge = min(judge, len(data) // 2)
    chosen = np.sort(order[:judge]), np.sort(order[judge:][:fit])
    found = [read_rows(data, each) for each in chosen]
    return Logs(found[1], found[0], np.arange(judge), task.language, ends_when_cut=True)


def reach_verdict(
    logs: Logs,
    model: TextRLModel,
    rivals: Mapping[str, TextRLModel],
    decoding: Decoding,
    doubts: Sequence[str] = (),
    betas: Sequence[float] = (),
) -> Verdict:
    """Estimate the agent as it acts, its imitation without values, and its rivals.

    doubts: what else is known to speak against the agent's values. betas: others to act by.
    """
    candidates = [Candidate(AGENT, model, decoding)]
    heads = decoding.acts_by or model.config.heads
    if {"policy", "q"} <= {*heads}:
        imitation = Decoding(0.0, decoding.sample, temperature=decoding.temperature)
        candidates.append(Candidate(IMITATION, model, imitation))
    candidates += [
        Candidate(f"{AGENT}, beta {beta:g}", model, replace(decoding, beta=beta)) for beta in betas
    ]
    candidates += [
        Candidate(name, each, Decoding.of(each, decoding.sample, candidates=1))
        for name, each in rivals.items()
    ]
    models = [model, *rivals.values()]
    imitators = [each for each in models if "policy" in each.config.heads]
    evaluator = Evaluator(logs, model, imitators)
    estimates = {each.name: evaluator.estimate(each) for each in candidates}
    groups = len(np.unique(evaluator.groups))
    caveats = [*doubts, *([too_few(groups)] if groups < FEW else [])]
    caveats += [
        f"{name} compares whole candidates when it acts, but is judged token by token"
        for name, each in rivals.items()
        if Decoding.of(each, decoding.sample).candidates_of(each) > 1
    ]
    return Verdict(evaluator.earned, estimates, groups, caveats)
