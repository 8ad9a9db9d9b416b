"""Histories without what was done in them: only what was seen."""

from dataclasses import replace

import torch
from torch import Tensor

from textrl.data.frames import Frames
from textrl.model.patches import Patches


def without_actions(
    tokens: Tensor,
    frames: Frames | Patches | None,
    state_positions: Tensor | None,
    first_action: int,
) -> tuple[Tensor, Frames | Patches | None, Tensor | None]:
    """The same histories, shorter by the action tokens, and where frames and states are in them.

    A state is read at the token before its action, so that one has to be something seen.
    """
    is_seen = tokens < first_action
    place = is_seen.cumsum(dim=1) - 1  # of each token in what remains
    # What was seen comes first, in its order; where a history is shorter, its actions are padding
    # that nobody reads, because nothing that is read comes after them.
    order = (~is_seen).to(torch.uint8).argsort(dim=1, stable=True)
    if state_positions is None:
        length = int(place[:, -1].max()) + 1
    else:
        state_positions = place.gather(1, state_positions)
        length = int(state_positions.max()) + 1
    if frames is not None:
        frames = replace(frames, position=place[frames.episode, frames.position])
        length = max(length, int(frames.position.max()) + 1)
    return tokens.gather(1, order)[:, :length], frames, state_positions
