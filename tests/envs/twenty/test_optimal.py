"""Exact search: right in worlds small enough for brute force; its tree scores what it claims."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.twenty import optimal
from textrl.envs.twenty.optimal import Decision, Table, optimal_play, search, wasted_turns
from textrl.envs.twenty.players import halving_tree, random_score
from textrl.envs.twenty.things import World


def brute_force_cost(table: Table, turns: int) -> int:
    """The definition: try every question for every set, also useless ones, without any bound."""
    questions, things = table.shape

    @cache
    def cost(possible: frozenset[int], turns_left: int) -> int:
        if not possible or not turns_left:
            return 0
        options = []
        for question in range(questions):
            left = possible - {question - (questions - things)}
            yes = frozenset(thing for thing in left if table[question, thing])
            parts = (yes, left - yes)
            options.append(len(left) + sum(cost(part, turns_left - 1) for part in parts))
        return min(options)

    return cost(frozenset(range(things)), turns)


@pytest.mark.parametrize("seed", range(25))
def test_search_agrees_with_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Few questions, some rare: splits are poor, and naming things is often better.
    kinds = rng.random((3 + seed % 3, 7)) < rng.choice([0.15, 0.5])
    table = np.concatenate([kinds, np.eye(7, dtype=bool)])
    play = search(table)
    assert play.cost == wasted_turns(play.tree, table).sum() == brute_force_cost(table, 8)
    for turns in (1, 2, 3, 5):
        assert search(table, turns).cost == brute_force_cost(table, turns)


def test_the_limit_of_turns_is_part_of_the_game() -> None:
    # No questions but guesses: those named in time waste 0, 1, 2, 3, 4, the other three all five.
    assert search(np.eye(8, dtype=bool), turns=5).cost == 0 + 1 + 2 + 3 + 4 + 3 * 5


def test_the_small_world_by_hand(zoo: World) -> None:
    # One question and a guess in each half: 4 + (0 + 1) + (0 + 1). Guessing one by one: 0 + 1 + 2
    # + 3. Two questions that tell all four apart would cost two each.
    play = search(zoo.table)
    assert play.cost == 6
    assert sorted(wasted_turns(play.tree, zoo.table)) in ([0, 1, 2, 3], [1, 1, 2, 2])


def test_the_optimum_of_the_world(world: World) -> None:
    play = optimal_play(world)
    wasted = wasted_turns(play.tree, world.table)
    assert play.cost == wasted.sum() == 496
    assert wasted.max() < 20
    # No play beats halves that are always equal: with 80 things, 64 leaves at depth 6 at best.
    assert optimal.least_cost(80, 20) <= play.cost
    halving = wasted_turns(halving_tree(world), world.table).sum()
    assert play.cost < halving < 1.05 * play.cost


def test_wasted_turns_of_a_tree_by_hand(zoo: World) -> None:
    animal, ant, bat, car = 0, 3, 4, 5
    ants_first = Decision(ant, Decision(bat, None, None), None)
    tree = Decision(animal, no=Decision(car, None, None), yes=ants_first)
    # The kite is never named: whoever has no further question loses the game.
    assert wasted_turns(tree, zoo.table).tolist() == [1, 2, 1, 20]


def test_halving_by_hand(zoo: World) -> None:
    tree = halving_tree(zoo)
    # Animal halves the four and comes first; each half has two things, and its first is named.
    assert tree.question == 0
    assert wasted_turns(tree, zoo.table).tolist() == [1, 2, 1, 2]


def test_the_random_score_by_simulation(zoo: World) -> None:
    rng = np.random.default_rng(0)
    asked = rng.integers(7, size=(20_000, 20))
    wasted = np.where((asked == 3).any(axis=1), (asked == 3).argmax(axis=1), 20)
    assert random_score(zoo) == pytest.approx(-wasted.mean(), abs=0.15)


def test_the_cache_is_used_only_if_it_is_whole(
    zoo: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path))
    play = optimal_play(zoo)
    (file,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(optimal, "search", None)  # calling it would fail
        assert optimal_play(zoo) == play
    stored = json.loads(file.read_text())
    for damage in ("", "[]", json.dumps({**stored, "cost": 5}), json.dumps({"cost": 0})):
        file.write_text(damage)
        assert optimal_play(zoo) == play
        assert json.loads(file.read_text()) == stored
