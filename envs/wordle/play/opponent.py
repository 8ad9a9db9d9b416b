"""A checkpoint as an opponent: it guesses whatever is due in a duel, and tells what it thought."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.data.language import BEGIN_ID, ActionGrammar
from textrl.envs.wordle.game import decode_words, encode_words
from textrl.envs.wordle.play.duel import Duel, Guess, Option, Rows, fitting, models_guess
from textrl.envs.wordle.task import LETTERS, WordleTask
from textrl.errors import UserError
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_agent

TOP_LETTERS = 3
MOST_BOARDS = 4096  # whose guess is remembered, a few kilobytes each
Board = tuple[tuple[str, int], ...]
"""Words and patterns."""
REMEDY = "`make wordle` trains one into runs/wordle, and a Hub id (USER/NAME) works too"


def letter_of(action: int) -> str:
    """The letter of an action number of Wordle's language."""
    return LETTERS[action % len(LETTERS)]


@dataclass(frozen=True)
class Opponent:
    """A model that plays. It keeps nothing of a game: every guess depends on the board alone.

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
        return self.guess_all([duel])[0]

    def guess_all(self, duels: Sequence[Duel]) -> list[Guess]:
        """The next guess in each of these games: one pass for all that are equally far.

        Not to be called by two threads at a time.
        """
        found: dict[int, Guess] = {}
        groups: dict[tuple[int, bool], list[int]] = {}
        for number, duel in enumerate(duels):
            is_free = self._is_free(duel)
            known = self._known.get(_board_of(duel)) if is_free else None
            if known is None:
                groups.setdefault((len(duel.models), is_free), []).append(number)
            else:
                found[number] = known
        for (_, is_free), numbers in groups.items():
            allowed = None if is_free else [self._fitting_words(duels[i]) for i in numbers]
            guesses = self._act([duels[i].models for i in numbers], allowed)
            found.update(zip(numbers, guesses, strict=True))
            if is_free and not self.decoding.sample:
                self._remember([duels[i] for i in numbers], guesses)
        return [found[i] for i in range(len(duels))]

    def _remember(self, duels: Sequence[Duel], guesses: Sequence[Guess]) -> None:
        """Greedy play is a function of the board, and most games begin alike."""
        for duel, guess in zip(duels, guesses, strict=True):
            self._known[_board_of(duel)] = guess
        while len(self._known) > MOST_BOARDS:
            del self._known[next(iter(self._known))]

    def advise(self, boards: Sequence[Rows]) -> list[tuple[Guess, float | None]]:
        """What the model would have guessed in place of each board's last guess, and that one's Q.

        Greedily, however it plays. Q is None of a word that is not on the model's list, and where
        there are no values.
        """
        if self.decoding.sample:
            return self._greedy.advise(boards)
        advice: list[tuple[Guess, float | None]] = []
        for board in boards:
            *before, last = board
            (its,) = self._act([tuple(before)], None)
            (yours,) = self._act([tuple(before)], [self._spelling([last.word])])
            is_known = last.word in self.task.words.guesses
            advice.append((its, yours.options[0].q if is_known else None))
        return advice

    def _act(self, boards: Sequence[Rows], allowed: Sequence[ActionGrammar] | None) -> list[Guess]:
        """A guess after each of these boards, all of the same number of rows."""
        policy = self._policy
        policy.begin(np.stack([self._history(rows) for rows in boards]))
        words = self._words(policy.act(allowed))
        compared = policy.candidates()
        options = self._words(np.array([each.action for some in compared for each in some]))
        named = iter(options)
        return [
            Guess(
                word,
                thoughts,
                tuple(Option(next(named), each.chance, each.q) for each in candidates),
                self.decoding.sample,
            )
            for word, thoughts, candidates in zip(
                words, policy.all_thoughts(TOP_LETTERS), compared, strict=True
            )
        ]

    @cached_property
    def _known(self) -> dict[Board, Guess]:
        return {}

    @cached_property
    def _policy(self) -> Policy:
        """Made once, because a long list's grammar takes longer to read than a guess."""
        seed = random.getrandbits(31)
        return Policy(self.model, self.task.language, self.decoding, seed, apart=True)

    @cached_property
    def _greedy(self) -> "Opponent":
        return replace(self, decoding=replace(self.decoding, sample=False))

    def _words(self, actions: NDArray[np.int64]) -> list[str]:
        return decode_words(self.task.to_env_actions(actions))

    def _history(self, rows: Rows) -> NDArray[np.int64]:
        """The tokens of a board."""
        task, history = self.task, [np.array([BEGIN_ID])]
        for row in rows:
            letters = encode_words([row.word])
            history += [
                task.actions(letters)[0] + task.language.first_action,
                task.clues(letters, np.array([row.pattern]))[0],
            ]
        return np.concatenate(history)

    def _is_free(self, duel: Duel) -> bool:
        """It may say any word: the person's colours have told nothing yet, or are not kept to."""
        return duel.mode != "stump" or (not duel.models and self.task.constrain)

    def _fitting_words(self, duel: Duel) -> ActionGrammar:
        """The spelling of the words that the person's colours leave."""
        words = self.task.words.guesses
        return self._spelling([words[i] for i in fitting(duel, duel.models)])

    def _spelling(self, words: Sequence[str]) -> ActionGrammar:
        actions = len(self.task.language.actions)
        return ActionGrammar.from_spellings(self.task.actions(encode_words(words)), actions)


def _board_of(duel: Duel) -> Board:
    return tuple((row.word, row.pattern) for row in duel.models)


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
