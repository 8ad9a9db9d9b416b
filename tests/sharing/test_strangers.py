"""Checkpoints that a stranger wrote: nothing is run, nothing large built, no file outside read."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.conftest import TWELVE
from tests.faults import message_of
from tests.hub_server import HubServer, Repo
from tests.tiny_lms import save_lm
from textrl.config.presets import configure
from textrl.envs.gridworld.layout import DEFAULT
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError
from textrl.model.language_model import load_lm
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_checkpoint, save_checkpoint
from textrl.tasks.members import Members

HUGE = 10**12
MakeModel = Callable[..., TextRLModel]


@pytest.fixture
def saved(tmp_path: Path, wordle: WordleTask, make_model: MakeModel) -> Path:
    folder = tmp_path / "run"
    run = configure("wordle", layers=2, width=16, attention_heads=2)
    save_checkpoint(folder, make_model(wordle.language), Members({"wordle": wordle}), run)
    return folder


def change(file: Path, values: Mapping[str, Any]) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


LM = {"model_type": "llama", "tie_word_embeddings": False}
ASKED = {
    "heads": {"q_heads": HUGE},
    "heads that may be": {"q_heads": 9_000},
    "layers": {"layers": HUGE},
    "layers that may be": {"layers": 10_000},
    "width": {"width": HUGE},
    "width that may be": {"width": 2**20},
    "tokens": {"vocabulary": 2**27},
    "tokens below zero": {"vocabulary": -5},
    "a context that masks are made of": {"context": 2**26},
    "classes": {"observation_classes": 2**27},
    "a rank": {"q_head": "low-rank", "q_rank": 2**27},
    "a hidden layer": {"representation_hidden": 2**27},
    "frames": {"frame_shape": [10**6, 10**6], "patches": 4},
    "frames of nothing": {"frame_shape": [0, 80], "patches": 4},
    "patches": {"frame_shape": [80, 80], "patches": HUGE},
    "filters": {"frame_shape": [80, 80], "patches": 4, "filters": [10**6, 10**6, 10**6]},
    "a digit too many": {"layers": 10**4000},
    "nan": {"beta": float("nan")},
    "infinity": {"value_scale": float("inf")},
    "a cold temperature": {"temperature": 0},
    "text for a number": {"layers": "2"},
    "true for a number": {"layers": True},
    "a number for a list": {"heads": 5},
    "no head": {"heads": ["policy", "__class__"]},
    "an attribute of torch": {"frame_precision": "load", "frame_shape": [80, 80], "patches": 4},
    "a long name": {"backbone": "x" * 10**6},
    "a deep list": {"members": [[[[[]]]]]},
    "tasks": {"members": [{}] * 1000},
    "a task of nothing": {"members": [{}]},
    "an adapter": {"lora": {"rank": HUGE, "alpha": 1, "targets": ["q_proj"]}, "lm": LM},
    "layers of a language model": {"lm": {**LM, "num_hidden_layers": HUGE}},
    "layers it may have": {"lm": {**LM, "num_hidden_layers": 10_000}},
    "tokens of a language model": {"lm": {**LM, "vocab_size": 2**27}},
    "no language model": {"lm": {**LM, "model_type": "bert"}},
    "an unknown language model": {"lm": {**LM, "model_type": "none"}},
    "beams": {"generation": {"num_beams": HUGE}},
}


@pytest.mark.parametrize("what", ASKED)
def test_no_more_is_built_than_the_weights_fill(saved: Path, what: str) -> None:
    change(saved / "config.json", ASKED[what])
    told = message_of(lambda: load_checkpoint(str(saved)), seconds=10)
    assert told is not None and str(saved) in told


def test_keys_of_transformers_that_name_code_or_files_are_not_read(saved: Path) -> None:
    named = {"auto_map": {"AutoModel": "evil--code.Model"}, "num_labels": 10**7}
    named |= {"quantization_config": {"quant_method": "none"}, "transformers_weights": "../x"}
    change(saved / "config.json", {**named, "attn_implementation": "kernels-community/evil"})
    model, _ = load_checkpoint(str(saved))
    assert not any(hasattr(model.config, name) for name in ("auto_map", "quantization_config"))
    assert model.config._attn_implementation in (None, "eager", "sdpa")
    assert len(model.config.id2label or {}) < 10


def test_peft_does_not_lead_elsewhere(saved: Path) -> None:
    (saved / "adapter_config.json").write_text('{"base_model_name_or_path": "/etc"}')
    with pytest.raises(UserError, match="adapter of peft"):
        load_checkpoint(str(saved))


def test_files_are_not_read_when_they_are_too_large(saved: Path) -> None:
    for name in ("config.json", "task.json", "tokenizer.json"):
        size = (saved / name).stat().st_size
        os.truncate(saved / name, 300_000_000)  # a file of holes: nothing is written
        told = message_of(lambda: load_checkpoint(str(saved)), memory=200_000_000)
        assert told is not None and "bytes" in told
        os.truncate(saved / name, size)
    load_checkpoint(str(saved))


def test_deep_json_is_told(saved: Path) -> None:
    for name in ("task.json", "config.json"):
        whole = (saved / name).read_text()
        (saved / name).write_text("[" * 100_000)
        assert message_of(lambda: load_checkpoint(str(saved))) is not None
        (saved / name).write_text(whole)


MAP = {"layout": "x", "slip": 0.2, "horizon": 50, "map": DEFAULT.split()}
SETTINGS = {
    "wordle words": ("wordle", {"answers": ["aaaaa"] * 10**5, "other_guesses": []}),
    "wordle terminal": ("wordle", {"answers": ["\x1b[31m", "crane"], "other_guesses": []}),
    "wordle numbers": ("wordle", {"answers": [1, 2], "other_guesses": []}),
    "gridworld cells": ("gridworld", {**MAP, "map": ["." * 1000] * 1000}),
    "gridworld horizon": ("gridworld", {**MAP, "horizon": 10**9}),
    "gridworld slip": ("gridworld", {**MAP, "slip": float("nan")}),
    "tmaze corridor": ("tmaze", {"corridor": 10**9}),
    "tmaze corridor below zero": ("tmaze", {"corridor": -3}),
    "tmaze corridor infinite": ("tmaze", {"corridor": float("inf")}),
    "twenty things": ("twenty", {"things": [str(i) for i in range(10**5)], "yes": {}}),
    "vizdoom horizon": ("vizdoom", {"hard": False, "horizon": 10**9}),
    "code": ("os:system", {}),
    "a list": ("wordle", [1]),
}


@pytest.mark.parametrize("what", SETTINGS)
def test_no_task_is_larger_than_it_may_be(saved: Path, what: str) -> None:
    task, settings = SETTINGS[what]
    if task == "wordle" and isinstance(settings, dict):
        settings = {"words": "x", "digest": "x", "constrain": True, **settings}
    (saved / "task.json").write_text(json.dumps({"task": task, "settings": settings}))
    assert message_of(lambda: load_checkpoint(str(saved)), memory=300_000_000) is not None


def test_another_tasks_weights_are_told(saved: Path, tmp_path: Path, make_model: MakeModel) -> None:
    more = WordList("more", TWELVE, (*TWELVE, "trace", "aloft"))
    described = {**WordleTask(more).settings(), "words": "more"}
    (saved / "task.json").write_text(json.dumps({"task": "wordle", "settings": described}))
    load_checkpoint(str(saved))  # other words of the same letters: it can play them
    (saved / "task.json").write_text(json.dumps({"task": "gridworld", "settings": MAP}))
    with pytest.raises(UserError, match=r"another task than its task\.json: tokens"):
        load_checkpoint(str(saved))


def test_what_the_hub_holds_beside_a_checkpoint_stays_there(saved: Path, hub: HubServer) -> None:
    """A pickle, code, an adapter: not even downloaded."""
    files = {path.name: path.read_bytes() for path in saved.iterdir()}
    evil = {"pytorch_model.bin": b"\x80\x04evil", "modeling.py": b"raise SystemExit('run')"}
    evil["adapter_config.json"] = b'{"base_model_name_or_path": "evil/model"}'
    evil["../outside.json"] = b"{}"
    hub.repos["models", "stranger/agent"] = Repo(private=False)
    hub.model("stranger/agent").commit("an agent", {**files, **evil})
    model, _ = load_checkpoint("stranger/agent")
    own, _ = load_checkpoint(str(saved))
    assert all(torch.equal(t, own.state_dict()[name]) for name, t in model.state_dict().items())
    home = Path(os.environ["HF_HOME"])
    assert not [path for name in evil for path in home.rglob(Path(name).name)]


# Language models, under an adapter or to begin with


@pytest.fixture
def lm(tmp_path: Path) -> Path:
    save_lm("llama", tmp_path / "lm")
    return tmp_path / "lm"


@pytest.mark.parametrize(
    "asked",
    [
        {"num_hidden_layers": HUGE},
        {"num_hidden_layers": 10_000},
        {"vocab_size": 2**26},
        {"hidden_size": 2**20, "intermediate_size": 2**20},
        {"num_labels": HUGE},
    ],
    ids=str,
)
def test_a_language_model_is_no_larger_than_its_weights(lm: Path, asked: dict[str, Any]) -> None:
    change(lm / "config.json", asked)
    told = message_of(lambda: load_lm(str(lm)), seconds=10)
    assert told is not None and str(lm) in told


def test_code_beside_a_language_model_is_not_run(lm: Path) -> None:
    """Not asked about either: whoever answers yes would run it."""
    ran = lm / "ran"
    (lm / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nraise SystemExit\n")
    named = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    change(lm / "config.json", {"auto_map": named, "attn_implementation": "evil/kernels"})
    assert load_lm(str(lm)).config._attn_implementation == "sdpa"
    change(lm / "config.json", {"model_type": "evil"})
    with pytest.raises(UserError):
        load_lm(str(lm))
    assert not ran.exists()


def test_an_index_names_nothing_outside_its_folder(lm: Path) -> None:
    weights = load_file(lm / "model.safetensors")
    (lm / "model.safetensors").rename(lm.parent / "other.safetensors")
    names = dict.fromkeys(weights, "../other.safetensors")
    (lm / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": names})
    )
    with pytest.raises(UserError, match="not beside it"):
        load_lm(str(lm))
    save_file(weights, lm / "part.safetensors", {"format": "pt"})
    inside = dict.fromkeys(weights, "part.safetensors")
    (lm / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": inside})
    )
    load_lm(str(lm))
