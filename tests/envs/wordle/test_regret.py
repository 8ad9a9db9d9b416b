"""What each guess loses: nothing in perfect play, and in any play it adds up to the distance."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.wordle import optimal
from textrl.envs.wordle.decisions import Decision
from textrl.envs.wordle.game import ALL_GREEN, MAX_GUESSES
from textrl.envs.wordle.optimal import optimal_play
from textrl.envs.wordle.players import partition_tree
from textrl.envs.wordle.regret import Game, regret_by_guess
from textrl.envs.wordle.words import WordList, load_words

RHYMES = tuple(f"{letter}atch" for letter in "bchlmnpwx")
RHYMES_LIST = WordList("rhymes", RHYMES, RHYMES)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path / "cache"))


def games_of(words: WordList, choose: Callable[[int, list[int]], int]) -> list[Game]:
    """Every answer played once; choose: answer and patterns so far -> guess."""
    games = []
    for answer in range(len(words.answers)):
        guesses: list[int] = []
        patterns: list[int] = []
        while len(guesses) < MAX_GUESSES and ALL_GREEN not in patterns:
            guesses.append(choose(answer, patterns))
            patterns.append(int(words.table[guesses[-1], answer]))
        games.append((guesses, patterns))
    return games


def follow(tree: Decision) -> Callable[[int, list[int]], int]:
    def choose(_: int, patterns: list[int]) -> int:
        decision = tree
        for pattern in patterns:
            decision = decision.replies[pattern]
        return decision.guess

    return choose


def test_perfect_play_loses_nothing() -> None:
    words = load_words("paper")
    best = optimal_play(words)
    assert best is not None
    assert regret_by_guess(words, games_of(words, follow(best.tree))) == [0.0] * MAX_GUESSES


def test_the_losses_add_up_to_the_distance_from_the_optimum() -> None:
    words = load_words("paper")
    best = optimal_play(words)
    assert best is not None
    # The third guess repeats the first, which tells nothing; else play as the greedy player does.
    tree = follow(partition_tree(words))

    def choose(answer: int, patterns: list[int]) -> int:
        if len(patterns) == 2:
            return tree(answer, [])
        return tree(answer, patterns if len(patterns) < 2 else patterns[:2] + patterns[3:])

    games = games_of(words, choose)
    wrong = sum(len(guesses) - (ALL_GREEN in patterns) for guesses, patterns in games)
    lost = regret_by_guess(words, games)
    assert lost is not None
    assert lost[2] > 0.5  # most games are still going on then, and the guess is wasted
    assert sum(lost) == pytest.approx((wrong - best.cost) / len(games), abs=1e-12)


def test_by_hand_on_rhymes() -> None:
    # All of -atch: a guess tells only whether it is right, so nothing can be lost but by repeating.
    # Nine answers: the first game repeats its wrong first guess, with five guesses left for eight
    # answers. Five new guesses find five of eight; four find four: one more is lost, and each of
    # the others is found one guess later.
    first = (0, 0, 1)
    patterns = [int(RHYMES_LIST.table[guess, 1]) for guess in first]
    lost = regret_by_guess(RHYMES_LIST, [(first, patterns)])
    best = sum(range(5)) + 3 * 5  # wrong guesses of eight answers with five guesses left
    with_one_wasted = sum(range(1, 5)) + 4 * 5
    assert lost == pytest.approx([0, (with_one_wasted - best) / 8, 0, 0, 0, 0])


def test_the_last_guess_can_be_wasted_too() -> None:
    guesses = [0, 1, 2, 3, 4, 0]
    patterns = [int(RHYMES_LIST.table[guess, 8]) for guess in guesses]
    lost = regret_by_guess(RHYMES_LIST, [(guesses, patterns)])
    assert lost == pytest.approx([0, 0, 0, 0, 0, 1 / 4])  # four are possible, one would be right


def test_unknown_where_it_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    game = ([0, 1], [int(RHYMES_LIST.table[0, 1]), ALL_GREEN])
    assert regret_by_guess(RHYMES_LIST, [game]) is not None
    assert regret_by_guess(RHYMES_LIST, [([-1, 1], game[1])]) is None  # not a word of the list
    monkeypatch.setattr(optimal, "SEARCH_LIMIT", 10)
    small = WordList("other", RHYMES[:8], RHYMES[:8])
    assert regret_by_guess(small, [([0], [int(np.uint8(ALL_GREEN))])]) is None
