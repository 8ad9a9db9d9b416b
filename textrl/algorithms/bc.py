"""Imitation: of everybody, or of the best episodes."""

from dataclasses import dataclass

from textrl.algorithms.algorithm import Algorithm
from textrl.config.options import option


@dataclass(frozen=True)
class FilteredOptions:
    """keep_top: share of the episodes that are imitated."""

    keep_top: float = option(
        0.25, "share of the episodes that are kept, best returns first", above=0, maximum=1
    )


BC = Algorithm(
    name="bc",
    title="behaviour cloning",
    heads=("policy",),
    loss="textrl.losses.bc:bc_loss",
)
FILTERED_BC = Algorithm(
    name="filtered-bc",
    title="behaviour cloning on the best episodes",
    heads=("policy",),
    loss="textrl.losses.bc:bc_loss",
    options=FilteredOptions,
)
