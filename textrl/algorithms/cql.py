"""Conservative Q-learning (Kumar et al. 2020): docs/cql.md."""

from dataclasses import dataclass

from textrl.algorithms.algorithm import Algorithm
from textrl.algorithms.values import ConservativeOptions


@dataclass(frozen=True)
class CQLOptions(ConservativeOptions):
    """What the loss weighs."""


CQL = Algorithm(
    name="cql",
    title="conservative Q-learning (CQL)",
    heads=("q",),
    loss="textrl.losses.cql:cql_loss",
    options=CQLOptions,
    q_heads=1,
)
