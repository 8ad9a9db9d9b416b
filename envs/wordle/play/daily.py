"""The word of the day: the same for everybody who plays with the same list, from the date alone."""

import hashlib
from datetime import UTC, date, datetime

from textrl.envs.wordle.words import WordList

FIRST_DAY = date(2026, 1, 1)
"""The day with the number 1."""


def number_of_day(day: date | None = None) -> int:
    """The number of a day; None: today's in UTC, so that it is the same day everywhere."""
    return ((day or datetime.now(UTC).date()) - FIRST_DAY).days + 1


def word_of_day(words: WordList, number: int) -> str:
    """The answer of the day: the list in an order of its own, then in another one, and so on.

    The order is that of the words' hashes, which no version of a library changes. No word comes
    again before all others have.
    """
    turn, place = divmod(number - 1, len(words.answers))

    def rank(word: str) -> str:
        return hashlib.sha256(f"day {turn} {word}".encode()).hexdigest()

    return sorted(words.answers, key=rank)[place]
