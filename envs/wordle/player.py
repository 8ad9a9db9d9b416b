"""An agent as a function from a board to its next word, for loops of one's own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.data.language import BEGIN_ID
from textrl.envs.wordle.game import decode_words, pattern_of
from textrl.envs.wordle.shipped import SHIPPED_AGENT
from textrl.envs.wordle.task import WordleTask
from textrl.errors import UserError
from textrl.sharing.checkpoint import load_agent

Player = Callable[[NDArray[np.int8]], str]
"""Of the board as textrl/Wordle-v0 shows it, the word to guess next."""


def load_player(
    name: str | Path = SHIPPED_AGENT,
    beta: float | None = None,
    sample: bool = False,
    seed: int = 0,
) -> Player:
    """The agent that ships with textrl, or the one in a checkpoint folder or Hub repo.

    beta: the weight of Q - V against log pi; None = as trained. sample: draw words by chance.
    """
    model, task = load_agent(str(name), "wordle")
    if not isinstance(task, WordleTask):
        raise UserError(f"{str(name)!r} has learned {task.name!r}, not wordle")
    policy = Policy(model, task.language, Decoding.of(model, sample, beta), seed)

    def player(board: NDArray[np.int8]) -> str:
        policy.begin(history(task, board)[None])
        return decode_words(task.to_env_actions(policy.act()))[0]

    return player


def history(task: WordleTask, board: NDArray[np.int8]) -> NDArray[np.int64]:
    """The tokens of a game so far; board: (6, 5, 2) letters and colours, -1 where none is."""
    made = board[board[:, 0, 0] >= 0]
    letters, patterns = made[:, :, 0], pattern_of(made[:, :, 1].astype(np.uint8))
    guesses = task.actions(letters) + task.language.first_action
    turns = np.concatenate([guesses, task.clues(letters, patterns)], axis=1)
    return np.concatenate([[BEGIN_ID], turns.ravel()])
