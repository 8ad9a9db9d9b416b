"""Wordle's rules on arrays: letters, colours, patterns. No state, no randomness."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WORD_LENGTH = 5
MAX_GUESSES = 6
BLACK, YELLOW, GREEN = 0, 1, 2
PATTERNS = 3**WORD_LENGTH
ALL_GREEN = PATTERNS - 1

Letters = NDArray[np.uint8]
"""Words as letter numbers 0..25, shape (..., 5)."""

_POWERS_OF_THREE = 3 ** np.arange(WORD_LENGTH, dtype=np.uint8)
_COLOURS_OF_PATTERN = (np.arange(PATTERNS)[:, None] // _POWERS_OF_THREE % 3).astype(np.uint8)


def encode_words(words: Sequence[str]) -> Letters:
    """Five-letter lower-case words as an (n, 5) array of letter numbers."""
    codes = np.frombuffer("".join(words).encode("ascii"), dtype=np.uint8)
    return (codes - ord("a")).reshape(len(words), WORD_LENGTH)


def decode_words(letters: NDArray[np.integer]) -> list[str]:
    """The inverse of encode_words."""
    text = (letters.astype(np.uint8) + ord("a")).tobytes().decode("ascii")
    return [text[i : i + WORD_LENGTH] for i in range(0, len(text), WORD_LENGTH)]


def colour(guesses: Letters, answers: Letters) -> NDArray[np.uint8]:
    """Official colours of each guess against each answer; the two shapes (..., 5) broadcast.

    Greens are given first; then, from left to right, a letter is yellow only while the answer still
    holds an unmatched copy of it. A surplus repeated letter is black.
    """
    return np.stack(_colour_slots(guesses, answers), axis=-1)


def _colour_slots(guesses: Letters, answers: Letters) -> list[NDArray[np.uint8]]:
    """The colours slot by slot: an array per slot is several times faster than rows of five."""
    guess_slots = [guesses[..., slot] for slot in range(WORD_LENGTH)]
    answer_slots = [answers[..., slot] for slot in range(WORD_LENGTH)]
    green = [guess == answer for guess, answer in zip(guess_slots, answer_slots, strict=True)]
    unmatched = [~is_green for is_green in green]
    colours = []
    for slot, guess in enumerate(guess_slots):
        yellow = np.zeros_like(green[slot])
        for other in range(WORD_LENGTH):
            if other != slot:
                match = (guess == answer_slots[other]) & unmatched[other] & ~(yellow | green[slot])
                yellow |= match
                unmatched[other] ^= match  # this copy is used up: no later letter can claim it
        colours.append(green[slot] * np.uint8(GREEN) + yellow * np.uint8(YELLOW))
    return colours


def pattern_of(colours: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Five colours as one number 0..242, the first slot being the lowest digit."""
    return np.asarray(colours, dtype=np.uint8) @ _POWERS_OF_THREE


def colours_of(patterns: NDArray[np.integer] | np.integer) -> NDArray[np.uint8]:
    """The inverse of pattern_of."""
    colours: NDArray[np.uint8] = _COLOURS_OF_PATTERN[patterns]
    return colours


def score(guesses: Letters, answers: Letters) -> NDArray[np.uint8]:
    """The pattern of each guess against each answer; the two shapes (..., 5) broadcast."""
    slots = _colour_slots(guesses, answers)
    patterns = np.zeros_like(slots[0])
    for power, colours in zip(_POWERS_OF_THREE, slots, strict=True):
        patterns += colours * power
    return patterns


def pattern_table(guesses: Letters, answers: Letters) -> NDArray[np.uint8]:
    """(guesses, answers) table of patterns: a whole batch is then scored by one lookup."""
    table = np.empty((len(guesses), len(answers)), dtype=np.uint8)
    rows = max(1, 65_536 // max(1, len(answers)))  # blocks that stay in the processor's cache
    for start in range(0, len(guesses), rows):
        block = slice(start, start + rows)
        table[block] = score(guesses[block, None], answers[None])
    return table
