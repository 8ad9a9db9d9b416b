"""A checkpoint as an opponent: it guesses whatever is due in a duel, and tells what it thought."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.data.language import BEGIN_ID, ActionGrammar
from textrl.envs.wordle.game import decode_words, encode_words
from textrl.envs.wordle.play.duel import Duel, Guess, fitting, models_guess
from textrl.envs.wordle.task import LETTERS, WordleTask
from textrl.errors import UserError
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_agent

TOP_LETTERS = 3
REMEDY = "`make wordle` trains one into runs/wordle, and a Hub id (USER/NAME) works too"


def letter_of(action: int) -> str:
    """The letter of an action number of Wordle's language."""
    return LETTERS[action % len(LETTERS)]


@dataclass(frozen=True)
class Opponent:
    """A model that plays. It keeps nothing of a game: every guess reads the board from the start.

    So one opponent can play any number of games side by side.
    """

    name: str
    model: TextRLModel
    task: WordleTask
    decoding: Decoding

    @property
    def identity(self) -> str:
        """What its games are kept under: a folder may be called by several names."""
        return str(Path(self.name).resolve()) if Path(self.name).exists() else self.name

    @property
    def heads(self) -> list[str]:
        """By which it acts; others only trained it."""
        return [name for name in self.model.config.heads if name in ("policy", "q", "v")]

    def move(self, duel: Duel) -> Duel:
        """Make all guesses that are due."""
        while duel.is_models_turn:
            duel = models_guess(duel, self.guess(duel))
        return duel

    def guess(self, duel: Duel) -> Guess:
        """The model's next guess. In stump it keeps to the words that fit the colours."""
        task, history = self.task, [np.array([BEGIN_ID])]
        for row in duel.models:
            letters = encode_words([row.word])
            history += [
                task.actions(letters)[0] + task.language.first_action,
                task.clues(letters, np.array([row.pattern]))[0],
            ]
        policy = Policy(self.model, task.language, self.decoding, seed=random.getrandbits(31))
        policy.begin(np.concatenate(history)[None])
        action = policy.act(self._fitting_words(duel))
        return Guess(decode_words(task.to_env_actions(action))[0], policy.thoughts(TOP_LETTERS))

    def _fitting_words(self, duel: Duel) -> ActionGrammar | None:
        """The spelling of the words that the person's colours leave; None where all are allowed."""
        is_free = not duel.models and self.task.constrain
        if duel.mode != "stump" or is_free:
            return None
        letters = self.task.words.guess_letters[fitting(duel, duel.models)]
        actions = len(self.task.language.actions)
        return ActionGrammar.from_spellings(self.task.actions(letters), actions)


def refuse_missing(name: str) -> None:
    """Refuse a folder that is not there, unless the name may be one on the Hub."""
    parts = Path(name).parts
    if not Path(name).exists() and (len(parts) != 2 or parts[0] in ("runs", ".", "..", "/")):
        raise UserError(f"there is no checkpoint {name!r}: {REMEDY}")


def load_opponent(name: str, beta: float | None = None, sample: bool = False) -> Opponent:
    """The Wordle player in a checkpoint folder or Hub repo; beta None: as trained."""
    refuse_missing(name)
    try:
        model, task = load_agent(name, "wordle")
    except UserError as error:
        if Path(name).exists():
            raise
        raise UserError(f"{error}; {REMEDY}") from error
    if not isinstance(task, WordleTask):
        raise UserError(f"{name!r} has learned {task.name!r}: only wordle can be played against")
    decoding = Decoding.of(model, sample, beta)
    return Opponent(name, model, task, decoding)
