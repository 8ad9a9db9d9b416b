"""Word lists: the committed ones, the paper-sized sample of them, or a file of the user's."""

import difflib
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import WORD_LENGTH, Letters, encode_words, pattern_table
from textrl.errors import UserError

LISTS = Path(__file__).parent / "lists"
PAPER_ANSWERS = 236
PAPER_SEED = 0
MOST_WORDS = 50_000
LARGEST_TABLE = 2**29
"""Bytes: of every guess against every answer."""

_PLACE_VALUES = 26 ** np.arange(WORD_LENGTH)[::-1]


@dataclass(frozen=True)
class WordList:
    """What can be the answer and what can be guessed."""

    name: str
    """"paper", "full", or the file's name."""
    answers: tuple[str, ...]
    guesses: tuple[str, ...]
    """Every legal guess; the answers come first, in the same order."""

    def __post_init__(self) -> None:
        if self.guesses[: len(self.answers)] != self.answers:
            raise ValueError("the guesses of a word list begin with its answers, in the same order")
        if len(self.guesses) > MOST_WORDS:
            raise UserError(f"{len(self.guesses):,} words are too many: at most {MOST_WORDS:,}")
        if len(self.answers) * len(self.guesses) > LARGEST_TABLE:
            raise UserError(
                f"{len(self.answers):,} answers and {len(self.guesses):,} guesses are too many:"
                f" their product may be at most {LARGEST_TABLE:,}"
            )
        bad = next((word for word in self.guesses if not is_word(word)), None)
        if bad is not None:
            raise ValueError(f"{bad[:40]!r} is no word of {WORD_LENGTH} letters a to z")
        if len(set(self.guesses)) < max(2, len(self.guesses)) or not self.answers:
            raise ValueError("a word list has an answer, two guesses or more, and no word twice")

    def __hash__(self) -> int:
        return hash(self.digest)  # known once, where that of thousands of words is not

    @cached_property
    def digest(self) -> str:
        """Names the list by its content: for caches, and to tell checkpoints' lists apart."""
        content = " ".join(self.answers) + "\n" + " ".join(self.guesses)
        return hashlib.sha256(content.encode("ascii")).hexdigest()[:16]

    @cached_property
    def guess_letters(self) -> Letters:
        """(guesses, 5) letter numbers; the first len(answers) rows are the answers'."""
        return encode_words(self.guesses)

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(guesses, answers) patterns; made when first asked for (the full list: 25 MB, 0.7 s)."""
        return pattern_table(self.guess_letters, self.guess_letters[: len(self.answers)])

    def find(self, letters: Letters) -> NDArray[np.intp]:
        """The index in guesses of each word of (..., 5) letters; -1 where it is no legal guess."""
        codes = np.asarray(letters) @ _PLACE_VALUES
        nearest = np.searchsorted(self._sorted_codes, codes)
        nearest = np.minimum(nearest, len(self.guesses) - 1)
        return np.where(self._sorted_codes[nearest] == codes, self._code_order[nearest], -1)

    @cached_property
    def _code_order(self) -> NDArray[np.intp]:
        return np.argsort(self.guess_letters @ _PLACE_VALUES)

    @cached_property
    def _sorted_codes(self) -> NDArray[np.int64]:
        return (self.guess_letters @ _PLACE_VALUES)[self._code_order]


def is_word(word: str) -> bool:
    """Whether it can be guessed."""
    return len(word) == WORD_LENGTH and word.isascii() and word.isalpha() and word.islower()


def load_words(which: str = "paper") -> WordList:
    """The word list "paper", "full", or that of a text file with one word a line.

    - paper: 236 of the committed answers, which are also the only guesses (the paper's setting);
    - full: the committed answers (about 2,200) and guesses (about 11,000);
    - a file: its words are both answers and guesses. Upper case is lowered, blank lines are
      skipped, and anything else that is not a new five-letter word is an error.
    """
    if which == "paper":
        return _paper_words()
    if which == "full":
        return _full_words()
    words = _read_words(Path(which))
    return WordList(Path(which).name, words, words)


@cache
def _paper_words() -> WordList:
    answers = tuple(sorted(_sample(_committed("answers.txt"), PAPER_ANSWERS, PAPER_SEED)))
    return WordList("paper", answers, answers)


@cache
def _full_words() -> WordList:
    answers = _committed("answers.txt")
    only_guesses = sorted(set(_committed("guesses.txt")) - set(answers))
    return WordList("full", answers, (*answers, *only_guesses))


def _sample(words: tuple[str, ...], count: int, seed: int) -> list[str]:
    """The words whose hashes are lowest: the same sample under any version of any library."""

    def rank(word: str) -> str:
        return hashlib.sha256(f"{seed} {word}".encode()).hexdigest()

    return sorted(words, key=rank)[:count]


def _committed(file: str) -> tuple[str, ...]:
    """A list of this package, checked against its checksum."""
    content = (LISTS / file).read_bytes()
    line = f"{hashlib.sha256(content).hexdigest()}  {file}"
    if line not in (LISTS / "SHA256SUMS").read_text(encoding="ascii").splitlines():
        raise UserError(f"{LISTS / file} differs from its checksum: reinstall, or run derive.py")
    return tuple(content.decode("ascii").split())


def _read_words(path: Path) -> tuple[str, ...]:
    """The words of a user's file, every one checked."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        near = difflib.get_close_matches(str(path), ("paper", "full"), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UserError(
            f"no word list {str(path)!r}: {hint}give 'paper', 'full' or a file with one word a line"
        ) from None
    except IsADirectoryError:
        raise UserError(
            f"word list {str(path)!r} is a folder: give a text file with one word a line"
        ) from None
    except UnicodeDecodeError:
        raise UserError(f"word list {str(path)!r} is not UTF-8: save it as plain text") from None

    first_line: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip().lower()
        if not word:
            continue
        where = f"{path}, line {number}: {line.strip()[:40]!r}"
        if not (word.isascii() and word.isalpha()):
            raise UserError(f"{where} is not made of the letters a to z: give one word a line")
        if len(word) != WORD_LENGTH:
            raise UserError(f"{where} has {len(word)} letters: Wordle needs {WORD_LENGTH}")
        if word in first_line:
            raise UserError(f"{where} is already on line {first_line[word]}: delete one of them")
        first_line[word] = number
    if len(first_line) < 2:
        raise UserError(f"word list {path} has {len(first_line)} words: a game needs at least 2")
    return tuple(first_line)
