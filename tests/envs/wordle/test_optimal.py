"""Exact search: right on lists small enough for brute force, and its tree scores what it claims."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.wordle import optimal
from textrl.envs.wordle.decisions import Decision, Table, wrong_guesses
from textrl.envs.wordle.game import ALL_GREEN, MAX_GUESSES
from textrl.envs.wordle.optimal import OptimalPlay, optimal_play, search
from textrl.envs.wordle.words import WordList, load_words

RHYMES = tuple(f"{letter}atch" for letter in "bchlmnpwx")
RHYMES_LIST = WordList("rhymes", RHYMES, RHYMES)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def brute_force_cost(table: Table, guesses_allowed: int = MAX_GUESSES) -> int:
    """The definition: try every guess for every set, without any bound."""
    rows = table.tolist()

    @cache
    def cost(remaining: frozenset[int], guesses_left: int) -> int:
        if not remaining or guesses_left == 0:
            return 0
        options = []
        for row in rows:
            parts: dict[int, set[int]] = {}
            for answer in remaining:
                parts.setdefault(row[answer], set()).add(answer)
            parts.pop(ALL_GREEN, None)
            if set(remaining) not in parts.values():  # a guess that tells nothing cannot be best
                options.append(
                    sum(len(p) + cost(frozenset(p), guesses_left - 1) for p in parts.values())
                )
        return min(options)

    return cost(frozenset(range(table.shape[1])), guesses_allowed)


def one_step_bounds(table: Table) -> list[int]:
    """What each first guess would cost if every second guess were the best imaginable."""
    answers = table.shape[1]
    return [2 * answers - len(set(row)) - (ALL_GREEN in row) for row in table.tolist()]


@pytest.mark.parametrize("seed", range(30))
def test_search_agrees_with_brute_force(seed: int) -> None:
    # Ten real words make too easy a list, so invent answers that few patterns tell apart.
    table = np.random.default_rng(seed).choice(2, p=(0.8, 0.2), size=(12, 10)).astype(np.uint8)
    np.fill_diagonal(table, ALL_GREEN)
    play = search(table)
    assert play is not None
    assert wrong_guesses(play.tree, table).sum() == play.cost == brute_force_cost(table)
    assert play.cost > min(one_step_bounds(table))  # the list is not too easy for the bound

    branches = optimal.Search(table)
    for guesses_left in (6, 4, 3, 2, 1):  # one search remembers each apart
        cost, _ = branches.solve(np.arange(10), guesses_left)
        assert cost == brute_force_cost(table, guesses_left)


def test_the_limit_of_six_guesses_is_part_of_the_game() -> None:
    play = search(RHYMES_LIST.table)
    assert play is not None
    assert play.cost == 0 + 1 + 2 + 3 + 4 + 5 + 6 + 6 + 6 == brute_force_cost(RHYMES_LIST.table)
    assert sorted(wrong_guesses(play.tree, RHYMES_LIST.table)) == [0, 1, 2, 3, 4, 5, 6, 6, 6]


def test_a_guess_that_cannot_be_right_may_be_best() -> None:
    # "blimp" tells all five apart at once; guessing them one by one costs 0 + 1 + 2 + 3 + 4.
    answers = ("batch", "latch", "match", "patch", "hatch")
    words = WordList("rhymes", answers, (*answers, "blimp"))
    play = search(words.table)
    assert play is not None
    assert words.guesses[play.tree.guess] == "blimp"
    assert play.cost == 5 == brute_force_cost(words.table)


def test_paper_list_is_solved_and_its_tree_plays_to_the_cost() -> None:
    words = load_words("paper")
    play = search(words.table)
    assert play is not None
    assert wrong_guesses(play.tree, words.table).sum() == play.cost == 418


def test_large_lists_are_left_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert optimal_play(load_words("full")) is None
    monkeypatch.setattr(optimal, "SEARCH_LIMIT", 9**3)
    assert search(RHYMES_LIST.table) is None  # begun, and given up after that many cells


def test_the_cache_saves_the_search(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = optimal_play(RHYMES_LIST)
    monkeypatch.setattr(optimal, "search", lambda table: pytest.fail("searched again"))
    assert optimal_play(RHYMES_LIST) == first
    (file,) = cache_folder.iterdir()
    assert RHYMES_LIST.digest in file.name


@pytest.mark.parametrize("damage", ["truncate", "other cost", "other tree", "no object", "binary"])
def test_a_broken_cache_is_made_again(cache_folder: Path, damage: str) -> None:
    expected = optimal_play(RHYMES_LIST)
    (file,) = cache_folder.iterdir()
    stored = json.loads(file.read_text())
    content = {
        "truncate": file.read_bytes()[:100],
        "other cost": json.dumps(stored | {"cost": 1}).encode(),
        "other tree": json.dumps(stored | {"tree": {"guess": "batch", "replies": {}}}).encode(),
        "no object": b"[]",
        "binary": b"\xff\xfe\x00",
    }[damage]
    whole = file.read_bytes()
    file.write_bytes(content)
    assert optimal_play(RHYMES_LIST) == expected
    assert file.read_bytes() == whole


def test_an_unwritable_cache_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path / "file" / "cache"))
    play = optimal_play(RHYMES_LIST)
    assert isinstance(play, OptimalPlay)
    assert isinstance(play.tree, Decision)
