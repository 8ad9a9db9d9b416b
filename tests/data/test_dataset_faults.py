"""Every fault of a dataset is told in one line that names the row and what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict

from textrl.data import dataset
from textrl.data.dataset import (
    episodes_to_table,
    join_shards,
    load_episodes,
    write_shard,
)
from textrl.data.episode import Episode, Step
from textrl.data.language import Language
from textrl.data.validate import check_episodes
from textrl.errors import UserError

GOOD = Episode((1,), (Step((5, 7), -1.0, (2,), 3), Step((6, 8), 0.0)), True, False, "novice")
Row = dict[str, Any]


def good_row() -> Row:
    """Tokens: begin, a, x, hot, b, y."""
    return episodes_to_table([GOOD]).to_pylist()[0]


def write_jsonl(path: Path, *rows: Row) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def check(path: Path, language: Language, bad: Row, context: int = 6) -> None:
    """Load and check a file in which row 2 of 4 is the bad one."""
    rows = load_episodes(write_jsonl(path, good_row(), good_row(), bad, good_row()))
    check_episodes(rows, language, context, observation_classes=7)


def test_good_rows_pass(tmp_path: Path, language: Language) -> None:
    check(tmp_path / "good.jsonl", language, good_row())


FAULTS: dict[str, tuple[Row, str]] = {
    "unequal lengths": ({"is_action": [False, True]}, "'is_action' is not as long as 'tokens'"),
    "more rewards": ({"reward": [0.0] * 7}, "'reward' is not as long as 'tokens'"),
    "fewer observations": ({"observation": []}, "'observation' is not as long as 'tokens'"),
    "empty": (
        {"tokens": [], "is_action": [], "reward": [], "observation": []},
        "fewer than two tokens",
    ),
    "id too large": ({"tokens": [1, 5, 7, 9, 6, 8]}, "a token id is not in the vocabulary"),
    "negative id": ({"tokens": [-1, 5, 7, 2, 6, 8]}, "a token id is not in the vocabulary"),
    "action on observation": (
        {"is_action": [False, True, True, True, True, True]},
        "'is_action' marks a token that is no action",
    ),
    "NaN reward": (
        {"reward": [0.0, 0.0, float("nan"), 0.0, 0.0, 0.0]},
        "a reward is not a finite number",
    ),
    "no end": (
        {"terminated": False, "truncated": False},
        "neither 'terminated' nor 'truncated' is true",
    ),
    "wrong return": ({"episode_return": 5.0}, "'episode_return' is not the sum of the rewards"),
    "return not a number": (
        {"episode_return": float("nan")},
        "'episode_return' is not the sum of the rewards",
    ),
    "unknown observation": (
        {"observation": [-1, -1, 7, -1, -1, -1]},
        "an unknown class in 'observation'",
    ),
    "reward on observation": (
        {"reward": [0.0, 0.0, 0.0, -1.0, 0.0, 0.0]},
        "a reward sits on a token that is no action",
    ),
    "both ends": ({"truncated": True}, "both 'terminated' and 'truncated' are true"),
    "no action": ({"is_action": [False] * 6, "reward": [0.0] * 6}, "no action token"),
    "action first": (
        {
            "tokens": [5, 7, 2, 2, 6, 8],
            "is_action": [True, True, False, False, True, True],
            "reward": [0.0] * 6,
        },
        "the first token is an action",
    ),
    "illegal word": (
        {"tokens": [1, 6, 7, 2, 6, 8]},
        "an action that the task's grammar does not allow",
    ),
    "half a word, then another": (
        {"tokens": [1, 5, 7, 2, 5, 6]},
        "an action that the task's grammar does not allow",
    ),
    "too long": (
        {
            "tokens": [1, 5, 7, 2, 6, 8, 2],
            "is_action": [False, True, True, False, True, True, False],
            "reward": [0.0] * 7,
            "observation": [-1] * 7,
        },
        "longer than the model's context of 6 tokens",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_row(tmp_path: Path, language: Language, name: str) -> None:
    change, fault = FAULTS[name]
    with pytest.raises(UserError) as error:
        check(tmp_path / "bad.jsonl", language, {**good_row(), **change})
    assert str(error.value) == f"malformed dataset: row 2: {fault}"


@pytest.mark.parametrize("name", ["tokens", "is_action", "observation"])
def test_a_null_within_a_list_is_refused(tmp_path: Path, language: Language, name: str) -> None:
    row = good_row()
    row[name][3] = None  # at the observation
    with pytest.raises(UserError, match=name):
        check(tmp_path / "bad.jsonl", language, row)


def test_the_first_bad_row_of_a_later_block_is_named(
    tmp_path: Path, language: Language, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dataset.blocks_of, "__defaults__", (2,))
    bad = {**good_row(), "tokens": [1, 6, 7, 2, 6, 8]}
    rows = load_episodes(write_jsonl(tmp_path / "bad.jsonl", *[good_row()] * 3, bad, bad))
    with pytest.raises(UserError, match="row 3: an action"):
        check_episodes(rows, language, context=6, observation_classes=7)


@pytest.mark.parametrize("name", sorted(dataset.FEATURES))
def test_a_column_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    row = good_row()
    del row[name]
    with pytest.raises(UserError, match=f"has no column '{name}'"):
        load_episodes(write_jsonl(tmp_path / "bad.jsonl", row))


@pytest.mark.parametrize("name", sorted(dataset.FEATURES))
def test_a_value_that_is_missing_is_named(tmp_path: Path, language: Language, name: str) -> None:
    with pytest.raises(UserError, match=f"rows 0-3: an empty value in '{name}'"):
        check(tmp_path / "bad.jsonl", language, {**good_row(), name: None})


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"tokens": ["a"] * 6}, id="text for tokens"),
        pytest.param({"tokens": [0.5] * 6}, id="fractions for tokens"),
        pytest.param({"tokens": [2**40] * 6}, id="tokens beyond 32 bits"),
        pytest.param({"tokens": 3}, id="one number for tokens"),
        pytest.param({"reward": ["none"] * 6}, id="text for rewards"),
        pytest.param({"episode_return": "high"}, id="text for the return"),
        pytest.param({"terminated": "perhaps"}, id="text for terminated"),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path: Path, change: Row) -> None:
    path = write_jsonl(tmp_path / "bad.jsonl", *[{**good_row(), **change}] * 2)
    with pytest.raises(UserError, match=r"bad\.jsonl' has a column of another type"):
        load_episodes(path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such dataset: .*nothing"):
        load_episodes(str(tmp_path / "nothing"))


def test_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError, match="cannot read the dataset"):
        load_episodes(str(tmp_path))


def test_a_folder_of_several_splits(tmp_path: Path) -> None:
    rows = Dataset(episodes_to_table([GOOD]))
    DatasetDict({"train": rows, "test": rows}).save_to_disk(str(tmp_path / "both"))
    with pytest.raises(UserError, match="not a single dataset: give the folder of one split"):
        load_episodes(str(tmp_path / "both"))


def test_no_rows(tmp_path: Path) -> None:
    Dataset(episodes_to_table([])).save_to_disk(str(tmp_path / "none"))
    with pytest.raises(UserError, match="none"):
        load_episodes(str(tmp_path / "none"))


@pytest.mark.parametrize("damage", ["garbage", "half", "nothing"])
def test_a_damaged_folder(tmp_path: Path, damage: str) -> None:
    write_shard(tmp_path / "0.arrow", [GOOD] * 50)
    join_shards([tmp_path / "0.arrow"], tmp_path / "data", {})
    (arrow,) = (tmp_path / "data").glob("*.arrow")
    content = arrow.read_bytes()
    arrow.write_bytes(
        {"garbage": b"garbage" * 99, "half": content[: len(content) // 2], "nothing": b""}[damage]
    )
    with pytest.raises(UserError, match=r"cannot read the dataset .*data"):
        load_episodes(str(tmp_path / "data"))


@pytest.mark.parametrize("content", ['{"tokens": [1, 5', "hello\n", "", "\0\1\2"])
def test_a_file_that_is_no_jsonl(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.jsonl").write_text(content)
    with pytest.raises(UserError, match=r"cannot read the dataset .*bad\.jsonl"):
        load_episodes(str(tmp_path / "bad.jsonl"))
