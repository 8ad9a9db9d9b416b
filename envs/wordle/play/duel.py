"""A person and a model at Wordle: three ways to play, as states and pure moves between them.

- race: both guess the same hidden word, each on a board of their own;
- stump: the model guesses a word that the person thinks of. The person gives the word, or keeps it
  and gives the colours, which can be taken back;
- watch: the model plays alone.

A move that the rules do not allow raises UserError and changes nothing.
"""

import difflib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from textrl.acting.policy import Thought
from textrl.envs.wordle.game import (
    ALL_GREEN,
    MAX_GUESSES,
    PATTERNS,
    WORD_LENGTH,
    Letters,
    colours_of,
    encode_words,
    score,
)
from textrl.envs.wordle.play.daily import word_of_day
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError

Mode = Literal["race", "stump", "watch"]
MODES: tuple[Mode, ...] = ("race", "stump", "watch")


@dataclass(frozen=True)
class Option:
    """A word that the model compared with others. A head that is not there is None."""

    word: str
    chance: float | None
    """How often the people play it here whose games the model learned from, by its policy."""
    q: float | None
    """The score that its values expect after it: minus the wrong guesses, this one included."""


@dataclass(frozen=True)
class Guess:
    """A word and, of a model's, what it thought at each letter and the words it compared."""

    word: str
    thoughts: tuple[Thought, ...] = ()
    options: tuple[Option, ...] = ()
    is_drawn: bool = False
    """It was drawn by its chance, as were the options; else they are the likeliest words."""


@dataclass(frozen=True)
class Row:
    """A guess with its colours."""

    guess: Guess
    pattern: int
    left: int
    """How many words fit this row and all rows before it; the one guessed right counts."""

    @property
    def word(self) -> str:
        """The word guessed."""
        return self.guess.word

    @property
    def colours(self) -> tuple[int, ...]:
        """The colour of each letter."""
        return tuple(colours_of(np.uint8(self.pattern)).tolist())


Rows = tuple[Row, ...]


def is_won(rows: Rows) -> bool:
    """The last guess was right."""
    return bool(rows) and rows[-1].pattern == ALL_GREEN


def is_over(rows: Rows) -> bool:
    """Nothing more can be guessed on this board."""
    return is_won(rows) or len(rows) == MAX_GUESSES


def result_of(rows: Rows) -> int:
    """The number of guesses that a finished board took; one more than allowed for a loss."""
    return len(rows) if is_won(rows) else MAX_GUESSES + 1


@dataclass(frozen=True)
class Duel:
    """Where a game stands."""

    words: WordList
    mode: Mode
    answer: str | None
    """None: only the person knows it."""
    yours: Rows = ()
    models: Rows = ()
    said: Guess | None = None
    """The model's guess that waits for the person's colours."""
    day: int | None = None
    """A race for the word of the day: the day's number."""

    @property
    def is_over(self) -> bool:
        """Nothing is left to do; a stuck game is not over, because colours can be taken back."""
        return is_over(self.models) and (self.mode != "race" or is_over(self.yours))

    @property
    def is_stuck(self) -> bool:
        """The person's colours leave no word."""
        return bool(self.models) and self.models[-1].left == 0

    @property
    def is_models_turn(self) -> bool:
        """The model has to guess before the person can go on."""
        if is_over(self.models) or self.is_stuck or self.said is not None:
            return False
        if self.mode == "race":
            return len(self.models) < len(self.yours) or is_over(self.yours)
        return True

    @property
    def winner(self) -> Literal["you", "model", "nobody"]:
        """Of a finished game. A stumped model has lost; who is watched plays against nobody."""
        if self.mode == "watch":
            return "nobody"
        model = result_of(self.models)
        you = result_of(self.yours) if self.mode == "race" else MAX_GUESSES
        if self.mode == "race" and you == model:
            return "nobody"
        return "you" if you < model else "model"


def begin_race(words: WordList, rng: np.random.Generator) -> Duel:
    """A race for an answer of the list."""
    return Duel(words, "race", words.answers[rng.integers(len(words.answers))])


def begin_daily(words: WordList, day: int) -> Duel:
    """A race for the word of the day."""
    return Duel(words, "race", word_of_day(words, day), day=day)


def begin_watch(words: WordList, rng: np.random.Generator) -> Duel:
    """A game that the model plays alone."""
    return Duel(words, "watch", words.answers[rng.integers(len(words.answers))])


def begin_stump(words: WordList, word: str | None) -> Duel:
    """A game in which the model guesses this word, or one that the person keeps (None)."""
    return Duel(words, "stump", None if word is None else known_to_model(words, word))


def known_to_model(words: WordList, word: str) -> str:
    """The word as the list spells it; the model can say no other."""
    word = _five_letters(word)
    if word not in words.guesses:
        near = difflib.get_close_matches(word, words.guesses, n=3, cutoff=0.4)
        shown = " or ".join(each.upper() for each in near or words.guesses[:3])
        raise UserError(
            f"{word.upper()} is not one of the {len(words.guesses):,} words that the model knows,"
            f" so it could never guess it: how about {shown}?"
        )
    return word


def your_guess(duel: Duel, word: str) -> Duel:
    """The person guesses in a race: any word of the model's list or of the dictionary."""
    if duel.mode != "race" or is_over(duel.yours) or duel.is_models_turn:
        raise UserError("it is not your turn to guess")
    word = _five_letters(word)
    if word not in dictionary(duel.words):
        raise UserError(f"{word.upper()} is not in the dictionary")
    if word in [row.word for row in duel.yours]:
        raise UserError(f"you have guessed {word.upper()} already")
    assert duel.answer is not None
    pattern = _pattern(word, duel.answer)
    return replace(duel, yours=_with_row(duel, duel.yours, Guess(word), pattern))


def models_guess(duel: Duel, guess: Guess) -> Duel:
    """The model guesses; without a known answer the guess waits for the person's colours."""
    assert duel.is_models_turn
    if duel.answer is None:
        return replace(duel, said=guess)
    pattern = _pattern(guess.word, duel.answer)
    return replace(duel, models=_with_row(duel, duel.models, guess, pattern))


def your_colours(duel: Duel, pattern: int) -> Duel:
    """The person colours what the model said. Colours that leave no word make the game stuck."""
    if duel.said is None:
        raise UserError("no guess is waiting for colours")
    if not 0 <= pattern < PATTERNS:
        raise UserError(f"a pattern is a number from 0 to {PATTERNS - 1}, not {pattern}")
    return replace(duel, models=_with_row(duel, duel.models, duel.said, pattern), said=None)


def take_back(duel: Duel) -> Duel:
    """Undo the person's last colours: the same guess waits for them again."""
    if duel.answer is not None or not duel.models:
        raise UserError("there are no colours to take back")
    return replace(duel, models=duel.models[:-1], said=duel.models[-1].guess)


def fitting(duel: Duel, rows: Rows) -> NDArray[np.intp]:
    """Indices (in words.guesses) of the words that could be hidden, given these rows.

    In stump these are all words that the model can say; a hidden word of ours is an answer.
    """
    words = duel.words
    is_any = duel.mode == "stump"
    fits = np.ones(len(words.guesses if is_any else words.answers), dtype=bool)
    for row in rows:
        fits &= _patterns(words, row.word, is_any) == row.pattern
    return np.flatnonzero(fits)


@lru_cache(maxsize=4096)
def _patterns(words: WordList, word: str, is_any: bool) -> NDArray[np.uint8]:
    """The pattern of a guess against each of the list's answers, or against any of its words."""
    letters = words.guess_letters if is_any else words.guess_letters[: len(words.answers)]
    return score(_letters(word), letters)


@lru_cache(maxsize=65536)
def _pattern(word: str, answer: str) -> int:
    return int(score(_letters(word), _letters(answer)))


def other_words(duel: Duel) -> list[str]:
    """Of a stuck game: words of the dictionary that fit its colours but are not in the list."""
    known = sorted(dictionary(duel.words))
    letters = encode_words(known)
    fits = np.ones(len(known), dtype=bool)
    for row in duel.models:
        fits &= score(_letters(row.word), letters) == row.pattern
    return [known[i] for i in np.flatnonzero(fits)]


def wrong_rows(rows: Rows, word: str) -> list[int]:
    """Which rows (from 0) have other colours than this hidden word gives."""
    guessed = encode_words([row.word for row in rows])
    patterns = np.array([row.pattern for row in rows])
    return np.flatnonzero(score(guessed, _letters(_five_letters(word))) != patterns).tolist()


def best_colours(rows: Rows) -> dict[str, int]:
    """Letter -> the best colour that it has had, as keyboards show it."""
    best: dict[str, int] = {}
    for row in rows:
        for letter, colour in zip(row.word, row.colours, strict=True):
            best[letter] = max(colour, best.get(letter, 0))
    return best


def dictionary(words: WordList) -> frozenset[str]:
    """What a person may guess: more than a short list holds, since nobody knows it by heart."""
    return _dictionary(words.guesses)


@lru_cache(maxsize=4)
def _dictionary(guesses: tuple[str, ...]) -> frozenset[str]:
    return frozenset(guesses) | frozenset(load_words("full").guesses)


def _with_row(duel: Duel, rows: Rows, guess: Guess, pattern: int) -> Rows:
    row = Row(guess, pattern, left=0)
    return (*rows, replace(row, left=len(fitting(duel, (*rows, row)))))


def _letters(word: str) -> Letters:
    letters: Letters = encode_words([word])[0]
    return letters


def _five_letters(word: str) -> str:
    word = word.strip().lower()
    if len(word) != WORD_LENGTH or not (word.isascii() and word.isalpha()):
        shown = word[:20].upper()
        raise UserError(f"a word has {WORD_LENGTH} letters from A to Z, not {shown!r}")
    return word
