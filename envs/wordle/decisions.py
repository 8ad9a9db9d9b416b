"""Decision trees: a deterministic player as a guess and, for each pattern, what to do next."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import ALL_GREEN, MAX_GUESSES

Table = NDArray[np.uint8]
"""(guesses, answers) patterns; the answers are the first guesses."""
Answers = NDArray[np.intp]
"""Indices of the answers that are still possible, ascending."""


@dataclass(frozen=True)
class Decision:
    """Guess this word (an index in the guesses), then follow the reply to the pattern seen."""

    guess: int
    replies: Mapping[int, "Decision"]
    """None for all green, nor after the last guess."""


def count_parts(table: Table, remaining: Answers) -> NDArray[np.intp]:
    """(guesses,) into how many parts each guess would split the remaining answers."""
    patterns = np.sort(table[:, remaining], axis=1)
    is_new = patterns[:, 1:] != patterns[:, :-1]
    return np.asarray(1 + is_new.sum(axis=1))


def split(table: Table, guess: int, remaining: Answers) -> dict[int, Answers]:
    """The remaining answers by the pattern that the guess would get, without the all-green part."""
    patterns = table[guess, remaining]
    return {
        int(pattern): remaining[patterns == pattern]
        for pattern in np.unique(patterns)
        if pattern != ALL_GREEN
    }


def wrong_guesses(tree: Decision, table: Table) -> NDArray[np.intp]:
    """(answers,) how many wrong guesses the tree makes for each answer; a lost game counts six."""
    wrong = np.zeros(table.shape[1], dtype=np.intp)

    def follow(decision: Decision, remaining: Answers, turn: int) -> None:
        for pattern, part in split(table, decision.guess, remaining).items():
            reply = decision.replies.get(pattern)
            if reply is None or turn == MAX_GUESSES:
                wrong[part] = MAX_GUESSES
            else:
                wrong[part] = turn
                follow(reply, part, turn + 1)

    follow(tree, np.arange(table.shape[1]), turn=1)
    return wrong
