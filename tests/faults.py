"""How a call must end whatever it is given: well, or in one line that a user can do something with.

In little time and memory, and without a trace of Python's own errors.
"""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textrl.errors import UserError

SECONDS = 20
MEMORY = 2**30
"""Bytes that a call may add to what the process has mapped already."""
OUT_OF_MEMORY = ("MemoryError", "allocate memory", "bad_alloc")
LONGEST_MESSAGE = 2_000


class TooLong(BaseException):
    """A call did not end in time; no `except Exception` swallows it."""


def message_of(call: Callable[[], Any], seconds: int = SECONDS, memory: int = MEMORY) -> str | None:
    """What a user is told, in one line; None where all went well.

    Anything else that a call can end in fails the test: another exception, hanging, taking memory.
    """
    with limited_memory(memory), limited_time(seconds):
        try:
            call()
            return None
        except UserError as error:
            message = str(error)
        except OSError as error:  # as run_recipe takes it
            assert error.strerror or str(error)
            message = str(error.strerror or error)
        except SystemExit as ended:  # of argparse, or of a command that has told it already
            assert ended.code in (None, 0, 2), ended.code
            return None if ended.code in (None, 0) else "exit code 2"
    assert message.strip()
    assert not any(sign in message for sign in OUT_OF_MEMORY), message
    assert len(message) < LONGEST_MESSAGE, f"{message[:400]}... ({len(message):,} characters)"
    return message


@contextlib.contextmanager
def limited_time(seconds: int) -> Iterator[None]:
    """Raise TooLong in here after so many seconds of the process's own time."""

    def end(*_: object) -> None:
        raise TooLong(f"no end after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextlib.contextmanager
def limited_memory(more: int) -> Iterator[None]:
    """In here, the process cannot map more than so many bytes beside what it has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    wanted = pages * os.sysconf("SC_PAGE_SIZE") + more
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
