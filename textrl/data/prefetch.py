"""The next steps' batches, made while the model is busy with this one's."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from textrl.data.batches import Batch, Batches


class Prefetch:
    """The same batches, a step or some ahead, in a thread of its own."""

    def __init__(self, batches: Batches, steps: int, ahead: int = 1) -> None:
        """steps: how many there are; nothing is made for a step beyond. ahead: by how many."""
        self._batches, self._steps, self._ahead = batches, steps, ahead
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches")
        self._made: dict[int, Future[list[Batch]]] = {}

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
        """The batches of this step; those of the next ones are begun."""
        if step not in self._made:
            self._forget()
            self._begin(step)
        batches = self._made.pop(step).result()
        for following in range(step + 1, min(step + 1 + self._ahead, self._steps)):
            if following not in self._made:
                self._begin(following)
        return batches

    def _begin(self, step: int) -> None:
        self._made[step] = self._pool.submit(self._batches.step, step)

    def _forget(self) -> None:
        for future in self._made.values():
            future.cancel()
        self._made.clear()
