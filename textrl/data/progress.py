"""Progress bars in a terminal; in a pipe or a log file, a line now and then."""

import sys
from typing import Any

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30


def progress_bar(**options: Any) -> tqdm:
    """A bar as tqdm makes it."""
    is_terminal = sys.stderr.isatty()
    return tqdm(
        **{
            "dynamic_ncols": True,
            "mininterval": 0.2 if is_terminal else SECONDS_BETWEEN_LINES,
            "maxinterval": 10 if is_terminal else SECONDS_BETWEEN_LINES,
            # A log file has no line to write over.
            "ascii": None if is_terminal else True,
            "file": sys.stderr if is_terminal else LineByLine(),
            **options,
        }
    )


class LineByLine:
    """Standard error, where each state of a bar is a line of its own."""

    def write(self, text: str) -> None:
        """What tqdm writes begins with a return to the line's start, which is none here."""
        if line := text.replace("\x1b[A", "").strip():
            print(line, file=sys.stderr)

    def flush(self) -> None:
        """As tqdm asks for it."""
        sys.stderr.flush()
