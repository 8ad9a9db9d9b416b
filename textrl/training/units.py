"""Where values begin: at the mean return of the data, on a scale that suits its rewards."""

import torch

from textrl.config.registry import ALGORITHMS, find
from textrl.config.train import MemberConfig, TrainConfig
from textrl.losses.ops import returns_to_go
from textrl.model.config import TextRLConfig
from textrl.model.layout import ValueUnits
from textrl.tasks.members import Members

EPISODES, STEPS = 512, 64  # that are looked at: so many episodes, in no more steps than that


def value_units(
    members: Members, run: TrainConfig, begun: TextRLConfig | None = None
) -> dict[str, ValueUnits]:
    """The units of each member's values, measured; begun: as a run that goes on has them."""
    if begun is not None:
        return {name: each.units for name, each in zip(run.members, begun.layouts, strict=True)}
    return {
        name: measured_units(members, run, number)
        for number, (name, member) in enumerate(run.members.items())
        if {"q", "v"} & {*find(ALGORITHMS, member.algo).heads}
    }


def measured_units(members: Members, run: TrainConfig, number: int) -> ValueUnits:
    """From the first batches of a run as one process would see them, so that all agree."""
    name, member = list(run.sized_members.items())[number]
    if getattr(member.algo_options, "value", "return") != "return":
        return ValueUnits(member.algo_options.value_start)
    batches, _ = members.tasks[name].batches(member, run)
    returns, counts = [], []
    for step in range(max(1, min(STEPS, -(-EPISODES // member.batch_size)))):
        for batch in batches.step(step):
            returns.append(returns_to_go(batch, member.discount)[batch.is_action])
            counts.append(batch.counts[batch.is_action].double())
    every, weight = torch.cat(returns).double(), torch.cat(counts)
    center = float((weight * every).sum() / weight.sum())
    spread = float((weight * (every - center).square()).sum() / weight.sum()) ** 0.5
    return ValueUnits(center, scale_of(member, spread))


def scale_of(member: MemberConfig, spread: float) -> float:
    """As the run asks for it; returns that are all the same have no spread to go by."""
    asked = float(getattr(member.algo_options, "reward_scale", 1.0))
    return asked or spread or 1.0
