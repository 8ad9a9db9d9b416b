"""Many finished Wordle games as arrays: what a crowd played, before it becomes episodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import MAX_GUESSES, score
from textrl.envs.wordle.words import WordList

NO_GUESS = -1
PATTERN_CHUNK = 1 << 16


@dataclass(frozen=True)
class Games:
    """Finished games over one word list.

    answers: (games,) index into words.answers.
    guesses: (games, 6) index into words.guesses, NO_GUESS after the end of the game.
    behaviour: (games,) uint8 index into behaviours, the names of who played.

    A word list names its answers first among its guesses, so a game is won when a guess equals its
    answer; nothing here needs the words themselves except their number and the colours.
    """

    answers: NDArray[np.int32]
    guesses: NDArray[np.int32]
    behaviour: NDArray[np.uint8]
    behaviours: tuple[str, ...]

    def __post_init__(self) -> None:
        count = len(self.answers)
        if self.guesses.shape != (count, MAX_GUESSES) or self.behaviour.shape != (count,):
            raise ValueError(
                f"games need answers (n,), guesses (n, {MAX_GUESSES}) and behaviour (n,); got "
                f"{self.answers.shape}, {self.guesses.shape} and {self.behaviour.shape}"
            )
        if count == 0:
            return
        if self.answers.min() < 0 or self.guesses.min() < NO_GUESS:
            raise ValueError("answers start at 0 and guesses at -1 (no guess)")
        if self.behaviour.max() >= len(self.behaviours):
            raise ValueError(f"behaviour {self.behaviour.max()} has no name in {self.behaviours}")
        played = self.guesses != NO_GUESS
        right = self.guesses == self.answers[:, None]
        ended = np.logical_or.accumulate(right, axis=1)
        # A turn is played exactly when no earlier guess was right.
        expected = np.concatenate([np.ones((count, 1), dtype=bool), ~ended[:, :-1]], axis=1)
        wrong = np.flatnonzero((played != expected).any(axis=1))
        if len(wrong):
            raise ValueError(
                f"{len(wrong)} of {count} games stop early or go on after the answer, first: game "
                f"{wrong[0]} with answer {self.answers[wrong[0]]}, guesses {self.guesses[wrong[0]]}"
            )

    def __len__(self) -> int:
        return len(self.answers)

    def turns(self) -> NDArray[np.int64]:
        """(games,) number of guesses made, 1..6."""
        return np.asarray((self.guesses != NO_GUESS).sum(axis=1))

    def won(self) -> NDArray[np.bool_]:
        """(games,) whether the answer was found."""
        return np.asarray((self.guesses == self.answers[:, None]).any(axis=1))

    def scores(self) -> NDArray[np.int64]:
        """(games,) minus one for each wrong guess: 0 for a win at once, -6 for a loss."""
        return self.won() - self.turns()

    def histogram(self) -> NDArray[np.float64]:
        """(7,) share of games won in 1..6 guesses, then of games lost."""
        outcome = np.where(self.won(), self.turns() - 1, MAX_GUESSES)
        return np.bincount(outcome, minlength=MAX_GUESSES + 1) / max(1, len(self))

    def patterns(self, words: WordList) -> NDArray[np.int16]:
        """(games, 6) colour pattern of each guess, -1 where there is no guess."""
        letters = words.guess_letters
        patterns = np.empty(self.guesses.shape, dtype=np.int16)
        for start in range(0, len(self), PATTERN_CHUNK):
            rows = slice(start, start + PATTERN_CHUNK)
            patterns[rows] = score(letters[self.guesses[rows]], letters[self.answers[rows], None])
        patterns[self.guesses == NO_GUESS] = NO_GUESS
        return patterns

    def select(self, which: NDArray[np.bool_]) -> "Games":
        """The games where which (games,) is True."""
        return Games(
            self.answers[which], self.guesses[which], self.behaviour[which], self.behaviours
        )


def concatenate(parts: Sequence[Games]) -> Games:
    """The games of all parts in order; the parts must name their behaviours alike."""
    behaviours = parts[0].behaviours
    if any(part.behaviours != behaviours for part in parts):
        raise ValueError("games of different behaviours cannot be joined")
    return Games(
        np.concatenate([part.answers for part in parts]),
        np.concatenate([part.guesses for part in parts]),
        np.concatenate([part.behaviour for part in parts]),
        behaviours,
    )
