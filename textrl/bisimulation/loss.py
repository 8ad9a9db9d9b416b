"""The bisimulation loss: representations as far apart as what happens next differs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.bisimulation.pairs import Pairs
from textrl.config.train import BisimulationConfig
from textrl.data.batches import Batch
from textrl.losses.ops import masked_mean
from textrl.losses.outputs import TextRLOutput


@dataclass(frozen=True)
class BisimulationWeights:
    """weight: of the loss beside the algorithm's (the paper's eta); 0 = measured only.

    distance: l2, squared-l2 or l1 between representations. discount: of the transition term.
    inverse: weight of guessing the action between two histories, which resists collapse.
    """

    weight: float = 0.0
    distance: str = "l2"
    discount: float = 1.0
    inverse: float = 0.0


def weights_of(config: BisimulationConfig) -> BisimulationWeights:
    """What a run's settings ask for, at the steps where histories are compared."""
    return BisimulationWeights(
        weight=config.weight * config.stride,
        distance=config.distance,
        discount=config.discount,
        inverse=config.inverse * config.stride,
    )


@dataclass(frozen=True)
class BisimulationTerms:
    """The loss, how well its models fit, and what shows whether it works."""

    bisimulation: Tensor
    model_reward: Tensor  # squared error of the reward model
    model_dynamics: Tensor  # negative log-likelihood of what followed
    inverse: Tensor
    learned_distance: Tensor  # mean over the pairs
    target_distance: Tensor
    distance_correlation: Tensor  # of the two
    embedding_norm: Tensor
    embedding_spread: Tensor  # root mean square distance to the mean representation


def distance(a: Tensor, b: Tensor, kind: str) -> Tensor:
    """Between representations (n, width): (n,)."""
    gap = a - b
    if kind == "l1":
        return gap.abs().sum(dim=-1)
    # The norm's gradient is 0 where the two are equal; a root's would be infinite.
    return gap.square().sum(dim=-1) if kind == "squared-l2" else gap.norm(dim=-1)


def dynamics_distance(a: Tensor, b: Tensor, classes: int) -> Tensor:
    """D(P, P') of predictions (n, classes or 2 width): (n,).

    L1 between categoricals (in [0, 2], not halved, as in the paper), the 2-Wasserstein distance
    between diagonal Gaussians: sqrt(|mean - mean'|^2 + |deviation - deviation'|^2).
    """
    if classes:
        return (a.softmax(dim=-1) - b.softmax(dim=-1)).abs().sum(dim=-1)
    (mean, log_deviation), (other_mean, other_log) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    moved = (mean - other_mean).square().sum(dim=-1)
    return (moved + (log_deviation.exp() - other_log.exp()).square().sum(dim=-1)).sqrt()


def dynamics_fit(
    dynamics: Tensor, observed: Tensor, next_representation: Tensor, classes: int
) -> Tensor:
    """Negative log-likelihood of what followed each history, up to a constant: (n,).

    What followed is the class observed (n,), or without classes next_representation (n, width).
    """
    if classes:
        return torch.nn.functional.cross_entropy(dynamics, observed.clamp_min(0), reduction="none")
    mean, log_deviation = dynamics.chunk(2, dim=-1)
    standardized = (next_representation - mean) * (-log_deviation).exp()
    return (0.5 * standardized.square() + log_deviation).sum(dim=-1)


def bisimulation_targets(
    rewards: Tensor, dynamics: Tensor, partner: Tensor, classes: int, discount: float
) -> Tensor:
    """|r(z, a) - r(z', a')| + discount D(P(. | z, a), P(. | z', a')) for each pair: (n,).

    rewards: (n,), or (n, tests) of several rewards that are compared, each times its share.
    """
    apart = dynamics_distance(dynamics, dynamics[partner], classes)
    gap = (rewards - rewards[partner]).abs()
    return (gap.sum(dim=-1) if gap.ndim == 2 else gap) + discount * apart


def model_fit(
    outputs: TextRLOutput,
    batch: Batch,
    pairs: Pairs,
    classes: int,
    counts: Tensor,
    total: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """How far the models of the environment are from the data: reward, what followed, inverse.

    counts: how much each history counts, (n,); total: their sum over the whole step.
    """
    assert outputs.representation is not None and outputs.target_representation is not None
    assert outputs.predicted_reward is not None and outputs.predicted_dynamics is not None
    at = (pairs.episode, pairs.state)
    # What followed: an observation's class, or else the next history, where there is one.
    observed, has_next = batch.observations[at], batch.has_next[at]
    following = (pairs.state + 1).clamp_max(outputs.representation.shape[1] - 1)
    next_z = outputs.target_representation[pairs.episode, following].detach()
    is_fitted = observed >= 0 if classes else has_next
    reward = masked_mean((outputs.predicted_reward - batch.rewards[at]).square(), counts, total)
    dynamics = masked_mean(
        dynamics_fit(outputs.predicted_dynamics, observed, next_z, classes),
        counts * is_fitted,
        total,
    )
    inverse = torch.zeros_like(reward)
    if outputs.inverse is not None:
        guesses = torch.nn.functional.cross_entropy(
            outputs.inverse, pairs.actions, reduction="none"
        )
        inverse = masked_mean(guesses, counts * has_next, total)
    return reward, dynamics, inverse


def bisimulation_loss(
    outputs: TextRLOutput, batch: Batch, pairs: Pairs, classes: int, weights: BisimulationWeights
) -> tuple[Tensor, BisimulationTerms]:
    """What to add to the algorithm's loss, and its terms.

    J(phi) = mean (|phi - phi'| - |r - r'| - D(P, P'))^2 over the pairs (paper, section 5).
    Its gradient reaches phi alone: r and P are asked at the slow encoder's z and have no part in
    it. They are fitted here too, to the data; how much of that gradient phi feels is the model's
    choice (world_gradient). Means divide by the whole step's number of completed actions, each
    weighted as its history's episode is.
    """
    assert outputs.representation is not None
    assert outputs.imagined_reward is not None and outputs.imagined_dynamics is not None
    at, total = (pairs.episode, pairs.state), batch.completed_count or 1
    phi = outputs.representation[at]

    counts = torch.ones_like(pairs.dice) if batch.weight is None else batch.weight[pairs.episode]

    def mean(values: Tensor) -> Tensor:
        return masked_mean(values, counts, total)

    with torch.no_grad():
        target = bisimulation_targets(
            outputs.imagined_reward,
            outputs.imagined_dynamics,
            pairs.partner,
            classes,
            weights.discount,
        )
    learned = distance(phi, phi[pairs.partner], weights.distance)
    bisimulation = mean((learned - target).square())

    model_reward, model_dynamics, inverse = model_fit(outputs, batch, pairs, classes, counts, total)
    with torch.no_grad():
        share = counts.sum() / total  # of this part in the step: so that the parts' sum is a mean
        spread = (phi - phi.mean(dim=0)).square().sum(dim=-1).mean().sqrt()
        terms = BisimulationTerms(
            bisimulation=bisimulation,
            model_reward=model_reward,
            model_dynamics=model_dynamics,
            inverse=inverse,
            learned_distance=mean(learned),
            target_distance=mean(target),
            distance_correlation=share * correlation(learned, target),
            embedding_norm=mean(phi.norm(dim=-1)),
            embedding_spread=share * spread.nan_to_num(),
        )
    added = model_reward + model_dynamics
    if weights.weight:  # zero times the loss would still send a gradient around
        added = added + weights.weight * bisimulation
    if weights.inverse:
        added = added + weights.inverse * inverse
    return added, terms


def correlation(a: Tensor, b: Tensor) -> Tensor:
    """Pearson's, of two vectors; 0 where one of them does not vary."""
    a, b = a - a.mean(), b - b.mean()
    cosine: Tensor = (a * b).sum() / (a.norm() * b.norm())
    return cosine.nan_to_num()
