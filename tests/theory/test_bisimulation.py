"""The exact metric: transports with known costs, a metric's axioms, its own equation."""

import numpy as np
import pytest

from textrl.theory.bisimulation import bisimulation_metric, wasserstein
from textrl.theory.families import listening, random_pomdp, switch
from textrl.theory.pomdp import Array, Policy, Process, evaluate, histories, optimal, uniform


def test_on_a_line_it_is_the_area_between_the_cumulative_chances() -> None:
    random = np.random.default_rng(0)
    places = np.sort(random.random((20, 5)), axis=1)
    first, second = random.dirichlet(np.ones(5), 20), random.dirichlet(np.ones(5), 20)
    cost = np.abs(places[:, :, None] - places[:, None, :])
    gaps = np.abs(np.cumsum(first - second, axis=1))[:, :-1]
    exact = (gaps * np.diff(places, axis=1)).sum(axis=1)
    assert np.allclose(wasserstein(first, second, cost), exact, atol=1e-7)


def test_with_distances_of_one_it_is_the_total_variation() -> None:
    random = np.random.default_rng(1)
    first, second = random.dirichlet(np.ones(4), 10), random.dirichlet(np.ones(4), 10)
    cost = np.broadcast_to(1 - np.eye(4), (10, 4, 4))
    exact = np.abs(first - second).sum(axis=1) / 2
    assert np.allclose(wasserstein(first, second, cost), exact, atol=1e-7)


def test_many_transports_at_once_are_those_one_by_one() -> None:
    random = np.random.default_rng(2)
    first, second = random.dirichlet(np.ones(3), 6), random.dirichlet(np.ones(2), 6)
    cost = random.random((6, 3, 2))
    alone = [wasserstein(first[i : i + 1], second[i : i + 1], cost[i : i + 1]) for i in range(6)]
    assert np.allclose(wasserstein(first, second, cost), np.concatenate(alone), atol=1e-7)
    assert len(wasserstein(first[:0], second[:0], cost[:0])) == 0


def policies(process: Process) -> dict[str, Policy | None]:
    return {"optimal": optimal(process)[1], "uniform": uniform(process), "every action": None}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("which", ["optimal", "uniform", "every action"])
def test_it_is_a_pseudometric(seed: int, which: str) -> None:
    process = histories(random_pomdp(np.random.default_rng(seed), horizon=3))
    for metric in bisimulation_metric(process, policies(process)[which]):
        d = metric.between_states()
        assert (np.diag(d) == 0).all()
        assert (d == d.T).all() and (d >= 0).all()
        assert (d[:, None, :] <= d[:, :, None] + d[None] + 1e-6).all()  # d_ik <= d_ij + d_jk


@pytest.mark.parametrize("seed", range(4))
def test_values_differ_by_at_most_the_distance(seed: int) -> None:
    process = histories(random_pomdp(np.random.default_rng(seed), horizon=3))
    for policy in policies(process).values():
        values = optimal(process)[0] if policy is None else evaluate(process, policy)
        for value, metric in zip(values, bisimulation_metric(process, policy), strict=True):
            gap = np.abs(value[:, None] - value)
            assert (gap <= metric.between_states() + 1e-6).all()


def rounds_from_zero(process: Process, policy: Policy) -> tuple[Array, int]:
    """The equation applied to d = 0 on the states of all stages until nothing changes, in order.

    States of different stages are left at distance 0: nothing leads into two stages at once.
    """
    starts = np.concatenate([[0], np.cumsum(process.sizes)])
    count = starts[-1]
    rewards, chance = np.zeros(count), np.zeros((count, count + 1))  # the last one: the end
    for number, (stage, chosen) in enumerate(zip(process.stages, policy, strict=True)):
        for state in range(process.sizes[number]):
            row = starts[number] + state
            rewards[row] = chosen[state] @ stage.rewards[state]
            for action, branch in np.ndindex(*stage.chance.shape[1:]):
                follows = starts[number + 1] + stage.follows[state, action, branch]
                chance[row, follows] += chosen[state, action] * stage.chance[state, action, branch]
    stage_of = np.repeat(np.arange(process.horizon), process.sizes)
    one, other = np.nonzero(np.triu(stage_of[:, None] == stage_of, k=1))
    d, rounds = np.zeros((count + 1, count + 1)), 0
    while True:
        cost = np.broadcast_to(d, (len(one), *d.shape))
        moved = wasserstein(chance[one], chance[other], cost)
        new = np.zeros_like(d)
        new[one, other] = new[other, one] = np.abs(rewards[one] - rewards[other]) + moved
        if np.abs(new - d).max() < 1e-7:
            return d[:-1, :-1], rounds
        d, rounds = new, rounds + 1


def test_one_sweep_is_the_fixed_point_of_the_equation() -> None:
    process = histories(random_pomdp(np.random.default_rng(5), horizon=2))
    policy = uniform(process)
    d, rounds = rounds_from_zero(process, policy)
    assert rounds == process.horizon
    first, second = bisimulation_metric(process, policy)
    assert np.allclose(first.between_states(), d[:2, :2], atol=1e-6)
    assert np.allclose(second.between_states(), d[2:, 2:], atol=1e-6)


def test_classes_are_what_matters_of_a_history() -> None:
    assert [len(m.distance) for m in bisimulation_metric(histories(switch(5)))] == [1, 2, 2, 2, 2]
    # How much more often the one mode was heard: from -k to k after k steps.
    heard = [len(m.distance) for m in bisimulation_metric(histories(listening(5)))]
    assert heard == [1, 3, 5, 7, 9]


def test_the_switch_by_hand() -> None:
    process = histories(switch(3))
    every, on_policy = (
        bisimulation_metric(process),
        bisimulation_metric(process, optimal(process)[1]),
    )
    # At the end naming 0 pays 1 or 0, naming 1 pays 0 or 0.6; the optimal policy's 1 or 0.6.
    assert every[2].distance[0, 1] == pytest.approx(1.0)
    assert on_policy[2].distance[0, 1] == pytest.approx(0.4)
    # Before it there is nothing but the way to that end.
    assert every[1].distance[0, 1] == pytest.approx(1.0)
    assert on_policy[1].distance[0, 1] == pytest.approx(0.4)


def test_on_policy_histories_that_need_different_actions_can_be_alike() -> None:
    process = histories(listening(2))
    policy = optimal(process)[1]
    heard_0, heard_1 = process.stages[0].follows[0, 0]
    assert policy[1][heard_0].tolist() == [1, 0] and policy[1][heard_1].tolist() == [0, 1]
    on_policy, every = bisimulation_metric(process, policy)[1], bisimulation_metric(process)[1]
    assert on_policy.between_states()[heard_0, heard_1] == 0
    assert every.between_states()[heard_0, heard_1] == pytest.approx(0.6)  # 0.8 against 0.2
