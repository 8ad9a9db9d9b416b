"""Wordle against a model in a terminal: a menu, and for each way to play a loop of keys."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from textrl.envs.wordle.game import BLACK, GREEN, WORD_LENGTH, YELLOW, pattern_of
from textrl.envs.wordle.play import phrases, views
from textrl.envs.wordle.play.analysis import analyse
from textrl.envs.wordle.play.daily import number_of_day
from textrl.envs.wordle.play.duel import (
    Duel,
    begin_daily,
    begin_race,
    begin_stump,
    begin_watch,
    is_won,
    models_guess,
    take_back,
    your_colours,
    your_guess,
)
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.record import Record, add_game, load_record
from textrl.envs.wordle.play.screen import Look, View, compose
from textrl.envs.wordle.play.share import share_text
from textrl.errors import UserError

COLOUR_KEYS = {"b": BLACK, "0": BLACK, "y": YELLOW, "1": YELLOW, "g": GREEN, "2": GREEN}
LEAVE = "Leave this game? Esc again leaves it, any other key goes on."


class Quit(Exception):
    """The person leaves."""


class Keys(Protocol):
    """What a game needs of a terminal."""

    def show(self, lines: list[str]) -> None:
        """Draw a screen."""

    def key(self) -> str:
        """Wait for a key."""

    def copy(self, text: str) -> None:
        """Put a text on the clipboard, where the terminal lets us."""


@dataclass
class Table:
    """Where the two sit: who plays, on what terminal, and how their games went."""

    opponent: Opponent
    keys: Keys
    look: Callable[[], Look]
    record_path: Path
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.record: Record = load_record(self.record_path, self.opponent.identity)

    def ask(self, view: Callable[..., View], *shown: object) -> str:
        """Show a screen and wait for a key; a window of another size is drawn anew."""
        while True:
            look = self.look()
            self.keys.show(compose(view(self.opponent, self.record, look, *shown), look))
            key = self.keys.key()
            if key == "end":
                raise Quit
            if key != "redraw":
                return key

    def count(self, duel: Duel) -> str:
        """Keep a finished game; what to say if the disk does not let us."""
        if duel.mode == "watch":
            return ""
        try:
            self.record = add_game(self.record_path, self.opponent.identity, duel)
        except (OSError, UserError) as error:
            self.record = self.record.with_game(duel)
            return f" (This game cannot be kept: {error})"
        return ""


def play(table: Table) -> None:
    """The menu, until the person leaves."""
    ways: dict[str, Callable[[Table], bool]] = {
        **{"r": race, "d": daily, "s": stump, "w": watch},
        **{"l": show_words, "t": show_tally},
    }
    try:
        while (key := table.ask(views.menu)) != "q":
            while key in ways and ways[key](table):
                pass  # the same again
    except Quit:
        pass


def race(table: Table) -> bool:
    """You and the model guess the same word. True: once more."""
    return race_for(table, begin_race(table.opponent.task.words, table.rng))


def daily(table: Table) -> bool:
    """You and the model guess the word of the day, of which there is one."""
    race_for(table, begin_daily(table.opponent.task.words, number_of_day()))
    return False


def race_for(table: Table, duel: Duel) -> bool:
    """A race, key by key. True: once more."""
    entry, page, is_leaving = "", 0, False
    message = "The model guesses the same word as you. Its board opens at the end."
    while True:
        key = table.ask(views.race, duel, entry, LEAVE if is_leaving else message, page)
        if key == "tab":
            page += 1
        elif duel.is_over and key in ("enter", "escape"):
            return key == "enter"
        elif duel.is_over:
            look_back(table, duel, key)
            continue
        elif key == "escape" and (is_leaving or not duel.yours):
            return False
        elif key == "enter":
            try:
                duel = table.opponent.move(your_guess(duel, entry))
                entry, page, message = "", 0, phrases.after_guess(duel)
            except UserError as error:
                message = str(error)
            if duel.is_over:
                message = phrases.race_result(duel) + table.count(duel)
        else:
            entry = typed(entry, key)
            message = ""
        is_leaving = key == "escape"


def stump(table: Table) -> bool:
    """The model guesses your word. True: once more."""
    entry, message = "", ""
    while True:
        key = table.ask(views.ask_word, entry, message)
        entry, message = typed(entry, key), ""
        if key == "escape":
            return False
        if key == "enter":
            try:
                duel = begin_stump(table.opponent.task.words, entry or None)
                return step_by_step(table, duel) if entry else by_colours(table, duel)
            except UserError as error:
                message = str(error)


def watch(table: Table) -> bool:
    """The model plays alone. True: once more."""
    return step_by_step(table, begin_watch(table.opponent.task.words, table.rng))


def step_by_step(table: Table, duel: Duel) -> bool:
    """The model guesses a word that is known to us, one guess a key."""
    page = 0
    while True:
        key = table.ask(views.alone, duel, page)
        if key == "escape":
            return False
        if key == "tab":
            page += 1
        elif key in ("enter", " "):
            if duel.is_over:
                return True
            duel, page = models_guess(duel, table.opponent.guess(duel)), 0
            if duel.is_over:
                table.count(duel)
        elif duel.is_over:
            look_back(table, duel, key)


def by_colours(table: Table, duel: Duel) -> bool:
    """The model guesses a word that only the person knows, who colours each guess."""
    colours: tuple[int, ...] = ()
    entry, message, page, is_leaving = "", "", 0, False
    duel = table.opponent.move(duel)
    try:
        while True:
            shown = LEAVE if is_leaving else message
            key = table.ask(views.by_colours, duel, colours, entry, shown, page)
            is_asked_word = duel.is_stuck or (duel.is_over and not is_won(duel.models))
            message = ""
            if key == "tab":
                page += 1
            elif key == "escape" and (is_leaving or duel.is_over or not duel.models):
                return False
            elif key == "enter" and is_asked_word and entry:
                message, entry = phrases.judge_word(duel, entry), ""
            elif key == "enter" and duel.is_over:
                return True
            elif key == "enter" and len(colours) == WORD_LENGTH:
                pattern = int(pattern_of(np.array(colours, dtype=np.uint8)))
                duel = table.opponent.move(your_colours(duel, pattern))
                colours, page = (), 0
            elif key == "enter" and duel.said is not None:
                message = f"Colour all {WORD_LENGTH} letters first: g, y or b for each."
            elif key == "backspace" and not (colours or entry):
                try:
                    colours = taken_back_colours(duel)
                    duel, page = take_back(duel), 0
                except UserError as error:
                    message = str(error)
            elif is_asked_word:
                entry = typed(entry, key)
            elif key == "backspace":
                colours = colours[:-1]
            elif key in COLOUR_KEYS and duel.said is not None:
                colours = (*colours, COLOUR_KEYS[key])[:WORD_LENGTH]
            is_leaving = key == "escape"
    finally:  # only now: until then the last colours could be taken back
        if duel.is_over:
            table.count(duel)


def taken_back_colours(duel: Duel) -> tuple[int, ...]:
    """The colours that taking back brings back for correction."""
    return duel.models[-1].colours if duel.models else ()


def look_back(table: Table, duel: Duel, key: str) -> None:
    """What can be done with a finished game: its analysis, and its text for others."""
    if key == "a":
        told, page = analyse(duel, table.opponent), 0
        while table.ask(views.analysis, told, page) in ("tab", "enter", " ", "down"):
            page += 1
    elif key == "s":
        text = share_text(duel)
        table.keys.copy(text)
        table.ask(views.shared, text)


def show_words(table: Table) -> bool:
    """The words that the model knows. True: the next page."""
    page = 0
    while table.ask(views.words, page) in ("tab", "enter", " ", "down"):
        page += 1
    return False


def show_tally(table: Table) -> bool:
    """How the games went."""
    page = 0
    while table.ask(views.tally, page) == "tab":
        page += 1
    return False


def typed(entry: str, key: str) -> str:
    """The word after a key: letters are added, backspace takes one away."""
    if key == "backspace":
        return entry[:-1]
    if len(key) == 1 and key.isascii() and key.isalpha():
        return (entry + key.lower())[:WORD_LENGTH]
    return entry
