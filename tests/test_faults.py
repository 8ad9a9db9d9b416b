"""Input that nobody would write on purpose: each ends well, or in one line that a user can mend.

Hypothesis draws it, the same every time; TEXTRL_FAULTS says how many cases there are in all (400).
What is drawn from are right inputs, of which bits, bytes, values and names are changed.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from datasets import Dataset
from hypothesis import given, note
from hypothesis import strategies as st

from tests.conftest import TWELVE
from tests.faults import message_of
from tests.test_combinations import drawn
from textrl.config.command_line import parse_config
from textrl.config.presets import PRESETS, configure, load_config, save_config
from textrl.data.batches import EpisodeBatches
from textrl.data.dataset import load_episodes
from textrl.data.language import Language
from textrl.data.validate import check_episodes
from textrl.envs.gridworld.layout import DEFAULT, load_layout
from textrl.envs.gridworld.task import GridworldTask
from textrl.envs.text.check import check_conversations
from textrl.envs.text.convert import convert_file
from textrl.envs.wordle.tweets import read_tweets
from textrl.envs.wordle.words import WordList, load_words
from textrl.model.build import new_model
from textrl.sharing.checkpoint import load_agent, save_checkpoint
from textrl.tasks.members import Members

COUNT = int(os.environ.get("TEXTRL_FAULTS", "400"))
"""Of all kinds together; how they share it is what costs what."""


def of_all(share: float) -> Any:
    return drawn(round(share * COUNT))


# What is drawn

ODD_NUMBERS = [0, -1, 1, 2, 10**12, -(10**12), 2**31, 2**63, 10**400, 0.5, 1e-320, 1e30, 1e308]
ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, False, "", "x", [], {}, [[]], "../../etc/passwd", "os:system"]),
    st.sampled_from(ODD_NUMBERS),
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.sampled_from(["\x00", "\ud800", "x" * 5000, "ﬃ", "1e999", "\x1b[31m", "\u202e"]),
    st.text(max_size=8),
    st.integers(-3, 300),
)


@st.composite
def with_odd_values(draw: st.DrawFn, value: Any) -> Any:
    """JSON of which one place or two are something else, gone, twice or in another order."""
    found = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 2))):
        places = list(places_of(found))
        if not places:
            return draw(ODD)
        parent, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["other", "other", "gone", "deeper", "key"])):
            case "other":
                parent[key] = draw(ODD)
            case "deeper":
                parent[key] = draw(st.sampled_from([[parent[key]], {"a": parent[key]}]))
            case "gone":
                del parent[key]
            case "key" if isinstance(parent, dict):
                parent[draw(st.sampled_from(["x", "rewards", "__class__", "", key + " "]))] = (
                    parent[key]
                )
    return found


def places_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (parent, key) of a JSON value."""
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places_of(value[key])


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes cut, flipped, doubled, swapped or interspersed with others."""
    found = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        match draw(st.sampled_from(["cut", "flip", "put", "double", "remove", "swap"])):
            case "cut":
                del found[at:]
            case "flip" if found:
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "put":
                odd = [b"\x00", b"\xff\xfe", b"\n", b'"', b",", b"{", b"[" * 3000, b"9" * 5000]
                found[at:at] = draw(st.sampled_from(odd) | st.binary(max_size=4))
            case "double":
                found[at:at] = found[at : at + draw(st.integers(1, 200))]
            case "remove":
                del found[at : at + draw(st.integers(1, 50))]
            case "swap":
                found[at:] = found[at:][::-1]
    return bytes(found)


# What it is drawn from

USER, AGENT = {"role": "user", "content": "how much?"}, {"role": "assistant", "content": "two"}
TALKS: Mapping[str, list[Any]] = {
    "": [
        {"messages": [USER, {**AGENT, "reward": 1.5}], "behaviour": "b", "group": "g"},
        {"messages": [{"role": "system", "content": "be brief"}, USER, AGENT, USER, AGENT]},
        {"messages": [USER, AGENT], "reward": -1, "truncated": True, "weight": 0.5},
    ],
    "sharegpt": [
        {
            "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}],
            "system": "s",
            "reward": 1,
        }
    ],
    "openai": [
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}],
                },
                {"role": "tool", "tool_call_id": "1", "content": "2"},
                {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
            ],
            "reward": 2,
        }
    ],
    "prompt-completion": [{"prompt": "two and two", "completion": "four", "reward": 1}],
    "preference": [{"prompt": [USER], "chosen": [AGENT], "rejected": [AGENT]}],
    "casino": [
        {
            "chat_logs": [
                {"text": "Hi!", "task_data": {}, "id": "mturk_agent_1"},
                {"text": "Hello", "task_data": {}, "id": "mturk_agent_2"},
                {
                    "text": "Submit-Deal",
                    "task_data": {
                        "issue2youget": {"Firewood": "2", "Water": "0", "Food": "1"},
                        "issue2theyget": {"Firewood": "1", "Water": "3", "Food": "2"},
                    },
                    "id": "mturk_agent_1",
                },
                {"text": "Accept-Deal", "task_data": {}, "id": "mturk_agent_2"},
            ],
            "participant_info": {
                f"mturk_agent_{i}": {
                    "value2issue": {"Low": "Water", "Medium": "Food", "High": "Firewood"},
                    "outcomes": {"points_scored": 19, "satisfaction": "Slightly satisfied"},
                }
                for i in (1, 2)
            },
            "annotations": [],
        }
    ],
}
TWEETS = """wordle_id,tweet_id,tweet_date,tweet_username,tweet_text
210,1,2022-01-15,a,"Wordle 210 3/6

⬛🟨⬛⬛⬛
🟩⬛🟨⬛⬛
🟩🟩🟩🟩🟩"
211,2,2022-01-16,b,"Wordle 211 X/6

⬜⬜🟦⬜⬜
⬜⬜⬜⬜⬜
🟧⬜⬜⬜⬜
⬜⬜⬜⬜⬜
⬜⬜⬜⬜⬜
⬜🟦⬜⬜⬜"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that is worked in. What must stay as it is lies in it too."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TEXTRL_CACHE", str(folder / "cache"))
        Path("mine").write_text("mine")
        Path("words.txt").write_text("\n".join(TWELVE))
        for task, options in (("gridworld", {}), ("wordle", {"words": "words.txt"})):
            run = configure(task, layers=1, width=8, attention_heads=1, **options)
            members = Members.of_run(run)
            save_checkpoint(Path(f"agents/{task}"), new_model(members, run), members, run)
        yield folder


@pytest.fixture(autouse=True)
def quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is not looked at."""


def refuses_or_takes(call: Callable[[], Any], **limits: int) -> str | None:
    """How it ended, once it is sure that nothing that was there is changed."""
    told = message_of(call, **limits)
    assert Path("mine").read_text() == "mine"
    note(f"told: {told}")
    return told


# What is tried


@pytest.mark.parametrize("name", TALKS)
def test_conversations(place: Path, name: str) -> None:
    lines = [json.dumps(row) for row in TALKS[name]]
    whole = "\n".join(lines).encode()

    @of_all(0.04)
    @given(odd=st.sampled_from(TALKS[name]).flatmap(with_odd_values), others=st.booleans())
    def values(odd: Any, others: bool) -> None:
        Path("talks.jsonl").write_text("\n".join([json.dumps(odd), *(lines if others else [])]))
        look(name)

    @of_all(0.04)
    @given(content=damaged(whole))
    def content(content: bytes) -> None:
        Path("talks.jsonl").write_bytes(content)
        look(name)

    values()
    content()


def look(name: str) -> None:
    """Check conversations of ours, convert all others."""
    if not name:
        refuses_or_takes(lambda: check_conversations("talks.jsonl", None, 64, True))
        return
    Path("new.jsonl").unlink(missing_ok=True)
    Path("old.jsonl").write_text("mine")
    old = lambda: convert_file(name, "talks.jsonl", Path("old.jsonl"), "reward", True, True)  # noqa: E731
    assert "exists already" in str(refuses_or_takes(old))
    assert Path("old.jsonl").read_text() == "mine"
    told = refuses_or_takes(
        lambda: convert_file(name, "talks.jsonl", Path("new.jsonl"), "reward", True, True)
    )
    # Whole or not at all, and what was written can be read.
    assert Path("new.jsonl").exists() == (told is None)
    if told is None:
        check_conversations("new.jsonl", None, 64, False)


def test_tweets(place: Path) -> None:
    words = WordList("twelve", TWELVE, TWELVE)

    @of_all(0.1)
    @given(content=damaged(TWEETS.encode()))
    def content(content: bytes) -> None:
        Path("tweets.csv").write_bytes(content)
        refuses_or_takes(lambda: read_tweets("tweets.csv", words, 0))

    content()


def test_word_lists(place: Path) -> None:
    @of_all(0.05)
    @given(content=damaged("\n".join(TWELVE).encode()) | st.binary(max_size=40))
    def content(content: bytes) -> None:
        Path("odd.txt").write_bytes(content)
        refuses_or_takes(lambda: load_words("odd.txt").table.sum())

    content()


def test_layouts(place: Path) -> None:
    @of_all(0.05)
    @given(content=damaged(DEFAULT.strip().encode()) | st.text("SdrUFL#.\n", max_size=60))
    def content(content: bytes | str) -> None:
        Path("map.txt").write_bytes(content.encode() if isinstance(content, str) else content)
        refuses_or_takes(lambda: load_layout("map.txt").moves.sum())

    content()


def test_presets(place: Path) -> None:
    preset = yaml.safe_load((PRESETS / "gridworld" / "quick.yaml").read_text())
    save_config(configure("gridworld"), Path("whole.yaml"))
    whole = Path("whole.yaml").read_bytes()

    @of_all(0.05)
    @given(odd=with_odd_values({"task": "gridworld", **preset}))
    def values(odd: Any) -> None:
        Path("odd.yaml").write_text(yaml.safe_dump(odd), encoding="utf-8", errors="replace")
        refuses_or_takes(lambda: load_config(Path("odd.yaml")))

    @of_all(0.03)
    @given(content=damaged(whole) | st.sampled_from(BOMBS))
    def content(content: bytes) -> None:
        Path("odd.yaml").write_bytes(content)
        refuses_or_takes(lambda: load_config(Path("odd.yaml")))

    values()
    content()


LEVELS = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
BOMBS = [
    f"a0: &a0 x\n{LEVELS}\ntask: gridworld".encode(),
    f"a0: &a0 x\n{LEVELS}\ntask: gridworld\nlayers: *a11".encode(),
    f"a0: &a0 x\n{LEVELS}\ntask: gridworld\nq_head: *a11".encode(),
    f"a0: &a0 x\n{LEVELS}\ntask: *a11".encode(),
    b"[" * 5000,
    b"a: " + b"{b: " * 2000,
    b"!!python/object/apply:os.system ['touch mine']",
]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Flags of a run with values right and wrong, twice, without a value, misspelt."""
    task = draw(
        st.sampled_from(["wordle", "gridworld", "twenty", "tmaze", "wordle,gridworld", "x"])
    )
    words = ["--task", task]
    for _ in range(draw(st.integers(0, 5))):
        name, right = draw(st.sampled_from(FLAGS))
        value = draw(st.sampled_from(right) | ODD.map(str))
        prefix = draw(st.sampled_from(["--", "--", "--", "--wordle.", "--gridworld.", "-"]))
        words += draw(
            st.sampled_from([[prefix + name, value], [f"{prefix}{name}={value}"], [name]])
        )
    return words


FLAGS: list[tuple[str, list[str]]] = [
    ("algo", ["bc", "ilql", "iql", "cql", "filtered-bc"]),
    ("preset", ["quick", "full", "paper"]),
    ("batch-size", ["64", "1"]),
    ("accumulation", ["1", "3"]),
    ("layers", ["1", "4"]),
    ("width", ["16", "128"]),
    ("attention-heads", ["2", "4"]),
    ("expectile", ["0.8", "1"]),
    ("learning-rate", ["1e-3"]),
    ("mix", ["wordle=2", "wordle=0,gridworld=1"]),
    ("bisim", ["0.05"]),
    ("represent", ["hindsight"]),
    ("represent-steps", ["0", "400"]),
    ("filters", ["32,64,32", "1,1"]),
    ("window", ["0", "4"]),
    ("beta", ["0", "4"]),
    ("candidates", ["1", "4"]),
    ("backbone", ["gpt2", "rnn"]),
    ("q-head", ["mlp", "shared"]),
    ("lora-rank", ["0", "4"]),
    ("output", ["mine", "new"]),
    ("resume", []),
    ("max-steps", ["100"]),
]
FLAGS = [(name, values or ["true"]) for name, values in FLAGS]


def test_command_lines(place: Path) -> None:
    @of_all(0.1)
    @given(words=command_lines())
    def parsed(words: list[str]) -> None:
        refuses_or_takes(lambda: parse_config(words, "what it does", "an example"))

    parsed()


def test_checkpoints(place: Path) -> None:
    files = {
        (agent, name): (Path("agents") / agent / name).read_bytes()
        for agent in ("gridworld", "wordle")
        for name in ("config.json", "task.json", "model.safetensors")
    }
    whole = {which: json.loads(c) for which, c in files.items() if which[1].endswith("json")}

    def load(which: tuple[str, str], content: bytes) -> None:
        file = Path("agents", *which)
        file.write_bytes(content)
        try:
            refuses_or_takes(lambda: load_agent(f"agents/{which[0]}"))
        finally:
            file.write_bytes(files[which])

    @of_all(0.08)
    @given(data=st.data(), which=st.sampled_from(sorted(whole)))
    def values(data: st.DataObject, which: tuple[str, str]) -> None:
        load(which, json.dumps(data.draw(with_odd_values(whole[which]))).encode())

    @of_all(0.06)
    @given(data=st.data(), which=st.sampled_from(sorted(files)))
    def content(data: st.DataObject, which: tuple[str, str]) -> None:
        load(which, data.draw(damaged(files[which])))

    @of_all(0.03)
    @given(ours=st.sampled_from(sorted(files)), theirs=st.sampled_from(sorted(files)))
    def others(ours: tuple[str, str], theirs: tuple[str, str]) -> None:
        load(ours, files[theirs])

    values()
    content()
    others()


@st.composite
def rows(draw: st.DrawFn, whole: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of which some values are others of the same kind, and columns of other lengths."""
    found = [json.loads(json.dumps(row)) for row in whole]
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from(found))
        name = draw(st.sampled_from(sorted(row)))
        of = row[name]
        if not isinstance(of, list):
            row[name] = None if draw(st.integers(0, 9)) == 0 else flipped(draw, name, of)
        elif of:
            at = draw(st.integers(0, len(of) - 1))
            match draw(st.sampled_from(["other", "other", "cut", "none", "more"])):
                case "other":
                    of[at] = flipped(draw, name, of[at])
                case "cut":
                    del of[at:]
                case "none":
                    of[at] = None
                case "more":
                    of[at:at] = of[at:]
    return found


def flipped(draw: st.DrawFn, name: str, value: Any) -> Any:
    """Another value of the same kind."""
    if value is None:  # a place that was emptied before, in a column of any kind
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return draw(st.sampled_from([-1, 0, 1, 2, 7, 99, 2**31 - 1, -(2**31)]))
    if isinstance(value, float):
        return draw(st.sampled_from([0.0, -0.0, 1.0, 1e30, -1e38, math.nan, math.inf]))
    return draw(st.text(max_size=5))


def test_rows(place: Path) -> None:
    task = GridworldTask.from_settings(
        json.loads(Path("agents/gridworld/task.json").read_text())["settings"]
    )
    made = task.collect(8, 0, Path("walks"), workers=1)
    language: Language = task.language
    features, whole = made.features, made.to_list()

    @of_all(0.12)
    @given(odd=rows(whole))
    def values(odd: list[dict[str, Any]]) -> None:
        learned_from(Dataset.from_list(odd, features=features), language)

    @of_all(0.03)
    @given(content=damaged("\n".join(json.dumps(row) for row in whole[:3]).encode()))
    def content(content: bytes) -> None:
        Path("rows.jsonl").write_bytes(content)
        refuses_or_takes(lambda: learned_from(load_episodes("rows.jsonl"), language))

    values()
    content()


def learned_from(odd: Dataset, language: Language) -> None:
    """What is not refused makes batches of finite numbers."""

    def read() -> None:
        check_episodes(odd, language, 104, 100)
        batches = EpisodeBatches(odd, language, batch_size=1)
        for step in range(len(odd)):
            for batch in batches.step(step):
                assert np.isfinite(batch.rewards.numpy()).all()

    refuses_or_takes(read)
