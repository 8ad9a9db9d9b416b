"""Batches made ahead: the same ones, no more than so many ahead, and no thread left behind."""

import threading
from collections.abc import Callable

import pytest
from datasets import Dataset

from tests.slow_batches import same
from textrl.data.batches import Batch, EpisodeBatches
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.data.prefetch import Prefetch

PATIENCE = 30  # seconds after which something hangs


class Counting:
    """Batches that are mere numbers; it tells which were begun, and some fail."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.begun: list[int] = []
        self.fails_at = fails_at
        self.changed = threading.Condition()

    def step(self, step: int) -> list[Batch]:
        with self.changed:
            self.begun.append(step)
            self.changed.notify_all()
        if step == self.fails_at:
            raise OSError(f"step {step} cannot be read")
        return [step]  # type: ignore[list-item]

    def wait_for(self, step: int) -> bool:
        """Whether the step is begun in the end."""
        with self.changed:
            return self.changed.wait_for(lambda: step in self.begun, PATIENCE)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("batches")]


def test_the_same_batches(
    language: Language,
    random_episodes: Callable[..., list[Episode]],
    make_rows: Callable[[list[Episode]], Dataset],
) -> None:
    rows = make_rows(random_episodes(40))
    ahead, plain = (EpisodeBatches(rows, language, batch_size=4, seed=1) for _ in range(2))
    with Prefetch(ahead, 25) as upcoming:
        for step in (*range(5), 17, 18, 3, 24):  # a resumed run does not begin at the beginning
            (one,), (other,) = upcoming.step(step), plain.step(step)
            assert same(one, other)


def test_the_next_step_is_begun_and_none_after_it() -> None:
    source = Counting()
    with Prefetch(source, 10) as upcoming:
        assert source.begun == []
        assert upcoming.step(4) == [4]
        assert source.wait_for(5)  # although nobody has asked for it
        assert upcoming.step(5) == [5]
        assert source.wait_for(6)
    assert source.begun == [4, 5, 6]


def test_as_many_steps_ahead_as_it_is_told() -> None:
    source = Counting()
    with Prefetch(source, 10, ahead=3) as upcoming:
        assert upcoming.step(0) == [0]
        assert source.wait_for(3)
        assert upcoming.step(1) == [1]
        assert source.wait_for(4)
        assert [upcoming.step(step) for step in (2, 3, 8, 9)] == [[2], [3], [8], [9]]
    assert {0, 1, 2, 3, 4, 8, 9} <= set(source.begun) <= {*range(7), 8, 9}
    assert len(source.begun) == len(set(source.begun))


def test_nothing_is_made_beyond_the_last_step() -> None:
    source = Counting()
    with Prefetch(source, 3) as upcoming:
        assert [upcoming.step(step) for step in range(3)] == [[0], [1], [2]]
    assert source.begun == [0, 1, 2]  # each once


def test_an_error_comes_out_at_its_own_step() -> None:
    with Prefetch(Counting(fails_at=1), 3) as upcoming:
        assert upcoming.step(0) == [0]
        with pytest.raises(OSError, match="step 1 cannot be read"):
            upcoming.step(1)
    assert threads() == []


def test_leaving_ends_the_thread() -> None:
    source = Counting()
    with Prefetch(source, 9) as upcoming:
        upcoming.step(0)
        assert len(threads()) == 1
    assert threads() == []
    with pytest.raises(KeyboardInterrupt), Prefetch(source, 9) as upcoming:
        upcoming.step(5)
        raise KeyboardInterrupt
    assert threads() == []
    with Prefetch(source, 9):  # nothing was asked for
        pass
