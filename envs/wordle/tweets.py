"""Games that people shared on Twitter: colours are read, letters are drawn to fit them.

The file is a CSV with the columns wordle_id, tweet_id, tweet_text and, if duplicates by player are
to be found, tweet_username (tweet_date is not read), plain or gzipped. Names of players are only
compared while reading and never kept.
"""

import csv
import gzip
import io
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import (
    ALL_GREEN,
    BLACK,
    GREEN,
    MAX_GUESSES,
    PATTERNS,
    WORD_LENGTH,
    YELLOW,
    pattern_of,
)
from textrl.envs.wordle.games import NO_GUESS, Games
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

BEHAVIOUR = "human"
NEEDED_COLUMNS = ("wordle_id", "tweet_id", "tweet_text")
PLAYER_COLUMN = "tweet_username"
ANSWERS_TRIED = 500
"""How many other answers a game is tried with when its puzzle's answer cannot give its colours."""
NO_ROW = 255
"""In an array of patterns, after the end of a game."""
GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 1 << 16
"""Longer lines are read in pieces, so that a file without line ends does not fill the memory."""

SQUARES = {"⬛": BLACK, "⬜": BLACK, "🟨": YELLOW, "🟦": YELLOW, "🟩": GREEN, "🟧": GREEN}
STANDARD_SQUARES, HIGH_CONTRAST_SQUARES = frozenset("🟨🟩"), frozenset("🟦🟧")

# Full-width forms become plain, invisible characters (variation selectors, joiners, NUL) nothing.
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_INVISIBLE = dict.fromkeys([0, 0x200B, 0x200C, 0x200D, 0x2060, 0xFE0E, 0xFE0F, 0xFEFF])
_PLAIN = _FULL_WIDTH | _INVISIBLE

_SCORE = re.compile(
    r"wordle\s+#?(?P<puzzle>[0-9]{1,3}(?:[.,'\u2019\s][0-9]{3})|[0-9]{1,6})"
    r"\s+(?P<guesses>[1-6x])\s*/\s*6(?![0-9])",
    re.IGNORECASE,
)
_ROW = re.compile(f"[{''.join(SQUARES)}]+")


class Reason(StrEnum):
    """Why a row of the file is not used."""

    BROKEN_ROW = "broken row of the CSV"
    NO_SCORE = "no score such as 'Wordle 210 4/6'"
    SEVERAL_SCORES = "several scores in one tweet"
    OTHER_PUZZLE = "puzzle number differs from wordle_id"
    NO_GRID = "no squares"
    CUT_OFF = "row of squares that is not five long"
    MIXED_COLOURS = "standard and high-contrast colours mixed"
    WRONG_COUNT = "number of rows differs from the score"
    WRONG_END = "all-green row missing at the end or too early"
    SAME_TWEET = "tweet already seen"
    SAME_PLAYER = "player already seen with this puzzle"
    UNFITTABLE = "colours that no words of the list give"


class _UnusableError(Exception):
    """Ends the reading of one tweet."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Tweet(NamedTuple):
    puzzle: str
    id: str
    player: str
    text: str


@dataclass(frozen=True)
class TweetSummary:
    """What became of the rows of a file."""

    rows: int
    used: int
    skipped: Mapping[Reason, int]

    def describe(self) -> str:
        """A few lines for people: what was used, then what was not and why, most frequent first."""
        share = self.used / max(1, self.rows)
        lines = [f"tweets: {self.rows:,} rows, {self.used:,} games used ({share:.1%})"]
        by_count = sorted(self.skipped.items(), key=lambda item: (-item[1], item[0]))
        lines += [f"  skipped {count:,}: {reason}" for reason, count in by_count]
        return "\n".join(lines)


def read_tweets(path: str | Path, words: WordList, seed: int) -> tuple[Games, TweetSummary]:
    """The usable games of a file, with an answer and guesses of the list that fit their colours.

    Which words people played is not known. All games of a puzzle get the same answer, drawn
    uniformly; a game whose colours that answer cannot give tries others. Each guess is drawn
    uniformly from the words that give its row's colours against the answer.
    """
    rows = 0
    skipped: Counter[Reason] = Counter()
    seen: set[int] = set()
    puzzles, patterns = array("q"), bytearray()
    for tweet in _tweets(Path(path)):
        rows += 1
        if tweet is None:
            skipped[Reason.BROKEN_ROW] += 1
            continue
        try:
            puzzle, game = _read_game(tweet)
            _refuse_duplicates(tweet, puzzle, seen)
        except _UnusableError as error:
            skipped[error.reason] += 1
            continue
        puzzles.append(puzzle)
        patterns += game.ljust(MAX_GUESSES, bytes([NO_ROW]))

    games = _fit_letters(
        np.array(puzzles, dtype=np.int64),
        np.frombuffer(patterns, dtype=np.uint8).reshape(-1, MAX_GUESSES),
        words,
        seed,
    )
    if len(games) < len(puzzles):
        skipped[Reason.UNFITTABLE] = len(puzzles) - len(games)
    return games, TweetSummary(rows, len(games), dict(skipped))


def _tweets(path: Path) -> Iterator[_Tweet | None]:
    """The rows of the file one by one; None for one that is broken."""
    try:
        with path.open("rb") as file:
            yield from _parse_rows(path, csv.reader(_lines(file)))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise UserError(f"tweets {str(path)!r} is a damaged gzip file: fetch it again") from None
    except OSError as error:
        problem = error.strerror or error
        raise UserError(f"cannot read tweets {str(path)!r} ({problem}): give a CSV file") from None


def _lines(file: io.BufferedReader) -> Iterator[str]:
    """The text of a plain or gzipped file in lines, with U+FFFD for what is not UTF-8."""
    is_gzip = file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
    binary = gzip.GzipFile(fileobj=file) if is_gzip else file
    text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline="")
    return iter(lambda: text.readline(LONGEST_LINE), "")


def _parse_rows(path: Path, reader: Iterator[list[str]]) -> Iterator[_Tweet | None]:
    """The tweets below the header, whose columns may stand in any order."""
    try:
        header = [name.translate(_PLAIN).strip().lower() for name in next(reader, [])]
    except csv.Error:
        header = []
    missing = [name for name in NEEDED_COLUMNS if name not in header]
    if missing:
        raise UserError(
            f"tweets {str(path)!r} lacks the column {missing[0]} (its first line reads "
            f"{','.join(header)[:60]!r}): give a CSV with {', '.join(NEEDED_COLUMNS)}"
        )
    puzzle, tweet_id, text = (header.index(name) for name in NEEDED_COLUMNS)
    player = header.index(PLAYER_COLUMN) if PLAYER_COLUMN in header else None
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:  # such as a quote never closed; the reader goes on with the next line
            yield None
            continue
        if len(row) == len(header):
            name = "" if player is None else row[player]
            yield _Tweet(row[puzzle], row[tweet_id], name, row[text])
        elif row:
            yield None


def _read_game(tweet: _Tweet) -> tuple[int, bytes]:
    """The puzzle's number and the pattern of each row, one byte each."""
    text = tweet.text.translate(_PLAIN)
    scores = list(_SCORE.finditer(text))
    if len(scores) != 1:
        raise _UnusableError(Reason.SEVERAL_SCORES if scores else Reason.NO_SCORE)
    puzzle = int("".join(filter(str.isdigit, scores[0]["puzzle"])))
    wordle_id = tweet.puzzle.translate(_PLAIN).strip()
    if wordle_id.isdecimal() and wordle_id.lstrip("0") != str(puzzle).lstrip("0"):
        raise _UnusableError(Reason.OTHER_PUZZLE)
    return puzzle, _read_grid(_ROW.findall(text), scores[0]["guesses"].lower())


def _read_grid(grid: list[str], guesses: str) -> bytes:
    """The patterns of rows of squares, checked against the score: 1..6 or x."""
    if not grid:
        raise _UnusableError(Reason.NO_GRID)
    if any(len(row) != WORD_LENGTH for row in grid):
        raise _UnusableError(Reason.CUT_OFF)
    squares = set().union(*grid)
    if squares & STANDARD_SQUARES and squares & HIGH_CONTRAST_SQUARES:
        raise _UnusableError(Reason.MIXED_COLOURS)
    lost = guesses == "x"
    if len(grid) != (MAX_GUESSES if lost else int(guesses)):
        raise _UnusableError(Reason.WRONG_COUNT)
    patterns = bytes(_row_pattern(row) for row in grid)
    if patterns.find(ALL_GREEN) != (-1 if lost else len(grid) - 1):
        raise _UnusableError(Reason.WRONG_END)
    return patterns


@lru_cache(maxsize=1 << 12)
def _row_pattern(row: str) -> int:
    return int(pattern_of(np.array([SQUARES[square] for square in row], dtype=np.uint8)))


def _refuse_duplicates(tweet: _Tweet, puzzle: int, seen: set[int]) -> None:
    """Remember tweet and player; seen holds hashes only, and only while the file is read."""
    tweet_id, player = tweet.id.strip(), tweet.player.strip().lstrip("@").lower()
    same_tweet = hash(("tweet", tweet_id)) if tweet_id else None
    same_player = hash(("player", player, puzzle)) if player else None
    if same_tweet in seen:
        raise _UnusableError(Reason.SAME_TWEET)
    if same_player in seen:
        raise _UnusableError(Reason.SAME_PLAYER)
    seen.update(key for key in (same_tweet, same_player) if key is not None)


def _fit_letters(
    puzzles: NDArray[np.int64], patterns: NDArray[np.uint8], words: WordList, seed: int
) -> Games:
    """Games that give the patterns (games, 6), NO_ROW after the end; without the unfittable."""
    answers = _draw_answers(puzzles, patterns, words, seed)
    fitted = answers != NO_GUESS
    answers, patterns = answers[fitted], patterns[fitted]
    guesses = np.full(patterns.shape, NO_GUESS, dtype=np.int32)
    game, turn = np.nonzero(patterns != NO_ROW)
    chance = np.random.default_rng([seed, 2]).random(len(game))
    by_answer = np.argsort(answers[game], kind="stable")
    ends = np.cumsum(np.bincount(answers[game], minlength=len(words.answers)))
    for answer, rows in enumerate(np.split(by_answer, ends[:-1])):
        if len(rows) == 0:
            continue
        given = words.table[:, answer]
        by_pattern = np.argsort(given, kind="stable")
        counts = np.bincount(given, minlength=PATTERNS)
        starts = np.cumsum(counts) - counts
        wanted = patterns[game[rows], turn[rows]]
        draw = (chance[rows] * counts[wanted]).astype(np.int64)
        guesses[game[rows], turn[rows]] = by_pattern[starts[wanted] + draw]
    return Games(answers, guesses, np.zeros(len(answers), dtype=np.uint8), (BEHAVIOUR,))


def _draw_answers(
    puzzles: NDArray[np.int64], patterns: NDArray[np.uint8], words: WordList, seed: int
) -> NDArray[np.int32]:
    """(games,) answers against which words of the list give all patterns, -1 if none is found."""
    can_give = np.zeros((len(words.answers), NO_ROW + 1), dtype=bool)
    can_give[np.arange(len(words.answers)), words.table] = True
    can_give[:, NO_ROW] = True
    numbers, number = np.unique(puzzles, return_inverse=True)
    of_puzzle = [
        np.random.default_rng([seed, 0, puzzle]).integers(len(words.answers)) for puzzle in numbers
    ]
    answers = np.array(of_puzzle, dtype=np.int32)[number]
    rng = np.random.default_rng([seed, 1])
    misfits = np.arange(len(puzzles))
    for attempt in range(1 + ANSWERS_TRIED):
        if attempt > 0:
            answers[misfits] = rng.integers(len(words.answers), size=len(misfits))
        fits = can_give[answers[misfits, None], patterns[misfits]].all(axis=1)
        misfits = misfits[~fits]
        if len(misfits) == 0:
            break
    answers[misfits] = NO_GUESS
    return answers
