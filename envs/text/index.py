"""Where a file's good rows are: looked through once, remembered in a small file, read as needed."""

import hashlib
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from textrl.data.chat import TextLanguage
from textrl.data.collect import cache_folder
from textrl.data.conversation import AGENT, BadRow, Conversation
from textrl.data.outliers import outliers, remark_on
from textrl.data.progress import progress_bar

VERSION = 2  # of what is remembered: another one is made anew
ENTRY = np.dtype(
    [("place", "<i8"), ("number", "<i8"), ("return", "<f4"), ("group", "<i8"), ("texts", "<i8")]
)
"""Of one good row: where it is, what people call it, what it earned, which group it belongs to (0 =
none) and what was said in it, the last two as digests."""
INDEX_FILE, SUMMARY_FILE = "index.bin", "summary.json"
BUFFERED = 65_536  # entries that are written at once
PATIENCE = 2  # seconds after which a progress bar appears

OnBad = Callable[[int, BadRow], None]


class Source(Protocol):
    """A file of conversations, whatever its format."""

    name: str
    unit: str
    """What a row is called: line or row."""
    size: int
    """For the progress bar, in what `place` counts."""

    def identity(self) -> list[Any]:
        """By which it is known again, as JSON; changes with the content."""

    def scan(self) -> Iterator[tuple[int, int, Conversation | BadRow]]:
        """Every row in order: its place, its number, and what it holds or what is wrong."""

    def read(self, places: NDArray[np.int64]) -> Iterator[Conversation]:
        """The rows at these (sorted) places."""


@dataclass
class Summary:
    """What is in a file."""

    rows: int = 0
    messages: int = 0
    turns: int = 0
    rewarded_turns: int = 0
    lowest_reward: float = math.inf
    highest_reward: float = -math.inf
    truncated: int = 0
    weighted: int = 0
    returns: dict[str, list[float]] = field(default_factory=dict)
    """By behaviour: how many rows, the sum of their returns."""
    bad: dict[str, int] = field(default_factory=dict)
    """Bad rows by kind."""
    first_bad: str = ""

    @property
    def bad_rows(self) -> int:
        """Of any kind."""
        return sum(self.bad.values())

    def add(self, conversation: Conversation) -> None:
        """Take in a good row."""
        turns = [m for m in conversation.messages[1:] if m.role == AGENT]
        rewards = [turn.reward for turn in turns]
        self.rows += 1
        self.messages += len(conversation.messages)
        self.turns += len(turns)
        self.rewarded_turns += sum(reward != 0 for reward in rewards)
        self.lowest_reward = min(self.lowest_reward, *rewards)
        self.highest_reward = max(self.highest_reward, *rewards)
        self.truncated += conversation.truncated
        self.weighted += conversation.weight != 1
        behaviour = conversation.behaviour
        if behaviour not in self.returns and len(self.returns) >= MOST_BEHAVIOURS:
            behaviour = "others"
        entry = self.returns.setdefault(behaviour, [0, 0.0])
        entry[0] += 1
        entry[1] += conversation.episode_return


MOST_BEHAVIOURS = 50  # that are told apart


@dataclass(frozen=True)
class Index:
    """The good rows of a source."""

    source: Source
    entries: NDArray[Any]
    """Mapped from a file, one ENTRY each."""
    summary: Summary

    def __len__(self) -> int:
        return len(self.entries)

    def returns(self) -> NDArray[np.float32]:
        """What each row earned."""
        return np.array(self.entries["return"])

    def groups(self) -> NDArray[np.int64]:
        """By which rows belong together; one without a group is alone."""
        named = np.array(self.entries["group"])
        return np.where(named == 0, -1 - np.arange(len(named)), named)

    def remark(self) -> str:
        """A warning of returns far beyond all others; "" = there are none."""
        returns = self.returns()
        far = outliers(returns)
        if not len(far):
            return ""
        number = self.entries["number"][far[0]]
        return remark_on(returns, f"{self.source.unit} {number}", "a return")

    def texts(self) -> NDArray[np.int64]:
        """Equal where the same was said."""
        return np.array(self.entries["texts"])

    def called(self, row: int) -> str:
        """For people: where a row is."""
        return f"{self.source.name}: {self.source.unit} {self.entries['number'][row]}"

    def read(self, rows: NDArray[np.int64]) -> Iterator[Conversation]:
        """These (sorted) rows."""
        return self.source.read(np.array(self.entries["place"][rows]))


def make_index(source: Source, language: TextLanguage | None, on_bad: OnBad | None = None) -> Index:
    """Look through a file once; what was found is remembered until the file changes.

    language: whose template has to be able to write the rows. on_bad: is told of every bad row, so
    nothing remembered is used.
    """
    told = [VERSION, *source.identity(), language.digest if language else ""]
    digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
    folder = cache_folder() / "conversations" / digest
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # several runs may start at once
        if on_bad is not None or not folder.exists():
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            summary = _write_index(source, language, on_bad, partial / INDEX_FILE)
            (partial / SUMMARY_FILE).write_text(json.dumps(asdict(summary)))
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(partial, folder)
    summary = Summary(**json.loads((folder / SUMMARY_FILE).read_text()))
    # An empty file cannot be mapped.
    empty = np.empty(0, ENTRY)
    entries = np.memmap(folder / INDEX_FILE, ENTRY, "r") if summary.rows else empty
    return Index(source, entries, summary)


def _write_index(
    source: Source, language: TextLanguage | None, on_bad: OnBad | None, path: Path
) -> Summary:
    summary, bad = Summary(), Counter[str]()
    entries: list[tuple[int, int, float, int, int]] = []
    bar = progress_bar(
        total=source.size,
        desc=f"checking {source.name}",
        unit="B" if source.unit == "line" else source.unit,
        unit_scale=True,
        delay=PATIENCE,
        leave=False,
    )
    with bar, path.open("wb") as file:
        for place, number, found in source.scan():
            bar.update(place - bar.n)
            try:
                if isinstance(found, BadRow):
                    raise found
                if language is not None:
                    language.check(found)
            except BadRow as fault:
                bad[fault.kind] += 1
                summary.first_bad = summary.first_bad or f"{source.unit} {number}: {fault}"
                if on_bad is not None:
                    on_bad(number, fault)
                continue
            summary.add(found)
            group = digest_of(found.group) if found.group else 0
            texts = digest_of(json.dumps(found.texts))
            entries.append((place, number, found.episode_return, group, texts))
            if len(entries) == BUFFERED:
                np.array(entries, ENTRY).tofile(file)
                entries.clear()
        np.array(entries, ENTRY).tofile(file)
    summary.bad = dict(bad.most_common())
    return summary


def digest_of(text: str) -> int:
    """A number above 0 by which a text is known again."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 1) or 1
