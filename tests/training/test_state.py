"""Training state: going on is the same as never having stopped."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from datasets import Dataset

from textrl.algorithms.ilql import ILQLOptions
from textrl.config.presets import configure
from textrl.data.batches import EpisodeBatches
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.errors import UserError
from textrl.losses.ilql import ilql_loss
from textrl.model.network import TextRLModel
from textrl.training.optimizers import make_optimizers
from textrl.training.state import TrainingState, load_memory, load_state, memory_of, save_state

MakeModel = Callable[..., TextRLModel]
MakeEpisodes = Callable[..., list[Episode]]
MakeRows = Callable[[list[Episode]], Dataset]
Optimizers = Sequence[torch.optim.Optimizer]
CONFIG = configure("wordle", learning_rate=1e-2)


def begin(
    make_model: MakeModel, language: Language, seed: int = 0
) -> tuple[TextRLModel, Optimizers]:
    model = make_model(language, seed=seed).train()
    return model, make_optimizers(model, CONFIG)


def save(folder: Path, model: TextRLModel, optimizers: Optimizers, state: TrainingState) -> None:
    save_state(folder, model.saved_state(), memory_of(optimizers), state)


def load(folder: Path, model: TextRLModel, optimizers: Optimizers) -> TrainingState | None:
    state = load_state(folder, model)
    load_memory(folder, optimizers)
    return state


def train(
    model: TextRLModel, optimizers: Optimizers, batches: EpisodeBatches, steps: range
) -> None:
    for step in steps:
        for batch in batches.step(step):
            outputs = model(batch.tokens, batch.state_positions)
            ilql_loss(outputs, batch, ILQLOptions()).total.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        model.update_targets(0.1)


def same(one: TextRLModel, other: TextRLModel) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.state_dict().items())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_three_and_three_steps_are_six(
    tmp_path: Path,
    language: Language,
    make_model: MakeModel,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    optimizer: str,
) -> None:
    rows = make_rows(random_episodes(20))
    config = replace(CONFIG, optimizer=optimizer)

    def fresh(seed: int) -> tuple[TextRLModel, Optimizers, EpisodeBatches]:
        model = make_model(language, seed=seed).train()
        return model, make_optimizers(model, config), EpisodeBatches(rows, language, batch_size=4)

    whole, optimizers, batches = fresh(seed=0)
    train(whole, optimizers, batches, range(6))

    first, optimizers, batches = fresh(seed=0)
    train(first, optimizers, batches, range(3))
    state = TrainingState(step=3, best_score=-2.5, seconds=1.25, metrics_bytes=77)
    save(tmp_path / "state", first, optimizers, state)

    second, optimizers, batches = fresh(seed=1)
    assert not same(second, first)
    assert load(tmp_path / "state", second, optimizers) == state
    assert same(second, first)
    train(second, optimizers, batches, range(3, 6))
    assert same(second, whole)

    # It does need what the optimizer remembers.
    forgetful, optimizers, batches = fresh(seed=1)
    forgetful.load_state_dict(first.state_dict())
    train(forgetful, optimizers, batches, range(3, 6))
    assert not same(forgetful, whole)


def test_what_a_state_holds(tmp_path: Path, language: Language, make_model: MakeModel) -> None:
    model, optimizers = begin(make_model, language)
    for step in (9, 10, 200):
        save(tmp_path, model, optimizers, TrainingState(step, 0.0, 0.0, 0))
    (folder,) = tmp_path.glob("step-*")  # the older ones are gone
    assert folder.name == "step-00000200"
    assert {path.suffix for path in folder.iterdir()} == {".safetensors", ".json"}
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_state_with_an_infinite_best_score_comes_back(
    tmp_path: Path, language: Language, make_model: MakeModel
) -> None:
    model, optimizers = begin(make_model, language)
    state = TrainingState(1, float("-inf"), 0.5, 0)  # saved before the first evaluation
    save(tmp_path, model, optimizers, state)
    assert load(tmp_path, model, optimizers) == state


def test_no_state_is_none(tmp_path: Path, language: Language, make_model: MakeModel) -> None:
    model, optimizers = begin(make_model, language)
    assert load(tmp_path / "state", model, optimizers) is None


def test_half_a_state_is_ignored(
    tmp_path: Path, language: Language, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizers = begin(make_model, language)
    state = TrainingState(3, 0.0, 0.0, 0)
    save(tmp_path, model, optimizers, state)
    # A run that was killed while it wrote.
    partial = tmp_path / ".step-00000006.partial"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    assert load(tmp_path, model, optimizers) == state
    # A disk that filled up while it wrote.
    monkeypatch.setattr(json, "dumps", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, model, optimizers, TrainingState(6, 0.0, 0.0, 0))
    monkeypatch.undo()
    assert load(tmp_path, model, optimizers) == state
    assert [path.name for path in tmp_path.glob("*step-*6*")] == []


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_state_is_refused(
    tmp_path: Path, language: Language, make_model: MakeModel, name: str
) -> None:
    model, optimizers = begin(make_model, language)
    save(tmp_path, model, optimizers, TrainingState(3, 0.0, 0.0, 0))
    path = tmp_path / "step-00000003" / name
    path.write_bytes(path.read_bytes()[:5])
    with pytest.raises(UserError, match=r"training state in .*step-00000003 cannot be used"):
        load(tmp_path, model, optimizers)


def test_another_models_state_is_refused(
    tmp_path: Path, language: Language, make_model: MakeModel
) -> None:
    model, optimizers = begin(make_model, language)
    save(tmp_path, model, optimizers, TrainingState(3, 0.0, 0.0, 0))
    other = make_model(language, width=32)
    with pytest.raises(UserError, match="cannot be used"):
        load(tmp_path, other, make_optimizers(other, CONFIG))
