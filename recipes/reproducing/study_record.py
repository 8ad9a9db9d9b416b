"""What the finished runs of a study have left: a line for each, in a file that is tracked.

A study takes weeks of spare hours on machines that come and go. Whoever has the record goes on from
there: a run that it names is done.
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from textrl.errors import UserError
from textrl.recipes.reproducing.studies import StudyRun

DIGITS = 4
Result = Mapping[str, Any]


def record_of(study: str, output: Path) -> Path:
    """The file for a study among the results."""
    return output / "runs" / f"{study}.jsonl"


def finished(runs: Sequence[StudyRun], record: Path) -> dict[StudyRun, Result]:
    """The runs that are done, and what they have left; refuses a run of other settings."""
    lines, found = read(record), {}
    for run in runs:
        if run.name in lines:
            found[run] = lines[run.name]
            if found[run]["flags"] != shlex.join(run.flags):
                raise UserError(
                    f"{record}: {run.name} was made with other settings: remove its line, or choose"
                    " another --output"
                )
    return found


def read(record: Path) -> dict[str, Result]:
    """Name -> result of every line."""
    if not record.is_file():
        return {}
    found = {}
    for number, line in enumerate(record.read_text().splitlines(), 1):
        try:
            result = json.loads(line)
            found[result.pop("run")] = result
        except (ValueError, KeyError, AttributeError):
            raise UserError(f"{record}:{number} is not a finished run: remove the line") from None
    return found


def add(record: Path, run: StudyRun, result: Result) -> None:
    """Write a run's line; whoever writes at the same time loses nothing."""
    record.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(record.with_name(f".{record.name}.lock")):
        lines = {**read(record), run.name: {"flags": shlex.join(run.flags), **result}}
        # In the order of their names: two who have gone on from one record can merge theirs.
        text = [json.dumps({"run": name, **rounded(lines[name])}) for name in sorted(lines)]
        partial = record.with_name(f".{record.name}.partial")
        partial.write_text("".join(f"{line}\n" for line in text))
        os.replace(partial, record)


def rounded(value: Any) -> Any:
    """The same with few digits, so that a line stays short."""
    if isinstance(value, Mapping):
        return {key: rounded(each) for key, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value
