"""Histories of different lengths as the rows of one matrix, so that little is spent on padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from textrl.data.frames import Frames
from textrl.model.patches import Patches


class History(NamedTuple):
    """What is read, as the network's forward takes it."""

    tokens: Tensor  # (batch, time)
    frames: Frames | Patches | None
    state_positions: Tensor | None  # (batch, states)
    groups: tuple[int, ...] = ()


class _TakeRows(torch.autograd.Function):
    """values[rows]; what autograd knows for that is several times as slow on its way back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = values.shape
        return values.index_select(0, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (rows,) = ctx.saved_tensors
        return gradient.new_zeros(ctx.shape).index_add_(0, rows, gradient), None


class _Unpack(torch.autograd.Function):
    """Packed values, each of a state, on top of each other and with padding again."""

    @staticmethod
    def forward(ctx: Any, state: Tensor, place: Tensor, *values: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        out = values[0].new_empty((len(values), *state.shape, *values[0].shape[1:]))
        for each, padded in zip(values, out, strict=True):
            torch.index_select(each, 0, state.flatten(), out=padded.flatten(0, 1))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (place,) = ctx.saved_tensors
        return (None, None, *(each.flatten(0, 1).index_select(0, place) for each in gradient))


@dataclass(frozen=True)
class Packing:
    """Where the tokens and states of a batch are once they lie one below the other.

    The episodes of a group are padded to the longest one of it, so that attention can read them
    side by side; everything else is computed row by row. States are packed without any padding.
    """

    shapes: tuple[tuple[int, int], ...]
    """Of each group: episodes, tokens."""
    first: Tensor
    """(batch,): the row of each episode's first token."""
    rows: Tensor
    """(states,): the row of the token at which each state is read."""
    place: Tensor
    """(states,): where it is among batch x states."""
    state: Tensor
    """(batch, states): which of the packed ones each is; on padding and unread ones, any."""

    @classmethod
    def of(
        cls,
        state_positions: Tensor,
        time: int,
        groups: Sequence[int] = (),
        is_read: Tensor | None = None,
    ) -> "Packing":
        """state_positions: (batch, states); time: of the tokens as they are padded.

        groups: as a batch has them, whose states are in order and at 0 on padding. is_read: (batch,
        states), True where a state is needed; without it every one is, but for such padding.
        """
        episodes, states = state_positions.shape
        longest = [time]
        if groups:
            furthest = state_positions.amax(dim=1).split(list(groups))
            longest = [1 + int(part.max()) for part in furthest]
        shapes = tuple(zip(groups or (episodes,), longest, strict=True))
        lengths = torch.tensor([length for count, length in shapes for _ in range(count)])
        first = (lengths.cumsum(0) - lengths).to(state_positions.device)
        if is_read is None:
            is_read = state_positions > (0 if groups else -1)
            is_read[:, 0] = True  # which may be read at the first token of all
        flat = is_read.flatten()
        place = flat.nonzero()[:, 0]
        return cls(
            shapes=shapes,
            first=first,
            rows=(state_positions + first[:, None]).flatten()[place],
            place=place,
            state=(flat.cumsum(0) - 1).clamp_min(0).view(episodes, states),
        )

    @property
    def sizes(self) -> list[int]:
        """How many rows each group has."""
        return [episodes * tokens for episodes, tokens in self.shapes]

    def pack(self, tokens: Tensor) -> Tensor:
        """(batch, time) -> (rows,)."""
        groups = tokens.split([episodes for episodes, _ in self.shapes])
        parts = zip(groups, self.shapes, strict=True)
        return torch.cat([part[:, :length].flatten() for part, (_, length) in parts])

    def rows_at(self, episode: Tensor, position: Tensor) -> Tensor:
        """The rows of these tokens; both of one shape, or of shapes that go together."""
        return self.first[episode] + position

    def at_states(self, hidden: Tensor) -> Tensor:
        """(rows, width) -> (states, width)."""
        taken: Tensor = _TakeRows.apply(hidden, self.rows)  # type: ignore[no-untyped-call]
        return taken

    def unpack(self, *values: Tensor) -> Tensor:
        """Several of (states, ...) -> (how many, batch, states, ...)."""
        padded: Tensor = _Unpack.apply(self.state, self.place, *values)  # type: ignore[no-untyped-call]
        return padded
