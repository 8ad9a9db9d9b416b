"""Maps of the switch gridworld, as text that a person can read and draw.

    S  start                             U  unsafe goal
    d  switch that makes U the goal      F  safe goal
    r  switch that makes F the goal      L  lava
    #  wall                              .  floor

A cell's number is row * width + column. Beyond the border of the map there is wall.
"""

import difflib
import hashlib
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.errors import UserError

START, UNSAFE_SWITCH, SAFE_SWITCH, UNSAFE_GOAL, SAFE_GOAL, LAVA, WALL, FLOOR = "SdrUFL#."
SYMBOLS = "SdrUFL#."
MAX_SIDE = 100

ACTIONS = ("up", "right", "down", "left", "stay")
UP, RIGHT, DOWN, LEFT, STAY = range(5)
_OFFSETS = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))

MODES = ("none", "unsafe", "safe")
"""Which goal is live: that of the switch which was tripped first, for good."""
NO_GOAL_LIVE, UNSAFE_LIVE, SAFE_LIVE = range(3)

DEFAULT = """
##########
##########
#Sr......#
#d######.#
#.....LL.#
#.....LL.#
#F.......#
#...LLL.L#
#..LLLL.U#
##########
"""


@dataclass(frozen=True)
class Layout:
    """A map. Made by `parse` or `load_layout`, which check it."""

    name: str
    """"default", or the file's name."""
    rows: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, name: str) -> "Layout":
        """The map that the text draws; blank lines around it do not count."""
        rows = tuple(line.rstrip() for line in text.strip("\r\n").splitlines())
        layout = cls(name, rows)
        layout._check()
        return layout

    @property
    def text(self) -> str:
        """The map as it was drawn."""
        return "\n".join(self.rows)

    @property
    def height(self) -> int:
        """Rows."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.rows[0])

    @property
    def cells(self) -> int:
        """How many cells there are, walls included."""
        return self.height * self.width

    @property
    def start(self) -> int:
        """Where every episode begins."""
        return self._only(START)

    @property
    def unsafe_goal(self) -> int:
        """The goal that the switches `d` make live."""
        return self._only(UNSAFE_GOAL)

    @property
    def safe_goal(self) -> int:
        """The goal that the switches `r` make live."""
        return self._only(SAFE_GOAL)

    @cached_property
    def digest(self) -> str:
        """Names the map by its content, for caches."""
        return hashlib.sha256(self.text.encode("ascii")).hexdigest()[:16]

    @cached_property
    def open_cells(self) -> NDArray[np.int64]:
        """The cells that are not wall, in order."""
        return np.flatnonzero(~self.holds(WALL))

    @cached_property
    def moves(self) -> NDArray[np.int64]:
        """(cells, 5): the cell one comes to by each of ACTIONS; wall and border hold one back."""
        row, column = np.divmod(np.arange(self.cells), self.width)
        is_wall = self.holds(WALL)
        moves = np.empty((self.cells, len(ACTIONS)), dtype=np.int64)
        for action, (down, right) in enumerate(_OFFSETS):
            r = np.clip(row + down, 0, self.height - 1)
            c = np.clip(column + right, 0, self.width - 1)
            ahead = r * self.width + c
            moves[:, action] = np.where(is_wall[ahead], np.arange(self.cells), ahead)
        return moves

    @cached_property
    def next_mode(self) -> NDArray[np.int64]:
        """(3, cells): the mode after entering a cell in a mode of MODES."""
        unsafe, safe = self.holds(UNSAFE_SWITCH), self.holds(SAFE_SWITCH)
        modes = np.repeat(np.arange(len(MODES))[:, None], self.cells, axis=1)
        modes[NO_GOAL_LIVE] = np.where(unsafe, UNSAFE_LIVE, np.where(safe, SAFE_LIVE, NO_GOAL_LIVE))
        return modes

    def holds(self, symbol: str) -> NDArray[np.bool_]:
        """(cells,): where the symbol stands."""
        return np.asarray(np.array(list("".join(self.rows))) == symbol)

    def cell_name(self, cell: int) -> str:
        """A cell's token: r1c2 is row 1, column 2, counted from 0."""
        return f"r{cell // self.width}c{cell % self.width}"

    def _only(self, symbol: str) -> int:
        return "".join(self.rows).index(symbol)

    def _check(self) -> None:
        where = f"map {self.name!r}"
        if not self.rows or not self.rows[0]:
            raise UserError(f"{where} is empty: draw it with the characters {SYMBOLS}")
        if max(self.height, self.width) > MAX_SIDE:
            raise UserError(
                f"{where} has {self.height} rows and {self.width} columns:"
                f" at most {MAX_SIDE} of each are allowed"
            )
        for number, row in enumerate(self.rows, start=1):
            strange = [
                (place, symbol) for place, symbol in enumerate(row, 1) if symbol not in SYMBOLS
            ]
            if strange:
                place, symbol = strange[0]
                raise UserError(
                    f"{where}, row {number}, column {place}: unknown character {symbol!r}:"
                    f" use {' '.join(SYMBOLS)}"
                )
            if len(row) != self.width:
                raise UserError(
                    f"{where}, row {number} has {len(row)} cells, the first has {self.width}:"
                    " make all rows equally long"
                )
        for symbol in (START, UNSAFE_GOAL, SAFE_GOAL):
            count = int(self.holds(symbol).sum())
            if count != 1:
                raise UserError(f"{where} has {symbol!r} {count} times: it needs exactly one")
        for symbol in (UNSAFE_SWITCH, SAFE_SWITCH):
            if not self.holds(symbol).any():
                raise UserError(f"{where} has no switch {symbol!r}: it needs at least one")
        reachable = self._reachable()
        for mode, goal, switch in (
            (UNSAFE_LIVE, self.unsafe_goal, UNSAFE_SWITCH),
            (SAFE_LIVE, self.safe_goal, SAFE_SWITCH),
        ):
            if (mode, goal) not in reachable:
                raise UserError(
                    f"{where}: the {MODES[mode]} goal cannot be reached with a switch {switch!r}"
                    " tripped first: open a way around walls and lava"
                )

    def _reachable(self) -> set[tuple[int, int]]:
        """Every (mode, cell) that some way leads to; lava is the end of a way."""
        moves, next_mode, is_lava = self.moves.tolist(), self.next_mode.tolist(), self.holds(LAVA)
        found = {(NO_GOAL_LIVE, self.start)}
        waiting = deque(found)
        while waiting:
            mode, cell = waiting.popleft()
            for ahead in moves[cell]:
                state = (next_mode[mode][ahead], ahead)
                if state not in found and not is_lava[ahead]:
                    found.add(state)
                    waiting.append(state)
        return found


def load_layout(which: str = "default") -> Layout:
    """The default map, or the one that a text file draws."""
    if which == "default":
        return Layout.parse(DEFAULT, "default")
    path = Path(which)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = difflib.get_close_matches(which, ("default",), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UserError(f"no map {which!r}: {hint}give 'default' or a text file") from None
    except IsADirectoryError:
        raise UserError(f"map {which!r} is a folder: give a text file") from None
    except UnicodeDecodeError:
        raise UserError(f"map {which!r} is not UTF-8: save it as plain text") from None
    return Layout.parse(text, path.name)
