"""The history process: enumerated exactly, valued exactly."""

import itertools

import numpy as np
import pytest

from textrl.theory.families import FAMILIES, listening, random_pomdp, switch
from textrl.theory.pevi import Counts, count_episodes
from textrl.theory.pomdp import (
    POMDP,
    Process,
    concentrability,
    evaluate,
    histories,
    mean_return,
    mixture,
    optimal,
    uniform,
    visits,
)


def simulate(pomdp: POMDP, process: Process, episodes: int, seed: int) -> Counts:
    """Episodes of uniform actions, played on the hidden states one by one."""
    random = np.random.default_rng(seed)
    states, observations = pomdp.emission.shape
    actions = random.integers(pomdp.reward.shape[2], size=(episodes, pomdp.horizon))
    seen = np.zeros((episodes, pomdp.horizon + 1), dtype=np.int64)
    rewards = np.zeros((episodes, pomdp.horizon))
    for number in range(episodes):
        hidden = random.choice(states, p=pomdp.initial)
        for step in range(pomdp.horizon):
            seen[number, step] = random.choice(observations, p=pomdp.emission[hidden])
            action = actions[number, step]
            rewards[number, step] = random.random() < pomdp.reward[step, hidden, action]
            hidden = random.choice(states, p=pomdp.transition[hidden, action])
    return count_episodes(process, seen[:, 0], actions, seen[:, 1:], rewards)


def chance_of(pomdp: POMDP, actions: tuple[int, ...], seen: tuple[int, ...]) -> float:
    """Of these observations under these actions: the sum over all paths of hidden states."""
    chance = 0.0
    for path in itertools.product(range(len(pomdp.initial)), repeat=len(seen)):
        product = pomdp.initial[path[0]] * pomdp.emission[path[0], seen[0]]
        for before, action, after, what in zip(path, actions, path[1:], seen[1:], strict=False):
            product *= pomdp.transition[before, action, after] * pomdp.emission[after, what]
        chance += product
    return float(chance)


def test_every_history_has_the_chance_that_its_hidden_paths_add_up_to() -> None:
    pomdp = random_pomdp(np.random.default_rng(0), horizon=3)
    process = histories(pomdp)
    assert process.sizes == (2, 8, 32)
    reached = [each.sum(axis=1) for each in visits(process, uniform(process))]
    for first, a, second, b, third in itertools.product(range(2), repeat=5):
        middle = process.stages[0].follows[first, a, second]
        last = process.stages[1].follows[middle, b, third]
        exact = chance_of(pomdp, (a, b), (first, second, third)) / 4  # 1/4: of the actions
        assert reached[2][last] == pytest.approx(exact, abs=1e-12)


def test_chances_and_rewards_are_those_of_simulated_episodes() -> None:
    pomdp = random_pomdp(np.random.default_rng(1), horizon=3)
    process = histories(pomdp)
    counts = simulate(pomdp, process, episodes=8000, seed=0)
    exact = visits(process, uniform(process))
    for stage, counted, chance in zip(process.stages, counts.stages, exact, strict=True):
        branch = chance[..., None] * stage.chance
        error = np.sqrt(branch * (1 - branch) / 8000)
        assert (np.abs(counted.taken / 8000 - branch) <= 5 * error).all()
        paid = chance * stage.rewards
        assert (np.abs(counted.paid / 8000 - paid) <= 5 * np.sqrt(paid / 8000)).all()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("horizon", [2, 5])
def test_chances_add_up_at_every_history(family: str, horizon: int) -> None:
    process = histories(FAMILIES[family](horizon))
    assert process.initial.sum() == pytest.approx(1)
    for stage in process.stages:
        assert np.allclose(stage.chance.sum(axis=-1), 1)
        assert (stage.paid <= stage.chance + 1e-12).all()
    for taken in visits(process, uniform(process)):
        assert taken.sum() == pytest.approx(1)
        assert taken.min() > 0  # no history without a chance is listed


def test_the_switch_by_hand() -> None:
    process = histories(switch(4))
    assert process.sizes == (1, 4, 16, 64)
    values, policy = optimal(process)
    # Action 0 trips the better switch with 0.8, and naming it pays 1; the other one pays 0.6.
    assert mean_return(process, values) == pytest.approx(0.8 * 1.0 + 0.2 * 0.6)
    assert policy[0].tolist() == [[1, 0]]
    # Uniform actions: either switch, and named right half of the time.
    assert mean_return(process, evaluate(process, uniform(process))) == pytest.approx(0.4)


def test_listening_by_hand() -> None:
    process = histories(listening(4))
    values, policy = optimal(process)
    # Three hints of 0.8 each, the majority named: 0.8^3 + 3 x 0.8^2 x 0.2.
    assert mean_return(process, values) == pytest.approx(0.896)
    assert mean_return(process, evaluate(process, policy)) == pytest.approx(0.896)
    assert mean_return(process, evaluate(process, uniform(process))) == pytest.approx(0.5)


def test_no_deterministic_policy_beats_the_optimum() -> None:
    process = histories(random_pomdp(np.random.default_rng(2), horizon=2))
    best = mean_return(process, optimal(process)[0])
    returns = []
    for choices in itertools.product(range(2), repeat=sum(process.sizes)):
        rows = np.eye(2)[list(choices)]
        returns.append(mean_return(process, evaluate(process, (rows[:2], rows[2:]))))
    assert max(returns) == pytest.approx(best, abs=1e-12)


def test_concentrability_by_hand() -> None:
    process = histories(switch(2))
    policy = optimal(process)[1]
    wanted = visits(process, policy)
    assert concentrability(wanted, wanted) == 1
    # Two choices of two actions each, of which the optimal policy always takes one.
    assert concentrability(wanted, visits(process, uniform(process))) == pytest.approx(4)
    half = mixture(policy, uniform(process), 0.5)  # the right one with 3/4
    assert concentrability(wanted, visits(process, half)) == pytest.approx((4 / 3) ** 2)
    never = tuple(1 - chosen for chosen in policy)
    assert concentrability(wanted, visits(process, never)) == np.inf


def test_arrays_that_are_no_pomdp_are_refused() -> None:
    good = switch(2)
    with pytest.raises(ValueError, match="emission is not made of probabilities"):
        POMDP(good.initial, good.transition, good.emission * 2, good.reward)
    with pytest.raises(ValueError, match="outside 0 to 1"):
        POMDP(good.initial, good.transition, good.emission, good.reward - 1)
    with pytest.raises(ValueError, match="hidden states"):
        POMDP(good.initial[:2], good.transition, good.emission, good.reward)
