"""Episodes on disk: the schema of a row, writing, loading and checking. One episode is one row."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import (
    Dataset,
    Features,
    Image,
    List,
    Value,
    concatenate_datasets,
    disable_progress_bars,
    enable_progress_bars,
    load_dataset,
)
from datasets import load_from_disk as load_folder
from numpy.typing import NDArray

from textrl.config.hub_names import is_hub_name
from textrl.data.conversation import other_format
from textrl.data.download import reason
from textrl.data.episode import Episode
from textrl.errors import UserError

FEATURES = Features(
    {
        "tokens": List(Value("int32")),
        "is_action": List(Value("bool")),  # the agent chose this token
        "reward": List(Value("float32")),  # arrived because of this token; zero on observations
        "observation": List(Value("int32")),  # class of the observation that followed; -1 = none
        "terminated": Value("bool"),
        "truncated": Value("bool"),
        "episode_return": Value("float32"),
        "behaviour": Value("string"),
    }
)
OPTIONAL = {
    "frames": List(Image()),  # one for each frame token
    "start": Value("string"),  # how the episode began, where beginnings differ
}
STATE_FILE = "state.json"  # of a folder of `datasets`: which files hold the rows
PER_TOKEN = ("tokens", "is_action", "reward", "observation")
BLOCK_ROWS = 2_000


@dataclass(frozen=True)
class Rows:
    """Some rows as flat arrays: row k's tokens are tokens[offsets[k] : offsets[k + 1]]."""

    offsets: NDArray[np.int64]
    tokens: NDArray[np.int32]
    is_action: NDArray[np.bool_]
    reward: NDArray[np.float32]
    observation: NDArray[np.int32]
    truncated: NDArray[np.bool_]
    rest: NDArray[np.float32] | None = None
    """Of parts of episodes: the discounted return that followed; nan where the episode ends."""
    left: NDArray[np.int64] | None = None
    """Of parts of episodes: action tokens that follow; -1 where a time limit ends the episode."""
    ends_action: NDArray[np.bool_] | None = None
    """Per token, where the language has no grammar that tells: it completes an action."""
    weight: NDArray[np.float32] | None = None
    """Per row: how much it counts in every mean; None = each as much as the others."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per row."""
        return np.diff(self.offsets)

    def packed_actions(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """The action tokens of each row from the left, (rows, actions), and where there is one."""
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)[self.is_action]
        counts = np.bincount(owner, minlength=len(self.lengths))
        is_there = np.arange(counts.max()) < counts[:, None]
        packed = np.zeros(is_there.shape, dtype=np.int32)
        packed[is_there] = self.tokens[self.is_action]
        return packed, is_there

    @classmethod
    def from_table(cls, table: pa.Table) -> "Rows":
        """Copy a (small) slice of the table out of its memory-mapped file."""
        columns = {name: table[name].combine_chunks() for name in (*PER_TOKEN, "truncated")}
        offsets = columns["tokens"].offsets.to_numpy()

        def flat(name: str) -> NDArray[Any]:
            return np.array(columns[name].flatten().to_numpy(zero_copy_only=False))

        return cls(
            offsets=(offsets - offsets[0]).astype(np.int64),
            tokens=flat("tokens"),
            is_action=flat("is_action"),
            reward=flat("reward"),
            observation=flat("observation"),
            truncated=columns["truncated"].to_numpy(zero_copy_only=False),
        )


def episodes_to_table(episodes: Iterable[Episode]) -> pa.Table:
    """Episodes as an Arrow table with the schema above; all have an optional column, or none."""
    frames: list[bytes] = []
    frame_offsets = [0]
    flat: dict[str, list[object]] = {name: [] for name in PER_TOKEN}
    offsets = [0]
    per_row: dict[str, list[object]] = {
        name: [] for name in (*FEATURES, "start") if name not in flat
    }
    for episode in episodes:
        for values, silent in zip(flat.values(), (0, False, 0.0, -1), strict=True):
            values.extend(
                episode.prompt if values is flat["tokens"] else [silent] * len(episode.prompt)
            )
        for step in episode.steps:
            chosen, seen = len(step.action), len(step.observation)
            flat["tokens"] += step.action + step.observation
            flat["is_action"] += [True] * chosen + [False] * seen
            # Reward and observation belong to the token that completed the action.
            flat["reward"] += [0.0] * (chosen - 1) + [step.reward] + [0.0] * seen
            flat["observation"] += [-1] * (chosen - 1) + [step.observation_class] + [-1] * seen
        offsets.append(len(flat["tokens"]))
        frames += episode.frames
        frame_offsets.append(len(frames))
        per_row["terminated"].append(episode.terminated)
        per_row["truncated"].append(episode.truncated)
        per_row["episode_return"].append(episode.episode_return)
        per_row["behaviour"].append(episode.behaviour)
        per_row["start"].append(episode.start)
    given = {"frames": bool(frames), "start": any(per_row["start"])}
    schema = features_with(name for name, is_given in given.items() if is_given).arrow_schema
    columns = []
    for field in schema:
        if field.name in flat:
            values = pa.array(flat[field.name], type=field.type.value_type)
            columns.append(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values))
        elif field.name == "frames":
            images = pa.array(frames, pa.binary())
            paths = pa.nulls(len(frames), pa.string())  # they are files of nowhere
            values = pa.StructArray.from_arrays([images, paths], ["bytes", "path"])
            columns.append(pa.ListArray.from_arrays(pa.array(frame_offsets, pa.int32()), values))
        else:
            columns.append(pa.array(per_row[field.name], type=field.type))
    return pa.Table.from_arrays(columns, names=schema.names).cast(schema)


def features_with(optional: Iterable[str]) -> Features:
    """The schema with these optional columns."""
    return Features({**FEATURES, **{name: OPTIONAL[name] for name in optional}})


def write_shard(path: Path, episodes: Iterable[Episode]) -> int:
    """Write episodes as one Arrow stream file, the form that `datasets` maps; return the rows."""
    table = episodes_to_table(episodes)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    return int(table.num_rows)


def join_shards(shards: Sequence[Path], folder: Path, notes: dict[str, str]) -> Dataset:
    """Move shard files into a dataset folder, which appears whole or not at all.

    notes: small text files to lie beside the rows, name -> content.
    """
    rows = concatenate_datasets([Dataset.from_file(str(path)) for path in shards])
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # `datasets` would copy the rows: it writes the description of none, which is then told of all.
    disable_progress_bars()
    rows.select(range(0)).save_to_disk(str(partial))
    enable_progress_bars()
    for empty in partial.glob("*.arrow"):
        empty.unlink()
    names = [f"data-{i:05d}-of-{len(shards):05d}.arrow" for i in range(len(shards))]
    state = json.loads((partial / STATE_FILE).read_text())
    state["_data_files"] = [{"filename": name} for name in names]
    (partial / STATE_FILE).write_text(json.dumps(state, indent=2))
    for name, content in notes.items():
        (partial / name).write_text(content)
    for path, name in zip(shards, names, strict=True):
        path.rename(partial / name)
    partial.rename(folder)
    return load_folder(str(folder))


def load_episodes(source: str) -> Dataset:
    """Rows from a dataset folder, a JSONL file or a Hub id, memory-mapped."""
    path = Path(source)
    try:
        if path.is_dir():
            rows = load_folder(source)
        elif path.is_file():
            _refuse_conversations(source, _first_keys(path))
            rows = load_dataset("json", data_files=source, split="train")
        elif is_hub_name(source) and path.suffix not in (".json", ".jsonl"):
            rows = load_dataset(source, split="train")
        else:
            raise UserError(f"no such dataset: {source!r} (a folder, a .jsonl file or a Hub id)")
    except UserError:
        raise
    except Exception as error:  # datasets raises its own, pyarrow's, JSON's and the Hub's errors
        raise UserError(f"cannot read the dataset {source!r}: {reason(error)}") from error
    if not isinstance(rows, Dataset):
        raise UserError(f"{source!r} is not a single dataset: give the folder of one split")
    _refuse_conversations(source, rows.features)
    missing = [name for name in FEATURES if name not in rows.features]
    if missing:
        have = ", ".join(rows.features) or "none"
        raise UserError(
            f"the dataset {source!r} has no column {missing[0]!r} (its columns: {have})"
        )
    if len(rows) == 0:
        raise UserError(f"the dataset {source!r} is empty")
    wanted = features_with(name for name in OPTIONAL if name in rows.features)
    rows = rows.select_columns(list(wanted))
    if rows.features != wanted:
        try:
            rows = rows.cast(wanted)
        except Exception as error:  # whatever Arrow cannot convert
            raise UserError(
                f"the dataset {source!r} has a column of another type: {error}"
            ) from error
    return rows


def _first_keys(path: Path) -> list[str]:
    """Of the first row of a JSONL file; none where that is no object.

    Read before `datasets` does, which refuses conversations whose messages differ in their keys.
    """
    with path.open("rb") as file:
        try:
            row = json.loads(file.readline())
        except ValueError:
            return []
    return list(row) if isinstance(row, dict) else []


def _refuse_conversations(source: str, columns: Iterable[str]) -> None:
    """Rows that belong to another task are the likeliest mistake: say which one."""
    have = set(columns)
    if "messages" in have and "tokens" not in have:
        raise UserError(f"{source!r} holds conversations: learn from them with --task text")
    if (other := other_format(have)) and "tokens" not in have:
        raise UserError(
            f"{source!r} holds conversations of another format: convert them with textrl collect"
            f" --from {other}, and learn from them with --task text"
        )


def table_of(rows: Dataset, columns: Iterable[str] = FEATURES) -> pa.Table:
    """A fresh memory map of the dataset's files.

    A mapped page stays resident once it was read. Whoever drops this table gives the pages back, so
    that memory does not grow with the dataset.
    """
    files = files_of(rows)
    if not files:
        return rows.with_format("arrow").select_columns(list(columns))[:]
    return pa.concat_tables(map(map_file, files)).select(list(columns))


def files_of(rows: Dataset) -> list[str]:
    """The files that hold exactly these rows in this order; none if there are no such files."""
    if rows._indices is not None:
        return []
    files = [entry["filename"] for entry in rows.cache_files]
    # Consecutive rows are selected without indices: such a dataset names files that hold more.
    held = sum(rows_in(file, os.stat(file).st_mtime_ns) for file in files)
    return files if held == len(rows) else []


@lru_cache(maxsize=4096)
def rows_in(file: str, changed: int) -> int:
    """How many rows a file holds; changed: when it was written last."""
    return len(map_file(file))


def map_file(file: str) -> pa.Table:
    """A fresh memory map of a file."""
    return pa.ipc.open_stream(pa.memory_map(file)).read_all()


def blocks_of(rows: Dataset, size: int = BLOCK_ROWS) -> Iterator[tuple[int, pa.Table]]:
    """The dataset's table in copies of `size` rows, with the number of the first.

    Copies, because a slice would keep its map, and so the pages read through it, in memory.
    """
    first = 0
    files: list[str | None] = [*files_of(rows)]
    for file in files or [None]:
        length = len(rows) if file is None else len(map_file(file))
        for start in range(0, length, size):
            table = table_of(rows) if file is None else map_file(file).select(list(FEATURES))
            count = min(size, length - start)
            yield first + start, table.slice(start, count).take(np.arange(count))
        first += length


def best_episodes(rows: Dataset, share: float) -> NDArray[np.int64]:
    """Rows of the top `share` of episodes by return (filtered BC); ties at the border go by row."""
    return best_of(
        np.concatenate([table["episode_return"].to_numpy() for _, table in blocks_of(rows)]), share
    )


def best_of(returns: NDArray[np.float32], share: float) -> NDArray[np.int64]:
    """Where the top `share` of the returns are, in order; of equal ones the first are taken."""
    kept = max(1, round(share * len(returns)))
    return np.sort(np.argsort(-returns, kind="stable")[:kept])


def returns_by(rows: Dataset, column: str) -> dict[str, NDArray[np.float32]]:
    """The episodes' returns, by who played them (behaviour) or how they began (start)."""
    table = table_of(rows, [column, "episode_return"])
    kind, returns = (table[name].to_numpy() for name in (column, "episode_return"))
    return {str(name): returns[kind == name] for name in np.unique(kind.astype(str))}


def returns_by_behaviour(rows: Dataset) -> dict[str, NDArray[np.float32]]:
    """The episodes' returns, by who played them."""
    return returns_by(rows, "behaviour")
