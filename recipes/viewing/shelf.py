"""What is browsed: conversations or episodes, one at a time, as people read them."""

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from textrl.data.batches import read_rows
from textrl.data.conversation import AGENT, Conversation
from textrl.data.dataset import Rows, table_of
from textrl.data.language import Language
from textrl.data.windows import cuts_of
from textrl.envs.text.index import Index
from textrl.errors import UserError

LONGEST_TITLE = 80  # characters


@dataclass(frozen=True)
class Part:
    """Something that was said, done or seen."""

    who: str
    text: str
    reward: float = 0.0
    turn: int | None = None
    """Which of the agent's turns it is, from 0; None for what others said."""


@dataclass(frozen=True)
class Shown:
    """An episode, for the page."""

    row: int
    called: str
    earned: float
    behaviour: str
    truncated: bool
    parts: list[Part]

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        return asdict(self)


class Shelf(Protocol):
    """Episodes by their row."""

    name: str
    unit: str
    """What people call one of them."""
    returns: NDArray[np.float32]

    def title(self, row: int) -> str:
        """A row in a line."""

    def show(self, row: int) -> Shown:
        """All of a row."""


class Conversations:
    """Of a file that was looked through."""

    unit = "conversation"

    def __init__(self, index: Index) -> None:
        self.name, self._index = index.source.name, index
        self.returns = index.returns()

    def read(self, row: int) -> Conversation:
        """As it was logged."""
        (found,) = self._index.read(np.array([row]))
        return found

    def title(self, row: int) -> str:
        """The first words that are not the system's."""
        said = [each.content for each in self.read(row).messages if each.role != "system"]
        return shortened(said[0])

    def show(self, row: int) -> Shown:
        """Message by message."""
        conversation = self.read(row)
        parts, turns = [], 0
        for number, message in enumerate(conversation.messages):
            # A turn before anything was seen is no choice.
            is_turn = message.role == AGENT and number > 0
            turn = turns if is_turn else None
            parts.append(Part(message.role, message.content, message.reward, turn))
            turns += is_turn
        called = f"{self._index.source.unit} {self._index.entries['number'][row]}"
        earned = conversation.episode_return
        return Shown(row, called, earned, conversation.behaviour, conversation.truncated, parts)


class Episodes:
    """Of a dataset of a game."""

    unit = "episode"

    def __init__(self, name: str, rows: Dataset, language: Language) -> None:
        if language.frame_id is not None:
            raise UserError(f"{name!r} has frames, which the page cannot show: see textrl film")
        self.name, self.rows, self.language = name, rows, language
        self.returns = np.array(table_of(rows, ["episode_return"])["episode_return"])

    def read(self, row: int) -> Rows:
        """Its tokens."""
        return read_rows(self.rows, np.array([row]))

    def title(self, row: int) -> str:
        """How it begins."""
        return shortened(self.text(self.read(row).tokens[1:LONGEST_TITLE]))

    def text(self, tokens: NDArray[np.int32]) -> str:
        """Tokens as people read them."""
        return " ".join(self.language.tokens[token] for token in tokens.tolist())

    def show(self, row: int) -> Shown:
        """Action by action."""
        found = self.read(row)
        parts: list[Part] = []
        cuts = cuts_of(found.tokens, found.is_action, self.language)
        for turn in range(cuts.actions):
            seen = slice(cuts.starts[turn], cuts.stops[turn])
            if seen.stop > seen.start:
                parts.append(Part("seen", self.text(found.tokens[seen])))
            said = slice(cuts.stops[turn], cuts.starts[turn + 1])
            earned = float(found.reward[said].sum())
            parts.append(Part("agent", self.text(found.tokens[said]), earned, turn))
        if len(rest := found.tokens[cuts.starts[-1] :]):
            parts.append(Part("seen", self.text(rest)))
        about = self.rows[row]
        earned, who = float(about["episode_return"]), str(about["behaviour"])
        return Shown(row, f"row {row}", earned, who, bool(about["truncated"]), parts)


def shortened(text: str) -> str:
    """Its beginning, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"
