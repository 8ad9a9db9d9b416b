"""The best known tree of the full list: it plays as it claims, and searching finds such trees."""

import json
from pathlib import Path

import pytest

from textrl.envs.wordle import best_known as module
from textrl.envs.wordle.best_known import (
    FILE,
    best_known,
    bound_cost,
    listed,
    planted,
    search_tree,
)
from textrl.envs.wordle.decisions import wrong_guesses
from textrl.envs.wordle.optimal import search
from textrl.envs.wordle.players import partition_tree
from textrl.envs.wordle.words import WordList, load_words

SMALL = ("crane", "crate", "slate", "stale", "abbey", "kebab", "eerie", "geese", "speed", "moist")
SMALL_LIST = WordList("small", SMALL, (*SMALL, "trace", "least", "blimp"))


def test_the_file_s_tree_plays_as_it_claims() -> None:
    words = load_words("full")
    known = best_known(words)
    assert known is not None
    assert known.bound <= known.cost == wrong_guesses(known.tree, words.table).sum()
    partitions = wrong_guesses(partition_tree(words), words.table).sum()
    assert known.cost < partitions
    assert best_known(load_words("paper")) is None


@pytest.mark.parametrize("damage", ["cost", "tree", "words", "half"])
def test_a_file_that_is_wrong_counts_for_nothing(tmp_path: Path, damage: str) -> None:
    stored = json.loads(FILE.read_text())
    broken = {
        "cost": json.dumps(stored | {"cost": stored["cost"] - 1}),
        "tree": json.dumps(stored | {"tree": stored["tree"][:-12]}),
        "words": json.dumps(stored | {"words": "0"}),
        "half": FILE.read_text()[:100],
    }[damage]
    path = tmp_path / "tree.json"
    path.write_text(broken)
    assert best_known(load_words("full"), path) is None


def test_a_tree_is_its_guesses_in_order() -> None:
    play = search(SMALL_LIST.table)
    assert play is not None
    assert planted(listed(play.tree, SMALL_LIST), SMALL_LIST) == play.tree


def test_a_search_that_looks_at_everything_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    play = search(SMALL_LIST.table)
    assert play is not None
    monkeypatch.setattr(module, "STAGES", ((2, 1), (100, 100)))
    tree, cost = search_tree(SMALL_LIST, seconds=60)
    assert cost == play.cost == wrong_guesses(tree, SMALL_LIST.table).sum()
    assert bound_cost(SMALL_LIST, seconds=0) <= bound_cost(SMALL_LIST, seconds=60) <= play.cost
