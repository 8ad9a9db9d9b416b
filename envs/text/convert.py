"""Conversations in another format -> a JSONL file of ours, row by row."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset
from tqdm import tqdm

from textrl.data.collect import refuse_existing
from textrl.data.conversation import BadRow, decode_line, read_conversation
from textrl.data.files import scratch_folder
from textrl.data.progress import progress_bar
from textrl.envs.text.check import FAULTS_SHOWN, describe_summary, printable
from textrl.envs.text.formats import FORMATS, Row
from textrl.envs.text.index import PATIENCE, Summary
from textrl.envs.text.sources import load_rows
from textrl.errors import UserError, first_line, unknown

OUTPUT_SUFFIXES = (".jsonl", ".ndjson")


def convert_file(
    format_name: str, name: str, output: Path, reward: str, keeps_calls: bool, skips_bad: bool
) -> None:
    """Write the conversations of a file or a Hub id in our format, and say what is in them.

    reward: the key of a row that holds its reward. Bad rows are an error unless they are skipped;
    then the file is not written.
    """
    if format_name not in FORMATS:
        raise unknown("format", format_name, FORMATS)
    if output.suffix not in OUTPUT_SUFFIXES:
        raise UserError(f"--output must end in {' or '.join(OUTPUT_SUFFIXES)}, not {str(output)!r}")
    refuse_existing(output)
    unit, rows = read_rows(name)
    summary, bad = Summary(), Counter[str]()
    with scratch_folder(output) as scratch:
        written = scratch / output.name
        with written.open("w", encoding="utf-8") as file:
            for number, row in rows:
                try:
                    for ours in converted(row, number, format_name, reward, keeps_calls):
                        summary.add(read_conversation(ours))
                        print(json.dumps(ours, ensure_ascii=False), file=file)
                except BadRow as fault:
                    bad[fault.kind] += 1
                    if bad.total() <= FAULTS_SHOWN:
                        tqdm.write(f"{unit} {number}: {printable(str(fault))}")
        summary.bad = dict(bad.most_common())
        if not summary.rows:
            raise UserError(f"{name!r} has no conversation of the format {format_name!r}")
        if bad and not skips_bad:
            raise UserError(
                f"{bad.total():,} rows of {name!r} are bad: fix them, or leave them out with"
                " --on-bad-rows skip"
            )
        written.rename(output)
    print(describe_summary(str(output), summary, None, 0))
    print(f"\nnext: textrl collect --check {output} --backbone MODEL")


def converted(
    row: Row | BadRow, number: int, format_name: str, reward: str, keeps_calls: bool
) -> list[Row]:
    """A row as rows of ours; those that come of one row share a group."""
    if isinstance(row, BadRow):
        raise row
    if reward != "reward":
        if row.get(reward) is None:
            raise BadRow("reward", f"no {reward!r}", "every row needs it: see --reward-column")
        row = {**row, "reward": row[reward]}
    try:
        found = FORMATS[format_name].convert(row, keeps_calls)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"it is not as {format_name} has rows ({first_line(error)})"
        raise BadRow("wrong type", what, "mend or remove it") from None
    if len(found) > 1:
        found = [{"group": f"row {number}", **each} for each in found]
    return found


def read_rows(name: str) -> tuple[str, Iterator[tuple[int, Row | BadRow]]]:
    """What a row is called, and the rows with their numbers, whatever the kind of file."""
    path = Path(name)
    if not path.is_file() or path.suffix == ".parquet":
        return "row", _arrow_rows(load_rows(name))
    with path.open("rb") as file:
        is_document = file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
    return ("row", _document_rows(path)) if is_document else ("line", _line_rows(path))


def _line_rows(path: Path) -> Iterator[tuple[int, Row | BadRow]]:
    size = path.stat().st_size
    bar = progress_bar(
        total=size, desc=path.name, unit="B", unit_scale=True, delay=PATIENCE, leave=False
    )
    with bar, path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            bar.update(len(line))
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
            if line.strip():
                try:
                    yield number, _object(decode_line(line))
                except BadRow as fault:
                    yield number, fault


def _document_rows(path: Path) -> Iterator[tuple[int, Row | BadRow]]:
    """One JSON list over many lines, as ShareGPT's own file is; read as a whole."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(f"{str(path)!r} is not JSON: {error}") from error
    for number, row in enumerate(found):
        yield number, _object(row)


def _arrow_rows(rows: Dataset) -> Iterator[tuple[int, Row | BadRow]]:
    for number, row in enumerate(rows):
        yield number, _object(row)


def _object(row: Any) -> Row | BadRow:
    if isinstance(row, dict):
        return row
    return BadRow("wrong type", f"the row is a {type(row).__name__}", "it must be an object")
