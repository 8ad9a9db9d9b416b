"""What the terminal shows: it fits any window, and nothing depends on colours alone."""

import re

import pytest

from textrl.acting.policy import Thought
from textrl.envs.wordle.play import screen, views
from textrl.envs.wordle.play.duel import Duel, Guess, Option, Row
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.record import Record
from textrl.envs.wordle.play.screen import (
    MANY_COLOURS,
    SIXTEEN_COLOURS,
    Look,
    View,
    compose,
    look_of,
)
from textrl.envs.wordle.words import WordList

PLAIN = Look(80, 24, {})
ROW = Row(Guess("crane"), 1 * 3**1 + 2 * 3**4, 12)  # c black, r yellow, a, n black, e green


def bare(text: str) -> str:
    return re.sub(r"\033\[[0-9;]*m", "", text)


def test_marks_tell_the_colours_without_colours() -> None:
    assert screen.tiles("crane", ROW.colours, PLAIN) == "  C   ( R )   A     N   [ E ]"
    keys = screen.keyboard({"c": 0, "r": 1, "e": 2}, PLAIN)
    assert keys[0] == " q  w [e](r) t  y  u  i  o  p "
    assert keys[2] == "   z  x  .  v  b  n  m "


def test_colours_only_add_to_the_marks() -> None:
    for colours in (SIXTEEN_COLOURS, MANY_COLOURS):
        painted = screen.tiles("crane", ROW.colours, Look(80, 24, colours))
        assert bare(painted) == screen.tiles("crane", ROW.colours, PLAIN)
        assert painted.count("\033[0m") == 5
        # Text and background are set together, so that it reads on dark and light terminals.
        for codes in colours.values():
            assert re.search(r"(^|;)(3[0-7]|9[0-7]|38;5;\d+)(;|$)", codes)
            assert re.search(r"(^|;)(4[0-7]|10[0-7]|48;5;\d+)(;|$)", codes)


def test_the_environment_chooses_the_colours() -> None:
    assert look_of(80, 24, "UTF-8", {"TERM": "xterm-256color"}).colours == MANY_COLOURS
    assert look_of(80, 24, "UTF-8", {"TERM": "xterm"}).colours == SIXTEEN_COLOURS
    assert look_of(80, 24, "UTF-8", {"TERM": "xterm-256color", "NO_COLOR": "1"}).colours == {}
    assert not look_of(80, 24, "ascii", {}).is_unicode


def test_bars() -> None:
    assert screen.bar(0.5, 8, PLAIN) == "████    "
    assert screen.bar(1.0, 3, Look(80, 24, {}, is_unicode=False)) == "###"
    assert screen.bar(0.0, 3, PLAIN) == "   "


def thought(**changes: object) -> Thought:
    values: dict[str, object] = {
        "chosen": 2,
        "tokens": (2, 17, 0),
        "chance": (0.7, 0.2, 0.1),
        "policy": (0.5, 0.4, 0.1),
        "q": (-1.25, -1.5, -2.0),
        "v": -1.4,
    }
    return Thought(**{**values, **changes})  # type: ignore[arg-type]


def test_thoughts_show_what_there_is() -> None:
    lines = [
        bare(line) for line in screen.thinking(2, Guess("crane", (thought(),)), 40, "3", PLAIN)
    ]
    assert lines[0] == "guess 2: CRANE   words left 40 -> 3"
    assert lines[2].split() == ["policy", "Q", "V"]
    assert lines[3].split() == ["1", ">", "C", "████", "50%", "2.25", "2.40"]
    assert lines[4].split() == ["r", "███", "40%", "2.50"]
    imitator = Guess("crane", (thought(q=None, v=None),))
    lines = [bare(line) for line in screen.thinking(1, imitator, 40, None, PLAIN)]
    assert lines[0].endswith("words left 40") and lines[2].split() == ["policy"]
    assert lines[3].split()[-1] == "50%"
    valuer = Guess("crane", (thought(policy=None, v=None),))
    lines = [bare(line) for line in screen.thinking(1, valuer, 40, None, PLAIN)]
    assert lines[2].split() == ["chance", "Q"]
    assert lines[3].split() == ["1", ">", "C", "██████", "70%", "2.25"]


def test_a_thought_begins_with_its_sentence() -> None:
    options = (Option("crane", 0.6, -1.25), Option("slate", 0.2, -1.5))
    guess = Guess("crane", (thought(),), options)
    lines = [bare(line) for line in screen.thinking(1, guess, 40, "found", PLAIN)]
    assert lines[0].endswith("words left 40 -> found")
    sentence = "Most people play CRANE here (60 %), and its values agree: 2.2 guesses to go."
    assert " ".join(lines[1:3]) == sentence
    assert all(len(line) <= 80 - 37 - 3 for line in lines[1:3])


def test_no_value_is_better_than_one_guess() -> None:
    lines = screen.thinking(
        1, Guess("crane", (thought(v=0.3, q=(0.2, -0.001, -2.0)),)), 4, "1", PLAIN
    )
    shown = " ".join(bare(line) for line in lines)
    assert "-0.00" not in shown and shown.count("1.00") == 3


def test_a_low_window_shows_fewer_letters_but_the_chosen_one() -> None:
    lines = screen.thought_lines(1, thought(chosen=0), 9, PLAIN)
    assert len(lines) == 1 and "> A" in bare(lines[0])
    assert len(screen.thought_lines(1, thought(), 16, PLAIN)) == 3


@pytest.fixture(scope="module")
def over(opponent: Opponent, words: WordList) -> Duel:
    """A race that both have lost."""
    return opponent.move(Duel(words, "race", "slate", (ROW,) * 6))


@pytest.mark.parametrize("columns", [10, 31, 32, 40, 75, 76, 80, 200])
@pytest.mark.parametrize("rows", [5, 15, 16, 23, 24, 60])
def test_every_screen_fits_its_window(
    opponent: Opponent, words: WordList, over: Duel, columns: int, rows: int
) -> None:
    look = Look(columns, rows, MANY_COLOURS)
    watched = Duel(words, "watch", "slate", (), over.models)
    stuck = Duel(words, "stump", None, (), (ROW, Row(Guess("crane"), 1, 0)))
    shown: list[View] = [
        views.race(opponent, Record(), look, over, "", "A long message. " * 20, 0),
        views.race(opponent, Record(), look, Duel(words, "race", "slate"), "cra", "", 1),
        views.alone(opponent, Record(), look, watched, 1),
        views.by_colours(opponent, Record(), look, stuck, (), "sla", "", 0),
        views.ask_word(opponent, Record(), look, "sl", "No."),
        views.menu(opponent, Record(), look),
        views.words(opponent, Record(), look, 3),
        views.tally(opponent, Record(), look, 0),
    ]
    for view in shown:
        lines = compose(view, look)
        assert len(lines) <= rows
        assert max(map(screen.width, lines)) <= columns
    race = [bare(line) for line in compose(shown[0], look)]
    is_large_enough = columns >= 32 and rows >= 16
    assert sum("C   ( R )   A     N   [ E ]" in line for line in race) == 6 * is_large_enough
    assert sum("z  x  .  v  b  .  m" in line for line in race) == is_large_enough
    assert is_large_enough or " ".join(race).startswith("This window")


def test_clipping_keeps_escapes_whole() -> None:
    assert screen.clip("ab\033[1mcd\033[0mef", 3) == "ab\033[1mc\033[0m"
    assert screen.clip("abc", 3) == "abc"


def test_wrapping() -> None:
    assert screen.wrap("one two three", 8) == ["one two", "three"]
    assert screen.wrap("", 8) == []
