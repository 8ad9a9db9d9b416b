"""Cards: what a stranger and the Hub read out of them, against numbers given here."""

import json
import math
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import DatasetCard, ModelCard

from textrl.config.presets import configure
from textrl.config.train import TrainConfig
from textrl.envs.wordle.task import WordleTask
from textrl.evaluation.report import write_json
from textrl.sharing.card import model_card
from textrl.sharing.dataset_card import dataset_card
from textrl.tasks.members import Members

SIZE = {"layers": 3, "width": 48, "max_steps": 2000, "batch_size": 32, "seed": 7}
CONFIG = configure("wordle", algo="bc", **SIZE)
HISTOGRAM = {"1": 0, "2": 1, "3": 3, "4": 0, "5": 0, "6": 0, "lost": 0}
RATES = {"invalid_rate": 0.0, "repeated_rate": 0.125, "clue_violating_rate": 0.25}
DETAILS = {"win_rate": 1.0, "histogram": HISTOGRAM, **RATES}
REPORT = {
    "beta": 4.0,
    "seed": 5,
    "decodings": {
        "greedy": {"mean": -1.75, "interval_95": [-2.25, -1.25], "episodes": 4, **DETAILS},
        "sampled": {"mean": -2.5, "interval_95": [-2.75, -2.25], "episodes": 1600, **DETAILS},
    },
    "references": {"random": -5.5, "simulated": -2.0, "optimal": -1.5},
    "references_stderr": {"random": 0.0, "simulated": 0.1, "optimal": 0.0},
}


def table(card: str) -> list[list[str]]:
    """The cells of a card's first table, without its head."""
    lines = [line for line in card.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_model_index_has_values_intervals_and_references(wordle: WordleTask) -> None:
    card = ModelCard(model_card(CONFIG, Members({"wordle": wordle}), 2000, "mine/agent", REPORT))
    assert card.data.model_name == "agent"
    assert card.data.library_name == "textrl"
    assert card.data.tags == ["textrl", "offline-rl", "wordle", "bc"]
    found = [(each.metric_name, each.metric_value) for each in card.data.eval_results]
    assert found == [
        ("mean episode return, greedy", -1.75),
        ("mean episode return, sampled", -2.5),
    ]
    assert card.data.eval_results[1].metric_args == {
        "interval_95": [-2.75, -2.25],
        "episodes": 1600,
        "beta": 4.0,
        "references": {"random": -5.5, "simulated": -2.0, "optimal": -1.5},
    }


def test_the_table_has_everyone_in_the_order_of_their_scores(wordle: WordleTask) -> None:
    card = model_card(CONFIG, Members({"wordle": wordle}), 2000, "mine/agent", REPORT)
    assert table(card) == [
        ["optimal", "-1.500", "exact", "reference"],
        ["**this agent, greedy**", "-1.750", "-2.250 to -1.250", "4 episodes"],
        ["simulated", "-2.000", "-2.196 to -1.804", "reference"],
        ["**this agent, sampled**", "-2.500", "-2.750 to -2.250", "1,600 episodes"],
        ["random", "-5.500", "exact", "reference"],
    ]
    assert "beta 4; episodes from seed 5" in card
    assert "12.5% repeated" in card


def test_a_single_episode_has_no_interval(wordle: WordleTask, tmp_path: Path) -> None:
    alone = {"mean": -1.0, "interval_95": [math.nan, math.nan], "episodes": 1, **DETAILS}
    write_json(tmp_path / "evaluation.json", {**REPORT, "decodings": {"greedy": alone}})
    report = json.loads((tmp_path / "evaluation.json").read_text())
    card = model_card(CONFIG, Members({"wordle": wordle}), 2000, "mine/agent", report)
    assert table(card)[0] == ["**this agent, greedy**", "-1.000", "", "1 episodes"]


def test_what_a_stranger_is_told(wordle: WordleTask) -> None:
    text = model_card(
        CONFIG, Members({"wordle": wordle}), 2000, "mine/agent", REPORT, ["figures/curve.png"]
    )
    for words in (
        "find a hidden five-letter word within 6 guesses",
        "12 answers and 14 allowed guesses",
        "behaviour cloning, with textrl",
        "3 layers x 48",
        "for 2,000 steps (preset `quick`, seed 7), each of\n32 episodes from 300,000 episodes that",
        'load_agent("mine/agent")',
        "textrl evaluate mine/agent",
        "## Limits",
        "![curve](figures/curve.png)",
    ):
        assert words in text


def test_an_agent_of_two_tasks_tells_of_each(wordle: WordleTask) -> None:
    two = {"batch_size": 8, "data": "my/games", "algo": "cql"}
    (one,), (other,) = (
        configure("wordle", **each).members.values() for each in ({"batch_size": 32}, two)
    )
    config = TrainConfig(task="one,two", mix="two=2", members={"one": one, "two": other})
    tasks = {"one": copy(wordle), "two": copy(wordle)}
    for name, task in tasks.items():
        task.name = name
    members = Members(tasks)
    report = {"tasks": {"one": REPORT, "two": {**REPORT, "beta": 9.0}}}
    text = model_card(config, members, 10, "mine/agent", report)
    card = ModelCard(text)
    assert card.data.tags == ["textrl", "offline-rl", "one", "two", "ilql", "cql"]
    assert card.data.datasets == ["my/games"]
    found = [(each.dataset_type, each.metric_args["beta"]) for each in card.data.eval_results]
    assert found == [("one", 4.0), ("one", 4.0), ("two", 9.0), ("two", 9.0)]
    assert table(text[text.index("### two") :]) == table(text)[:5]
    for words in (
        "# one,two: one ilql, two cql",
        "by implicit language Q-learning (ILQL) for one, conservative Q-learning (CQL) for two",
        "- one: Wordle: find",
        'load_agent("mine/agent", "one")',
        "32 episodes of one from 300,000 episodes that the task makes itself\n"
        "and 16 episodes of two from the dataset `my/games`",
    ):
        assert words in text


def test_an_unfinished_run_says_so(wordle: WordleTask) -> None:
    text = model_card(CONFIG, Members({"wordle": wordle}), 500)
    assert "for 500 of 2,000 steps" in text
    assert "Not evaluated yet" in text
    assert ModelCard(text).data.eval_results is None


@pytest.mark.parametrize("is_local", [True, False])
def test_only_a_dataset_on_the_hub_is_linked(
    wordle: WordleTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_local: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if is_local:
        (tmp_path / "data" / "games").mkdir(parents=True)
    config = configure("wordle", data="data/games")
    text = model_card(config, Members({"wordle": wordle}), 1, "mine/agent")
    assert ModelCard(text).data.datasets == (None if is_local else ["data/games"])
    assert f"the dataset `{'games' if is_local else 'data/games'}`" in text


@pytest.mark.parametrize(
    ("episodes", "size"),
    [(999, "n<1K"), (1000, "1K<n<10K"), (300_000, "100K<n<1M"), (1_000_000, "1M<n<10M")],
)
def test_a_dataset_s_card(wordle: WordleTask, episodes: int, size: str) -> None:
    returns = {
        "expert": np.full(episodes - 9, -1, dtype=np.float32),
        "novice": np.full(9, -3, dtype=np.float32),
    }
    text = dataset_card(wordle, returns, "mine/games", "Made by hand.")
    card = DatasetCard(text)
    assert card.data.size_categories == [size]
    assert card.data.configs[0]["data_files"] == [{"split": "train", "path": "data/train-*"}]
    mean = (-(episodes - 9) - 27) / episodes
    assert table(text)[1] == ["novice", "9", f"{9 / episodes:.1%}", "-3.000"]
    assert table(text)[2] == ["all", f"{episodes:,}", "100.0%", f"{mean:.3f}"]
    assert "Made by hand." in text and 'load_episodes("mine/games")' in text


def test_a_language_model_under_it_is_named(wordle: WordleTask, tmp_path: Path) -> None:
    config = configure("wordle", backbone="someone/lm", lora_rank=8)
    members = Members({"wordle": wordle})
    text = model_card(config, members, 10, "mine/agent")
    assert "the language model `someone/lm` (not part of these files" in text
    assert "LoRA adapter of rank 8" in text
    card = ModelCard(text)
    assert card.data.base_model == "someone/lm" and "lora" in card.data.tags
    config = configure("wordle", backbone=str(tmp_path))
    local = ModelCard(model_card(config, members, 10, "mine/agent"))
    assert local.data.base_model is None


@pytest.mark.parametrize("name", [None, "mine/agent"])
@pytest.mark.parametrize("lora_rank", [0, 8])
def test_no_path_of_this_machine_is_told(
    wordle: WordleTask, tmp_path: Path, name: str | None, lora_rank: int
) -> None:
    lm, data = tmp_path / "language-model", tmp_path / "private" / "games.jsonl"
    lm.mkdir()
    data.parent.mkdir()
    data.write_text("")
    config = configure(
        "wordle",
        **{"data": str(data), "backbone": str(lm), "output": str(tmp_path / "secret-run")},
        lora_rank=lora_rank,
    )
    members = Members({"wordle": wordle})
    named = {} if name is None else {"name": name}
    text = model_card(config, members, 10, report=REPORT, **named)
    for folder in (tmp_path, *tmp_path.parents, data.parent):
        if folder.name:  # every part of it, but for the root
            assert str(folder) not in text
            assert f"{folder.name}/" not in text and f"/{folder.name}" not in text
    assert tmp_path.name not in text and "secret-run" not in text and "private" not in text
    assert "the dataset `games.jsonl`" in text and "the language model `language-model`" in text
    card = ModelCard(text)
    assert card.data.base_model is None and card.data.datasets is None
    assert f'load_agent("{name or "path/to/this/folder"}")' in text
    assert card.data.model_name == ("agent" if name else "wordle")
