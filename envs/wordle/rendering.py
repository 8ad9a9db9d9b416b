"""A board for people: as coloured text, or as pixels."""

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import BLACK, GREEN, YELLOW

Picture = NDArray[np.uint8]
"""(height, width, 3) of red, green and blue."""

TILE, GAP, PIXEL = 56, 6, 5
"""Sizes in the picture: of a tile, between tiles, of a dot of a letter."""
PAGE, EMPTY, INK = (255, 255, 255), (228, 230, 233), (255, 255, 255)
# White letters on each have a contrast of at least 4.5 to 1.
COLOURS = {BLACK: (88, 92, 97), YELLOW: (138, 108, 0), GREEN: (46, 125, 50)}

_LETTERS = (  # rows of five dots, from the top, of A to Z
    *("0e11111f111111", "1e11111e11111e", "0e11101010110e", "1e11111111111e", "1f10101e10101f"),
    *("1f10101e101010", "0e11101711110f", "1111111f111111", "0e04040404040e", "0702020202120c"),
    *("11121418141211", "1010101010101f", "111b1515111111", "11111915131111", "0e11111111110e"),
    *("1e11111e101010", "0e11111115120d", "1e11111e141211", "0f10100e01011e", "1f040404040404"),
    *("1111111111110e", "11111111110a04", "1111111515150a", "11110a040a1111", "11110a04040404"),
    "1f01020408101f",
)


def board_text(board: NDArray[np.int8]) -> str:
    """A board in terminal colours, with marks for those who cannot see them: [green] (yellow)."""
    return "\n".join("".join(_cell_text(*cell) for cell in row) for row in board.tolist())


def _cell_text(letter: int, colour: int) -> str:
    if letter < 0:
        return " _ "
    symbol = chr(ord("A") + letter)
    if colour == GREEN:
        return f"\033[30;42m[{symbol}]\033[0m"
    if colour == YELLOW:
        return f"\033[30;43m({symbol})\033[0m"
    return f"\033[97;100m {symbol} \033[0m"


def board_picture(board: NDArray[np.int8]) -> Picture:
    """A board (turns, slots, 2) as a picture; black, yellow and green tiles with white letters."""
    turns, slots, _ = board.shape
    step = TILE + GAP
    picture = np.full((turns * step + GAP, slots * step + GAP, 3), PAGE, dtype=np.uint8)
    for turn, slot in np.ndindex(turns, slots):
        top, left = GAP + turn * step, GAP + slot * step
        letter, colour = board[turn, slot].tolist()
        tile = picture[top : top + TILE, left : left + TILE]
        tile[:] = COLOURS.get(colour, EMPTY)
        if letter >= 0:
            dots = _dots(letter)
            height, width = dots.shape
            y, x = (TILE - height) // 2, (TILE - width) // 2
            tile[y : y + height, x : x + width][dots] = INK
    return picture


def _dots(letter: int) -> NDArray[np.bool_]:
    """Where a letter is inked, five by seven dots of PIXEL pixels each."""
    rows = np.frombuffer(bytes.fromhex(_LETTERS[letter]), dtype=np.uint8)
    dots = np.unpackbits(rows[:, None], axis=1)[:, 3:].astype(bool)
    return dots.repeat(PIXEL, axis=0).repeat(PIXEL, axis=1)
