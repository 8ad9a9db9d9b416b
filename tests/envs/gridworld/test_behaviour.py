"""The behaviour policies and the walks that they make."""

from itertools import pairwise

import numpy as np
import pytest

from textrl.envs.gridworld.behaviour import (
    NOISE,
    behaviour_policies,
    chunk_sizes,
    unsafe_policy,
    walk_chunk,
)
from textrl.envs.gridworld.layout import DOWN, LEFT, RIGHT, Layout
from textrl.envs.gridworld.rules import AT_UNSAFE_GOAL, Rules, make_rules
from textrl.envs.gridworld.solve import evaluate


def test_one_heads_for_the_lava_the_other_anywhere() -> None:
    rules = make_rules()
    policies = behaviour_policies(rules)
    for policy in policies.values():
        np.testing.assert_allclose(policy.sum(axis=-1), 1)
    assert (policies["random"] == 0.2).all()
    unsafe = evaluate(rules, unsafe_policy(rules, noise=0.2))
    assert unsafe.unsafe_goal == pytest.approx(0.2809, abs=5e-5)
    assert unsafe.safe_goal < 0.03
    assert unsafe.lava > 0.5
    assert (policies["unsafe"] == unsafe_policy(rules, NOISE)).all()


def test_the_unsafe_policy_takes_the_way_past_its_switch() -> None:
    rules = make_rules()
    none, unsafe, safe = unsafe_policy(rules, noise=0.2)
    likeliest = pytest.approx(0.8 + 0.04)
    assert none[21, DOWN] == likeliest
    assert unsafe[65, RIGHT] == unsafe[66, RIGHT] == likeliest
    # Its goal cannot be reached any more: all actions are as good.
    np.testing.assert_allclose(safe[rules.layout.open_cells], 0.2)


def test_without_noise_it_does_the_best_for_the_unsafe_goal(corridor: Layout) -> None:
    none, unsafe, _ = unsafe_policy(Rules(corridor), noise=0.0)
    assert none[2].tolist() == [0, 0, 0, 1, 0]
    assert unsafe[4].tolist() == unsafe[1].tolist() == np.eye(5)[LEFT].tolist()


def test_walks_obey_the_rules_and_stop_in_time() -> None:
    rules = make_rules()
    walks = walk_chunk(rules, chunk=0, size=400, seed=0)
    assert walks.behaviour.tolist() == [0, 1] * 200
    assert (walks.cells[:, 0] == rules.layout.start).all()
    lengths = (walks.actions >= 0).sum(axis=1)
    assert ((walks.cells >= 0).sum(axis=1) == lengths + 1).all()
    assert (lengths[walks.reached == 0] == 50).all()
    for cells, length in zip(walks.cells, lengths, strict=True):
        for before, after in pairwise(cells[: length + 1]):
            assert after in rules.layout.moves[before]
    share = (walks.reached[walks.behaviour == 1] == AT_UNSAFE_GOAL).mean()
    exact = evaluate(rules, unsafe_policy(rules)).unsafe_goal
    assert abs(share - exact) < 4 * np.sqrt(exact * (1 - exact) / 200)


def test_chunks_differ_and_follow_from_the_seed() -> None:
    rules = make_rules()
    first = walk_chunk(rules, 0, 50, seed=3).actions
    assert (walk_chunk(rules, 0, 50, seed=3).actions == first).all()
    assert (walk_chunk(rules, 1, 50, seed=3).actions != first).any()
    assert (walk_chunk(rules, 0, 50, seed=4).actions != first).any()


def test_chunks_are_even_and_complete() -> None:
    for episodes in (1, 999, 1000, 1001, 5000):
        sizes = chunk_sizes(episodes)
        assert sum(sizes) == episodes
        assert all(size % 2 == 0 for size in sizes[:-1])
