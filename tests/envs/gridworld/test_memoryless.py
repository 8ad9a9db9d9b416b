"""The search for the best policy without memory: its gradient, its steps, what it finds."""

from itertools import product

import numpy as np
import pytest

from textrl.envs.gridworld.layout import LEFT, RIGHT, Layout
from textrl.envs.gridworld.memoryless import (
    best_memoryless,
    climb,
    climb_corners,
    score_and_gradient,
)
from textrl.envs.gridworld.rules import Rules, make_rules
from textrl.envs.gridworld.solve import evaluate, optimal_plan


def test_the_gradient_is_that_of_finite_differences(tiny: Layout) -> None:
    rules = Rules(tiny, horizon=9)
    policy = np.random.default_rng(0).dirichlet(np.ones(5), tiny.cells)
    score, gradient = score_and_gradient(rules, policy)
    assert score == pytest.approx(evaluate(rules, policy).score, abs=1e-12)
    assert (gradient > 1e-3).sum() > 20
    for place in np.ndindex(policy.shape):
        nudge = np.zeros_like(policy)
        nudge[place] = 1e-6
        difference = evaluate(rules, policy + nudge).score - evaluate(rules, policy - nudge).score
        assert gradient[place] == pytest.approx(difference / 2e-6, abs=1e-7)


def test_climbing_never_goes_down(tiny: Layout) -> None:
    rules = Rules(tiny, horizon=12)
    policy = np.random.default_rng(1).dirichlet(np.ones(5), tiny.cells)
    scores = [evaluate(rules, climb(rules, policy, steps)).score for steps in range(12)]
    assert scores == sorted(scores)
    assert scores[-1] > 2 * scores[0]
    np.testing.assert_allclose(climb(rules, policy, 12).sum(axis=1), 1)


def test_a_policy_that_never_draws_stays_as_it_is(corridor: Layout) -> None:
    rules = Rules(corridor, horizon=5)
    walks_off = np.eye(5)[[LEFT, LEFT, RIGHT, LEFT, LEFT]]
    _, gradient = score_and_gradient(rules, walks_off)
    assert gradient[3, RIGHT] > gradient[3, LEFT] > 0  # a better action that has no chance
    np.testing.assert_array_equal(climb(rules, walks_off, 60), walks_off)


def test_nothing_that_never_draws_is_better_on_a_small_map(corridor: Layout) -> None:
    for horizon in (4, 7):
        rules = Rules(corridor, horizon=horizon)
        # Up and down are the same in a corridor, which leaves four actions in five cells.
        candidates = np.eye(5)[np.array(list(product((0, 1, 3, 4), repeat=5)))]
        best = max(evaluate(rules, policy).score for policy in candidates)
        found = evaluate(rules, best_memoryless(rules)).score
        assert found >= best - 1e-6
        assert found <= optimal_plan(rules).score


def test_the_default_map_punishes_forgetting() -> None:
    rules = make_rules()
    policy = best_memoryless(rules)
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    score = evaluate(rules, policy).score
    assert score == pytest.approx(0.8707, abs=5e-5)
    assert score < optimal_plan(rules).score - 0.05
    assert (best_memoryless(rules) == policy).all()


def test_drawing_lots_helps_who_cannot_remember() -> None:
    rules = make_rules()
    chancy = best_memoryless(rules)
    fixed = climb_corners(rules, chancy.argmax(axis=1), 80)
    assert set(np.unique(fixed)) == {0, 1}
    assert evaluate(rules, fixed).score == pytest.approx(0.698938, abs=1e-6)
    assert evaluate(rules, chancy).score > evaluate(rules, fixed).score + 0.1


def test_many_starts_find_the_higher_hill() -> None:
    """Most starts end at 0.9114 here, about one in seven higher."""
    rows = "##########\n#Sr..#####\n#d##.....#\n#.##.....#\n#........#\n"
    rows += "##...LLLL#\n#.......U#\n#F...LLLL#\n#....#####\n##########"
    rules = Rules(Layout.parse(rows, "two hills"))
    assert evaluate(rules, best_memoryless(rules)).score > 0.9376


def test_a_large_map_takes_few_gradients_and_stays_a_policy() -> None:
    rows = ["." * 40 for _ in range(30)]
    rows[0] = "U" + "." * 17 + "dSr" + "." * 18 + "F"
    rules = Rules(Layout.parse("\n".join(rows), "large"))
    policy = best_memoryless(rules)
    np.testing.assert_allclose(policy.sum(axis=1), 1)
    # Nothing is hidden from who goes on in the direction of the switch: far from any tie.
    assert evaluate(rules, policy).score > 0.9 * optimal_plan(rules).score > 0.5
