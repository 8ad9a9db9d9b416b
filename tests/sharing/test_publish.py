"""What of a folder is published: nothing too much, nothing of another state."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from datasets import Dataset
from huggingface_hub import ModelCard

from tests.hub_server import HubServer
from textrl.config.presets import configure
from textrl.data.dataset import load_episodes
from textrl.envs.wordle.task import WordleTask
from textrl.model.network import TextRLModel
from textrl.sharing import publish
from textrl.sharing.checkpoint import save_checkpoint, weights_digest
from textrl.tasks.members import Members

MakeModel = Callable[..., TextRLModel]
CONFIG = configure("wordle", layers=2, width=16, attention_heads=2)


@pytest.fixture(autouse=True)
def _logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canwrite")


@pytest.fixture
def saved(tmp_path: Path, wordle: WordleTask, make_model: MakeModel) -> Path:
    folder = tmp_path / "run"
    model = make_model(wordle.language, steps=10)
    save_checkpoint(folder, model, Members({"wordle": wordle}), CONFIG)
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
    publish.push_checkpoint(saved, "mine/little", Members({"wordle": wordle}), steps=10)
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
    members = Members({"wordle": wordle})
    judgement = publish.evaluate_checkpoint(saved, members, make_model(wordle.language))
    report = publish.saved_report(saved)
    assert report is not None
    assert report["episodes"] == 12 and report["weights"] == weights_digest(saved)
    assert report["mean"] == judgement.members["wordle"].results[0].estimate.mean
    later = make_model(wordle.language, seed=1)
    save_checkpoint(saved, later, members, CONFIG)
    assert publish.saved_report(saved) is None
    for damaged in ("{", "[]", "null"):
        (saved / "evaluation.json").write_text(damaged)
        assert publish.saved_report(saved) is None


def test_an_evaluation_rewrites_the_card_with_its_results(
    saved: Path, wordle: WordleTask, make_model: MakeModel
) -> None:
    members, model = Members({"wordle": wordle}), make_model(wordle.language, steps=10)
    before = ModelCard((saved / "README.md").read_text())
    assert "Not evaluated yet" in before.text and before.data.eval_results is None
    (saved / "figures").mkdir()
    (saved / "figures" / "curve.png").write_bytes(b"a picture")
    judgement = publish.evaluate_checkpoint(saved, members, model)
    text = (saved / "README.md").read_text()
    card, (greedy, sampled) = ModelCard(text), judgement.members["wordle"].results
    assert "Not evaluated yet" not in text
    assert "| **this agent, greedy** |" in text and "| optimal |" in text
    assert [each.metric_value for each in card.data.eval_results] == pytest.approx(
        [greedy.estimate.mean, sampled.estimate.mean]
    )
    assert card.data.model_name == "wordle"
    assert f"for 10 of {CONFIG.max_steps:,} steps" in text and "(figures/curve.png)" in text
    # Where it lies is nobody's business, and nothing is left from writing.
    assert 'load_agent("path/to/this/folder")' in text and str(saved) not in text
    assert [path.name for path in saved.iterdir() if path.name.startswith(".")] == []
    # The same weights a second time: the same report, and a card that still has it.
    publish.evaluate_checkpoint(saved, members, model)
    assert (saved / "README.md").read_text() == text
    # Other weights: the card of their own save tells of no results.
    save_checkpoint(saved, make_model(wordle.language, seed=1), members, CONFIG)
    assert "Not evaluated yet" in (saved / "README.md").read_text()


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
