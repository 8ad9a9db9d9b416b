"""The moves of a duel: whose turn it is, what fits, who wins, what can be taken back."""

import numpy as np
import pytest

from textrl.envs.wordle.game import ALL_GREEN
from textrl.envs.wordle.play import duel as moves
from textrl.envs.wordle.play.duel import Duel, Guess
from textrl.envs.wordle.play.share import share_text
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

# The twelve: crane crate slate stale abbey kebab eerie geese speed moist plumb fjord.


def pattern(colours: str) -> int:
    """b, y, g as a number; the first letter is the lowest digit."""
    return sum("byg".index(colour) * 3**place for place, colour in enumerate(colours))


def race(words: WordList, answer: str) -> Duel:
    return Duel(words, "race", answer)


def in_turn(duel: Duel, yours: str, models: str) -> Duel:
    duel = moves.your_guess(duel, yours)
    return moves.models_guess(duel, Guess(models)) if duel.is_models_turn else duel


def test_a_race_is_played_in_turns_and_the_faster_wins(words: WordList) -> None:
    duel = in_turn(race(words, "slate"), "crane", "moist")
    assert duel.yours[0].colours == (0, 0, 2, 0, 2)  # c r a n e against s l a t e
    assert duel.models[0].colours == (0, 0, 0, 1, 1)  # m o i s t
    assert not duel.is_over and not duel.is_models_turn
    duel = in_turn(duel, "slate", "stale")
    # The person has found it, so the model plays its board to the end.
    assert not duel.is_over and duel.is_models_turn
    duel = moves.models_guess(duel, Guess("slate"))
    assert duel.is_over and duel.winner == "you"
    assert moves.result_of(duel.yours) == 2 and moves.result_of(duel.models) == 3


def test_equal_guesses_are_a_draw_and_a_loss_is_worse_than_six(words: WordList) -> None:
    drawn = in_turn(race(words, "slate"), "slate", "slate")
    assert drawn.is_over and drawn.winner == "nobody"
    duel = race(words, "slate")
    for mine, its in zip(
        ("crane", "crate", "abbey", "kebab", "eerie", "geese"),
        ("crane", "crate", "abbey", "kebab", "eerie", "slate"),
        strict=True,
    ):
        duel = in_turn(duel, mine, its)
    assert duel.is_over and duel.winner == "model"
    assert moves.result_of(duel.yours) == 7 and moves.result_of(duel.models) == 6


def test_left_counts_the_answers_that_fit_all_rows(words: WordList) -> None:
    duel = in_turn(race(words, "slate"), "crane", "abbey")
    # Without c, r, n, with a third and e last: slate and stale.
    assert duel.yours[0].left == 2
    # a b b e y against slate: a and e yellow. Of the twelve: crane, crate, slate, stale.
    assert duel.models[0].colours == (1, 0, 0, 1, 0)
    assert duel.models[0].left == 4
    # Only answers are hidden words: trace and least fit the model's row but are only guesses.
    assert [words.guesses[i] for i in moves.fitting(duel, duel.models)] == [
        "crane",
        "crate",
        "slate",
        "stale",
    ]


def test_in_stump_every_word_that_can_be_said_may_be_hidden(words: WordList) -> None:
    duel = moves.models_guess(moves.begin_stump(words, "least"), Guess("abbey"))
    fits = {words.guesses[i] for i in moves.fitting(duel, duel.models)}
    assert fits == {"crane", "crate", "slate", "stale", "trace", "least"}
    assert duel.models[0].left == 6


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("cran", "5 letters"),
        ("crane!", "5 letters"),
        ("cr4ne", "5 letters"),
        ("crän", "5 letters"),
        ("qqqqq", "not in the dictionary"),
    ],
)
def test_wrong_words_are_refused_and_cost_nothing(words: WordList, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        moves.your_guess(race(words, "slate"), word)


def test_a_person_may_guess_dictionary_words_that_the_list_lacks(words: WordList) -> None:
    assert "house" not in words.guesses
    duel = moves.your_guess(race(words, "slate"), " HOUSE ")
    assert duel.yours[0].word == "house"
    with pytest.raises(UserError, match="not your turn"):
        moves.your_guess(duel, "crane")
    again = moves.models_guess(duel, Guess("moist"))
    with pytest.raises(UserError, match="already"):
        moves.your_guess(again, "house")


def test_the_model_can_only_be_asked_for_words_that_it_knows(words: WordList) -> None:
    assert moves.begin_stump(words, "Trace").answer == "trace"
    with pytest.raises(UserError, match="HOUSE is not one of the 14 words"):
        moves.begin_stump(words, "house")
    with pytest.raises(UserError, match=r"could never guess it: how about FJORD\?"):
        moves.begin_stump(words, "fjorb")


def test_typed_colours_wait_count_and_can_be_taken_back(words: WordList) -> None:
    duel = moves.begin_stump(words, None)
    with pytest.raises(UserError, match="no guess is waiting"):
        moves.your_colours(duel, 0)
    with pytest.raises(UserError, match="no colours to take back"):
        moves.take_back(duel)
    duel = moves.models_guess(duel, Guess("crane"))
    assert duel.said == Guess("crane") and not duel.is_models_turn
    coloured = moves.your_colours(duel, pattern("bbgbg"))
    assert coloured.models[0].left == 2 and coloured.is_models_turn  # slate, stale
    assert moves.take_back(coloured) == duel
    with pytest.raises(UserError, match="0 to 242"):
        moves.your_colours(duel, 243)


def test_contradictory_colours_stop_the_model_until_taken_back(words: WordList) -> None:
    duel = moves.models_guess(moves.begin_stump(words, None), Guess("crane"))
    duel = moves.models_guess(moves.your_colours(duel, pattern("bbbbb")), Guess("moist"))
    stuck = moves.your_colours(duel, pattern("ggggy"))  # no word can have this pattern
    assert stuck.is_stuck and not stuck.is_over and not stuck.is_models_turn
    assert moves.other_words(stuck) == []
    assert not moves.take_back(stuck).is_stuck
    odd = moves.your_colours(duel, pattern("ybbbb"))
    assert [words.guesses[i] for i in moves.fitting(odd, odd.models)] == ["plumb"]


def test_a_stuck_game_names_words_that_the_list_lacks(words: WordList) -> None:
    duel = moves.models_guess(moves.begin_stump(words, None), Guess("plumb"))
    stuck = moves.your_colours(duel, pattern("gbbbb"))  # as for "paint"
    assert stuck.is_stuck
    others = moves.other_words(stuck)
    assert "paint" in others and "plain" not in others
    assert moves.wrong_rows(stuck.models, "paint") == []
    assert moves.wrong_rows(stuck.models, "plain") == [0]


def test_all_green_ends_a_stump_and_six_misses_win_it(words: WordList) -> None:
    duel = moves.models_guess(moves.begin_stump(words, None), Guess("crane"))
    won = moves.your_colours(duel, ALL_GREEN)
    assert won.is_over and won.winner == "model" and won.models[0].left == 1
    duel = moves.begin_stump(words, "fjord")
    for word in ("crane", "crate", "slate", "stale", "abbey", "kebab"):
        duel = moves.models_guess(duel, Guess(word))
    assert duel.is_over and duel.winner == "you"


def test_keyboards_show_the_best_colour_of_a_letter(words: WordList) -> None:
    duel = in_turn(race(words, "slate"), "stale", "moist")
    duel = in_turn(duel, "least", "moist")
    # stale: s, a, e green, t and l yellow; least: a green, the rest yellow.
    assert moves.best_colours(duel.yours) == {"s": 2, "t": 1, "a": 2, "l": 1, "e": 2}


def test_the_share_text_has_squares_and_no_letters_of_the_game(words: WordList) -> None:
    duel = in_turn(in_turn(race(words, "slate"), "crane", "stale"), "slate", "slate")
    assert share_text(duel).splitlines() == [
        "textrl Wordle: me 2/6, the model 2/6",
        "⬛⬛🟩⬛🟩",
        "🟩🟩🟩🟩🟩",
        "the model:",
        "🟩🟨🟩🟨🟩",
        "🟩🟩🟩🟩🟩",
    ]


def test_hidden_words_are_drawn_from_the_answers(words: WordList) -> None:
    rng = np.random.default_rng(0)
    drawn = {moves.begin_race(words, rng).answer for _ in range(300)}
    assert drawn == set(words.answers)
