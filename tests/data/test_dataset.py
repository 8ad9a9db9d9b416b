"""Episodes as rows: what a row holds, on disk and back, and what filters read."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from PIL import Image

from tests.frame_task import FrameTask, view
from textrl.data.dataset import (
    FEATURES,
    Rows,
    best_episodes,
    blocks_of,
    episodes_to_table,
    features_with,
    join_shards,
    load_episodes,
    returns_by,
    returns_by_behaviour,
    table_of,
    write_shard,
)
from textrl.data.episode import Episode, Step
from textrl.data.frames import encode_frame
from textrl.data.language import Language
from textrl.data.validate import check_episodes
from textrl.errors import UserError

MakeRows = Callable[[list[Episode]], Dataset]
MakeEpisodes = Callable[..., list[Episode]]


def episode(score: float, behaviour: str = "novice") -> Episode:
    return Episode((1,), (Step((5, 7), score),), True, False, behaviour)


def test_what_a_row_holds() -> None:
    steps = (Step((5, 7), -1.0, (2, 4), 3), Step((6, 8), 0.5))
    rows = episodes_to_table([Episode((1, 2), steps, False, True, "expert")]).to_pylist()
    assert rows == [
        {
            "tokens": [1, 2, 5, 7, 2, 4, 6, 8],
            "is_action": [False, False, True, True, False, False, True, True],
            "reward": [0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.5],
            "observation": [-1, -1, -1, 3, -1, -1, -1, -1],
            "terminated": False,
            "truncated": True,
            "episode_return": -0.5,
            "behaviour": "expert",
        }
    ]


def test_rows_are_flat_arrays_of_any_slice(random_episodes: MakeEpisodes) -> None:
    table = episodes_to_table(random_episodes(9)).slice(3, 4)
    rows = Rows.from_table(table)
    assert rows.offsets[0] == 0
    assert rows.lengths.tolist() == [len(tokens) for tokens in table["tokens"].to_pylist()]
    for name in ("tokens", "is_action", "reward", "observation"):
        values = getattr(rows, name)
        split = [part.tolist() for part in np.split(values, rows.offsets[1:-1])]
        assert split == table[name].to_pylist()
    assert rows.truncated.tolist() == table["truncated"].to_pylist()


def test_shards_join_to_a_folder_that_loads_again(
    tmp_path: Path, random_episodes: MakeEpisodes, language: Language
) -> None:
    episodes = random_episodes(10)
    paths = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    assert [write_shard(paths[0], episodes[:7]), write_shard(paths[1], episodes[7:])] == [7, 3]
    folder = tmp_path / "data"
    join_shards(paths, folder, {"task.json": "{}"})
    assert (folder / "task.json").read_text() == "{}"
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert not any(path.exists() for path in paths)  # moved
    rows = load_episodes(str(folder))
    assert rows.features == FEATURES
    assert table_of(rows).to_pylist() == episodes_to_table(episodes).to_pylist()
    check_episodes(rows, language, context=64, observation_classes=7)


def test_a_jsonl_file_loads_as_the_same_rows(
    tmp_path: Path, random_episodes: MakeEpisodes, language: Language
) -> None:
    table = episodes_to_table(random_episodes(10))
    path = tmp_path / "episodes.jsonl"
    # Columns in another order, one too many, and rewards that look like integers.
    lines = [
        json.dumps({"comment": "mine", **dict(reversed(row.items()))}).replace(".0", "")
        for row in table.to_pylist()
    ]
    path.write_text("\n".join(lines) + "\n")
    rows = load_episodes(str(path))
    assert rows.features == FEATURES
    assert table_of(rows).to_pylist() == table.to_pylist()
    check_episodes(rows, language, context=64, observation_classes=7)


def test_a_changed_jsonl_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    for score in (-1.0, -2.0):
        path.write_text(json.dumps(episodes_to_table([episode(score)]).to_pylist()[0]) + "\n")
        assert load_episodes(str(path))["episode_return"][:] == [score]


def test_selected_rows_are_the_ones_read(make_rows: MakeRows) -> None:
    rows = make_rows([episode(score) for score in range(6)]).select([4, 1])
    assert table_of(rows)["episode_return"].to_pylist() == [4.0, 1.0]


def test_consecutive_rows_of_a_folder_are_the_ones_read(
    tmp_path: Path, random_episodes: MakeEpisodes
) -> None:
    episodes = random_episodes(10)
    write_shard(tmp_path / "0.arrow", episodes)
    join_shards([tmp_path / "0.arrow"], tmp_path / "data", {"task.json": "{}"})
    rows = load_episodes(str(tmp_path / "data")).select(range(3, 7))
    expected = episodes_to_table(episodes[3:7]).to_pylist()
    assert table_of(rows).to_pylist() == expected
    assert [row for _, block in blocks_of(rows, 3) for row in block.to_pylist()] == expected


def test_blocks_cover_every_row_once(make_rows: MakeRows) -> None:
    blocks = list(blocks_of(make_rows([episode(score) for score in range(7)]), size=3))
    assert [(start, len(table)) for start, table in blocks] == [(0, 3), (3, 3), (6, 1)]
    assert blocks[1][1]["episode_return"].to_pylist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.01, [3]), (0.25, [0, 3]), (0.5, [0, 1, 3, 4]), (1.0, [0, 1, 2, 3, 4, 5, 6, 7])],
)
def test_the_best_episodes_are_kept(make_rows: MakeRows, share: float, kept: list[int]) -> None:
    # Four tie at -2: the border falls among them, and the first rows go in.
    rows = make_rows([episode(score) for score in (-1, -2, -5, 0, -2, -2, -2, -6)])
    assert best_episodes(rows, share).tolist() == kept


def test_returns_by_who_played(make_rows: MakeRows) -> None:
    rows = make_rows([episode(-1, "expert"), episode(-3, "novice"), episode(-2, "expert")])
    returns = returns_by_behaviour(rows)
    assert {name: each.tolist() for name, each in returns.items()} == {
        "expert": [-1.0, -2.0],
        "novice": [-3.0],
    }


def test_returns_by_how_episodes_began(make_rows: MakeRows) -> None:
    began = [replace(episode(score), start=start) for score, start in ((-1, "a"), (-3, "b"))]
    rows = make_rows([*began, replace(episode(-2), start="a")])
    assert rows.features == features_with(["start"])
    returns = returns_by(rows, "start")
    assert {name: each.tolist() for name, each in returns.items()} == {
        "a": [-1.0, -2.0],
        "b": [-3.0],
    }


def walk(first: int, moves: int, frames: int | None = None) -> Episode:
    """Of the corridor: right, right, ...; frames: how many it has, if not one for each token."""
    steps = tuple(Step((6,), -0.125, (2, 4)) for _ in range(moves))
    seen = [encode_frame(view(first + time, time)) for time in range(moves + 1)]
    return Episode((1, 4), steps, False, True, "walker", tuple(seen[:frames]))


def test_frames_survive_on_disk(tmp_path: Path, corridor: FrameTask) -> None:
    episodes = [walk(0, 3), walk(2, 1), walk(1, 5), walk(3, 2)]
    paths = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    write_shard(paths[0], episodes[:3])
    write_shard(paths[1], episodes[3:])
    join_shards(paths, tmp_path / "data", {})
    assert not any(path.exists() for path in paths)  # moved, not copied
    rows = load_episodes(str(tmp_path / "data"))
    assert rows.features == features_with(["frames"])
    check_episodes(rows, corridor.language, context=None, observation_classes=0)
    for row, first, moves in ((0, 0, 3), (1, 2, 1), (2, 1, 5), (3, 3, 2)):
        frames = rows[row]["frames"]
        assert len(frames) == moves + 1
        for time, frame in enumerate(frames):
            assert isinstance(frame, Image.Image)
            np.testing.assert_array_equal(np.asarray(frame), view(first + time, time))
    table = table_of(rows, [*FEATURES, "frames"])
    assert table.to_pylist() == episodes_to_table(episodes).to_pylist()
    # What reads only tokens does not read frames.
    assert table_of(rows).column_names == list(FEATURES)


def test_rows_without_frames_have_no_column_for_them(make_rows: MakeRows) -> None:
    rows = make_rows([episode(-1.0)])
    assert rows.column_names == list(FEATURES)
    assert rows.features == FEATURES


@pytest.mark.parametrize("frames", [0, 2, 3])
def test_a_frame_too_few_is_refused(make_rows: MakeRows, corridor: FrameTask, frames: int) -> None:
    rows = make_rows([walk(0, 3), walk(0, 3, frames), walk(0, 3)])
    with pytest.raises(UserError, match="row 1: not as many 'frames' as there are frame tokens"):
        check_episodes(rows, corridor.language, context=None, observation_classes=0)
    check_episodes(rows.select([0, 2]), corridor.language, context=None, observation_classes=0)


def test_rows_of_a_task_with_frames_have_them(make_rows: MakeRows, corridor: FrameTask) -> None:
    with pytest.raises(UserError, match="no column 'frames'"):
        check_episodes(make_rows([walk(0, 3, 0)]), corridor.language, None, 0)


def test_episodes_of_any_length_pass_where_parts_are_read(
    make_rows: MakeRows, language: Language
) -> None:
    steps = tuple(Step((5, 7), -1.0, (2,)) for _ in range(400))
    rows = make_rows([Episode((1,), steps, True, False, "novice")])
    check_episodes(rows, language, context=None, observation_classes=7)
    with pytest.raises(UserError, match="row 0: longer than the model's context of 1200 tokens"):
        check_episodes(rows, language, context=1200, observation_classes=7)
    check_episodes(rows, language, context=1201, observation_classes=7)
