"""Guesses of many games at once: those that wait are gathered and made in one pass."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TypeVar

from textrl.envs.wordle.play.duel import Duel, Guess
from textrl.envs.wordle.play.opponent import Opponent

GATHER_SECONDS = 0.003  # to wait for others before a pass: less than a visitor notices
MOST_AT_ONCE = 128  # guesses in a pass; a longer one lets everybody wait for the slowest
Made = TypeVar("Made")


class Desk:
    """Makes a model's guesses, one pass after the other, in a thread of its own.

    The model is only ever used there. Whoever waits does not hold up the server.
    """

    def __init__(
        self,
        opponent: Opponent,
        gather_seconds: float = GATHER_SECONDS,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._opponent, self._gather, self._most = opponent, gather_seconds, most_at_once
        self._waiting: SimpleQueue[tuple[Duel, Future[Guess]]] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "desk")
        self._lock = threading.Lock()
        self._is_at_work = False

    async def guess(self, duel: Duel) -> Guess:
        """The model's next guess in this game."""
        future: Future[Guess] = Future()
        self._waiting.put((duel, future))
        with self._lock:
            if not self._is_at_work:
                self._is_at_work = True
                self._thread.submit(self._work)
        return await asyncio.wrap_future(future)

    async def use(self, task: Callable[[Opponent], Made]) -> Made:
        """Have something else of the model's done, in turn with the guesses."""
        return await asyncio.wrap_future(self._thread.submit(task, self._opponent))

    def _work(self) -> None:
        """Make one pass; whatever came meanwhile is for the next, after what else was asked."""
        time.sleep(self._gather)
        batch: list[tuple[Duel, Future[Guess]]] = []
        while len(batch) < self._most:
            try:
                duel, future = self._waiting.get_nowait()
            except Empty:
                break
            if future.set_running_or_notify_cancel():  # a visitor who left needs no guess
                batch.append((duel, future))
        try:
            guesses = self._opponent.guess_all([duel for duel, _ in batch])
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
        else:
            for (_, future), guess in zip(batch, guesses, strict=True):
                future.set_result(guess)
        with self._lock:
            self._is_at_work = not self._waiting.empty()
            if self._is_at_work:
                self._thread.submit(self._work)
