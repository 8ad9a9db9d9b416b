"""Publishing and loading by name, with the Hub's real client over HTTP against a small Hub."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import load_dataset
from huggingface_hub import DatasetCard, ModelCard
from transformers import AutoTokenizer

from tests.hub_server import HubServer
from textrl.data.dataset import load_episodes
from textrl.envs.wordle.play.duel import begin_watch
from textrl.envs.wordle.play.opponent import load_opponent
from textrl.errors import run_recipe
from textrl.model.network import TextRLModel
from textrl.recipes import collect, evaluate, push, train
from textrl.sharing.checkpoint import load_model

ROOT = Path(__file__).parents[2]
TINY = "--layers 1 --width 16 --attention-heads 2 --batch-size 8 --evaluate-every 1000"
TINY += " --evaluate-episodes 4 --log-every 1 --threads 2 --max-steps 12 --save-every 4"
TOKEN = "hf_canwrite"
PUSHED = {
    *("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "task.json"),
    *("training.yaml", "metrics.jsonl", "evaluation.json", "README.md", ".gitattributes"),
}
Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a recipe in this process; give what it printed, its one line of error if it failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)

    def go(recipe: object, *arguments: object, fails: bool = False) -> str:
        monkeypatch.setattr(sys, "argv", ["recipe", *map(str, arguments)])
        code = 0
        try:
            run_recipe(recipe.main)  # type: ignore[attr-defined]
        except SystemExit as stopped:
            code = stopped.code
        out, err = capfd.readouterr()
        assert code == (2 if fails else 0), err
        assert "Traceback" not in err, err
        assert TOKEN not in out + err
        return err.strip().splitlines()[-1] if fails else out + err

    return go


@pytest.fixture
def folder(small_run: Path, tmp_path: Path) -> Path:
    """A finished run of one's own."""
    return Path(shutil.copytree(small_run, tmp_path / "run"))


def test_there_and_back(hub: HubServer, run: Run, folder: Path) -> None:
    (folder / "curve.png").write_bytes(b"a picture")
    printed = run(push, folder, "mine/wordle")
    assert "evaluating first" in printed
    assert f"published as {hub.url}/mine/wordle" in printed
    files = hub.model("mine/wordle").files
    assert files.keys() == PUSHED | {"curve.png"}
    assert all(TOKEN.encode() not in content for content in files.values())

    # The bits survive, and so does what they say of a history.
    theirs, ours = TextRLModel.from_pretrained("mine/wordle"), load_model(str(folder))
    history = torch.tensor([[1, 400, 430, 460, 480, 510, 5, 80, 160, 240, 320]])
    for name in ("policy", "q", "target_q", "v"):
        assert torch.equal(getattr(theirs(history), name), getattr(ours(history), name))
    assert AutoTokenizer.from_pretrained("mine/wordle")("<begin>")["input_ids"] == [1]

    # It plays by its name.
    opponent = load_opponent("mine/wordle")
    guess = opponent.guess(begin_watch(opponent.task.words, np.random.default_rng(0)))
    assert guess.word in opponent.task.words.guesses and opponent.heads == ["policy", "q", "v"]

    # Judged by its name, it scores as from its folder; nothing has to be evaluated twice.
    run(evaluate, "mine/wordle", "--json", "theirs.json")
    local = json.loads((folder / "evaluation.json").read_text())
    by_name = json.loads(Path("theirs.json").read_text())
    for key in ("weights", "decodings", "references", "beta"):
        assert by_name[key] == local[key]
    assert "evaluating" not in run(push, folder, "mine/wordle")
    assert len(hub.model("mine/wordle").commits) == 2, "nothing had changed"

    card = ModelCard(files["README.md"].decode())
    greedy, sampled = card.data.eval_results
    assert greedy.metric_value == local["decodings"]["greedy"]["mean"]
    assert sampled.metric_args["interval_95"] == local["decodings"]["sampled"]["interval_95"]
    assert greedy.metric_args["references"]["optimal"] == local["references"]["optimal"]
    assert "![curve](curve.png)" in card.text and "for 12 steps" in card.text
    # What the card tells a stranger to run runs.
    scope: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", card.text, re.DOTALL)[0], scope)
    assert len(scope["played"].scores) == 20  # type: ignore[attr-defined]


def test_results_of_other_weights_are_not_shown(hub: HubServer, run: Run, folder: Path) -> None:
    old = {"weights": "0" * 64, "decodings": {}, "references": {}}
    (folder / "evaluation.json").write_text(json.dumps(old))
    run(push, folder, "mine/stale", "--no-evaluate")
    card = ModelCard(hub.model("mine/stale").files["README.md"].decode())
    assert card.data.eval_results is None
    assert "Not evaluated yet" in card.text
    assert "evaluation.json" not in hub.model("mine/stale").files
    assert "evaluating first" in run(push, folder, "mine/stale")
    assert "evaluation.json" in hub.model("mine/stale").files


def test_a_killed_upload_leaves_nothing_half_and_can_be_repeated(
    hub: HubServer, run: Run, folder: Path
) -> None:
    weights = folder / "model.safetensors"
    hub.large.clear()
    hub.hold_uploads = True
    command = [sys.executable, ROOT / "recipes" / "push.py", folder, "mine/killed"]
    victim = subprocess.Popen([*command, "--no-evaluate"], env=os.environ)
    assert hub.held.wait(120), "no upload came"
    victim.kill()
    victim.wait()
    hub.be_kind()
    assert hub.model("mine/killed").messages == ["initial commit"]
    run(push, folder, "mine/killed", "--no-evaluate")
    assert hub.model("mine/killed").files["model.safetensors"] == weights.read_bytes()
    assert hub.model("mine/killed").messages == ["initial commit", "wordle, 12 steps"]


def test_training_publishes_at_every_save_and_outlives_a_failure(
    hub: HubServer, run: Run, small_data: Path, small_run: Path
) -> None:
    hub.drop_commits = 1
    arguments = ["--data", small_data, "--output", "run", *TINY.split()]
    printed = run(train, *arguments, "--push-to-hub", "mine/trained", "--private")
    assert printed.count("warning: cannot publish to 'mine/trained'") == 1
    assert f"published as {hub.url}/mine/trained" in printed
    repo = hub.model("mine/trained")
    assert repo.private
    assert repo.messages == ["initial commit", "wordle, 8 steps", "wordle, 12 steps"]
    assert repo.files.keys() == PUSHED
    # Publishing changed nothing of what was learned.
    assert repo.files["model.safetensors"] == (small_run / "model.safetensors").read_bytes()
    on_the_way = ModelCard(repo.commits[1][2]["README.md"].decode())
    assert on_the_way.data.eval_results is None
    assert "for 8 of 12 steps" in on_the_way.text
    assert len(ModelCard(repo.files["README.md"].decode()).data.eval_results) == 2

    # A resumed run goes on to publish where it did, and evaluates the same weights only once.
    before = repo.files["evaluation.json"]
    assert "published as" in run(train, "--output", "run", "--resume")
    assert repo.files["evaluation.json"] == before

    # The same run, to be published under another name: the push fails, then goes on.
    hub.drop_commits = 1
    again = ["--output", "run", "--resume", "--push-to-hub", "mine/other", "--no-private"]
    error = run(train, *again, fails=True)
    assert "`textrl push run mine/other` continues" in error
    assert "evaluating" not in run(push, "run", "mine/other")
    assert hub.model("mine/other").files.keys() == PUSHED
    assert "for 12 steps" in hub.model("mine/other").files["README.md"].decode()


def test_a_push_that_cannot_work_is_refused_before_training(
    hub: HubServer, run: Run, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--data", small_data, "--output", "run", *TINY.split(), "--push-to-hub"]
    assert "it must be USER/NAME" in run(train, *arguments, "wordle", fails=True)
    assert "may not write there" in run(train, *arguments, "others/wordle", fails=True)
    monkeypatch.delenv("HF_TOKEN")
    assert "there is no Hugging Face token" in run(train, *arguments, "mine/new", fails=True)
    assert not Path("run").exists()
    collecting = ["--task", "wordle", "--output", "games", "--push-to-hub", "mine/games"]
    assert "there is no Hugging Face token" in run(collect, *collecting, fails=True)
    assert not Path("games").exists()


def test_a_dataset_there_and_back(hub: HubServer, run: Run, tmp_path: Path) -> None:
    making = ["--task", "wordle", "--episodes", 500, "--output", "games", "--workers", 1]
    hub.drop_commits = 1
    error = run(collect, *making, "--push-to-hub", "mine/games", fails=True)
    assert "`textrl push games mine/games` continues" in error
    run(push, "games", "mine/games")
    files = hub.dataset("mine/games").files
    assert files.keys() == {
        *(".gitattributes", "README.md", "task.json", "collection.json"),
        "data/train-00000-of-00001.parquet",
    }
    card = DatasetCard(files["README.md"].decode())
    assert card.data.size_categories == ["n<1K"]
    assert "500 episodes of wordle" in card.text and "seed 0" in card.text

    ours, theirs = load_episodes("games"), load_episodes("mine/games")
    assert theirs.features == ours.features
    assert theirs[:] == ours[:]
    assert load_dataset("mine/games", split="train")["tokens"][7] == ours["tokens"][7]
    learning = ["--data", "mine/games", *TINY.split()]
    run(train, *learning, "--output", "run", "--push-to-hub", "mine/from-games")
    card_of_agent = ModelCard(hub.model("mine/from-games").files["README.md"].decode())
    assert card_of_agent.data.datasets == ["mine/games"]
    Path("words.txt").write_text("crane\nslate\nmoist\n")
    other = run(train, *learning, "--output", "other", "--words", "words.txt", fails=True)
    assert "was made with words 'paper'" in other


def test_what_cannot_be_pushed(hub: HubServer, run: Run, folder: Path, small_data: Path) -> None:
    assert "'nowhere' is not a folder" in run(push, "nowhere", "mine/x", fails=True)
    Path("empty").mkdir()
    assert "no config.json" in run(push, "empty", "mine/x", fails=True)
    assert "it must be USER/NAME" in run(push, folder, "mine", fails=True)
    games = Path(shutil.copytree(small_data, "games"))
    assert "leave it out" in run(push, games, "mine/x", "--no-evaluate", fails=True)
    (games / "task.json").unlink()
    assert "has no task.json" in run(push, games, "mine/x", fails=True)
    assert not any(name == "mine/x" for _, name in hub.repos)


def test_names_that_cannot_be_loaded(hub: HubServer, run: Run, folder: Path) -> None:
    assert "no such repository" in run(evaluate, "mine/never", fails=True)
    assert "doesn't exist on the Hub" in run(
        train, "--data", "mine/never", "--threads", 1, fails=True
    )
    run(push, folder, "mine/hurt", "--no-evaluate")
    repo = hub.model("mine/hurt")
    repo.commit("by hand", {**repo.files, "model.safetensors": b"garbage"})
    assert "cannot load a checkpoint from 'mine/hurt'" in run(evaluate, "mine/hurt", fails=True)
    repo.commit("by hand", {"task.json": b"{}"})
    assert "'mine/hurt' is not a checkpoint" in run(evaluate, "mine/hurt", fails=True)
