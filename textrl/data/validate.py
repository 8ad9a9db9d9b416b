"""Refusing episodes that cannot be learned from: the first bad row is named, with its fault."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from numpy.typing import NDArray

from textrl.data.dataset import FEATURES, PER_TOKEN, Rows, blocks_of, table_of
from textrl.data.language import Language
from textrl.data.outliers import LARGEST_REWARD, remark_on
from textrl.errors import UserError


def check_episodes(
    rows: Dataset, language: Language, context: int | None, observation_classes: int
) -> str:
    """Refuse rows that the language or the model cannot take; all rows are looked at.

    context: the longest row that the model can read; None = it reads parts of them. Gives a warning
    of rewards far beyond all others, or "".
    """
    largest: list[NDArray[np.float32]] = []
    frames = _count_frames(rows, language)
    for start, table in blocks_of(rows):
        _check_columns(table, start)
        flat = Rows.from_table(table)
        _check_tokens(flat, start, language, context, observation_classes)
        _check_episodes(table, start)
        # By size: one of a million and one of minus a million would be nothing as a sum.
        largest.append(np.maximum.reduceat(np.abs(flat.reward), flat.offsets[:-1]))
        if frames is not None:
            shown = np.add.reduceat(flat.tokens == language.frame_id, flat.offsets[:-1], dtype=int)
            differs = frames[start : start + len(table)] != shown
            _refuse(start, differs, "not as many 'frames' as there are frame tokens")
    return remark_on(np.concatenate(largest), "row {}", "a reward")


def _count_frames(rows: Dataset, language: Language) -> NDArray[np.int64] | None:
    """How many frames each row has, in a language that has them."""
    if language.frame_id is None:
        return None
    if "frames" not in rows.features:
        raise UserError("malformed dataset: no column 'frames', which this task needs")
    return np.array(pc.list_value_length(table_of(rows, ["frames"])["frames"]).fill_null(-1))


def _check_columns(table: pa.Table, start: int) -> None:
    columns = {name: table[name].combine_chunks() for name in FEATURES}
    for name, column in columns.items():
        values = column.flatten() if name in PER_TOKEN else column
        if column.null_count or values.null_count:
            last = start + len(table) - 1
            raise UserError(f"malformed dataset: rows {start}-{last}: an empty value in {name!r}")
    lengths = columns["tokens"].value_lengths().to_numpy()
    for name in PER_TOKEN[1:]:
        differs = columns[name].value_lengths().to_numpy() != lengths
        _refuse(start, differs, f"{name!r} is not as long as 'tokens'")


def _check_tokens(
    rows: Rows, start: int, language: Language, context: int | None, observation_classes: int
) -> None:
    owner = np.repeat(np.arange(len(rows.lengths)), rows.lengths)

    def refuse(is_bad: NDArray[np.bool_], fault: str) -> None:
        _refuse(start, np.bincount(owner[is_bad], minlength=len(rows.lengths)) > 0, fault)

    tokens, is_action, seen = rows.tokens, rows.is_action, rows.observation
    if context is not None:
        fault = f"longer than the model's context of {context} tokens"
        _refuse(start, rows.lengths > context, fault)
    _refuse(start, rows.lengths < 2, "fewer than two tokens")
    refuse((tokens < 0) | (tokens >= len(language.tokens)), "a token id is not in the vocabulary")
    is_action_token = tokens >= language.first_action
    refuse(is_action & ~is_action_token, "'is_action' marks a token that is no action")
    refuse(~np.isfinite(rows.reward), "a reward is not a finite number")
    refuse(np.abs(rows.reward) > LARGEST_REWARD, f"a reward is beyond {LARGEST_REWARD:g}")
    refuse(~is_action & (rows.reward != 0), "a reward sits on a token that is no action")
    refuse((seen < -1) | (seen >= observation_classes), "an unknown class in 'observation'")
    _refuse(start, is_action[rows.offsets[:-1]], "the first token is an action")
    packed, real = rows.packed_actions()
    _refuse(start, ~real.any(axis=1), "no action token")
    packed = np.where(real, packed - language.first_action, 0)
    states = language.grammar.states_along(packed, real)[:, :-1]
    legal = (states >= 0) & language.grammar.legal[states, packed]
    _refuse(start, (~legal & real).any(axis=1), "an action that the task's grammar does not allow")


def _check_episodes(table: pa.Table, start: int) -> None:
    terminated, truncated = table["terminated"].to_numpy(), table["truncated"].to_numpy()
    _refuse(start, terminated & truncated, "both 'terminated' and 'truncated' are true")
    _refuse(start, ~(terminated | truncated), "neither 'terminated' nor 'truncated' is true")
    rewards = table["reward"].combine_chunks()
    offsets = rewards.offsets.to_numpy()
    sums = np.add.reduceat(
        rewards.flatten().to_numpy().astype(np.float64), offsets[:-1] - offsets[0]
    )
    differs = ~np.isclose(table["episode_return"].to_numpy(), sums, rtol=1e-4, atol=1e-4)
    _refuse(start, differs, "'episode_return' is not the sum of the rewards")


def _refuse(start: int, is_bad: Any, fault: str) -> None:
    if is_bad.any():
        row, others = start + int(np.argmax(is_bad)), int(is_bad.sum()) - 1
        more = f" (and {others} more nearby)" if others else ""
        raise UserError(f"malformed dataset: row {row}: {fault}{more}")
