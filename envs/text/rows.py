"""Conversations -> rows of tokens, when a batch needs them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from textrl.data.chat import Spelled, TextLanguage
from textrl.data.conversation import BadRow, Conversation
from textrl.data.dataset import Rows
from textrl.envs.text.index import Index
from textrl.errors import UserError

HOW_TO_SKIP = "--on-bad-rows skip leaves such rows out, textrl collect --check lists them"


class TextRows:
    """The rows of an index as tokens, none longer than the context."""

    def __init__(
        self,
        index: Index,
        language: TextLanguage,
        context: int,
        discount: float,
        skips_bad: bool = False,
    ) -> None:
        """skips_bad: a row that the template cannot write leaves its place to another one."""
        self._index, self._language, self._context = index, language, context
        self._discount, self._skips_bad = discount, skips_bad
        self.counted = Counter[str]()
        """Conversations read, those of them that were cut, those whose last turn was."""

    def __len__(self) -> int:
        return len(self._index)

    def read(self, indices: NDArray[np.int64]) -> Rows:
        """The rows with these (sorted) indices."""
        found: list[tuple[Conversation, Spelled] | None] = []
        for row, conversation in zip(indices.tolist(), self._index.read(indices), strict=True):
            try:
                spelled = self._language.spell(conversation, self._context, self._discount)
                found.append((conversation, spelled))
            except BadRow as fault:
                if not self._skips_bad:
                    called = self._index.called(row)
                    raise UserError(f"{called}: {fault} ({HOW_TO_SKIP})") from None
                found.append(None)
        good = [each for each in found if each is not None]
        if not good:
            raise UserError(
                f"{self._index.source.name!r}: none of {len(found)} conversations in a row can be"
                " tokenized; textrl collect --check shows why"
            )
        self.counted["read"] += len(good)
        self.counted["cut"] += sum(spelled.is_cut for _, spelled in good)
        self.counted["turns cut"] += sum(spelled.is_turn_cut for _, spelled in good)
        # A step has its number of rows, whatever they are worth.
        spare = iter(good * len(found))
        return rows_of([each or next(spare) for each in found])


def rows_of(conversations: Sequence[tuple[Conversation, Spelled]]) -> Rows:
    """Conversations side by side."""
    spelled = [each for _, each in conversations]
    weight = np.array([conversation.weight for conversation, _ in conversations], np.float32)
    tokens = np.concatenate([each.tokens for each in spelled]).astype(np.int32)
    return Rows(
        offsets=np.cumsum([0, *(len(each.tokens) for each in spelled)]),
        tokens=tokens,
        is_action=np.concatenate([each.is_action for each in spelled]),
        reward=np.concatenate([each.reward for each in spelled]).astype(np.float32),
        observation=np.full(len(tokens), -1, dtype=np.int32),
        truncated=np.array([each.truncated for each in spelled]),
        rest=np.array([each.rest for each in spelled], dtype=np.float32),
        ends_action=np.concatenate([each.ends_action for each in spelled]),
        weight=None if (weight == 1).all() else weight,
    )
