"""Judging a model where nothing can be played: what it says of episodes that it has not seen."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.data.batches import Batch, collate
from textrl.data.dataset import Rows
from textrl.data.language import TokenLanguage
from textrl.losses.ops import legal_only, of_actions, returns_to_go
from textrl.losses.outputs import TextRLOutput, action_scores
from textrl.model.network import TextRLModel
from textrl.tasks.task import LoggedTask

ROOM = 2**25
"""Numbers that one head may say at once: (states, tokens) of some episodes."""
MEANINGS = {
    "log_likelihood": "mean log-likelihood of the logged action tokens",
    "perplexity": "e to the minus that: among how many tokens it is in doubt",
    "accuracy": "share of the action tokens that were its likeliest",
    "q_error": "root mean square error of Q of the logged tokens, against the return that followed",
    "v_error": "the same of V",
    "return_spread": "the same of a constant, the returns' mean: to compare with",
    "mean_q": "mean Q of the logged tokens",
    "mean_v": "mean V before them",
    "mean_return_to_go": "mean discounted return that followed them",
    "data_return": "mean return of these episodes, as they were logged",
}
FEW = 30  # conversations, below which a mean says little
FULL_EVALUATION = 1_000  # episodes of a complete evaluation, where so many are held out


@dataclass(frozen=True)
class OfflineJudgement:
    """Figures by name, in the order of MEANINGS; those of heads that are not there are left out."""

    figures: dict[str, float]
    episodes: int
    held_out: int
    action_tokens: int
    seconds: float
    groups: int = 0
    """Independent of each other, of these episodes; 0 = not counted."""

    def describe(self, task: LoggedTask) -> str:
        """For people."""
        told = [f"{task.judged_by(self.episodes)}, {self.action_tokens:,} action tokens"]
        for name, value in self.figures.items():
            told.append(f"{name:<18}{value:>10.4g}  {MEANINGS[name]}")
        return "\n".join([*told, *self.warnings])

    @property
    def warnings(self) -> list[str]:
        """For people: what of the figures is reason for doubt."""
        told = []
        for name in ("q", "v"):
            error, spread = (self.figures.get(k, 0.0) for k in (f"{name}_error", "return_spread"))
            if error > spread:
                told.append(
                    f"warning: {name.upper()} is worse than a constant ({error:.4g} against"
                    f" {spread:.4g}): train longer, or raise --learning-rate or --return-lambda"
                )
        if 0 < self.groups < FEW:
            told.append(f"warning: {too_few(self.groups)}")
        return told

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "figures": self.figures,
            "warnings": self.warnings,
            "episodes": self.episodes,
            "held_out": self.held_out,
            "groups": self.groups,
            "action_tokens": self.action_tokens,
            "seconds": self.seconds,
        }


def too_few(count: int) -> str:
    """For people: what so few conversations to be judged by mean."""
    return f"only {count} independent conversations to judge by: raise --held-out"


@torch.inference_mode()
def judge_offline(
    task: LoggedTask,
    model: TextRLModel,
    episodes: int | None = None,
    beta: float | None = None,
) -> OfflineJudgement:
    """What the model says of held-out episodes; beta: None = as trained.

    episodes: how many of them; None = as many as a complete evaluation takes.

    Each action token counts alike, whatever its episode's weight is. Values are compared with
    returns only where these are known: not in episodes that were cut off.
    """
    began = time.perf_counter()
    beta = model.config.beta if beta is None else beta
    rows, earned = task.held_out(episodes or FULL_EVALUATION)
    was_training = model.training
    model.train(False)
    said: dict[str, list[Tensor]] = {}
    for _, batch in small_batches(rows, task.language):
        batch = batch.to(model.device)
        output = model(batch.tokens, batch.state_positions, frames=batch.frames)
        for name, values in _say(output, batch, beta, task.discount, model.config.acts_by).items():
            said.setdefault(name, []).append(values.double().cpu())
    model.train(was_training)
    found = {name: torch.cat(parts) for name, parts in said.items()}
    figures = {"log_likelihood": float(found["log_likelihood"].mean())}
    figures["perplexity"] = math.exp(min(-figures["log_likelihood"], 700))
    figures["accuracy"] = float(found["is_likeliest"].mean())
    returns = found["return"]
    for name in ("q", "v"):
        if name in found and len(returns):
            figures[f"{name}_error"] = float((found[name] - returns).square().mean().sqrt())
            figures[f"mean_{name}"] = float(found[name].mean())
            figures["return_spread"] = float(returns.std(unbiased=False))
            figures["mean_return_to_go"] = float(returns.mean())
    figures["data_return"] = float(earned.mean())
    return OfflineJudgement(
        {name: figures[name] for name in MEANINGS if name in figures},
        episodes=len(rows.lengths),
        held_out=task.held_out_count(),
        action_tokens=len(found["log_likelihood"]),
        seconds=time.perf_counter() - began,
        groups=len(np.unique(task.held_out_groups(episodes or FULL_EVALUATION))),
    )


def small_batches(
    rows: Rows, language: TokenLanguage
) -> Iterator[tuple[NDArray[np.integer], Batch]]:
    """All rows, those of like length together, as many at once as there is room for.

    Gives which rows they are, and their batch.
    """
    order = np.argsort(rows.lengths, kind="stable")
    states = max(1, ROOM // len(language.actions))
    first = 0
    while first < len(order):
        count = 1
        while (
            first + count < len(order)
            and (count + 1) * int(rows.lengths[order[first + count]]) <= states
        ):
            count += 1
        picks = order[first : first + count]
        yield picks, collate(rows, picks, language)
        first += count


def _say(
    output: TextRLOutput, batch: Batch, beta: float, discount: float, acts_by: tuple[str, ...]
) -> dict[str, Tensor]:
    """Per action token of the batch, (n,): of q, v and return only where the return is known."""
    actions = batch.actions.shape[1]
    scores = (
        action_scores(output, batch.legal, beta, acts_by)
        if output.policy is None
        else legal_only(output.policy, batch.legal)
    )[:, :actions]
    returns = returns_to_go(batch, discount)
    is_cut_off = (batch.has_next & ~batch.is_followed).any(dim=1, keepdim=True)
    is_known = batch.is_action & ~is_cut_off
    log_likelihood = of_actions(scores.log_softmax(dim=-1), batch.actions)
    is_likeliest = scores.argmax(dim=-1) == batch.actions
    said = {
        "log_likelihood": log_likelihood[batch.is_action],
        "is_likeliest": is_likeliest[batch.is_action],
        "return": returns[is_known],
    }
    if output.target_q is not None:
        q = of_actions(output.target_q[:, :, :actions], batch.actions).amin(dim=0)
        said["q"] = q[is_known]
    if output.v is not None:
        said["v"] = output.v[:, :actions][is_known]
    return said
