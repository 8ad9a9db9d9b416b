"""The terminal itself: keys as they are pressed, screens drawn whole, and everything put back."""

import base64
import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType

ENTER_SCREEN = "\033[?1049h\033[?25l"  # a screen of its own, without a cursor
LEAVE_SCREEN = "\033[?25h\033[?1049l"
ESCAPE_SECONDS = 0.1  # an arrow key is several bytes, which a slow line may deliver one by one
NAMES = {
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\t": "tab",
    b"\x04": "end",
    b"\x0c": "redraw",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b": "escape",
}


class Terminal:
    """Standard input and output while a game runs. Make it with `terminal()`."""

    def __init__(self) -> None:
        self._unread = b""
        self._resized, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._modes = termios.tcgetattr(0)

    def show(self, lines: list[str]) -> None:
        """Draw a screen over the one before; clearing line by line does not flicker."""
        text = "\033[H" + "\r\n".join(f"{line}\033[K" for line in lines) + "\033[J"
        sys.stdout.write(text)
        sys.stdout.flush()

    def copy(self, text: str) -> None:
        """Ask the terminal to put a text on the clipboard (OSC 52); those that cannot ignore it."""
        encoded = base64.b64encode(text.encode()).decode()
        sys.stdout.write(f"\033]52;c;{encoded}\a")
        sys.stdout.flush()

    def key(self) -> str:
        """The next key: a character or a name ("enter", "up"); "redraw" after a new window size.

        What is neither a name nor a visible ASCII character is "". "end": the input is over.
        """
        while not self._unread:
            ready = select.select([0, self._resized], [], [])[0]
            if self._resized in ready:
                os.read(self._resized, 64)
                return "redraw"
            self._read()
        if self._unread[:1] == b"\x1b":
            return self._escape()
        byte, self._unread = self._unread[:1], self._unread[1:]
        return NAMES.get(byte) or (byte.decode() if 0x20 < byte[0] < 0x7F or byte == b" " else "")

    def _escape(self) -> str:
        while len(self._unread) < 3 and select.select([0], [], [], ESCAPE_SECONDS)[0]:
            self._read()
        if self._unread[1:2] not in (b"[", b"O"):
            self._unread = self._unread[1:]
            return "escape"
        end = 2  # a sequence ends with its first letter or tilde
        while end < len(self._unread) - 1 and not 0x40 <= self._unread[end] <= 0x7E:
            end += 1
        sequence, self._unread = self._unread[: end + 1], self._unread[end + 1 :]
        return NAMES.get(sequence, "")

    def _read(self) -> None:
        self._unread += os.read(0, 64) or b"\x04"

    def enter(self) -> None:
        """Take the terminal over: keys come at once and are not shown; Ctrl-C still interrupts."""
        tty.setcbreak(0)
        sys.stdout.write(ENTER_SCREEN)
        sys.stdout.flush()

    def leave(self) -> None:
        """Give it back as it was."""
        sys.stdout.write(LEAVE_SCREEN)
        sys.stdout.flush()
        termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    def resized(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: the window has another size."""
        with contextlib.suppress(BlockingIOError):  # full: a redraw is due anyway
            os.write(self._wake, b".")

    def suspended(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: Ctrl-Z gives the terminal back until the game goes on."""
        self.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self.enter()
        self.resized(number, frame)


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    """The terminal, taken over for the time of the block."""
    this = Terminal()
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
        signal.SIGWINCH: this.resized,
        signal.SIGTSTP: this.suspended,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    this.enter()
    try:
        yield this
    finally:
        this.leave()
        for number, handler in before.items():
            signal.signal(number, handler)
