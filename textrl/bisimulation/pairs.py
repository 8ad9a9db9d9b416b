"""Random pairs of histories of a batch, which the bisimulation loss compares."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from textrl.data.batches import Batch


@dataclass(frozen=True)
class Pairs:
    """n histories, each with a partner. Shapes (n,) unless said.

    History i is state `state[i]` of the batch's episode `episode[i]`, right before a token that
    completes an action; its partner is history `partner[i]`, never itself and never padding.
    """

    episode: Tensor
    state: Tensor
    partner: Tensor
    legal: Tensor | None  # (n, action tokens): True where allowed; None = everywhere
    actions: Tensor  # the token that the data took
    dice: Tensor  # uniform in [0, 1): decides which token the policy takes
    from_data: bool = False
    """Compare what the data's actions lead to, not the current policy's."""

    def to(self, device: torch.device) -> "Pairs":
        """The same pairs on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {
            name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)
        }
        return replace(self, **tensors)


GROUPS = 2
"""A step's episodes are paired within so many groups, by their place in the step. As many processes
(or parts of an accumulated step) then compare the same histories as a single one."""


def draw_pairs(batch: Batch, seed: tuple[int, ...], from_data: bool = False) -> Pairs:
    """Pair the histories of a batch (on the CPU) at random, each in two pairs; seed decides how.

    Only tokens that complete an action count: within an action nothing is observed and nothing
    earned, and histories would look alike that are not. A history without any partner is left out.
    """
    place = batch.first_place + batch.place_stride * torch.arange(len(batch.tokens))
    episode, state = batch.ends_action.nonzero(as_tuple=True)
    # Of more parts than groups, each is paired by itself, and by other chances than the rest.
    part = batch.first_place if batch.place_stride > GROUPS else 0
    histories, partners, dice = [], [], []
    drawn = 0
    for group in range(GROUPS):
        chosen = (place[episode] % GROUPS == group).nonzero()[:, 0]
        if len(chosen) < 2:
            continue
        entropy = np.random.SeedSequence((*seed, group, part)).generate_state(1, np.uint64)[0]
        random = torch.Generator().manual_seed(int(entropy >> 1))
        # Everybody's partner is the next one on a random circle.
        circle = torch.randperm(len(chosen), generator=random)
        partner = torch.empty_like(circle)
        partner[circle] = circle.roll(-1)
        histories.append(chosen)
        partners.append(drawn + partner)
        dice.append(torch.rand(len(chosen), generator=random))
        drawn += len(chosen)
    chosen = torch.cat([torch.arange(0), *histories])
    episode, state = episode[chosen], state[chosen]
    return Pairs(
        episode=episode,
        state=state,
        partner=torch.cat([torch.arange(0), *partners]),
        legal=None if batch.legal is None else batch.legal[episode, state],
        actions=batch.actions[episode, state],
        dice=torch.cat([torch.rand(0), *dice]),
        from_data=from_data,
    )


def throw(dice: Tensor, probabilities: Tensor) -> Tensor:
    """One choice for each row of (n, choices), by the row's number in [0, 1): (n,)."""
    # In single precision and below 1, which is where half precision rounds the highest numbers to.
    cumulated = probabilities.float().cumsum(dim=-1)
    dice = dice.float().clamp_max(1 - 2**-24)
    # A choice of probability 0 adds nothing to the sum, so it is stepped over.
    return (cumulated <= dice[:, None] * cumulated[:, -1:]).sum(dim=-1)
