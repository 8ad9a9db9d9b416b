"""Ctrl-C while training: the step is finished and saved before the run leaves."""

import signal
import threading
from types import FrameType, TracebackType

import torch
from accelerate import Accelerator


class Interruption:
    """Takes note of Ctrl-C for the loop to ask about; a second one interrupts at once."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._is_wanted = False
        # Only the main thread gets signals.
        self._listens = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> "Interruption":
        if self._listens:
            self._before = signal.signal(signal.SIGINT, self._take_note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._listens:
            signal.signal(signal.SIGINT, self._before)

    def _take_note(self, number: int, frame: FrameType | None) -> None:
        if self._is_wanted:
            raise KeyboardInterrupt
        self._is_wanted = True

    def is_wanted(self) -> bool:
        """Whether the run shall end now: all processes of it agree, whichever got the signal."""
        if self._accelerator.num_processes == 1:
            return self._is_wanted
        wanted = torch.tensor(float(self._is_wanted), device=self._accelerator.device)
        return bool(self._accelerator.reduce(wanted, "sum") > 0)
