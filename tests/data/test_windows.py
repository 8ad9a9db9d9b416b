"""Windows: what a slow loop cuts, frames where they belong, a step by its number, no map kept."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset, concatenate_datasets
from numpy.typing import NDArray
from torch import Tensor

from tests.frame_task import SIDE, FrameTask, view
from tests.slow_batches import same, slow_collate
from textrl.algorithms.ilql import ILQLOptions
from textrl.config.presets import configure
from textrl.data.batches import Batch, EpisodeBatches
from textrl.data.episode import Episode, Step
from textrl.data.frames import encode_frame
from textrl.data.language import BEGIN_ID, FRAME, Language
from textrl.data.windows import RowFiles, RowReader, WindowBatches, cuts_of
from textrl.errors import UserError
from textrl.losses.ilql import ilql_loss
from textrl.model.network import TextRLModel

MakeRows = Callable[[list[Episode]], Dataset]
MakeEpisodes = Callable[..., list[Episode]]
MakeModel = Callable[..., TextRLModel]
SHAPE = (2, 3)


@pytest.fixture
def seeing(language: Language) -> Language:
    """Ids: <begin> 1, hot 2, <frame> 3, a 4, b 5, x 6, y 7. Actions: ax, ay, by."""
    return Language(("hot", FRAME), language.actions, language.grammar)


def marked(episode: int, frame: int) -> bytes:
    """A frame that tells whose it is, and its number."""
    return encode_frame(np.array([[episode, frame, 7], [0, 255, 9]], dtype=np.uint8))


def long_episodes(language: Language, count: int = 8, longest: int = 12) -> list[Episode]:
    """Episodes of up to `longest` actions, some cut within one; no two rewards are the same."""
    rng = np.random.default_rng(5)
    spellings = np.array([[0, 2], [0, 3], [1, 3]]) + language.first_action

    def look(fewest: int) -> tuple[int, ...]:
        """Frame tokens among them, in a language that has them."""
        seen = rng.integers(2, language.first_action, size=rng.integers(fewest, 4))
        return tuple(seen.tolist())

    episodes = []
    for number in range(count):
        steps = []
        actions = 1 + number * (longest - 1) // (count - 1)
        for time in range(actions):
            # Nothing need be seen after the last one.
            seen = look(fewest=int(time < actions - 1))
            action = tuple(spellings[rng.integers(3)].tolist())
            steps.append(Step(action, reward_of(number, time), seen, int(rng.integers(7))))
        if number % 4 == 3:
            steps[-1] = Step(steps[-1].action[:1], steps[-1].reward)
        is_cut = number % 2 == 1
        prompt = (BEGIN_ID, *look(fewest=0))
        tokens = [*prompt, *(token for step in steps for token in step.observation)]
        frames = tuple(marked(number, k) for k in range(tokens.count(language.frame_id)))
        episodes.append(Episode(prompt, tuple(steps), not is_cut, is_cut, "novice", frames))
    return episodes


def reward_of(number: int, time: int) -> float:
    """Tells which episode's action of which number it is for."""
    return float(1 + 100 * number + time)


def first_actions(batch: Batch) -> list[tuple[int, int]]:
    """Of each window: which episode's it is, and the number of its first action."""
    rewards = [next(reward for reward in row if reward) for row in batch.rewards.tolist()]
    return [divmod(int(reward) - 1, 100) for reward in rewards]


def slow_window(
    episode: Episode, first: int, window: int, language: Language, patches: int
) -> tuple[Episode, list[tuple[int, int]]]:
    """A window as an episode of its own, and where (position, number) which frames are in it."""
    seen = [episode.prompt, *(step.observation for step in episode.steps)]
    number = sum(tokens.count(language.frame_id) for tokens in seen[:first])
    position, frames = 0, []

    def read(tokens: tuple[int, ...]) -> tuple[int, ...]:
        nonlocal position, number
        stretched: list[int] = []
        for token in tokens:
            if token == language.frame_id:
                frames.append((position + len(stretched), number))
                number += 1
            stretched += [token] * (patches if token == language.frame_id else 1)
        position += len(stretched)
        return tuple(stretched)

    prompt, steps = read(seen[first]), []
    for step in episode.steps[first : first + window]:
        position += len(step.action)
        steps.append(replace(step, observation=read(step.observation)))
    goes_on = first + window < len(episode.steps)
    is_cut = goes_on or episode.truncated
    return Episode(prompt, tuple(steps), not is_cut, is_cut, "novice"), frames


def assert_windows(
    batch: Batch, episodes: list[Episode], language: Language, window: int, patches: int
) -> None:
    """Every row of the batch is what the loop cuts where that row begins."""
    starts = first_actions(batch)
    cut = [
        slow_window(episodes[number], first, window, language, patches) for number, first in starts
    ]
    expected = slow_collate([part for part, _ in cut], language)
    for row, (number, first) in enumerate(starts):
        following = episodes[number].steps[first + window :]
        tokens_left = sum(len(step.action) for step in following)
        expected["left"][row] = [-1 if episodes[number].truncated else tokens_left]
        if following:
            expected["is_followed"][row][-1] = True
            expected["return_after"][row][-1] = sum(step.reward for step in following)
    fill = {"observations": -1, "is_action": False, "has_next": False}
    for name, columns in expected.items():
        for row, column in zip(getattr(batch, name).tolist(), columns, strict=True):
            assert row[: len(column)] == column, name
            if name not in ("legal", "state_positions"):  # of no consequence on padding
                assert set(row[len(column) :]) <= {fill.get(name, 0)}, name
    if language.frame_id is None:
        assert batch.frames is None
        return
    shown = {
        (int(row), int(position)): tuple(pixels[0, :2].tolist())
        for pixels, row, position in zip(
            batch.frames.pixels, batch.frames.episode, batch.frames.position, strict=True
        )
    }
    assert shown == {
        (row, position): (starts[row][0], frame)
        for row, (_, frames) in enumerate(cut)
        for position, frame in frames
    }
    assert len(shown) == len(batch.frames.pixels)
    stretched = torch.zeros_like(batch.tokens)
    for row, position in shown:
        stretched[row, position : position + patches] += 1
    assert torch.equal(stretched, (batch.tokens == language.frame_id).long())


@pytest.mark.parametrize("patches", [0, 1, 4])
@pytest.mark.parametrize("window", [1, 3, 99])
def test_every_window_against_a_loop(
    language: Language, seeing: Language, make_rows: MakeRows, window: int, patches: int
) -> None:
    spoken = seeing if patches else language
    episodes = long_episodes(spoken)
    assert len(episodes[-1].steps) == 12
    # Several files, as a dataset of several shards has them.
    rows = concatenate_datasets([make_rows(episodes[:3]), make_rows(episodes[3:])])
    source = WindowBatches(
        rows,
        spoken,
        window=window,
        context=999,
        batch_size=16,
        frame_shape=SHAPE if patches else None,
        patches=patches or 1,
    )
    starts: Counter[tuple[int, int]] = Counter()
    for step in range(25):
        (batch,) = source.step(step)
        assert_windows(batch, episodes, spoken, window, patches)
        assert batch.action_count == int(batch.is_action.sum())
        assert batch.completed_count == int(batch.ends_action.sum())
        starts.update(first_actions(batch))
    possible = {
        (number, first)
        for number, episode in enumerate(episodes)
        for first in range(max(1, len(episode.steps) - window + 1))
    }
    assert set(starts) == possible


def test_cuts_by_hand(language: Language) -> None:
    # begin hot | a x | wet cold | b y | hot | a, and there a time limit cut it.
    tokens = np.array([1, 2, 5, 7, 4, 3, 6, 8, 2, 5], dtype=np.int32)
    is_action = np.array([0, 0, 1, 1, 0, 0, 1, 1, 0, 1], dtype=bool)
    cuts = cuts_of(tokens, is_action, language)
    assert (cuts.actions, cuts.completed) == (3, 2)
    assert cuts.starts.tolist() == [0, 4, 8, 10]
    assert cuts.stops.tolist() == [2, 6, 9, 10]
    whole = cuts_of(tokens[:9], is_action[:9], language)
    assert (whole.actions, whole.completed) == (2, 2)
    assert whole.starts.tolist() == [0, 4, 8]
    assert whole.stops.tolist() == [2, 6, 9]


def test_windows_by_hand(language: Language, make_rows: MakeRows) -> None:
    steps = (Step((5, 7), 1.0, (2,), 3), Step((6, 8), 2.0, (4, 3), 5), Step((5, 8), 3.0))
    rows = make_rows([Episode((1, 2), steps, True, False, "novice")])
    source = WindowBatches(rows, language, window=2, context=9, batch_size=8, discount=0.5)
    by_start = {}
    for step in range(3):
        (batch,) = source.step(step)
        for row in range(8):
            by_start[float(batch.rewards[row, 1])] = (batch, row)
    assert set(by_start) == {1.0, 2.0}

    def column(start: float, name: str) -> list[float]:
        batch, row = by_start[start]
        return getattr(batch, name)[row].tolist()

    # The first one goes on behind its end: its value is bootstrapped there.
    assert column(1.0, "return_after") == [0.0, 0.0, 0.0, 0.5 * 3.0]
    assert column(1.0, "is_followed") == [True] * 4
    assert column(2.0, "return_after") == [0.0] * 4
    assert column(2.0, "is_followed") == [True, True, True, False]
    assert column(1.0, "tokens")[:9] == [1, 2, 5, 7, 2, 6, 8, 4, 3]
    assert column(1.0, "has_next") == [True] * 4
    assert column(1.0, "state_positions") == [1, 2, 4, 5, 8]
    # The last one begins with what was seen before it, and ends for good.
    assert column(2.0, "tokens")[:7] == [2, 6, 8, 4, 3, 5, 8]
    assert column(2.0, "has_next") == [True, True, True, False]
    assert column(2.0, "state_positions")[:4] == [0, 1, 4, 5]
    assert column(2.0, "observations") == [-1, 5, -1, -1]


def windows_of(rows: Dataset, language: Language, **changes: object) -> WindowBatches:
    """Windows of three actions with frames of four tokens; eight in a batch."""
    usual = {"window": 3, "context": 99, "batch_size": 8, "frame_shape": SHAPE, "patches": 4}
    return WindowBatches(rows, language, **{**usual, **changes})


def test_a_step_is_a_function_of_its_number(seeing: Language, make_rows: MakeRows) -> None:
    rows = make_rows(long_episodes(seeing))
    in_order = windows_of(rows, seeing, seed=3)
    expected = [in_order.step(step)[0] for step in range(12)]
    jumping = windows_of(rows, seeing, seed=3)
    for step in (11, 0, 7, 7, 3):
        assert same(jumping.step(step)[0], expected[step])
        assert same(windows_of(rows, seeing, seed=3).step(step)[0], expected[step])
    assert not same(expected[0], expected[1])
    assert not same(windows_of(rows, seeing, seed=4).step(0)[0], expected[0])


def walks(lengths: tuple[int, ...]) -> list[Episode]:
    """Of the corridor, to and fro."""
    episodes = []
    for number, length in enumerate(lengths):
        steps = [Step((5 + (number + t) % 2,), reward_of(number, t), (2, 4)) for t in range(length)]
        frames = tuple(encode_frame(view(number, time)) for time in range(length + 1))
        is_cut = number % 2 == 0
        episodes.append(Episode((1, 4), tuple(steps), not is_cut, is_cut, "walker", frames))
    return episodes


def loss_of(model: TextRLModel, batch: Batch) -> float:
    """ILQL's, with every term of some weight."""
    options = ILQLOptions(conservatism=0.3, return_lambda=0.5)
    with torch.no_grad():
        outputs = model(batch.tokens, batch.state_positions, frames=batch.frames)
    return float(ilql_loss(outputs, batch, options).total)


@pytest.mark.parametrize(("processes", "accumulation"), [(2, 1), (1, 4), (2, 2)])
def test_the_parts_of_a_step_are_the_whole(
    corridor: FrameTask,
    make_rows: MakeRows,
    make_model: MakeModel,
    processes: int,
    accumulation: int,
) -> None:
    rows = make_rows(walks((1, 4, 9, 2, 6)))
    model = make_model(corridor.language, frame_shape=(SIDE, SIDE), patches=4)
    shape = corridor.frame_shape
    whole = windows_of(rows, corridor.language, frame_shape=shape, shift=2)
    shares = [
        windows_of(
            rows,
            corridor.language,
            frame_shape=shape,
            shift=2,
            process=process,
            processes=processes,
            accumulation=accumulation,
        )
        for process in range(processes)
    ]
    for step in range(4):
        (one,) = whole.step(step)
        parts = [part for share in shares for part in share.step(step)]
        assert len(parts) == processes * accumulation
        assert {len(part.tokens) for part in parts} == {8 // len(parts)}
        starts = [start for part in parts for start in first_actions(part)]
        assert sorted(starts) == sorted(first_actions(one))
        for name in ("action_count", "completed_count"):
            assert {getattr(part, name) for part in parts} == {getattr(one, name)}
        total = sum(loss_of(model, part) for part in parts)
        assert total == pytest.approx(loss_of(model, one), rel=1e-5)


def moves_of(plain: Tensor, shifted: Tensor, reach: int) -> list[tuple[int, int]]:
    """The moves (down, right) that make the one the other, edges aside."""
    found = []
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            there = torch.roll(plain, (down, right), dims=(1, 2))
            middle = (slice(None), slice(reach, -reach), slice(reach, -reach))
            if torch.equal(there[middle], shifted[middle]):
                found.append((down, right))
    return found


def test_shifted_frames_move_together_and_nothing_else_does(make_rows: MakeRows) -> None:
    """Every frame of a window by the same pixels, another window by others."""
    task, size, most = FrameTask(), 12, 2
    rng = np.random.default_rng(1)
    noise = [
        tuple(rng.integers(256, size=(size, size), dtype=np.uint8) for _ in range(6)) for _ in "ab"
    ]
    rows = make_rows(
        [
            replace(walk, frames=tuple(map(encode_frame, frames)))
            for walk, frames in zip(walks((5, 5)), noise, strict=True)
        ]
    )
    usual = {"frame_shape": (size, size), "patches": 1}
    plain = windows_of(rows, task.language, **usual)
    shifted = windows_of(rows, task.language, shift=most, **usual)
    seen = set()
    for step in range(20):
        (before,), (after,) = plain.step(step), shifted.step(step)
        assert before.frames is not None and after.frames is not None
        for row in range(8):
            mine = before.frames.episode == row
            (move,) = moves_of(before.frames.pixels[mine], after.frames.pixels[mine], most + 1)
            seen.add(move)
        assert same(before, replace(after, frames=before.frames))
        assert same(after, shifted.step(step)[0])
    assert seen == {(down, right) for down in range(-2, 3) for right in range(-2, 3)}


def test_a_shift_leaves_something_of_a_frame(make_rows: MakeRows) -> None:
    task = FrameTask()
    rows = make_rows(walks((5,)))
    shape = {"frame_shape": task.frame_shape}
    windows_of(rows, task.language, shift=SIDE - 1, **shape).step(0)
    with pytest.raises(UserError, match=f"--shift-frames {SIDE} would leave nothing"):
        windows_of(rows, task.language, shift=SIDE, **shape)


def test_only_kept_rows_are_read(seeing: Language, make_rows: MakeRows) -> None:
    episodes = long_episodes(seeing)
    rows = make_rows(episodes)
    source = windows_of(rows, seeing, keep=np.array([1, 4, 6]))
    seen = set()
    for step in range(20):
        (batch,) = source.step(step)
        assert_windows(batch, episodes, seeing, window=3, patches=4)
        seen |= {number for number, _ in first_actions(batch)}
    assert seen == {1, 4, 6}


def test_selected_rows_are_the_ones_read(seeing: Language, make_rows: MakeRows) -> None:
    episodes = long_episodes(seeing)
    source = windows_of(make_rows(episodes).select([6, 2]), seeing)
    seen = set()
    for step in range(5):
        (batch,) = source.step(step)
        assert_windows(batch, episodes, seeing, window=3, patches=4)
        seen |= {number for number, _ in first_actions(batch)}
    assert seen == {2, 6}


@pytest.mark.parametrize("patches", [1, 4])
@pytest.mark.parametrize("window", [1, 3, 99])
def test_windows_that_do_not_fit_are_refused(
    seeing: Language, make_rows: MakeRows, window: int, patches: int
) -> None:
    episodes = long_episodes(seeing)
    rows = make_rows(episodes)

    def longest(numbers: list[int]) -> int:
        """Of all windows of these episodes."""
        parts = [
            slow_window(episodes[number], first, window, seeing, patches)[0]
            for number in numbers
            for first in range(max(1, len(episodes[number].steps) - window + 1))
        ]
        return max(
            len(part.prompt) + sum(len(step.action + step.observation) for step in part.steps)
            for part in parts
        )

    for keep in (list(range(8)), [0, 2]):
        fits = longest(keep)
        shape = {"window": window, "patches": patches, "keep": np.array(keep)}
        windows_of(rows, seeing, context=fits, **shape)
        told = f"{window} actions takes up to {fits} tokens, more than the context of {fits - 1}"
        with pytest.raises(UserError, match=told):
            windows_of(rows, seeing, context=fits - 1, **shape)


def test_no_window_begins_where_nothing_was_seen(language: Language, make_rows: MakeRows) -> None:
    quick = (Step((5, 7), 0.0, (2,)), Step((5, 7), 0.0), Step((6, 8), 0.0))
    slow = (Step((5, 7), 0.0, (2,)), Step((5, 7), 0.0, (3,)), Step((6, 8), 0.0))
    rows = make_rows([Episode((1,), steps, True, False, "novice") for steps in (slow, quick)])
    with pytest.raises(UserError, match="row 1 has an action without an observation after it"):
        WindowBatches(rows, language, window=1, context=99, batch_size=4)
    # Windows of two begin at the first or the second action.
    WindowBatches(rows, language, window=2, context=99, batch_size=4).step(0)


def test_what_cannot_be_split_is_refused(seeing: Language, make_rows: MakeRows) -> None:
    with pytest.raises(UserError, match=r"batch of 6 .* 2 processes x 2 accumulation"):
        windows_of(
            make_rows(long_episodes(seeing)), seeing, batch_size=6, processes=2, accumulation=2
        )


def test_every_action_is_seen_about_as_often(corridor: FrameTask, make_rows: MakeRows) -> None:
    lengths, window, steps, size = (30, 3, 1), 8, 25, 64
    rows = make_rows(walks(lengths))
    source = WindowBatches(rows, corridor.language, window=window, context=99, batch_size=size)
    seen: Counter[float] = Counter()
    for step in range(steps):
        (batch,) = source.step(step)
        seen.update(batch.rewards[batch.is_action].tolist())
    # Around each action lie as many windows as there are places in one for it to have.
    chance: Counter[float] = Counter()
    for number, length in enumerate(lengths):
        for action in range(length):
            for place in range(window):
                first = max(0, min(action - place, length - window))
                for time in range(first, min(first + window, length)):
                    chance[reward_of(number, time)] += 1 / (sum(lengths) * window)
    draws = steps * size
    for reward, share in chance.items():
        error = 5 * (draws * share * (1 - share)) ** 0.5
        assert abs(seen[reward] - draws * share) < error, reward
    middle = seen[reward_of(0, 15)]
    assert min(seen[reward_of(0, time)] for time in range(30)) > 0.45 * middle


def test_windows_of_whole_episodes_are_batches_of_episodes(
    language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows, make_model: MakeModel
) -> None:
    episodes = random_episodes(12)  # their last rewards are their numbers
    model = make_model(language)
    windows = WindowBatches(make_rows(episodes), language, window=6, context=64, batch_size=8)
    for step in range(3):
        (batch,) = windows.step(step)
        last = batch.is_action.sum(1, keepdim=True) - 1
        picks = batch.rewards.gather(1, last)[:, 0].int().tolist()
        drawn = make_rows([episodes[pick] for pick in picks])
        (whole,) = EpisodeBatches(drawn, language, batch_size=8).step(0)
        assert (batch.action_count, batch.completed_count) == (
            whole.action_count,
            whole.completed_count,
        )
        assert batch.tokens.shape == whole.tokens.shape
        assert sorted(batch.tokens.tolist()) == sorted(whole.tokens.tolist())
        assert loss_of(model, batch) == pytest.approx(loss_of(model, whole), rel=1e-5)


def test_a_run_reads_windows_if_it_asks_for_them(
    corridor: FrameTask, language: Language, random_episodes: MakeEpisodes, make_rows: MakeRows
) -> None:
    rows = make_rows(walks((1, 4, 9, 2, 6)))
    shape = {"window": 3, "context": 40, "batch_size": 8, "patches": 4, "seed": 2}
    # Those of the highest returns, which are long or late, if the run imitates the best alone.
    for algo, keep in (
        ({"algo": "ilql", "discount": 0.75}, None),
        ({"algo": "filtered-bc", "keep_top": 0.4}, np.array([2, 4])),
    ):
        run = configure("wordle", **shape, **algo)
        (member,) = run.members.values()
        batches, episodes = corridor.batches(member, run, rows=rows)
        expected = windows_of(
            rows,
            corridor.language,
            frame_shape=corridor.frame_shape,
            seed=2,
            keep=keep,
            discount=algo.get("discount", 1.0),
        )
        assert same(batches.step(5)[0], expected.step(5)[0])
        assert episodes == (5 if keep is None else 2)
    run = configure("wordle", **{**shape, "window": 0})
    (member,) = run.members.values()
    with pytest.raises(UserError, match=r"corridor has frames, .* give --window"):
        corridor.batches(member, run, rows=rows)

    class Blind(FrameTask):
        frame_shape = None

    blind = Blind()
    blind.language = language
    rows = make_rows(random_episodes(10))
    blind.observation_classes = 7
    batches, episodes = blind.batches(member, run, rows=rows)
    (batch,) = batches.step(0)
    assert same(batch, EpisodeBatches(rows, language, batch_size=8, seed=2, packs=True).step(0)[0])
    assert episodes == 10


def test_frames_move_with_their_batch(seeing: Language, make_rows: MakeRows) -> None:
    (batch,) = windows_of(make_rows(long_episodes(seeing)), seeing).step(0)
    moved = batch.to(torch.device("meta")).frames
    assert {each.device.type for each in vars(moved).values()} == {"meta"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks its maps up in /proc")
def test_no_map_outlives_its_step(seeing: Language, make_rows: MakeRows) -> None:
    def maps() -> int:
        """How often the dataset's file is mapped."""
        return Path("/proc/self/maps").read_text().count(rows.cache_files[0]["filename"])

    rows = make_rows(long_episodes(seeing))
    before = maps()
    reader = RowReader(RowFiles(rows), SHAPE)
    assert maps() == before  # only what is asked for is mapped
    row, frames = reader.row(7), reader.frames(7, 0, 2)
    assert maps() == before + 1
    # Copies: they keep no map.
    del reader
    assert maps() == before
    source = windows_of(rows, seeing)
    batches = [source.step(step) for step in range(3)]
    assert maps() == before
    assert len(batches) == 3 and row.tokens[0] == BEGIN_ID and frames[1, 0, 1] == 1


def test_a_reader_finds_any_row_and_any_of_its_frames(
    seeing: Language, make_rows: MakeRows
) -> None:
    episodes = long_episodes(seeing)
    parts = (episodes[:1], episodes[1:4], episodes[4:])
    reader = RowReader(RowFiles(concatenate_datasets([make_rows(part) for part in parts])), SHAPE)

    def tokens_of(episode: Episode) -> list[int]:
        answers = [token for step in episode.steps for token in step.action + step.observation]
        return [*episode.prompt, *answers]

    for number, episode in enumerate(episodes):
        row = reader.row(number)
        assert row.tokens.tolist() == tokens_of(episode)
        assert row.truncated.tolist() == [episode.truncated]
        count = len(episode.frames)
        for first in range(count):
            frames: NDArray[np.uint8] = reader.frames(number, first, count)
            assert frames[:, 0, 0].tolist() == [number] * (count - first)
            assert frames[:, 0, 1].tolist() == list(range(first, count))
