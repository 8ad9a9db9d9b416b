"""What a policy would have earned, from what another one did: estimators on arrays of numbers.

Everything here is per decision (a whole action: a move, a word, a turn): arrays (episodes,
decisions), where `exists` is False after an episode's end. `ratio` is how much likelier the policy
is to act so than the one that was logged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 1_000
LEAST_EFFECTIVE = 0.1
"""Share of the episodes. With fewer episodes' worth of weight than that, chance decides what the
weights say: the doubly robust estimate leaves the decisions from there on to the values."""


@dataclass(frozen=True)
class Decisions:
    """Logged episodes as a policy sees them."""

    rewards: Floats
    exists: NDArray[np.bool_]
    ratio: Floats
    q: Floats
    """Estimated value of what was done, under the policy from then on."""
    v: Floats
    """Estimated value before it."""

    @property
    def weights(self) -> Floats:
        """The product of the ratios so far; it stays as it is after an episode's end."""
        return np.asarray(np.cumprod(np.where(self.exists, self.ratio, 1.0), axis=1))


def importance_terms(logged: Decisions) -> tuple[Floats, Floats]:
    """Numerators and denominators, (episodes, decisions), of weighted importance sampling.

    Per decision (Precup et al. 2000): the estimate is the sum over decisions t of
    sum_i w_it r_it / sum_i w_it, with w_it the product of the ratios up to t.
    """
    weights = logged.weights
    return weights * np.where(logged.exists, logged.rewards, 0.0), weights


def robust_terms(
    logged: Decisions, least_effective: float = LEAST_EFFECTIVE
) -> tuple[Floats, Floats]:
    """The same of the weighted doubly robust estimate (Thomas and Brunskill 2016).

    V(s_0) + sum_t w_t (r_t + V(s_t+1) - Q(s_t, a_t)), weights normalized at each t: right where
    either the values or the ratios are. The sum ends where the weights are of too few episodes.
    """
    weights = logged.weights[:, : usable_decisions(logged, least_effective)]
    weights = np.pad(weights, ((0, 0), (0, logged.v.shape[1] - weights.shape[1])))
    after = np.zeros_like(logged.v)
    after[:, :-1] = np.where(logged.exists[:, 1:], logged.v[:, 1:], 0.0)
    surprise = np.where(logged.exists, logged.rewards + after - logged.q, 0.0)
    # A first column of weight 1 for the values themselves.
    first = np.concatenate([logged.v[:, :1], weights * surprise], axis=1)
    return first, np.concatenate([np.ones_like(logged.v[:, :1]), weights], axis=1)


def ratio_of_sums(numerators: Floats, denominators: Floats) -> Floats:
    """(..., decisions) sums over episodes -> (...): the sum over decisions of their ratios."""
    safe = np.where(denominators > 0, denominators, 1.0)
    return np.asarray((numerators / safe).sum(axis=-1))


def resampled(
    terms: tuple[Floats, Floats], groups: NDArray[np.int64], resamples: int, seed: int = 0
) -> Floats:
    """The estimate for each of some bootstrap samples of groups, (resamples,)."""
    counts = group_counts(groups, resamples, seed)
    _, owner = np.unique(groups, return_inverse=True)
    summed = [np.zeros((counts.shape[1], each.shape[1])) for each in terms]
    for total, each in zip(summed, terms, strict=True):
        np.add.at(total, owner, each)
    return ratio_of_sums(counts @ summed[0], counts @ summed[1])


def group_counts(groups: NDArray[np.int64], resamples: int, seed: int) -> Floats:
    """How often each group is in each bootstrap sample, (resamples, groups)."""
    count = len(np.unique(groups))
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), resamples)
    return drawn.astype(np.float64)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % bootstrap interval; samples: the bootstrap's, to subtract."""

    mean: float
    samples: Floats

    @property
    def interval(self) -> tuple[float, float]:
        """The 2.5 and 97.5 % quantiles."""
        low, high = np.quantile(self.samples, (0.025, 0.975))
        return float(low), float(high)

    def minus(self, other: "Interval") -> "Interval":
        """The difference, of the same bootstrap samples of the same episodes."""
        return Interval(self.mean - other.mean, self.samples - other.samples)

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {"mean": self.mean, "interval_95": list(self.interval)}


def estimate(
    logged: Decisions,
    groups: NDArray[np.int64],
    terms: Callable[[Decisions], tuple[Floats, Floats]],
    resamples: int = RESAMPLES,
) -> Interval:
    """One of the estimates above, with its interval over groups."""
    found = terms(logged)
    mean = ratio_of_sums(found[0].sum(axis=0), found[1].sum(axis=0))
    return Interval(float(mean), resampled(found, groups, resamples))


def pooled(intervals: Sequence[Interval]) -> Interval:
    """One estimate of several equals, such as refits: the mean, and samples of each in turn."""
    count = len(intervals)
    samples = np.empty_like(intervals[0].samples)
    for number, each in enumerate(intervals):
        samples[number::count] = each.samples[number::count]
    return Interval(float(np.mean([each.mean for each in intervals])), samples)


def mean_of(values: Floats, groups: NDArray[np.int64], resamples: int = RESAMPLES) -> Interval:
    """A mean with its interval over groups."""
    terms = (values[:, None], np.ones((len(values), 1)))
    return Interval(float(values.mean()), resampled(terms, groups, resamples))


def effective_sizes(logged: Decisions) -> Floats:
    """How many episodes' worth the weights are after each decision: (sum w)^2 / sum w^2."""
    weights = logged.weights
    squares = (weights**2).sum(axis=0)
    return np.asarray(weights.sum(axis=0) ** 2 / np.where(squares > 0, squares, 1.0))


def usable_decisions(logged: Decisions, least_effective: float = LEAST_EFFECTIVE) -> int:
    """How many decisions, from the first on, have enough episodes' worth of weight."""
    is_poor = effective_sizes(logged) < least_effective * len(logged.v)
    return int(is_poor.argmax()) if is_poor.any() else len(is_poor)


def overlap(logged: Decisions) -> float:
    """How much the policy has in common with what was logged, 0 to 1, in a mean decision.

    The mean of min(1, ratio) over logged actions is 1 less the total variation distance.
    """
    return float(np.minimum(logged.ratio[logged.exists], 1.0).mean())
