"""Whole games in the terminal, driven by keys: what a person sees and what is counted."""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from textrl.envs.wordle.game import colours_of, encode_words, score
from textrl.envs.wordle.play.daily import number_of_day, word_of_day
from textrl.envs.wordle.play.duel import Duel
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.record import load_record
from textrl.envs.wordle.play.screen import Look
from textrl.envs.wordle.play.terminal import Table, play
from textrl.envs.wordle.words import WordList

TAB, ENTER, BACK, ESCAPE = "tab", "enter", "backspace", "escape"


class Script:
    """A terminal whose keys are written down; it keeps every screen."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.screens: list[str] = []
        self.copied = ""

    def show(self, lines: list[str]) -> None:
        self.screens.append(re.sub(r"\033\[[0-9;]*m", "", "\n".join(lines)))

    def key(self) -> str:
        return self.keys.pop(0) if self.keys else "end"

    def copy(self, text: str) -> None:
        self.copied = text


@pytest.fixture
def table(opponent: Opponent, tmp_path: Path) -> Table:
    look = Look(80, 24, {})
    rng = np.random.default_rng(0)
    return Table(opponent, Script(), lambda: look, tmp_path / "games.json", rng)


def drive(table: Table, *keys: str | Iterable[str]) -> list[str]:
    """Press the keys (words letter by letter), then close the input; give the screens."""
    names = (TAB, ENTER, BACK, ESCAPE, "redraw")
    script = table.keys
    assert isinstance(script, Script)
    script.screens = []
    script.keys = [key for word in keys for key in ([word] if word in names else word)]
    play(table)
    return script.screens


def answer_of_next_race(table: Table) -> str:
    state = table.rng.bit_generator.state
    answers = table.opponent.task.words.answers
    answer = answers[table.rng.integers(len(answers))]
    table.rng.bit_generator.state = state
    return answer


def test_a_race_hides_the_models_board_until_the_end(table: Table, words: WordList) -> None:
    answer = answer_of_next_race(table)
    others = [word for word in words.answers if word != answer][:2]
    first = table.opponent.guess(Duel(words, "watch", answer)).word  # the same in any game
    screens = drive(table, "r", others[0], ENTER, others[1], ENTER, answer, ENTER, TAB, TAB)
    *under_way, over, first_thought, second_thought = screens
    spelled = r"\W+".join(first.upper())
    assert not any(re.search(spelled, shown.split("_", 1)[0][-200:]) for shown in under_way[:2])
    assert re.search(spelled, over)
    assert under_way[-1].count("?     ?     ?     ?     ?") == 2
    assert f"The word was {answer.upper()}: you needed 3 guesses" in over
    assert "?" not in over.splitlines()[4]
    assert "guess 1:" in first_thought and "policy" in first_thought
    assert "guess 2:" in second_thought
    record = load_record(table.record_path, table.opponent.identity)
    assert sum(record.yours) == 1 and record.yours[2] == 1 and sum(record.models) == 1
    assert record.won + record.drawn + record.lost == 1


def test_wrong_words_cost_nothing(table: Table) -> None:
    screens = drive(table, "r", "qqqqq", ENTER, *[BACK] * 5, "cra", ENTER)
    assert "QQQQQ is not in the dictionary" in screens[7]
    assert "5 letters" in screens[-1]
    assert load_record(table.record_path, table.opponent.identity).yours == (0,) * 7


def test_leaving_a_game_is_asked_for_and_not_counted(table: Table) -> None:
    screens = drive(table, "r", "crane", ENTER, ESCAPE, "s", ESCAPE, ESCAPE)
    assert "Esc again leaves it" in screens[-4]
    assert "Esc again" not in screens[-3]  # another key goes on
    assert "Press a letter" in screens[-1]
    assert not table.record_path.exists()


def test_the_model_guesses_a_word_that_was_typed(table: Table, words: WordList) -> None:
    screens = drive(table, "s", "house", ENTER, *[BACK] * 5, "fjord", *[ENTER] * 7)
    assert any("HOUSE is not one of the 14 words" in shown for shown in screens)
    over = next(shown for shown in screens if "It found FJORD in" in shown)
    assert "guess" in over and "[ F ] [ J ] [ O ] [ R ] [ D ]" in over
    assert sum(load_record(table.record_path, table.opponent.identity).stump) == 1


def test_typed_colours_lead_it_to_the_word(table: Table, words: WordList) -> None:
    keys: list[str] = ["s", ENTER]
    hidden, found = "plumb", False
    for _ in range(6):
        said = re.findall(r"It says (\w+)", drive(table, *keys)[-1])[-1].lower()
        colours = colours_of(score(encode_words([said])[0], encode_words([hidden])[0]))
        keys += ["".join("byg"[colour] for colour in colours), ENTER]
        if said == hidden:
            found = True
            break
    assert found
    assert "It found PLUMB" in drive(table, *keys)[-1]
    assert sum(load_record(table.record_path, table.opponent.identity).stump) == 1


def test_contradictory_colours_are_noticed_explained_and_taken_back(table: Table) -> None:
    early = drive(table, "s", ENTER, "gg", ENTER)
    assert "Colour all 5 letters first" in early[-1]
    said = re.findall(r"It says (\w+)", early[-2])[-1].lower()
    stuck = drive(table, "s", ENTER, "ggggy", ENTER)[-1]
    assert "No word at all fits these colours" in stuck
    judged = drive(table, "s", ENTER, "ggggy", ENTER, "fjord", ENTER)[-1]
    assert f"For FJORD the colours of guess 1, {said.upper()}, should have been" in " ".join(
        judged.split()
    )
    back = drive(table, "s", ENTER, "ggggy", ENTER, BACK)[-1]
    assert f"It says {said.upper()}: g g g g y" in back
    mended = drive(table, "s", ENTER, "ggggy", ENTER, BACK, *[BACK] * 5, "ggggg", ENTER)[-1]
    assert f"It found {said.upper()} in 1" in mended


def test_nothing_to_take_back_is_said(table: Table) -> None:
    assert "no colours to take back" in drive(table, "s", ENTER, BACK)[-1]


def test_watching_shows_each_guess_and_counts_nothing(table: Table) -> None:
    screens = drive(table, "w", *[ENTER] * 6)
    assert "Its thoughts will stand here" in screens[1]
    assert "guess 1:" in screens[2] and "words left 12 ->" in screens[2]
    assert not table.record_path.exists()


def test_a_disk_that_is_full_does_not_end_the_game(table: Table) -> None:
    table.record_path = Path("/proc/nowhere/games.json")
    answer = answer_of_next_race(table)
    over = " ".join(drive(table, "r", answer, ENTER)[-1].split())
    assert "you needed 1 guesses" in over and "cannot be kept" in over


def test_a_new_window_size_is_drawn_at_once(table: Table) -> None:
    looks = [Look(80, 24, {}), Look(80, 24, {}), Look(40, 18, {})]
    table.look = lambda: looks.pop(0) if len(looks) > 1 else looks[0]
    wide, _, narrow = drive(table, "r", "redraw")[:3]
    assert max(map(len, narrow.splitlines())) <= 40 < max(map(len, wide.splitlines()))


def test_words_and_tally_are_shown(table: Table) -> None:
    screens = drive(table, "l", ESCAPE, "t")
    assert "14 words" in screens[1] and "fjord" in screens[1]
    assert "your guesses" in screens[3] and "stump the model: 0" in screens[3]


def test_a_finished_game_is_analysed_and_shared(table: Table, words: WordList) -> None:
    answer = answer_of_next_race(table)
    other = next(word for word in words.answers if word != answer)
    screens = drive(table, "r", other, ENTER, answer, ENTER, "a", TAB, ESCAPE, "s", ESCAPE, ESCAPE)
    told = next(shown for shown in screens if "Analysis, page 1" in shown)
    assert "You lost " in told and f"{other.upper()} words left 12 -> " in told
    assert "t would play" in told
    shared = next(shown for shown in screens if "Select it to copy it" in shown)
    assert "textrl Wordle: me 2/6, the model" in shared
    assert isinstance(table.keys, Script)
    assert table.keys.copied.splitlines()[2] == "\N{LARGE GREEN SQUARE}" * 5
    assert "Press a letter" in screens[-1]


def test_its_guesses_are_explained_in_a_sentence(table: Table) -> None:
    shown = drive(table, "w", ENTER)[-1]
    assert "It plays " in shown


def test_the_daily_word_in_the_terminal(table: Table, words: WordList) -> None:
    number = number_of_day()
    screens = drive(table, "d", word_of_day(words, number), ENTER, "s")
    assert f"Wordle: day {number}" in screens[1]
    assert f"textrl Wordle #{number}: me 1/6" in screens[-1]
