"""Long episodes -> batches of windows: a number of actions and what was seen between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from numpy.typing import NDArray

from textrl.data.batches import Batch, check_split, collate
from textrl.data.dataset import PER_TOKEN, Rows, blocks_of, files_of, map_file, table_of
from textrl.data.frames import Frames, Pixels, decode_frames, moved
from textrl.data.language import Language
from textrl.errors import UserError


@dataclass(frozen=True)
class Cuts:
    """Where a row can be cut: (actions + 1,) token indices, the last of which ends the row.

    A window of actions [first, last) is tokens[starts[first] : stops[last]]: it begins with what
    was seen after the action before (or the prompt) and ends with what was seen after its last one.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    completed: int  # actions but for one at the end that a time limit cut in its middle

    @property
    def actions(self) -> int:
        """How many actions the row has."""
        return len(self.starts) - 1


def cuts_of(tokens: NDArray[np.int32], is_action: NDArray[np.bool_], language: Language) -> Cuts:
    """Find the borders of the actions of one row."""
    at = np.flatnonzero(is_action)
    numbers = (tokens[at] - language.first_action)[None]
    states = language.grammar.states_along(numbers, np.ones_like(numbers, dtype=bool))[0]
    begins, is_end = at[states[:-1] == 0], states[1:] == 0
    completed = int(is_end.sum())
    is_end[-1] = True  # also of an action that was cut in its middle
    return Cuts(np.append(0, at[is_end] + 1), np.append(begins, len(tokens)), completed)


class WindowBatches:
    """The batches of each training step, as a function of the step's number alone.

    A step's windows lie around actions drawn uniformly from all episodes. What is read of the
    dataset is what the step needs, frames included, through a map that is dropped afterwards: so
    memory does not grow with the data.
    """

    ahead = 1

    def __init__(
        self,
        rows: Dataset,
        language: Language,
        *,
        window: int,
        context: int,
        batch_size: int,
        accumulation: int = 1,
        seed: int = 0,
        keep: NDArray[np.int64] | None = None,
        process: int = 0,
        processes: int = 1,
        frame_shape: tuple[int, ...] | None = None,
        patches: int = 1,
        discount: float = 1.0,
        shift: int = 0,
    ) -> None:
        """window: actions per window; batch_size: windows per step over all processes.

        keep: the rows to use (None = all). patches: tokens of a frame. discount: of the return
        that followed a window. shift: by how many pixels its frames are moved at most.
        """
        check_split(batch_size, accumulation, processes)
        self._rows, self._language, self._window = rows, language, window
        self._frame_shape, self._patches, self._discount = frame_shape, patches, discount
        self._batch_size, self._seed, self._shift = batch_size, seed, shift
        self._accumulation, self._process, self._processes = accumulation, process, processes
        self._keep = np.arange(len(rows)) if keep is None else keep
        if frame_shape and shift >= min(frame_shape):
            size = " x ".join(map(str, frame_shape))
            raise UserError(
                f"--shift-frames {shift} would leave nothing of frames of {size}: lower it"
            )
        self._files = RowFiles(rows)
        actions, longest = self._measure()
        self._last_action = np.cumsum(actions[self._keep])
        if (length := longest[self._keep].max()) > context:
            raise UserError(
                f"a window of {window} actions takes up to {length} tokens, more than the context"
                f" of {context}: lower --window or raise --context"
            )

    def _measure(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Of each row: its actions, and the tokens of its longest window, frames as patches."""
        found = []
        for start, table in blocks_of(self._rows):
            block = Rows.from_table(table)
            for row in range(len(table)):
                part = slice(*block.offsets[row : row + 2])
                cuts = cuts_of(block.tokens[part], block.is_action[part], self._language)
                is_frame = block.tokens[part] == self._language.frame_id
                length = np.cumsum(np.append(0, np.where(is_frame, self._patches, 1)))
                reach = min(self._window, cuts.actions)
                if (cuts.starts[:-reach] == cuts.stops[:-reach]).any():
                    raise UserError(
                        f"row {start + row} has an action without an observation after it, where no"
                        " window can begin: read whole episodes with --window 0"
                    )
                longest = length[cuts.stops[reach:]] - length[cuts.starts[:-reach]]
                found.append((cuts.actions, longest.max()))
        actions, longest = np.array(found).T
        return actions, longest

    def step(self, step: int) -> list[Batch]:
        """This process's micro-batches of step 0, 1, 2, ..."""
        random = np.random.default_rng((self._seed, step))
        anchor = random.integers(self._last_action[-1], size=self._batch_size)
        episode = np.searchsorted(self._last_action, anchor, side="right")
        action = anchor - np.append(0, self._last_action)[episode]
        # Anywhere in its window, but windows do not reach over the ends of the episode.
        first = action - random.integers(self._window, size=self._batch_size)

        # Last, so that the windows are the same ones with and without.
        moves = random.integers(-self._shift, self._shift + 1, size=(self._batch_size, 2)).tolist()

        reader = RowReader(self._files, self._frame_shape)
        windows = [
            self._cut(reader, int(row), int(start), move)
            for row, start, move in zip(self._keep[episode], first, moves, strict=True)
        ]
        counts = [window.counts for window in windows]
        action_count, completed_count = np.sum(counts, axis=0).tolist()
        parts = self._accumulation * self._processes
        return [
            replace(
                self._join(windows[part::parts]),
                action_count=action_count,
                completed_count=completed_count,
                first_place=part,
                place_stride=parts,
            )
            for part in range(self._process, parts, self._processes)
        ]

    def _cut(self, reader: "RowReader", row: int, first: int, move: Sequence[int]) -> "Window":
        whole = reader.row(row)
        cuts = cuts_of(whole.tokens, whole.is_action, self._language)
        first = min(max(0, first), max(0, cuts.actions - self._window))
        last = min(first + self._window, cuts.actions)
        part = slice(cuts.starts[first], cuts.stops[last])
        is_frame = whole.tokens == self._language.frame_id
        frames_before, frames_after = (int(is_frame[:i].sum()) for i in (part.start, part.stop))
        # One token in a row, as many as there are patches in the model.
        width = np.where(is_frame[part], self._patches, 1)
        columns = {name: np.repeat(getattr(whole, name)[part], width) for name in PER_TOKEN}
        frames = None
        if self._frame_shape:
            frames = moved(reader.frames(row, frames_before, frames_after), *move)
        return Window(
            **columns,
            # An episode that goes on beyond the window is as one that was cut there.
            truncated=bool(whole.truncated[0]) or last < cuts.actions,
            rest=self._return_after(whole, part.stop) if last < cuts.actions else np.nan,
            left=-1 if whole.truncated[0] else int(whole.is_action[part.stop :].sum()),
            frame_positions=(np.cumsum(width) - width)[is_frame[part]],
            frames=frames,
            counts=(int(whole.is_action[part].sum()), min(last, cuts.completed) - first),
        )

    def _return_after(self, row: Rows, stop: int) -> float:
        """The discounted return of the actions that follow."""
        rewards = row.reward[stop:][row.is_action[stop:]]
        return float(rewards @ self._discount ** np.arange(len(rewards)))

    def _join(self, windows: list["Window"]) -> Batch:
        lengths = [len(window.tokens) for window in windows]
        rows = Rows(
            offsets=np.cumsum([0, *lengths]),
            truncated=np.array([window.truncated for window in windows]),
            rest=np.array([window.rest for window in windows], dtype=np.float32),
            left=np.array([window.left for window in windows]),
            **{name: np.concatenate([getattr(w, name) for w in windows]) for name in PER_TOKEN},
        )
        batch = collate(rows, np.arange(len(windows)), self._language)
        if self._frame_shape is None:
            return batch
        owner = np.repeat(np.arange(len(windows)), [len(w.frame_positions) for w in windows])
        frames = Frames(
            pixels=torch.from_numpy(
                np.concatenate([w.frames for w in windows if w.frames is not None])
            ),
            episode=torch.from_numpy(owner),
            position=torch.from_numpy(np.concatenate([w.frame_positions for w in windows])),
        )
        return replace(batch, frames=frames)


@dataclass(frozen=True)
class Window:
    """Part of a row, each frame as many tokens as it has patches."""

    tokens: NDArray[np.int32]
    is_action: NDArray[np.bool_]
    reward: NDArray[np.float32]
    observation: NDArray[np.int32]
    truncated: bool
    rest: float  # as in Rows
    left: int  # as in Rows
    frame_positions: NDArray[np.int64]  # of each frame's first token
    frames: Pixels | None
    counts: tuple[int, int]  # action tokens, completed actions


class RowFiles:
    """The files of a dataset, and which rows are in which."""

    def __init__(self, rows: Dataset) -> None:
        self._rows, self._paths = rows, files_of(rows)
        lengths = [len(map_file(path)) for path in self._paths]
        self._first_rows = np.cumsum([0, *lengths[:-1]])

    def find(self, row: int) -> tuple[int, int]:
        """The number of the file that holds a row, and the row's place in it."""
        file = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        return file, row - int(self._first_rows[file])

    def open(self, file: int, columns: list[str]) -> pa.Table:
        """A fresh map of one file; of rows that are in no file, all of them."""
        if not self._paths:
            return table_of(self._rows, columns)
        return map_file(self._paths[file]).select(columns)


class RowReader:
    """Single rows of a dataset, read through a memory map that lasts as long as the reader."""

    def __init__(self, files: RowFiles, frame_shape: tuple[int, ...] | None) -> None:
        self._frame_shape = frame_shape
        self._names = [*PER_TOKEN, "truncated", *(["frames"] if frame_shape else [])]
        self._files = files
        self._opened: dict[int, tuple[list[pa.RecordBatch], NDArray[np.int64]]] = {}

    def _find(self, row: int) -> tuple[pa.RecordBatch, int]:
        """The record batch that holds a row, and where; only files that are needed are mapped."""
        file, place = self._files.find(row)
        if file not in self._opened:
            batches = self._files.open(file, self._names).to_batches()
            self._opened[file] = batches, np.cumsum([0] + [len(batch) for batch in batches])
        batches, starts = self._opened[file]
        batch = int(np.searchsorted(starts, place, side="right")) - 1
        return batches[batch], place - int(starts[batch])

    def row(self, row: int) -> Rows:
        """One row without its frames."""
        batch, index = self._find(row)
        table = pa.Table.from_batches([batch.slice(index, 1)])
        return Rows.from_table(table)

    def frames(self, row: int, first: int, last: int) -> Pixels:
        """Its frames number first to last - 1."""
        assert self._frame_shape is not None
        batch, index = self._find(row)
        column = batch.column(batch.schema.get_field_index("frames"))
        offset = column.offsets[index].as_py()
        images = column.values.slice(offset + first, last - first).field("bytes")
        return decode_frames(images, self._frame_shape)
