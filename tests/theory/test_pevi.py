"""Pessimistic value iteration: by hand, never too hopeful, and right in the end."""

import math

import numpy as np
import pytest

from textrl.theory.aggregate import aggregate
from textrl.theory.bisimulation import bisimulation_metric
from textrl.theory.families import random_pomdp, switch
from textrl.theory.pevi import (
    PROVEN,
    Counts,
    StageCounts,
    bonus,
    count_episodes,
    draw_counts,
    log_term,
    merge_counts,
    pevi,
)
from textrl.theory.pomdp import evaluate, histories, mean_return, optimal, uniform, visits


def test_two_stages_by_hand() -> None:
    """One state, then one of two. Action 0 was taken 400 times, action 1 100 times."""
    first = StageCounts(
        follows=np.array([[[0, 1], [0, 1]]]),
        taken=np.array([[[300.0, 100.0], [50.0, 50.0]]]),
        paid=np.array([[0.0, 25.0]]),
    )
    last = StageCounts(
        follows=np.zeros((2, 2, 1), dtype=np.int64),
        taken=np.array([[[200.0], [150.0]], [[150.0], [0.0]]]),
        paid=np.array([[150.0, 30.0], [0.0, 0.0]]),
    )
    counts = Counts(500, (first, last))
    h_iota = math.log(4 * 3 * 2 * 2 * 500)  # 3 states, 2 actions, 2 steps
    assert log_term(counts) == pytest.approx(h_iota)
    learned = pevi(counts, scale=0.5)
    # Rewards of 0.75 and 0.2 after 200 and 150; nothing follows, so no variance.
    q_0 = 0.75 - 0.5 * (math.sqrt(h_iota * 0.75 / 200) + h_iota / 200)
    q_1 = 0.2 - 0.5 * (math.sqrt(h_iota * 0.2 / 150) + h_iota / 150)
    assert q_0 > q_1 > 0
    assert learned.values[1] == pytest.approx([q_0, 0])
    assert learned.policy[1].tolist() == [[1, 0], [0.5, 0.5]]  # of two unknowns, either
    # Action 0: q_0 with 3/4, no reward. Action 1: q_0 with 1/2, a reward of 1/4.
    risk_0 = math.sqrt(h_iota * 0.75 * 0.25 * q_0**2 / 400) + h_iota / 400
    risk_1 = math.sqrt(h_iota * 0.25 * q_0**2 / 100) + math.sqrt(h_iota * 0.25 / 100)
    risk_1 += h_iota / 100
    down = [0.75 * q_0 - 0.5 * risk_0, 0.25 + 0.5 * q_0 - 0.5 * risk_1]
    assert learned.values[0][0] == pytest.approx(max(down))
    assert learned.policy[0][0].tolist() == ([1, 0] if down[0] > down[1] else [0, 1])


def test_unseen_actions_have_the_bonus_of_one_visit() -> None:
    zero = np.zeros((1, 1))
    assert bonus(zero, zero, zero, 3.0) == bonus(zero + 1, zero, zero, 3.0) == 3.0
    assert bonus(zero + 4, zero + 1, zero + 0.25, 3.0)[0, 0] == pytest.approx(
        math.sqrt(3 / 16) + math.sqrt(3 / 4) + 3 / 4
    )


def test_values_are_hardly_ever_above_those_of_the_policy() -> None:
    process = histories(switch(3))
    random = np.random.default_rng(0)
    draws, known, broken, broken_without = 300, 0, 0, 0
    for _ in range(draws):
        counts = draw_counts(process, uniform(process), 300_000, random)

        def too_hopeful(scale: float, counts: Counts = counts) -> bool:
            learned = pevi(counts, scale)
            exact = evaluate(process, learned.policy)
            return any((v > e + 1e-9).any() for v, e in zip(learned.values, exact, strict=True))

        known += pevi(counts, PROVEN).values[0][0] > 0.1
        broken += too_hopeful(PROVEN)
        broken_without += too_hopeful(0.0)
    assert known == draws  # the bound says something
    # The chance of a violation is at most 2 |states| |A| H delta = 1 / N in each draw.
    assert broken == 0
    assert broken_without > 0.9 * draws  # and it would be broken without a bonus


@pytest.mark.parametrize("through_summaries", [False, True])
def test_with_more_data_it_becomes_optimal(through_summaries: bool) -> None:
    process = histories(random_pomdp(np.random.default_rng(4), horizon=3))
    labels = aggregate(bisimulation_metric(process), 0.0)
    random = np.random.default_rng(0)
    best = mean_return(process, optimal(process)[0])
    gaps, unknown = [], []
    for episodes in (100, 10_000, 1_000_000, 100_000_000):
        counts = draw_counts(process, uniform(process), episodes, random)
        if through_summaries:
            counts = merge_counts(counts, labels)
        learned = pevi(counts)
        # At epsilon 0 a random POMDP keeps its histories, but numbers them anew.
        policy = learned.policy
        if through_summaries:
            policy = tuple(p[label] for p, label in zip(policy, labels, strict=True))
        gaps.append(best - mean_return(process, evaluate(process, policy)))
        unknown.append(best - learned.values[0][labels[0] if through_summaries else slice(None)])
    assert gaps[0] > 0.05 and gaps[-1] < 0.001
    widths = [float(process.initial @ each) for each in unknown]
    assert widths == sorted(widths, reverse=True) and 0 < widths[-1] < 0.02


def test_drawn_counts_have_the_moments_of_episodes() -> None:
    process = histories(random_pomdp(np.random.default_rng(5), horizon=3))
    random = np.random.default_rng(0)
    drawn = [draw_counts(process, uniform(process), 50, random) for _ in range(4000)]
    exact = visits(process, uniform(process))
    for number, (stage, chance) in enumerate(zip(process.stages, exact, strict=True)):
        taken = np.array([each.stages[number].taken for each in drawn])
        paid = np.array([each.stages[number].paid for each in drawn])
        assert (taken.sum(axis=(1, 2, 3)) == 50).all()
        for counts, p in (
            (taken, chance[..., None] * stage.chance),
            (paid, chance * stage.rewards),
        ):
            spread = np.sqrt(50 * p * (1 - p))  # each is binomial
            assert (np.abs(counts.mean(axis=0) - 50 * p) <= 5 * spread / math.sqrt(4000)).all()
            # Of a count's variance, the relative error is some 1 / sqrt(draws x mean) at most.
            allowed = 5 * np.sqrt((2 + 1 / (50 * p)) / 4000)
            assert (np.abs(counts.var(axis=0) / spread**2 - 1) <= allowed).all()


def test_recorded_episodes_are_counted_by_hand() -> None:
    process = histories(random_pomdp(np.random.default_rng(6), horizon=2))
    counts = count_episodes(
        process,
        first=np.array([0, 0, 1]),
        actions=np.array([[1, 0], [1, 1], [0, 0]]),
        branches=np.array([[1, 0], [1, 0], [0, 1]]),
        rewards=np.array([[1, 0], [0, 1], [1, 1]]),
    )
    first, last = counts.stages
    assert counts.episodes == 3
    assert first.taken[0, 1].tolist() == [0, 2] and first.taken[1, 0].tolist() == [1, 0]
    assert first.paid.tolist() == [[0, 1], [1, 0]]
    middle, other = process.stages[0].follows[0, 1, 1], process.stages[0].follows[1, 0, 0]
    assert last.n[middle].tolist() == [1, 1] and last.n[other].tolist() == [1, 0]
    assert last.paid[middle].tolist() == [0, 1] and last.paid[other].tolist() == [1, 0]
    assert first.n.sum() == last.n.sum() == 3


def test_summaries_count_what_their_histories_do() -> None:
    process = histories(switch(4))
    labels = aggregate(bisimulation_metric(process), 0.0)
    counts = draw_counts(process, uniform(process), 1000, np.random.default_rng(0))
    merged = merge_counts(counts, labels)
    for number, (stage, summary) in enumerate(zip(counts.stages, merged.stages, strict=True)):
        for label, action in np.ndindex(*summary.paid.shape):
            members = labels[number] == label
            assert summary.n[label, action] == stage.n[members, action].sum()
            assert summary.paid[label, action] == stage.paid[members, action].sum()
    # The switch that is on stays on.
    assert (merged.stages[2].taken.sum(axis=1) > 0).sum() == 2
    twice = counts + counts
    assert twice.episodes == 2000 and (twice.stages[1].taken == 2 * counts.stages[1].taken).all()
