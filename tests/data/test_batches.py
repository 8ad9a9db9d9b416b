"""Batches: padded and aligned as the losses expect, every episode once, whoever asks."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from datasets import Dataset
from numpy.typing import NDArray

from tests.slow_batches import TENSORS, same, slow_collate
from textrl.data import batches
from textrl.data.batches import (
    BLOCK_ROWS,
    PASS_TOKENS,
    Batch,
    EpisodeBatches,
    cheapest_cuts,
    collate,
    part_of_order,
    read_rows,
)
from textrl.data.dataset import Rows, episodes_to_table
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.errors import UserError

MakeRows = Callable[[list[Episode]], Dataset]
MakeEpisodes = Callable[..., list[Episode]]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small dataset has several blocks and windows."""
    monkeypatch.setattr(batches, "BLOCK_ROWS", 4)
    monkeypatch.setattr(batches, "WINDOW_STEPS", 3)


def numbers(batch: Batch) -> list[int]:
    """Which episodes a batch holds: their last reward is their number."""
    last = batch.is_action.sum(1, keepdim=True) - 1
    return [int(value) for value in batch.rewards.gather(1, last)[:, 0]]


@pytest.mark.parametrize("truncated", [0.0, 0.5, 1.0])
def test_collate_against_a_loop(
    language: Language, random_episodes: MakeEpisodes, truncated: float
) -> None:
    for seed in range(5):
        episodes = random_episodes(12, seed, truncated)
        rng = np.random.default_rng(seed)
        picks = rng.choice(12, size=7, replace=False)
        batch = collate(Rows.from_table(episodes_to_table(episodes)), picks, language)
        expected = slow_collate([episodes[pick] for pick in picks], language)
        fill = {"observations": -1, "is_action": False, "has_next": False}
        actions = max(map(len, expected["actions"]))
        states = actions + any(episodes[pick].truncated for pick in picks)
        widths = {"legal": states, "state_positions": states, "left": 1}
        widths["tokens"] = max(map(len, expected["tokens"]))
        for name, columns in expected.items():
            values = getattr(batch, name)
            assert values.shape[:2] == (7, widths.get(name, actions)), name
            for row, column in zip(values.tolist(), columns, strict=True):
                assert row[: len(column)] == column, name
                if name not in ("legal", "state_positions"):  # of no consequence on padding
                    assert set(row[len(column) :]) <= {fill.get(name, 0)}, name
        assert batch.legal.any(-1).all()  # also on padding: nothing to turn into NaN there
        assert batch.action_count == sum(map(len, expected["actions"]))
        assert batch.completed_count == sum(map(sum, expected["ends_action"]))


def test_collate_by_hand(language: Language) -> None:
    rows = Rows(
        offsets=np.array([0, 6, 10]),
        tokens=np.array([1, 5, 7, 2, 6, 8, 1, 6, 8, 4], dtype=np.int32),
        is_action=np.array([0, 1, 1, 0, 1, 1, 0, 1, 1, 0], dtype=bool),
        reward=np.array([0, 0, -1, 0, 0, -2, 0, 0, -3, 0], dtype=np.float32),
        observation=np.array([-1, -1, 5, -1, -1, -1, -1, -1, 6, -1], dtype=np.int32),
        truncated=np.array([False, True]),
    )
    batch = collate(rows, np.array([1, 0]), language)
    assert batch.tokens.tolist() == [[1, 6, 8, 4, 0, 0], [1, 5, 7, 2, 6, 8]]
    assert batch.actions.tolist() == [[1, 3, 0, 0], [0, 2, 1, 3]]
    # Before b, before y, at the history's end; before a, x (after a), b (after hot), y (after b).
    assert batch.state_positions[0, :3].tolist() == [0, 1, 3]
    assert batch.state_positions[1, :4].tolist() == [0, 1, 3, 4]
    assert batch.rewards.tolist() == [[0, -3, 0, 0], [0, -1, 0, -2]]
    assert batch.observations.tolist() == [[-1, 6, -1, -1], [-1, 5, -1, -1]]
    assert batch.ends_action.int().tolist() == [[0, 1, 0, 0], [0, 1, 0, 1]]
    assert batch.is_action.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.has_next.tolist() == [[True, True, False, False], [True, True, True, False]]
    start, after_a, after_b = [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]
    assert batch.legal[0, :3].int().tolist() == [start, after_b, start]
    assert batch.legal[1, :4].int().tolist() == [start, after_a, start, after_b]
    assert (batch.action_count, batch.completed_count) == (6, 3)


@pytest.mark.parametrize("count", [40, 43])
def test_every_episode_once_per_epoch(
    small_windows: None,
    language: Language,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    count: int,
) -> None:
    source = EpisodeBatches(make_rows(random_episodes(count)), language, batch_size=4, seed=1)
    epochs = []
    for epoch in range(3):
        steps = [source.step(10 * epoch + step) for step in range(10)]
        seen = Counter(number for parts in steps for part in parts for number in numbers(part))
        assert len(seen) == 40
        assert set(seen.values()) == {1}
        assert set(seen) <= set(range(count))
        epochs.append([numbers(part) for parts in steps for part in parts])
    assert epochs[0] != epochs[1] != epochs[2]
    first_windows = [sorted(number for part in epoch[:3] for number in part) for epoch in epochs]
    assert first_windows[0] != first_windows[1] != first_windows[2]


def test_which_episodes_are_left_out_changes(
    language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    # One batch an epoch, which three of the seven episodes miss: not always the shortest ones.
    source = EpisodeBatches(make_rows(random_episodes(7)), language, batch_size=4)
    seen = {n for step in range(40) for part in source.step(step) for n in numbers(part)}
    assert seen == set(range(7))


def test_a_step_is_a_function_of_its_number(
    small_windows: None, language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    rows = make_rows(random_episodes(43))

    def fresh(seed: int = 3) -> EpisodeBatches:
        return EpisodeBatches(rows, language, batch_size=4, seed=seed)

    in_order = fresh()
    expected = {step: in_order.step(step)[0] for step in range(25)}
    jumping = fresh()
    for step in (24, 0, 7, 23, 7, 11, 1):
        assert same(fresh().step(step)[0], expected[step])
        assert same(jumping.step(step)[0], expected[step])
    assert not all(same(fresh(seed=4).step(step)[0], expected[step]) for step in range(5))


@pytest.mark.parametrize(("processes", "accumulation"), [(2, 1), (1, 4), (2, 2)])
def test_the_parts_of_a_step_are_the_whole(
    small_windows: None,
    language: Language,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    processes: int,
    accumulation: int,
) -> None:
    rows = make_rows(random_episodes(40))
    whole = EpisodeBatches(rows, language, batch_size=8)
    shares = [
        EpisodeBatches(
            rows,
            language,
            batch_size=8,
            accumulation=accumulation,
            process=process,
            processes=processes,
        )
        for process in range(processes)
    ]
    for step in range(12):
        (one,) = whole.step(step)
        parts = [part for share in shares for part in share.step(step)]
        assert len(parts) == processes * accumulation
        assert {len(part.tokens) for part in parts} == {8 // len(parts)}
        assert sorted(n for part in parts for n in numbers(part)) == sorted(numbers(one))
        assert {part.action_count for part in parts} == {one.action_count}
        assert one.action_count == sum(int(part.is_action.sum()) for part in parts)
        assert {part.completed_count for part in parts} == {one.completed_count}
        assert one.completed_count == sum(int(part.ends_action.sum()) for part in parts)


def test_every_process_makes_as_many_passes(
    language: Language,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the model is spread over processes, one that makes more would wait for ever."""
    monkeypatch.setattr("textrl.data.batches.PASS_TOKENS", 8)
    rows = make_rows(random_episodes(400))
    both = [
        EpisodeBatches(rows, language, batch_size=64, process=process, processes=2)
        for process in range(2)
    ]
    counts = [[len(share.step(step)) for share in both] for step in range(12)]
    assert all(ours == theirs for ours, theirs in counts)
    assert max(counts) > [1, 1]


def test_only_kept_rows_are_read(
    small_windows: None, language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    keep = np.array([1, 2, 3, 7, 20, 21, 33, 39])
    source = EpisodeBatches(make_rows(random_episodes(40)), language, batch_size=4, keep=keep)
    for epoch in range(3):
        steps = (2 * epoch, 2 * epoch + 1)
        seen = [n for step in steps for part in source.step(step) for n in numbers(part)]
        assert sorted(seen) == keep.tolist()


def test_read_rows_reads_what_it_is_told(
    small_windows: None, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    episodes = random_episodes(30)
    indices = np.array([0, 1, 4, 12, 13, 29])
    rows = read_rows(make_rows(episodes), indices)
    expected = Rows.from_table(episodes_to_table([episodes[i] for i in indices]))
    for field in fields(Rows):
        np.testing.assert_array_equal(getattr(rows, field.name), getattr(expected, field.name))


@pytest.mark.parametrize(
    ("lengths", "cuts"),
    [
        ([10, 10, 10], []),  # alike
        ([10, 20], []),  # 10 tokens of padding are less than another pass
        ([10] * 30 + [20] * 2, [30]),  # 300 tokens of padding are more
        ([10] * 20 + [11] * 20 + [40] * 20, [40]),
        ([5] * 60 + [10] * 60 + [30] * 60, [60, 120]),
        ([7], []),
    ],
)
def test_cuts_by_hand(lengths: list[int], cuts: list[int]) -> None:
    assert cheapest_cuts(np.array(lengths)) == cuts


def test_no_other_cuts_are_cheaper() -> None:
    rng = np.random.default_rng(0)

    def cost(lengths: NDArray[np.int64], cuts: list[int]) -> int:
        return sum(len(part) * part[-1] + PASS_TOKENS for part in np.split(lengths, cuts))

    for _ in range(20):
        lengths = np.sort(rng.integers(1, 200, size=8))
        found = cost(lengths, cheapest_cuts(lengths))
        every = (cuts for n in range(8) for cuts in combinations(range(1, 8), n))
        assert found == min(cost(lengths, list(cuts)) for cuts in every)


def test_a_step_has_episodes_of_all_lengths_in_passes_of_similar_ones(
    language: Language,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("textrl.data.batches.PASS_TOKENS", 8)
    rows = make_rows(random_episodes(64))
    source = EpisodeBatches(rows, language, batch_size=32, whole_every=2)
    length = [len(tokens) for tokens in rows["tokens"]]
    passes = source.step(1)
    assert len(passes) > 2
    of_pass = [[length[number] for number in numbers(part)] for part in passes]
    for shorter, longer in pairwise(of_pass):
        assert max(shorter) <= min(longer)
    spread = np.std([each for part in of_pass for each in part])
    assert spread > 0.7 * np.std(length)
    (whole,) = source.step(0)
    assert len(whole.tokens) == 32


def test_nothing_is_read_that_no_state_needs(
    language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    # What follows the last action of an episode that ended by itself; not what a cut one ends with.
    for truncated in (0.0, 1.0):
        rows = make_rows(random_episodes(8, truncated=truncated))
        (batch,) = EpisodeBatches(rows, language, batch_size=8).step(0)
        assert batch.tokens.shape[1] == batch.state_positions.max() + 1
    longest = max(len(tokens) for tokens in rows["tokens"])
    assert batch.tokens.shape[1] == longest


def test_what_cannot_be_batched(
    language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    rows = make_rows(random_episodes(10))
    with pytest.raises(UserError, match="10 episodes, fewer than one batch of 11"):
        EpisodeBatches(rows, language, batch_size=11)
    with pytest.raises(UserError, match="3 episodes, fewer than one batch of 4"):
        EpisodeBatches(rows, language, batch_size=4, keep=np.arange(3))
    with pytest.raises(UserError, match=r"batch of 6 .* 2 processes x 2 accumulation"):
        EpisodeBatches(rows, language, batch_size=6, processes=2, accumulation=2)


def test_a_batch_moves_as_a_whole(language: Language, random_episodes: MakeEpisodes) -> None:
    rows = Rows.from_table(episodes_to_table(random_episodes(3)))
    moved = collate(rows, np.arange(3), language).to(torch.device("meta"))
    assert {getattr(moved, name).device.type for name in TENSORS} == {"meta"}
    assert moved.action_count == int(np.sum(rows.is_action))


@pytest.mark.parametrize("episodes", [1, 63, 64, 65, 640, 1001])
def test_part_of_the_order_is_what_the_whole_order_has_there(episodes: int) -> None:
    random = np.random.default_rng(episodes)
    for _ in range(3):
        blocks = random.permutation(-(-episodes // BLOCK_ROWS))
        whole = (blocks[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
        whole = whole[whole < episodes]
        for size in (1, 50, BLOCK_ROWS, 777):
            for first in range(0, episodes, size):
                part = part_of_order(blocks, episodes, first, size)
                assert part.tolist() == whole[first : first + size].tolist()
