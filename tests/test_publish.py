"""What of a folder is published: nothing too much, nothing of another state."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset

from envs.wordle.task import WordleTask
from tests.hub_server import HubServer
from textrl import publish
from textrl.checkpoint import save_checkpoint, weights_digest
from textrl.config import TrainConfig
from textrl.dataset import load_episodes
from textrl.model import TextRLModel

MakeModel = Callable[..., TextRLModel]


@pytest.fixture(autouse=True)
def _logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canwrite")


@pytest.fixture
def saved(tmp_path: Path, wordle: WordleTask, make_model: MakeModel) -> Path:
    folder = tmp_path / "run"
    config = TrainConfig(layers=2, width=16, attention_heads=2)
    save_checkpoint(folder, make_model(wordle.language, steps=10), wordle, config)
    return folder


def test_training_state_and_other_things_stay_here(
    hub: HubServer, saved: Path, wordle: WordleTask
) -> None:
    for name in (
        *("state/step-00000010/optimizer.safetensors", "state/step-00000010/model.safetensors"),
        *("best/model.safetensors", "best/config.json", "notes.txt", ".env", "secrets.json"),
    ):
        (saved / name).parent.mkdir(parents=True, exist_ok=True)
        (saved / name).write_text("private")
    (saved / "metrics.jsonl").write_text("{}\n")
    publish.open_checkpoint_repo("mine/little", private=False)
    publish.push_checkpoint(saved, "mine/little", wordle, steps=10)
    files = hub.model("mine/little").files
    assert files.keys() == {
        *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        *("task.json", "training.yaml", "metrics.jsonl", "README.md", ".gitattributes"),
    }
    assert json.loads(files["config.json"])["steps"] == 10
    # The folder has the card that was published.
    assert (saved / "README.md").read_bytes() == files["README.md"]


def test_a_report_counts_only_for_its_own_weights(
    saved: Path, wordle: WordleTask, make_model: MakeModel
) -> None:
    assert publish.saved_report(saved) is None
    judgement = publish.evaluate_checkpoint(saved, wordle, make_model(wordle.language))
    report = publish.saved_report(saved)
    assert report is not None
    assert report["episodes"] == 12 and report["weights"] == weights_digest(saved)
    assert report["mean"] == judgement.results[0].estimate.mean
    later = make_model(wordle.language, seed=1)
    save_checkpoint(saved, later, wordle, TrainConfig(layers=2, width=16, attention_heads=2))
    assert publish.saved_report(saved) is None
    for damaged in ("{", "[]", "null"):
        (saved / "evaluation.json").write_text(damaged)
        assert publish.saved_report(saved) is None


def collected(wordle: WordleTask, folder: Path, episodes: int) -> Dataset:
    return wordle.collect(episodes, seed=0, folder=folder, workers=1)


def test_a_smaller_dataset_leaves_no_rows_of_a_larger_one(
    hub: HubServer, wordle: WordleTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "ROWS_PER_FILE", 100)
    large = collected(wordle, tmp_path / "large", 250)
    collected(wordle, tmp_path / "small", 150)
    publish.open_dataset_repo("mine/sizes", private=False)
    publish.push_dataset(tmp_path / "large", "mine/sizes", wordle)
    assert len([f for f in hub.dataset("mine/sizes").files if f.endswith(".parquet")]) == 3
    assert load_episodes("mine/sizes")[:] == large[:]
    publish.push_dataset(tmp_path / "small", "mine/sizes", wordle)
    assert {f for f in hub.dataset("mine/sizes").files if f.endswith(".parquet")} == {
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
    }
    assert len(load_episodes("mine/sizes")) == 150
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
