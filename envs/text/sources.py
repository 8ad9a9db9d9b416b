"""Where conversations lie: JSONL, Parquet, a folder of `datasets`, or the Hub. Never all in RAM."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, load_dataset
from datasets import load_from_disk as load_folder
from numpy.typing import NDArray

from textrl.config.hub_names import is_hub_name
from textrl.data.batches import take_rows
from textrl.data.conversation import (
    GROUP,
    ROW_KEYS,
    BadRow,
    Conversation,
    other_format,
    parse_line,
    read_conversation,
)
from textrl.data.dataset import files_of, table_of
from textrl.data.download import reason
from textrl.envs.text.index import Source
from textrl.errors import UserError

LONGEST_LINE = 16_000_000  # bytes
ROWS_AT_ONCE = 500
SUFFIXES = (".jsonl", ".json", ".ndjson", ".parquet")


def open_source(name: str, group_by: str = "") -> Source:
    """The conversations of this name; group_by: the column by which they belong together."""
    group_by = group_by or GROUP
    path = Path(name)
    if path.is_file() and path.suffix != ".parquet":
        return JsonLines(path, group_by)
    rows = load_rows(name)
    if "messages" not in rows.features:
        have = ", ".join(rows.features) or "none"
        other = other_format(rows.features)
        remedy = f": convert it with textrl collect --from {other}" if other else ""
        raise UserError(f"{name!r} has no column 'messages' (its columns: {have}){remedy}")
    return ArrowRows(name, rows, group_by)


def load_rows(name: str) -> Dataset:
    """A Parquet file, a folder of `datasets` or a Hub id, whatever its columns are."""
    path = Path(name)
    try:
        if path.is_dir():
            rows = load_folder(name)
        elif path.is_file():
            rows = load_dataset("parquet", data_files=name, split="train")
        elif is_hub_name(name) and path.suffix not in SUFFIXES:
            rows = load_dataset(name, split="train")
        else:
            raise UserError(
                f"no such conversations: {name!r} (--data takes a .jsonl or .parquet file, a"
                " folder that datasets saved, or a Hub id)"
            )
    except UserError:
        raise
    except Exception as error:  # datasets raises its own, pyarrow's and the Hub's errors
        raise UserError(f"cannot read the conversations {name!r}: {reason(error)}") from error
    if not isinstance(rows, Dataset):
        raise UserError(f"{name!r} is not a single dataset: give the folder of one split")
    return rows


class JsonLines:
    """A conversation a line. A row's place is the byte at which its line begins."""

    unit = "line"

    def __init__(self, path: Path, group_by: str = GROUP) -> None:
        self.name, self._path, self._group_by = str(path), path, group_by
        self.size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                raise UserError(f"{self.name!r} is compressed: unpack it with gunzip first")

    def identity(self) -> list[Any]:
        """By path, size and time of the last change: content is not read twice to compare it."""
        about = self._path.stat()
        where = str(self._path.resolve())
        return ["jsonl", where, about.st_size, about.st_mtime_ns, self._group_by]

    def scan(self) -> Iterator[tuple[int, int, Conversation | BadRow]]:
        """Every line but empty ones."""
        with self._path.open("rb") as file:
            place, number = 0, 0
            while line := file.readline(LONGEST_LINE):
                number += 1
                is_whole = line.endswith(b"\n") or len(line) < LONGEST_LINE
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):  # a byte order mark
                    place, line = 3, line[3:]
                if not is_whole:
                    fault = BadRow(
                        "too long",
                        f"the line has more than {LONGEST_LINE:,} bytes",
                        "split the conversation or remove the row",
                    )
                    while line and not line.endswith(b"\n"):
                        line = file.readline(LONGEST_LINE)
                    yield place, number, fault
                elif line.strip():
                    yield place, number, _parsed(line, self._group_by)
                place = file.tell()

    def read(self, places: NDArray[np.int64]) -> Iterator[Conversation]:
        """Seek and read."""
        with self._path.open("rb") as file:
            for place in places.tolist():
                file.seek(place)
                found = _parsed(file.readline(LONGEST_LINE), self._group_by)
                if isinstance(found, BadRow):
                    raise UserError(
                        f"{self.name!r} has changed since it was checked: start again, and do not"
                        " write to it meanwhile"
                    )
                yield found


def _parsed(line: bytes, group_by: str) -> Conversation | BadRow:
    try:
        return parse_line(line, group_by)
    except BadRow as fault:
        return fault


class ArrowRows:
    """Rows of Arrow files, mapped into memory. A row's place is its number, from 0."""

    unit = "row"

    def __init__(self, name: str, rows: Dataset, group_by: str = GROUP) -> None:
        self.name, self._rows, self.size = name, rows, len(rows)
        self._group_by = group_by
        self._columns = [key for key in {*ROW_KEYS, group_by} if key in rows.features]

    def identity(self) -> list[Any]:
        """By the files that hold the rows."""
        files = [Path(file) for file in files_of(self._rows)]
        about = [[str(f.resolve()), f.stat().st_size, f.stat().st_mtime_ns] for f in files]
        return ["arrow", about or self._rows._fingerprint, self._group_by]

    def scan(self) -> Iterator[tuple[int, int, Conversation | BadRow]]:
        """Every row."""
        for first in range(0, self.size, ROWS_AT_ONCE):
            numbers = np.arange(first, min(first + ROWS_AT_ONCE, self.size))
            for number, row in zip(numbers.tolist(), self._taken(numbers), strict=True):
                try:
                    yield number, number, read_conversation(row, self._group_by)
                except BadRow as fault:
                    yield number, number, fault

    def read(self, places: NDArray[np.int64]) -> Iterator[Conversation]:
        """Through a map that is dropped afterwards, and its pages with it."""
        return (read_conversation(row, self._group_by) for row in self._taken(places))

    def _taken(self, numbers: NDArray[np.int64]) -> list[dict[str, Any]]:
        taken: list[dict[str, Any]] = take_rows(
            table_of(self._rows, self._columns), numbers
        ).to_pylist()
        return taken
