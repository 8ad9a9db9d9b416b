"""A finished game judged: exact regrets, luck by hand, and an estimate for long lists."""

import numpy as np
import pytest

from textrl.envs.wordle.decisions import split
from textrl.envs.wordle.optimal import Search
from textrl.envs.wordle.play.analysis import Analysis, analyse, judge_board, method_for, summary
from textrl.envs.wordle.play.duel import Duel, Guess, begin_stump, fitting, models_guess, your_guess
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.regret import regret_by_guess, regret_by_partitions, regret_of
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError


def played(words: WordList, answer: str, *guesses: str) -> Duel:
    duel = Duel(words, "watch", answer)
    for word in guesses:
        duel = models_guess(duel, Guess(word))
    return duel


def test_what_is_lost_adds_up_to_what_the_game_cost(words: WordList) -> None:
    """Over all answers the regrets are the difference of the mean score and the optimum."""
    index = {word: number for number, word in enumerate(words.guesses)}
    games, lost, score = [], 0.0, 0
    for answer in words.answers:
        duel = played(words, answer, "moist")
        while duel.is_models_turn:  # always the first word that fits
            first = words.guesses[fitting(duel, duel.models)[0]]
            duel = models_guess(duel, Guess(first))
        judged = judge_board(duel, duel.models, [""] * len(duel.models), "exact")
        lost += sum(each.lost or 0.0 for each in judged)
        score += sum(row.word != answer for row in duel.models)
        rows = duel.models
        games.append(([index[row.word] for row in rows], [row.pattern for row in rows]))
    best, _ = Search(words.table).solve(np.arange(len(words.answers)), 6)
    assert lost / 12 == pytest.approx((score - best) / 12)
    by_guess = regret_by_guess(words, games)
    assert by_guess is not None and sum(by_guess) == pytest.approx(lost / 12)


def test_luck_and_words_left_by_hand(words: WordList) -> None:
    duel = played(words, "slate", "crane", "slate")
    first, second = judge_board(duel, duel.models, ["", ""], "exact")
    # crane splits the twelve: into how many parts, and how large is that of slate and stale?
    parts = [len(part) for part in split(words.table, 0, np.arange(12)).values()]
    assert sum(parts) == 11  # and crane itself
    assert (first.before, first.after) == (12, 2)
    assert first.expected == pytest.approx((sum(size**2 for size in parts) + 1) / 12)
    more = sum(size for size in parts if size > 2)
    assert first.luck == pytest.approx((more + 2 / 2 * parts.count(2)) / 12)
    assert (second.before, second.after, second.is_right, second.luck) == (2, 1, True, 0.75)
    assert second.lost == 0.0 and second.best in ("slate", "stale")


def test_the_last_word_that_is_possible_takes_no_luck(words: WordList) -> None:
    duel = played(words, "fjord", "crane", "fjord")
    assert duel.models[0].left == 1
    assert judge_board(duel, duel.models, ["", ""], "exact")[1].luck is None


def test_a_word_from_outside_the_list_may_be_better_than_any_in_it() -> None:
    """Two groups of two that only an outsider tells apart."""
    table = np.array([[242, 1, 1, 1], [1, 242, 1, 1], [1, 1, 242, 1], [1, 1, 1, 242]], np.uint8)
    everything = np.arange(4)
    outsider = np.array([0, 1, 2, 3], dtype=np.uint8)
    # Inside: wrong guesses 0 + 1 + 2 + 3; outside: one for each of the four.
    regret = regret_of(Search(table), outsider, everything, guesses_left=6)
    assert regret.lost == pytest.approx((4 - 6) / 4)
    estimate = regret_by_partitions(table, outsider, everything, guesses_left=6)
    assert estimate.lost == pytest.approx(((8 - 4) - (8 - 2 - 1)) / 4)
    last = regret_by_partitions(table, outsider, everything, guesses_left=1)
    assert last.lost == pytest.approx(1 / 4)


def test_partitions_never_lose_where_nothing_splits_better(words: WordList) -> None:
    everything = np.arange(len(words.answers))
    lost = [
        regret_by_partitions(words.table, words.table[guess], everything, 6).lost
        for guess in range(len(words.guesses))
    ]
    assert min(lost) == 0.0 and max(lost) > 0.0


def test_how_a_list_is_judged(words: WordList) -> None:
    full = load_words("full")
    assert method_for(Duel(words, "race", "slate")) == "exact"
    assert method_for(Duel(full, "race", "slate")) == "partitions"
    assert method_for(begin_stump(full, "slate")) == ""  # any of the guesses could be hidden


def test_a_race_is_analysed_with_the_models_advice(opponent: Opponent, words: WordList) -> None:
    duel = Duel(words, "race", "slate")
    with pytest.raises(UserError, match="when it is over"):
        analyse(duel, opponent)
    for word in ("house", "crane", "slate"):
        duel = opponent.move(your_guess(duel, word))
    analysis = analyse(duel, opponent)
    assert [each.word for each in analysis.yours] == ["house", "crane", "slate"]
    assert all("t would play" in each.sentence for each in analysis.yours)
    assert [each.sentence for each in analysis.models] != [""] * len(analysis.models)
    assert summary(analysis, "You", analysis.yours).startswith("You lost ")
    assert summary(Analysis((), (), ""), "You", ()) == ""
