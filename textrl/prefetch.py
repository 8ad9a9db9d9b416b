"""The next step's batches, made while the model is busy with this one's."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from textrl.batches import Batch, Batches


class Prefetch:
    """The same batches, one step ahead, in a thread of its own."""

    def __init__(self, batches: Batches, steps: int) -> None:
        """steps: how many there are; nothing is made for a step beyond."""
        self._batches, self._steps = batches, steps
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._next: tuple[int, Future[list[Batch]]] | None = None

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def step(self, step: int) -> list[Batch]:
        """The batches of this step; those of the next one are begun."""
        if self._next is None or self._next[0] != step:
            self._next = (step, self._pool.submit(self._batches.step, step))
        batches = self._next[1].result()
        if step + 1 < self._steps:
            self._next = (step + 1, self._pool.submit(self._batches.step, step + 1))
        return batches
