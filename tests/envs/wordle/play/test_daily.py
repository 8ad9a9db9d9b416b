"""The word of the day: from the date alone, none again before all others, the same everywhere."""

from datetime import date

from textrl.envs.wordle.play.daily import FIRST_DAY, number_of_day, word_of_day
from textrl.envs.wordle.play.duel import begin_daily
from textrl.envs.wordle.words import WordList, load_words


def test_days_are_numbered_from_one() -> None:
    assert number_of_day(FIRST_DAY) == 1
    assert number_of_day(date(2027, 1, 1)) == 366
    assert number_of_day() > 300


def test_no_word_comes_again_before_all_others_have(words: WordList) -> None:
    assert len(words.answers) == 12
    first = [word_of_day(words, number) for number in range(1, 13)]
    second = [word_of_day(words, number) for number in range(13, 25)]
    assert sorted(first) == sorted(second) == sorted(words.answers)
    assert first != second


def test_the_order_is_that_of_no_library() -> None:
    """Written down: another Python, NumPy or machine must not play another word."""
    words = load_words("paper")
    days = [word_of_day(words, number) for number in (1, 2, 3, 322, 100_000)]
    assert days == ["stray", "frond", "furry", "shrub", "loose"]


def test_a_daily_race_is_for_that_word(words: WordList) -> None:
    duel = begin_daily(words, 5)
    assert duel.mode == "race" and duel.day == 5 and duel.answer == word_of_day(words, 5)
