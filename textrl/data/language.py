"""A task's token language: its tokens, which of them are actions, how actions are spelled."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

PAD, BEGIN = "<pad>", "<begin>"
PAD_ID, BEGIN_ID = 0, 1
MOST_ACTIONS = 100_000
"""More whole actions than this are not listed one by one."""
FRAME = "<frame>"  # an observation token that stands for a whole frame of pixels


@dataclass(frozen=True, eq=False)
class ActionGrammar:
    """Which action tokens may follow each other within one action: a finite automaton.

    next_state: (states, actions). State 0 begins an action, and coming back to it completes one;
    -1 marks a token that is illegal there.
    """

    next_state: NDArray[np.int32]

    @classmethod
    def from_spellings(cls, spellings: NDArray[np.integer], actions: int) -> "ActionGrammar":
        """The automaton (a trie) that spells exactly these actions, given as (n, length) tokens."""
        rows = [[-1] * actions]
        for spelling in spellings.tolist():
            state = 0
            for token in spelling[:-1]:
                if rows[state][token] <= 0:
                    rows[state][token] = len(rows)
                    rows.append([-1] * actions)
                state = rows[state][token]
            rows[state][spelling[-1]] = 0
        return cls(np.array(rows, dtype=np.int32))

    @classmethod
    def from_slots(cls, slots: Sequence[Sequence[int]], actions: int) -> "ActionGrammar":
        """The automaton that takes, slot by slot, any of the tokens listed for that slot."""
        table = np.full((len(slots), actions), -1, dtype=np.int32)
        for state, tokens in enumerate(slots):
            table[state, list(tokens)] = (state + 1) % len(slots)
        return cls(table)

    @cached_property
    def legal(self) -> NDArray[np.bool_]:
        """(states, actions): True where the token may be chosen."""
        return self.next_state >= 0

    def spellings(self, most: int = MOST_ACTIONS) -> NDArray[np.int64]:
        """Every action, (actions, tokens) in ascending order; all must be of one length."""
        spelled = np.zeros((1, 0), dtype=np.int64)
        states: NDArray[np.integer] = np.zeros(1, dtype=np.int64)
        while True:
            row, token = np.nonzero(self.legal[states])
            if len(row) > most:
                raise ValueError(f"there are more than {most:,} actions")
            spelled = np.column_stack([spelled[row], token])
            states = self.next_state[states[row], token]
            if not states.all():
                break
        if states.any():
            raise ValueError("the actions are not of one length")
        return spelled

    def states_along(
        self, actions: NDArray[np.integer], real: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """The states before each token of (batch, actions) sequences and after the last one.

        Shape (batch, actions + 1). Where `real` is False there is no token and the state stays;
        after an illegal token it is -1.
        """
        states = np.zeros((len(actions), actions.shape[1] + 1), dtype=np.int32)
        if len(self.next_state) == 1:  # every token is an action: no need to go one by one
            is_illegal = real & ~self.legal[0, actions]
            states[:, 1:] = -is_illegal.cumsum(axis=1).clip(max=1)
            return states
        for i in range(actions.shape[1]):
            state = states[:, i]
            follows = np.where(state >= 0, self.next_state[state, actions[:, i]], -1)
            states[:, i + 1] = np.where(real[:, i], follows, state)
        return states


class TokenLanguage(Protocol):
    """What batches, models and checkpoints ask of a task's tokens."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token, in the order of the ids."""

    @property
    def actions(self) -> tuple[str, ...]:
        """The tokens that can be chosen; their ids are contiguous."""

    @property
    def first_action(self) -> int:
        """The id of the first action token."""

    @property
    def grammar(self) -> ActionGrammar | None:
        """Which tokens may follow each other; None = any, and the rows tell where actions end."""

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The language as a transformers tokenizer."""


@dataclass(frozen=True, eq=False)
class Language:
    """The tokens of one task. Ids: padding, begin, then the observations, then the actions.

    The actions' ids are contiguous, so that a head has one output per action and token id and
    action number differ by `first_action`.
    """

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    grammar: ActionGrammar
    kinds: tuple[int, ...] | None = None
    """Of each action, numbered from 0: what it is wherever in a whole action it stands, such as its
    letter. None: every one is of its own kind."""

    def __post_init__(self) -> None:
        if len(set(self.tokens)) != len(self.tokens):
            raise ValueError("a token occurs twice in the language")
        if self.grammar.next_state.shape[1] != len(self.actions):
            raise ValueError("the grammar's width is not the number of actions")

    @property
    def tokens(self) -> tuple[str, ...]:
        """Every token, in the order of the ids."""
        return (PAD, BEGIN, *self.observations, *self.actions)

    @property
    def first_observation(self) -> int:
        """The id of the first observation token."""
        return BEGIN_ID + 1

    @property
    def first_action(self) -> int:
        """The id of the first action token."""
        return self.first_observation + len(self.observations)

    @cached_property
    def frame_id(self) -> int | None:
        """The id of FRAME, in a language that has it."""
        return self.tokens.index(FRAME) if FRAME in self.observations else None

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The language as a transformers tokenizer: one word of the text, one token."""
        return word_tokenizer(self.tokens, bos_token=BEGIN)


def word_tokenizer(tokens: Sequence[str], **special: str) -> PreTrainedTokenizerFast:
    """A transformers tokenizer of exactly these tokens, in the order of their ids."""
    vocabulary = {token: i for i, token in enumerate(tokens)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token=PAD, **special)
