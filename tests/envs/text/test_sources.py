"""Conversations from every source: the same batches, each row once, and never all in memory."""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from tests import chat_tokenizers
from tests.slow_batches import same
from textrl.data import batches as batches_module
from textrl.data.batches import EpisodeBatches, collate
from textrl.data.chat import TextLanguage
from textrl.data.conversation import BadRow
from textrl.envs.text.index import Index, make_index
from textrl.envs.text.rows import TextRows
from textrl.envs.text.sources import LONGEST_LINE, ArrowRows, open_source
from textrl.errors import UserError

Rows = list[dict[str, Any]]
MakeTalks = Callable[..., Rows]
Write = Callable[[Rows], Path]


@pytest.fixture
def language() -> TextLanguage:
    tokenizer = chat_tokenizers.gpt2()
    return TextLanguage(tokenizer, len(tokenizer))


@pytest.fixture
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has several blocks and windows."""
    monkeypatch.setattr(batches_module, "BLOCK_ROWS", 4)
    monkeypatch.setattr(batches_module, "WINDOW_STEPS", 3)


def index_of(name: object, language: TextLanguage | None = None) -> Index:
    return make_index(open_source(str(name)), language)


def faults_of(path: Path, language: TextLanguage | None = None) -> list[tuple[int, str]]:
    found: list[tuple[int, BadRow]] = []
    index = make_index(open_source(str(path)), language, lambda *fault: found.append(fault))
    counted = Counter(fault.kind for _, fault in found)
    assert index.summary.bad == dict(counted)
    return [(number, fault.kind) for number, fault in found]


def batches_over(index: Index, language: TextLanguage, **changes: Any) -> EpisodeBatches:
    rows = TextRows(index, language, context=48, discount=1.0)
    return EpisodeBatches(rows, language, **{"batch_size": 4, "seed": 1, **changes})


@pytest.mark.usefixtures("_small_windows")
def test_every_source_gives_the_same_batches(
    talks: MakeTalks, write_lines: Write, language: TextLanguage, tmp_path: Path
) -> None:
    rows = talks(30)
    rows[0]["weight"], rows[3]["weight"] = 1.0, 2.5  # the first row decides on the columns
    lines = write_lines(rows)
    in_memory = Dataset.from_list(rows)
    in_memory.to_parquet(tmp_path / "talks.parquet")
    in_memory.save_to_disk(str(tmp_path / "talks"))
    names = (lines, tmp_path / "talks.parquet", tmp_path / "talks")
    indices = [index_of(name, language) for name in names]
    indices.append(make_index(ArrowRows("memory", in_memory), language))
    sources = [batches_over(index, language) for index in indices]
    for step in (0, 1, 2, 3, 8, 13):
        first, *others = [source.step(step)[0] for source in sources]
        assert first.legal is None
        assert all(same(first, other) for other in others)
    np.testing.assert_array_equal(
        indices[0].returns(),
        [sum(m.get("reward", 0) for m in row["messages"]) for row in rows],
    )


@pytest.mark.usefixtures("_small_windows")
def test_a_step_is_a_function_of_its_number(
    talks: MakeTalks, write_lines: Write, language: TextLanguage
) -> None:
    index = index_of(write_lines(talks(30)), language)
    in_order = batches_over(index, language)
    expected = {step: in_order.step(step)[0] for step in range(12)}
    for step in (11, 0, 6, 3):  # as a resumed run would ask
        assert same(batches_over(index, language).step(step)[0], expected[step])


@pytest.mark.usefixtures("_small_windows")
def test_two_processes_share_a_step(
    talks: MakeTalks, write_lines: Write, language: TextLanguage
) -> None:
    rows = talks(30)
    for number, row in enumerate(rows):
        row["weight"] = 1 + number / 7
    index = index_of(write_lines(rows), language)
    whole = batches_over(index, language)
    shares = [batches_over(index, language, process=p, processes=2) for p in range(2)]

    def numbers(batch: Any) -> list[int]:
        last = batch.is_action.sum(1, keepdim=True) - 1
        return [int(value) for value in batch.rewards.gather(1, last)[:, 0]]

    seen = Counter[int]()
    for step in range(7):
        (one,) = whole.step(step)
        parts = [part for share in shares for part in share.step(step)]
        assert sorted(n for part in parts for n in numbers(part)) == sorted(numbers(one))
        assert {part.action_count for part in parts} == {one.action_count}
        weighted = sum(float(part.counts.sum()) for part in parts)
        assert one.action_count == pytest.approx(weighted, rel=1e-6)
        completed = sum(float((part.ends_action * part.weight[:, None]).sum()) for part in parts)
        assert one.completed_count == pytest.approx(completed, rel=1e-6)
        seen.update(n for part in parts for n in numbers(part))
    assert set(seen.values()) == {1}  # an epoch has seven steps and misses two rows
    assert len(seen) == 28


def test_batches_by_hand(write_lines: Write, language: TextLanguage) -> None:
    said = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "no", "reward": 2},
    ]
    short = {"messages": said, "weight": 3}
    long = {"messages": [*said, *said, said[0]], "truncated": True}
    rows = TextRows(index_of(write_lines([short, long])), language, 100, 1.0).read(np.arange(2))
    batch = collate(rows, np.arange(2), language)
    said_ids = language.tokenizer()(" no<|endoftext|>")["input_ids"]
    turn = len(said_ids)
    assert batch.actions.tolist() == [said_ids + [0] * turn, said_ids * 2]
    assert batch.rewards[0].tolist() == [0.0] * (turn - 1) + [2.0] + [0.0] * turn
    assert batch.rewards[1].tolist() == ([0.0] * (turn - 1) + [2.0]) * 2
    assert batch.ends_action[1].tolist() == ([False] * (turn - 1) + [True]) * 2
    assert batch.has_next[1].all()
    assert batch.has_next[0].tolist() == [True] * (turn - 1) + [False] * (turn + 1)
    assert not batch.is_followed[1, -1]
    assert batch.state_positions[1, -1] == len(rows.tokens) - rows.offsets[1] - 1
    assert batch.weight is not None
    assert batch.weight.tolist() == [3.0, 1.0]
    assert batch.action_count == 3 * turn + 2 * turn
    assert batch.completed_count == 3 + 2
    assert batch.legal is None


def test_bad_lines_are_named_by_number(
    talks: MakeTalks, tmp_path: Path, language: TextLanguage
) -> None:
    good = [json.dumps(row).encode() for row in talks(4)]
    path = tmp_path / "talks.jsonl"
    lines = [b"\xef\xbb\xbf" + good[0], b"", b"oops", good[1] + b"\r", b"{}", b"\xff", good[2]]
    control = b'{"messages": [{"role": "user", "content": "<|endoftext|>"},'
    control += b' {"role": "assistant", "content": "x"}]}'
    path.write_bytes(b"\n".join([*lines, control, good[3]]))  # no newline at the end
    assert faults_of(path) == [(3, "not JSON"), (5, "no messages"), (6, "not UTF-8")]
    assert faults_of(path, language)[-1] == (8, "control token")
    index = index_of(path, language)
    assert index.entries["number"].tolist() == [1, 4, 7, 9]
    assert index.called(2) == f"{path}: line 7"
    returns = [conversation.episode_return for conversation in index.read(np.arange(4))]
    assert returns == index.returns().tolist()
    assert index.summary.first_bad.startswith("line 3: not JSON")


def test_a_line_without_end(talks: MakeTalks, tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    good = json.dumps(talks(1)[0]).encode()
    with path.open("wb") as file:
        file.write(good + b"\n" + b"x" * (LONGEST_LINE + 10) + b"\n" + good + b"\n")
    assert faults_of(path) == [(2, "too long")]
    assert index_of(path).entries["number"].tolist() == [1, 3]


def test_rows_of_datasets_are_named_by_number(talks: MakeTalks, tmp_path: Path) -> None:
    rows = talks(5)
    rows[2]["truncated"], rows[4]["messages"] = None, rows[4]["messages"][:1]
    rows[0]["reward"], rows[1]["reward"] = None, float("inf")
    Dataset.from_list(rows).save_to_disk(str(tmp_path / "talks"))
    assert faults_of(tmp_path / "talks") == [(1, "reward"), (4, "no assistant turn")]


def test_what_was_found_is_remembered(
    talks: MakeTalks, write_lines: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(talks(5))
    first = index_of(path)

    def scan(self: object) -> None:
        raise AssertionError("scanned again")

    monkeypatch.setattr("textrl.envs.text.sources.JsonLines.scan", scan)
    again = index_of(path)
    np.testing.assert_array_equal(first.entries, again.entries)
    assert first.summary == again.summary
    path.write_text(path.read_text() + "\n")
    with pytest.raises(AssertionError, match="scanned again"):
        index_of(path)


def test_a_file_that_changes_is_noticed(talks: MakeTalks, write_lines: Write) -> None:
    path = write_lines(talks(5))
    index = index_of(path)
    path.write_text("nothing\n")
    with pytest.raises(UserError, match="has changed since it was checked"):
        list(index.read(np.arange(5)))


def test_what_is_no_source(tmp_path: Path) -> None:
    for name, told in (("nowhere.jsonl", "no such conversations"), ("a b", "no such conv")):
        with pytest.raises(UserError, match=told):
            open_source(str(tmp_path / name))
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UserError, match="unpack it with gunzip"):
        open_source(str(tmp_path / "packed.jsonl"))
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(UserError, match="cannot read the conversations"):
        open_source(str(tmp_path / "bad.parquet"))
    Dataset.from_list([{"text": "x"}]).save_to_disk(str(tmp_path / "texts"))
    with pytest.raises(UserError, match=r"no column 'messages' \(its columns: text\)"):
        open_source(str(tmp_path / "texts"))


def test_rows_that_only_the_template_refuses(write_lines: Write) -> None:
    tokenizer = chat_tokenizers.qwen(chat_tokenizers.QWEN_THINKING)
    language = TextLanguage(tokenizer, len(tokenizer))
    user, agent = {"role": "user", "content": "so?"}, {"role": "assistant", "content": "yes"}
    thinking = {"role": "assistant", "content": "<think>hm</think>yes"}
    good, bad = {"messages": [user, agent]}, {"messages": [user, thinking, user, agent]}
    index = index_of(write_lines([good, bad, good]), language)
    refusing = TextRows(index, language, 100, 1.0)
    with pytest.raises(UserError, match=r"talks.jsonl: line 2: .*--on-bad-rows skip"):
        refusing.read(np.arange(3))
    skipping = TextRows(index, language, 100, 1.0, skips_bad=True)
    rows = skipping.read(np.arange(3))  # another one takes its place
    assert len(rows.lengths) == 3
    assert len(set(rows.lengths.tolist())) == 1
    with pytest.raises(UserError, match="none of 1 conversations"):
        skipping.read(np.array([1]))


def resident(name: str) -> int:
    """VmRSS, what of this process is in memory, or VmHWM, the most that was."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_file(
    talks: MakeTalks, tmp_path: Path, language: TextLanguage
) -> None:
    rows = [json.dumps(row)[:-1] for row in talks(50)]
    grown = []
    for noted in (0, 0, 400_000):  # the first time, libraries fill their own caches
        path = tmp_path / f"{noted}.jsonl"
        with path.open("w") as file:
            for number in range(300):
                file.write(f'{rows[number % 50]}, "note": "{"x" * noted}"}}\n')
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forgets the most that was
        batches = batches_over(index_of(path), language)
        batches.step(0), batches.step(60)
        grown.append(resident("VmHWM") - before)
    assert path.stat().st_size > 120e6
    assert grown[2] - grown[1] < 20e6
