"""Many visitors' games at once, each behind a name that nobody can guess."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from textrl.envs.wordle.game import pattern_of
from textrl.envs.wordle.play import phrases
from textrl.envs.wordle.play.analysis import analyse
from textrl.envs.wordle.play.daily import number_of_day
from textrl.envs.wordle.play.desk import Desk
from textrl.envs.wordle.play.duel import (
    MODES,
    Duel,
    begin_daily,
    begin_race,
    begin_stump,
    begin_watch,
    models_guess,
    take_back,
    your_colours,
    your_guess,
)
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.play.visible import View, analysis_view, view_of
from textrl.errors import UserError, unknown

MOST_GAMES = 8192  # a few kilobytes each; beyond that the one untouched for longest is forgotten
MOST_GAMES_EACH = 64  # of one visitor, who loses one of their own beyond that
DAILY = "daily"


class NoSuchGame(UserError):
    """The game was never here, or has been forgotten."""


@dataclass
class Room:
    """A game, whose it is, and what makes its moves wait for each other."""

    duel: Duel
    visitor: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rooms:
    """The games of one opponent. Every call is one visitor's move."""

    def __init__(
        self, opponent: Opponent, most: int = MOST_GAMES, most_each: int = MOST_GAMES_EACH
    ) -> None:
        self._words, self._desk = opponent.task.words, Desk(opponent)
        self._most, self._most_each = most, most_each
        self._rooms: OrderedDict[str, Room] = OrderedDict()  # touched longest ago first
        self._of_visitor: dict[str, OrderedDict[str, None]] = {}
        self._rng = np.random.default_rng()

    async def new(self, mode: str, word: str | None = None, visitor: str = "") -> View:
        """Begin a game. word: in stump, what the model has to guess; None: the visitor keeps it."""
        if mode not in (*MODES, DAILY):
            raise unknown("mode", mode, (*MODES, DAILY))
        if mode == "stump":
            duel = begin_stump(self._words, word)
        elif mode == DAILY:
            duel = begin_daily(self._words, number_of_day())
        else:
            duel = {"race": begin_race, "watch": begin_watch}[mode](self._words, self._rng)
        name = secrets.token_urlsafe(16)
        room = self._open(name, duel, visitor)
        return await self._go_on(name, room, duel, is_models=duel.answer is None)

    async def look(self, name: str) -> View:
        """The game as it stands, for a page that was loaded anew."""
        return view_of(name, self._find(name).duel)

    async def guess(self, name: str, word: str) -> View:
        """The visitor guesses in a race, then the model does."""
        return await self._move(name, lambda duel: your_guess(duel, word))

    async def step(self, name: str) -> View:
        """The model makes one guess at a word that is known to us."""
        room = self._find(name)
        async with room.lock:
            if room.duel.mode == "race" or not room.duel.is_models_turn:
                raise UserError("it is not the model's turn")
            began = time.perf_counter()
            room.duel = models_guess(room.duel, await self._desk.guess(room.duel))
            return view_of(name, room.duel, 1000 * (time.perf_counter() - began))

    async def colours(self, name: str, colours: Sequence[int]) -> View:
        """The visitor colours the model's guess, which then guesses again."""
        pattern = int(pattern_of(np.array(colours, dtype=np.uint8)))
        return await self._move(name, lambda duel: your_colours(duel, pattern))

    async def back(self, name: str) -> View:
        """The visitor takes the last colours back."""
        return await self._move(name, take_back)

    async def judge(self, name: str, word: str) -> View:
        """Whether the visitor's colours were right, given the word; the game stays as it is."""
        duel = self._find(name).duel
        if duel.answer is not None or not (duel.is_stuck or duel.is_over):
            raise UserError("the word is asked for when the model can go on no longer")
        return {**view_of(name, duel), "judged": True, "message": phrases.judge_word(duel, word)}

    async def analysis(self, name: str) -> View:
        """A finished game, guess by guess."""
        duel = self._find(name).duel
        return analysis_view(await self._desk.use(lambda opponent: analyse(duel, opponent)))

    async def _move(self, name: str, yours: Callable[[Duel], Duel]) -> View:
        room = self._find(name)
        async with room.lock:
            return await self._go_on(name, room, yours(room.duel), is_models=True)

    async def _go_on(self, name: str, room: Room, duel: Duel, is_models: bool) -> View:
        """Let the model make the guesses that are due; a move counts whole or not at all."""
        began = time.perf_counter()
        while is_models and duel.is_models_turn:
            duel = models_guess(duel, await self._desk.guess(duel))
        room.duel = duel
        return view_of(name, duel, 1000 * (time.perf_counter() - began))

    def _open(self, name: str, duel: Duel, visitor: str) -> Room:
        room = self._rooms[name] = Room(duel, visitor)
        theirs = self._of_visitor.setdefault(visitor, OrderedDict())
        theirs[name] = None
        if len(theirs) > self._most_each:
            self._forget(next(iter(theirs)))
        if len(self._rooms) > self._most:
            self._forget(next(iter(self._rooms)))
        return room

    def _forget(self, name: str) -> None:
        visitor = self._rooms.pop(name).visitor
        self._of_visitor[visitor].pop(name)
        if not self._of_visitor[visitor]:
            del self._of_visitor[visitor]

    def _find(self, name: str) -> Room:
        if name not in self._rooms:
            raise NoSuchGame("this game is not here any more: begin a new one")
        self._rooms.move_to_end(name)
        room = self._rooms[name]
        self._of_visitor[room.visitor].move_to_end(name)
        return room
