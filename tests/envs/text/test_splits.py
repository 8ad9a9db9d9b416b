"""Who is held out: whole groups; what is told of copies, of few, and of data that were learned."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from textrl.config.presets import configure
from textrl.data.conversation import BadRow, read_conversation
from textrl.envs.text.task import TextTask, hold_out
from textrl.errors import UserError
from textrl.tasks.members import Members

Write = Callable[[list[dict[str, Any]]], Path]


def sides(dialogues: int) -> list[dict[str, Any]]:
    """Both sides of some dialogues, one row each."""
    rows = []
    for number in range(dialogues):
        said = [f"{number} apples", "two, thank you", f"the price is {number}", "no"]
        for mine in (0, 1):
            roles = ("user", "assistant") if mine else ("assistant", "user")
            talk = [{"role": roles[i % 2], "content": text} for i, text in enumerate(said)]
            messages = [{"role": "system", "content": f"side {mine}"}, *talk]
            rows.append({"messages": messages, "reward": float(number), "dialogue": number})
    return rows


def task_of(path: Path, lm: Path, **changes: Any) -> TextTask:
    settings = {"algo": "bc", "data": str(path), "backbone": str(lm), "context": 64}
    return Members.of_run(configure("text", **{**settings, **changes})).one()[1]


def test_groups_are_held_out_whole() -> None:
    groups = np.repeat(np.arange(50), 3)
    np.random.default_rng(1).shuffle(groups)
    is_held_out = hold_out(groups, 0.1)
    assert is_held_out.sum() == 15
    assert not set(groups[is_held_out]) & set(groups[~is_held_out])
    np.testing.assert_array_equal(hold_out(groups, 0.1), is_held_out)


def test_a_row_is_a_group_by_itself_unless_told() -> None:
    alone, named = -1 - np.arange(40), np.arange(40)
    np.testing.assert_array_equal(np.sort(hold_out(alone, 0.25)), np.sort(hold_out(named, 0.25)))
    assert hold_out(alone, 0.25).sum() == 10


@pytest.mark.parametrize("format", ["jsonl", "arrow"])
def test_sides_of_a_dialogue_stay_together(
    format: str, write_lines: Write, gpt2: Path, tmp_path: Path
) -> None:
    rows = sides(40)
    path = write_lines(rows)
    if format == "arrow":
        path = tmp_path / "rows"
        Dataset.from_list(rows).save_to_disk(path)
    by_row, by_group = task_of(path, gpt2), task_of(path, gpt2, group_by="dialogue", held_out=0.1)
    assert "held-out conversations say the same as one to learn from" in by_row.before_training()
    assert "warning: only 4 independent" in by_group.before_training()
    assert "say the same" not in by_group.before_training()
    assert "in 40 groups, none of which is on both sides" in by_group.before_training()
    _, returns = by_group.held_out(100)
    assert len(returns) == 8
    learned, held_out = (by_group.index.returns()[each] for each in by_group._split)
    assert not {*learned.tolist()} & {*held_out.tolist()}  # a dialogue's reward is its number
    assert len(np.unique(by_group.held_out_groups(100))) == 4


def test_the_column_of_that_name_needs_no_flag(write_lines: Write, gpt2: Path) -> None:
    rows = [{**row, "group": f"d{row['dialogue']}"} for row in sides(10)]
    task = task_of(write_lines(rows), gpt2, held_out=0.2)
    assert len(np.unique(task.held_out_groups(100))) == 2
    assert task.held_out_count() == 4


def test_what_is_refused(write_lines: Write, gpt2: Path) -> None:
    path = write_lines(sides(10))
    with pytest.raises(UserError, match=r"--group-by talk: no row of .* has that column"):
        task_of(path, gpt2, group_by="talk").held_out_count()
    alike = [{**row, "group": 1} for row in sides(3)]
    with pytest.raises(UserError, match="has one group"):
        task_of(write_lines(alike), gpt2).held_out_count()
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(BadRow, match="'group' is a list: give text"):
        read_conversation({"messages": messages, "group": []})
    assert read_conversation({"messages": messages, "group": 3}).group == "3"


def test_data_that_were_learned_are_not_called_held_out(
    write_lines: Write, gpt2: Path, tmp_path: Path
) -> None:
    rows = [row for row in sides(20) if row["messages"][0]["content"] == "side 1"]
    path = write_lines(rows)
    task = task_of(path, gpt2)
    assert task.judged_by(1) == "1 of 1 held-out episodes of text"
    assert task.seen_in_training(1) == 0
    same = task.with_data(str(path))
    assert same.judged_by(20) == f"20 of 20 conversations of {path}, 19 of them trained on"
    # Another file, with one of them from its other side.
    others = tmp_path / "others.jsonl"
    (held_out,) = task._split[1]
    known = next(i for i in range(20) if i != held_out)
    other_side = sides(20)[2 * known]
    others.write_text("\n".join(map(json.dumps, [other_side, *sides(25)[45:]])))
    elsewhere = task.with_data(str(others))
    assert elsewhere.judged_by(6).endswith("1 of them trained on")
    assert elsewhere.with_data(str(path)).seen_in_training(20) == 19
    path.unlink()
    again = task_of(path, gpt2).with_data(str(others))
    assert again.seen_in_training(6) is None
    assert "trained on or not" in again.judged_by(6)
