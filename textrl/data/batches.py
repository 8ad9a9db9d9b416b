"""Rows -> batches: which episodes make up each training step, padded and aligned for the losses."""

import functools
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from numpy.typing import NDArray
from torch import Tensor

from textrl.data.dataset import Rows, table_of
from textrl.data.frames import Frames
from textrl.data.language import PAD_ID, TokenLanguage
from textrl.errors import UserError

BLOCK_ROWS = 64  # neighbours that are read together
WINDOW_STEPS = 64  # steps whose episodes are in memory at once
PASS_TOKENS = 256  # what another pass through the network costs, in tokens that it could have read
GROUP_TOKENS = 32  # the same of another group within a pass


@dataclass(frozen=True)
class Batch:
    """Episodes side by side. Shapes: tokens (batch, time); the rest (batch, actions) unless said.

    State k of an episode is the history before its k-th action token, read at `state_positions[k]`
    (the index of the token before it). Where an episode of the batch was cut by a time limit there
    is one state more than actions: the history's end, from which its value is bootstrapped.
    """

    tokens: Tensor
    state_positions: Tensor  # (batch, states)
    legal: Tensor | None  # (batch, states, action tokens): True where allowed; None = everywhere
    actions: Tensor  # number of the action token chosen
    rewards: Tensor
    observations: Tensor  # class of the observation that followed; -1 = none
    ends_action: Tensor  # True where the token completes an action of one or more tokens
    is_action: Tensor  # True where an action really is, False on padding
    has_next: Tensor  # True where the next state has a value: neither terminal nor padding
    is_followed: Tensor  # True where the episode has another action, be it beyond this window
    return_after: Tensor  # discounted return after a window's last action; 0 within and at the end
    left: Tensor  # (batch, 1): action tokens after the window; -1 where a time limit is the end
    # Of the whole step, over all processes and micro-batches:
    action_count: float  # action tokens, each as often as its episode's weight says
    completed_count: float  # actions completed, likewise
    # Its episodes' places among those of the whole step: first_place, + place_stride, ...
    first_place: int = 0
    place_stride: int = 1
    frames: Frames | None = None  # what the frame tokens show
    weight: Tensor | None = None  # (batch,): how much an episode counts; None = all alike
    # Episodes of similar length are side by side: how many are in each group of them; () = one.
    groups: tuple[int, ...] = ()
    # Of a run over several tasks:
    member: int = 0  # which one, as the model numbers them
    share: float = 1.0  # its loss's in the step's

    @property
    def counts(self) -> Tensor:
        """How much each action counts in a mean: True where one is, or its episode's weight."""
        return self.is_action if self.weight is None else self.is_action * self.weight[:, None]

    @functools.cached_property
    def log_legal(self) -> Tensor | None:
        """0 where `legal` is True, minus infinity elsewhere: to be added to log-odds."""
        if self.legal is None:
            return None
        return torch.where(self.legal, 0.0, -torch.inf).to(self.rewards.dtype)

    @property
    def legal_actions(self) -> Tensor | None:
        """`legal` of the states before an action, without the history's end."""
        return None if self.legal is None else self.legal[:, : self.actions.shape[1]]

    @property
    def log_legal_actions(self) -> Tensor | None:
        """`log_legal` of the same."""
        return None if self.log_legal is None else self.log_legal[:, : self.actions.shape[1]]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {
            name: value.to(device)
            for name, value in values.items()
            if isinstance(value, Tensor | Frames)
        }
        return replace(self, **tensors)


def collate(rows: Rows, picks: NDArray[np.integer], language: TokenLanguage) -> Batch:
    """The picked rows as one batch."""
    starts, lengths = rows.offsets[picks], rows.lengths[picks]
    time = np.arange(lengths.max())
    is_token = time < lengths[:, None]
    grid = np.where(is_token, starts[:, None] + time, starts[:, None])
    tokens = np.where(is_token, rows.tokens[grid], PAD_ID)

    row, position = np.nonzero(rows.is_action[grid] & is_token)
    counts = np.bincount(row, minlength=len(picks))
    rank = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_action = np.arange(counts.max()) < counts[:, None]

    def packed(values: NDArray[Any], empty: float, kind: type) -> NDArray[Any]:
        out: NDArray[Any] = np.full(is_action.shape, empty, dtype=kind)
        out[row, rank] = values[grid[row, position]]
        return out

    actions = packed(rows.tokens - language.first_action, 0, np.int64)
    grammar = language.grammar
    states = None if grammar is None else grammar.states_along(actions, is_action)
    if states is not None:
        ends_action = is_action & (states[:, 1:] == 0)
    else:
        assert rows.ends_action is not None
        ends_action = packed(rows.ends_action, False, np.bool_)
    truncated = rows.truncated[picks]
    is_last = np.arange(is_action.shape[1]) == counts[:, None] - 1
    has_next = is_action & (~is_last | truncated[:, None])
    rest = np.full(len(picks), np.nan) if rows.rest is None else rows.rest[picks]
    left = np.where(truncated, -1, 0) if rows.left is None else rows.left[picks]
    goes_on = is_last & ~np.isnan(rest)[:, None]
    is_followed = goes_on | (is_action & ~is_last)
    legal = None
    if grammar is not None and states is not None:
        states_read = actions.shape[1] + int(truncated.any())
        legal = torch.from_numpy(grammar.legal[states[:, :states_read]])
    weight = None if rows.weight is None else rows.weight[picks]
    often = np.ones(len(picks), dtype=np.int64) if weight is None else weight
    positions = np.zeros((len(picks), actions.shape[1] + int(truncated.any())), dtype=np.int64)
    positions[row, rank] = position - 1
    if truncated.any():
        np.put_along_axis(positions, counts[:, None], lengths[:, None] - 1, axis=1)
    return Batch(
        tokens=torch.from_numpy(tokens).long(),
        state_positions=torch.from_numpy(positions),
        legal=legal,
        actions=torch.from_numpy(actions),
        rewards=torch.from_numpy(packed(rows.reward, 0.0, np.float32)),
        observations=torch.from_numpy(packed(rows.observation, -1, np.int64)),
        ends_action=torch.from_numpy(ends_action),
        is_action=torch.from_numpy(is_action),
        has_next=torch.from_numpy(has_next),
        is_followed=torch.from_numpy(is_followed),
        return_after=torch.from_numpy(np.where(goes_on, rest[:, None], 0.0)).float(),
        left=torch.from_numpy(left[:, None]),
        action_count=(often @ counts).item(),
        completed_count=(often @ ends_action.sum(axis=1)).item(),
        weight=None if weight is None else torch.from_numpy(weight),
    )


class Batches(Protocol):
    """Where a training step finds its batches."""

    @property
    def ahead(self) -> int:
        """How many steps before its turn a batch is worth making."""

    def step(self, step: int) -> list[Batch]:
        """This process's micro-batches of step 0, 1, 2, ..., which no call before changes."""


def check_split(batch_size: int, accumulation: int, processes: int) -> None:
    """Refuse a batch that cannot be split."""
    if batch_size % (accumulation * processes):
        raise UserError(
            f"a batch of {batch_size} episodes cannot be split evenly over {processes}"
            f" processes x {accumulation} accumulation steps: choose another --batch-size"
        )


class EpisodeBatches:
    """The batches of each training step, as a function of the step's number alone.

    So a resumed run reads what an uninterrupted one would, and every process finds its own share of
    a step without asking the others. Rows are read in blocks of neighbours, blocks in random order.

    A step's episodes are of all lengths: in many tasks an episode's length tells its return, and
    values that learn from wins at one step and from losses at the next learn mostly the difference.
    They are read in groups of similar length, so that little is padding: all in one pass, if the
    network packs histories, or each in its own.
    """

    def __init__(
        self,
        rows: "Dataset | Readable",
        language: TokenLanguage,
        *,
        batch_size: int,
        accumulation: int = 1,
        seed: int = 0,
        keep: NDArray[np.int64] | None = None,
        process: int = 0,
        processes: int = 1,
        packs: bool = False,
        whole_every: int = 0,
        window_steps: int | None = None,
        ahead: int = 1,
    ) -> None:
        """batch_size: episodes per step over all processes; keep: the rows to use (None = all).

        packs: whether the network reads all lengths in one pass. whole_every: if it does not, how
        often a step is one pass all the same, because something is drawn from all of it; 0 = never.
        window_steps: how many steps' rows are read at once. Where that takes long, `ahead` of the
        same number lets the next window be read while this one is used.
        """
        episodes = len(rows) if keep is None else len(keep)
        check_split(batch_size, accumulation, processes)
        if episodes < batch_size:
            raise UserError(
                f"the data have {episodes} episodes, fewer than one batch of {batch_size}:"
                " lower --batch-size"
            )
        self._rows, self._language, self._keep = rows, language, keep
        self._window_steps, self.ahead = window_steps or WINDOW_STEPS, ahead
        self._episodes, self._batch_size, self._seed = episodes, batch_size, seed
        self._accumulation, self._process, self._processes = accumulation, process, processes
        self._packs, self._whole_every = packs, whole_every
        self._window_name: tuple[int, int] | None = None
        self._window_rows: Rows
        self._window_batches: NDArray[np.int64]
        # Action tokens and completed actions per episode, as often as its weight says.
        self._window_counts: NDArray[np.integer | np.floating]

    def step(self, step: int) -> list[Batch]:
        """This process's micro-batches of step 0, 1, 2, ..."""
        epoch, step_in_epoch = divmod(step, self._episodes // self._batch_size)
        window, step_in_window = divmod(step_in_epoch, self._window_steps)
        if self._window_name != (epoch, window):
            self._load_window(epoch, window)
        picks = self._window_batches[step_in_window]
        action_count, completed_count = self._window_counts[:, picks].sum(axis=1).tolist()
        lengths = self._window_rows.lengths
        picks = picks[np.argsort(lengths[picks], kind="stable")]
        is_whole = self._packs or (self._whole_every > 0 and step % self._whole_every == 0)
        # Every n-th episode: lengths, and so the work, are spread evenly over the parts.
        parts = self._accumulation * self._processes
        ours = range(self._process, parts, self._processes)
        # All parts are cut as the longest one: where the model is spread over processes, every one
        # of them has to make as many passes as the others.
        cuts = [] if is_whole else cheapest_cuts(lengths[picks[parts - 1 :: parts]])
        passes = [
            (part + parts * first, collate(self._window_rows, similar, self._language))
            for part in ours
            for first, similar in zip([0, *cuts], np.split(picks[part::parts], cuts), strict=True)
        ]
        return [
            replace(
                each,
                # What follows the last state, such as the answer to a last action, nobody reads.
                tokens=each.tokens[:, : int(each.state_positions.max()) + 1],
                groups=similar_groups(each.state_positions) if self._packs else (),
                action_count=action_count,
                completed_count=completed_count,
                first_place=place,
                place_stride=parts,
            )
            for place, each in passes
        ]

    def _load_window(self, epoch: int, window: int) -> None:
        random = np.random.default_rng((self._seed, epoch))
        blocks = random.permutation(-(-self._episodes // BLOCK_ROWS))
        size = self._window_steps * self._batch_size
        chosen = np.sort(part_of_order(blocks, self._episodes, window * size, size))
        self._window_rows = read_rows(
            self._rows, chosen if self._keep is None else self._keep[chosen]
        )
        self._window_counts = count_actions(self._window_rows, self._language)

        random = np.random.default_rng((self._seed, epoch, window))
        shuffled = random.permutation(len(chosen))
        batches = len(shuffled) // self._batch_size
        # An epoch's last, short window leaves some episodes out, other ones in each epoch.
        shuffled = shuffled[: batches * self._batch_size]
        self._window_batches = shuffled.reshape(batches, self._batch_size)
        self._window_name = (epoch, window)


def part_of_order(
    blocks: NDArray[np.int64], episodes: int, first: int, count: int
) -> NDArray[np.int64]:
    """So many rows, from the first on, of all rows block by block in this order of the blocks.

    Without listing all of them, which takes 80 MB for each 10,000,000. The block of the last rows
    is shorter by what is missing.
    """
    missing = len(blocks) * BLOCK_ROWS - episodes
    begin, end = first // BLOCK_ROWS, -(-(first + count + missing) // BLOCK_ROWS)
    is_short_before = bool((blocks[:begin] == len(blocks) - 1).any())
    skipped = first - (begin * BLOCK_ROWS - missing * is_short_before)
    rows = (blocks[begin:end, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).ravel()
    found: NDArray[np.int64] = rows[rows < episodes][skipped : skipped + count]
    return found


def similar_groups(state_positions: Tensor) -> tuple[int, ...]:
    """How many neighbours to read at one length, where episodes are sorted by theirs."""
    # How far a history is read may be less sorted than how long the episode is.
    furthest = np.maximum.accumulate(state_positions.numpy().max(axis=1))
    cuts = cheapest_cuts(1 + furthest, GROUP_TOKENS)
    return tuple(np.diff([0, *cuts, len(furthest)]).tolist())


def cheapest_cuts(lengths: NDArray[np.int64], each: int | None = None) -> list[int]:
    """Where to cut sorted lengths into passes, so that padding and passes cost least together.

    A pass costs its longest length times its episodes, and `each` tokens; None = PASS_TOKENS.
    """
    each = PASS_TOKENS if each is None else each
    # A cut between equal lengths saves nothing: only where the length changes.
    borders = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    cost, cut = [0.0], [0]  # of the episodes before each border, and where their last pass begins
    for number, end in enumerate(borders[1:], start=1):
        options = [
            cost[before] + (end - borders[before]) * int(lengths[end - 1]) + each
            for before in range(number)
        ]
        cut.append(int(np.argmin(options)))
        cost.append(min(options))
    cuts: list[int] = []
    number = len(borders) - 1
    while number := cut[number]:
        cuts.insert(0, borders[number])
    return cuts


def count_actions(rows: Rows, language: TokenLanguage) -> NDArray[np.integer | np.floating]:
    """(2, rows): action tokens and completed actions, as often as the row's weight says."""
    tokens, is_action = rows.packed_actions()
    counts = is_action.sum(axis=1)
    if language.grammar is None:
        assert rows.ends_action is not None
        completed = np.add.reduceat(rows.ends_action, rows.offsets[:-1], dtype=np.int64)
    else:
        actions = np.where(is_action, tokens - language.first_action, 0)
        states = language.grammar.states_along(actions, is_action)
        completed = (is_action & (states[:, 1:] == 0)).sum(axis=1)
    found: NDArray[np.integer | np.floating] = np.stack([counts, completed])
    return found if rows.weight is None else found * rows.weight.astype(np.float64)


class Readable(Protocol):
    """Rows that become tokens when they are read."""

    def __len__(self) -> int: ...

    def read(self, indices: NDArray[np.int64]) -> Rows:
        """The rows with these (sorted) indices."""


def read_rows(rows: Dataset | Readable, indices: NDArray[np.int64]) -> Rows:
    """Copy the rows with these (sorted) indices into memory."""
    if not isinstance(rows, Dataset):
        return rows.read(indices)
    return Rows.from_table(take_rows(table_of(rows), indices))


def take_rows(table: pa.Table, indices: NDArray[np.int64]) -> pa.Table:
    """The rows of a (mapped) table with these sorted indices, reading neighbours together."""
    borders = np.flatnonzero(np.diff(indices) > BLOCK_ROWS) + 1
    parts = []
    for run in np.split(indices, borders):
        near = table.slice(run[0], run[-1] - run[0] + 1)
        parts.append(near if len(run) == len(near) else near.take(run - run[0]))
    return pa.concat_tables(parts)
