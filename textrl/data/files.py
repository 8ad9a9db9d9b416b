"""Files that appear whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from textrl.errors import UserError, first_line


@contextlib.contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """An empty folder next to `beside`, on the same disk; whatever is left in it is removed."""
    scratch = beside.with_name(f".{beside.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    except Exception as error:
        # How safetensors and tokenizers tell of a full disk; Python's own OSError passes as it is.
        if isinstance(error, SafetensorError) or "os error" in str(error):
            raise UserError(f"cannot write {beside}: {first_line(error)}") from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def flush(path: Path) -> None:
    """Have the disk hold what was written, before a name is given to it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
