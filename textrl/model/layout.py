"""Members of one model: which of its tokens are whose, and how each one is played."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from textrl.data.language import PAD_ID


@dataclass(frozen=True)
class ValueUnits:
    """What the Q and V heads count in: values are center + scale x what a head says.

    So values start at the center, the data's mean return, and are in the data's own units wherever
    they are read, whatever scale the loss has.
    """

    center: float = 0.0
    scale: float = 1.0

    def of(self, said: Tensor) -> Tensor:
        """What a head said, as a value; overwrites it, since it may be of a vocabulary's size."""
        if self.center == 0 and self.scale == 1:
            return said
        # Half precision could not tell 18.6 from 18.7.
        said = said.float() if said.dtype.itemsize < 4 else said
        return said.mul_(self.scale).add_(self.center)


@dataclass(frozen=True)
class MemberLayout:
    """One task of a model. A task knows its own token ids and action numbers alone.

    What its data, its grammar and its player say is in those. A model of several has others,
    because no two tasks share a token but padding; in a model of one they are the same.
    """

    name: str
    tokens: int  # how many it has, padding included
    actions: int  # how many of them are actions: the last ones
    observation_classes: int
    has_frames: bool
    window: int
    heads: tuple[str, ...]  # those that its algorithm trains
    acts_by: tuple[str, ...]  # those of them that play it
    beta: float
    candidates: int
    plausible: float
    action_offset: int = 0  # the model's number of its first action
    begin: int | None = None  # the model's id of its begin token; None: a model of this task alone
    first_observation: int = 0  # the model's id of its first observation token
    first_action: int = 0  # the model's id of its first action token
    temperature: float = 1.0
    hides_actions: bool = False
    units: ValueUnits = ValueUnits()

    @property
    def action_numbers(self) -> slice:
        """Where its actions are among the model's."""
        return slice(self.action_offset, self.action_offset + self.actions)

    def ids(self, device: torch.device | None = None) -> Tensor | None:
        """(tokens,): the model's id of each of its own ids; None: they are the same."""
        if self.begin is None:
            return None
        observations = self.tokens - self.actions - 2
        special = torch.tensor([PAD_ID, self.begin], device=device)
        seen = self.first_observation + torch.arange(observations, device=device)
        said = self.first_action + torch.arange(self.actions, device=device)
        return torch.cat([special, seen, said])

    def to_json(self) -> dict[str, Any]:
        """As a model's config.json keeps it; from_json is the way back."""
        return {**asdict(self), "heads": list(self.heads), "acts_by": list(self.acts_by)}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "MemberLayout":
        """As it was."""
        lists = {name: tuple(saved[name]) for name in ("heads", "acts_by")}
        # Agents that were saved without units have values as their heads say them.
        return cls(**{**saved, **lists, "units": ValueUnits(**saved.get("units", {}))})
