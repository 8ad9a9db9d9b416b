"""Many visitors' games at once, each behind a name that nobody can guess, and what each may see."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from textrl.envs.wordle.game import pattern_of
from textrl.envs.wordle.play import phrases
from textrl.envs.wordle.play.duel import (
    MODES,
    Duel,
    Guess,
    Row,
    begin_race,
    begin_stump,
    begin_watch,
    fitting,
    is_won,
    models_guess,
    share_text,
    take_back,
    your_colours,
    your_guess,
)
from textrl.envs.wordle.play.opponent import Opponent, letter_of
from textrl.errors import UserError, unknown

MOST_GAMES = 4096  # a few kilobytes each; beyond that the one untouched for longest is forgotten
View = dict[str, Any]


class NoSuchGame(UserError):
    """The game was never here, or has been forgotten."""


class Rooms:
    """The games of one opponent. Every call is one visitor's move; moves wait for each other."""

    def __init__(self, opponent: Opponent, most: int = MOST_GAMES) -> None:
        self.opponent, self._most = opponent, most
        self._games: OrderedDict[str, Duel] = OrderedDict()
        self._lock = threading.Lock()
        self._rng = np.random.default_rng()

    def new(self, mode: str, word: str | None = None) -> View:
        """Begin a game. word: in stump, what the model has to guess; None: the visitor keeps it."""
        words = self.opponent.task.words
        if mode not in MODES:
            raise unknown("mode", mode, MODES)
        if mode == "stump":
            duel = begin_stump(words, word)
        else:
            duel = {"race": begin_race, "watch": begin_watch}[mode](words, self._rng)
        with self._lock:
            name = secrets.token_urlsafe(16)
            return self._keep(name, duel, self.opponent.move if duel.answer is None else None)

    def guess(self, name: str, word: str) -> View:
        """The visitor guesses in a race, then the model does."""
        return self._move(name, lambda duel: your_guess(duel, word), self.opponent.move)

    def step(self, name: str) -> View:
        """The model makes one guess at a word that is known to us."""

        def check(duel: Duel) -> Duel:
            if duel.mode == "race" or not duel.is_models_turn:
                raise UserError("it is not the model's turn")
            return duel

        return self._move(name, check, lambda duel: models_guess(duel, self.opponent.guess(duel)))

    def colours(self, name: str, colours: Sequence[int]) -> View:
        """The visitor colours the model's guess, which then guesses again."""
        pattern = int(pattern_of(np.array(colours, dtype=np.uint8)))
        return self._move(name, lambda duel: your_colours(duel, pattern), self.opponent.move)

    def back(self, name: str) -> View:
        """The visitor takes the last colours back."""
        return self._move(name, take_back, None)

    def judge(self, name: str, word: str) -> View:
        """Whether the visitor's colours were right, given the word; the game stays as it is."""
        with self._lock:
            duel = self._find(name)
            if duel.answer is not None or not (duel.is_stuck or duel.is_over):
                raise UserError("the word is asked for when the model can go on no longer")
            judged = {"judged": True, "message": phrases.judge_word(duel, word)}
            return {**self._view(name, duel, 0.0), **judged}

    def _move(
        self, name: str, yours: Callable[[Duel], Duel], models: Callable[[Duel], Duel] | None
    ) -> View:
        with self._lock:
            return self._keep(name, yours(self._find(name)), models)

    def _find(self, name: str) -> Duel:
        if name not in self._games:
            raise NoSuchGame("this game is not here any more: begin a new one")
        return self._games[name]

    def _keep(self, name: str, duel: Duel, models: Callable[[Duel], Duel] | None) -> View:
        began = time.perf_counter()
        duel = models(duel) if models else duel
        milliseconds = 1000 * (time.perf_counter() - began)
        self._games[name] = duel
        self._games.move_to_end(name)
        if len(self._games) > self._most:
            self._games.popitem(last=False)
        return self._view(name, duel, milliseconds)

    def _view(self, name: str, duel: Duel, milliseconds: float) -> View:
        """What the visitor may know: in a race nothing of the model's board before the end."""
        is_hidden = duel.mode == "race" and not duel.is_over
        return {
            "game": name,
            "mode": duel.mode,
            "total": len(fitting(duel, ())),
            "yours": [_row(row) for row in duel.yours],
            "models": [] if is_hidden else [_row(row) for row in duel.models],
            "hidden": len(duel.models) if is_hidden else 0,
            "said": None if duel.said is None else _guess(duel.said),
            "typed_colours": duel.answer is None,
            "over": duel.is_over,
            "stuck": duel.is_stuck,
            "won": is_won(duel.models),
            "winner": duel.winner if duel.is_over else None,
            "answer": None if is_hidden else duel.answer,
            "message": _message(duel),
            "judged": False,
            "share": share_text(duel) if duel.is_over else None,
            "milliseconds": round(milliseconds, 1),
        }


def _message(duel: Duel) -> str:
    if duel.mode == "race":
        return phrases.race_result(duel) if duel.is_over else phrases.after_guess(duel)
    if duel.is_stuck:
        return phrases.stuck(duel)
    return phrases.alone_result(duel) if duel.is_over else ""


def _row(row: Row) -> View:
    return {**_guess(row.guess), "colours": row.colours, "left": row.left}


def _guess(guess: Guess) -> View:
    return {
        "word": guess.word,
        "thoughts": [
            {
                "v": thought.v,
                "letters": [
                    {
                        "letter": letter_of(token),
                        "chosen": token == thought.chosen,
                        "chance": thought.chance[i],
                        "policy": None if thought.policy is None else thought.policy[i],
                        "q": None if thought.q is None else thought.q[i],
                    }
                    for i, token in enumerate(thought.tokens)
                ],
            }
            for thought in guess.thoughts
        ],
    }
