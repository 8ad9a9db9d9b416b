"""The algorithms by name: which heads each one trains and which loss trains them."""

from collections.abc import Callable
from dataclasses import dataclass

from textrl.batches import Batch
from textrl.combined_config import CombinedConfig, members_of
from textrl.config import TrainConfig
from textrl.losses.bc import bc_loss
from textrl.losses.bisimulation import BisimulationWeights
from textrl.losses.cql import CQLWeights, cql_loss
from textrl.losses.ilql import ILQLWeights, ilql_loss
from textrl.losses.ops import Terms
from textrl.outputs import TextRLOutput

Loss = Callable[[TextRLOutput, Batch], Terms]


@dataclass(frozen=True)
class Algorithm:
    """heads: what the model needs; make_loss: the loss under a run's settings."""

    heads: tuple[str, ...]
    make_loss: Callable[[TrainConfig], Loss]
    q_heads: int = 2
    filters_episodes: bool = False


def _make_bc(config: TrainConfig) -> Loss:
    return bc_loss


def _make_cql(config: TrainConfig) -> Loss:
    weights = CQLWeights(
        discount=config.discount,
        conservatism=config.conservatism,
        return_lambda=config.return_lambda,
        value_weight=config.value_weight,
    )
    return lambda outputs, batch: cql_loss(outputs, batch, weights)


def _make_ilql(config: TrainConfig) -> Loss:
    weights = ILQLWeights(
        discount=config.discount,
        expectile=config.expectile,
        conservatism=config.conservatism,
        action_lambda=config.action_lambda,
        return_lambda=config.return_lambda,
        value_weight=config.value_weight,
        whole_actions=config.whole_actions,
    )
    return lambda outputs, batch: ilql_loss(outputs, batch, weights)


def make_bisimulation(config: TrainConfig) -> BisimulationWeights:
    """What is added to any of them, at the steps where histories are compared."""
    return BisimulationWeights(
        weight=config.bisim * config.bisim_stride,
        distance=config.bisim_distance,
        discount=config.bisim_discount,
        inverse=config.bisim_inverse * config.bisim_stride,
    )


ALGORITHMS = {
    "bc": Algorithm(("policy",), _make_bc),
    "filtered-bc": Algorithm(("policy",), _make_bc, filters_episodes=True),
    "cql": Algorithm(("q",), _make_cql, q_heads=1),
    "ilql": Algorithm(("policy", "q", "v"), _make_ilql),
}


def heads_of(config: TrainConfig) -> tuple[tuple[str, ...], int]:
    """The heads that a run's model needs, and how many of them for Q; of several tasks, all that
    one of them needs."""
    chosen = [ALGORITHMS[member.algo] for member in members_of(config).values()]
    heads = dict.fromkeys(head for each in chosen for head in each.heads)
    return tuple(heads), max((each.q_heads for each in chosen if "q" in each.heads), default=2)


def make_loss(config: TrainConfig) -> Loss:
    """The loss of a run; of one over several tasks, each batch's under its own task's settings."""
    losses = [ALGORITHMS[each.algo].make_loss(each) for each in members_of(config).values()]
    if not isinstance(config, CombinedConfig):
        return losses[0]

    def loss(outputs: TextRLOutput, batch: Batch) -> Terms:
        assert batch.game is not None
        return losses[batch.game](outputs, batch)

    return loss
