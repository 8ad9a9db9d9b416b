"""Wordle as a task: games as tokens that say what happened, settings, and how play is summed up."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from textrl.config.presets import configure
from textrl.data.dataset import episodes_to_table, load_episodes
from textrl.data.episode import Episode
from textrl.data.task_file import describe_task
from textrl.data.validate import check_episodes
from textrl.envs.wordle.crowd import simulate_crowd
from textrl.envs.wordle.game import encode_words
from textrl.envs.wordle.games import Games
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError
from textrl.tasks.members import Members


def one_game(words: WordList, answer: str, *guesses: str) -> Games:
    row = [words.guesses.index(guess) for guess in guesses]
    return Games(
        np.array([words.answers.index(answer)], dtype=np.int32),
        np.array([row + [-1] * (6 - len(row))], dtype=np.int32),
        np.zeros(1, dtype=np.uint8),
        ("novice",),
    )


def text_of(task: WordleTask, episode: Episode) -> str:
    tokens = episodes_to_table([episode])["tokens"].to_pylist()[0]
    return task.language.tokenizer().decode(tokens)


def test_the_tokens_say_what_happened(wordle: WordleTask) -> None:
    (episode,) = wordle.episodes(one_game(wordle.words, "crate", "trace", "crate"))
    assert text_of(wordle, episode) == (
        "<begin>"
        " t1 r2 a3 c4 e5 t1=yellow r2=green a3=green c4=yellow e5=green"
        " c1 r2 a3 t4 e5 c1=green r2=green a3=green t4=green e5=green"
    )
    assert [step.reward for step in episode.steps] == [-1.0, 0.0]
    assert [step.observation_class for step in episode.steps] == [
        1 + 2 * 3 + 2 * 9 + 1 * 27 + 2 * 81,
        242,
    ]
    assert (episode.terminated, episode.truncated, episode.behaviour) == (True, False, "novice")


def test_a_lost_game_costs_six(wordle: WordleTask) -> None:
    (episode,) = wordle.episodes(one_game(wordle.words, "crane", *["moist"] * 6))
    assert [step.reward for step in episode.steps] == [-1.0] * 6
    assert episode.episode_return == -6.0
    assert episode.terminated


def test_a_crowds_games_can_be_read_back_from_text(wordle: WordleTask) -> None:
    games = simulate_crowd(wordle.words, 200, seed=0)
    tokenizer = wordle.language.tokenizer()
    episodes = list(wordle.episodes(games))
    assert len(episodes) == 200
    for number, episode in enumerate(episodes):
        text = text_of(wordle, episode)
        assert tokenizer(text)["input_ids"] == [
            *episode.prompt,
            *(token for step in episode.steps for token in step.action + step.observation),
        ]
        tokens = text.split()[1:]
        guesses = [
            "".join(token[0] for token in tokens[i : i + 5]) for i in range(0, len(tokens), 10)
        ]
        played = [wordle.words.guesses[g] for g in games.guesses[number] if g >= 0]
        assert guesses == played
        assert episode.episode_return == games.scores()[number]
        assert episode.behaviour == games.behaviours[games.behaviour[number]]


@pytest.mark.parametrize("constrain", [True, False])
def test_games_pass_the_check(
    words: WordList, make_rows: Callable[[list[Episode]], Dataset], constrain: bool
) -> None:
    task = WordleTask(words, constrain)
    rows = make_rows(list(task.episodes(simulate_crowd(words, 50, seed=0))))
    check_episodes(rows, task.language, 61, task.observation_classes)


def test_constrained_only_words_can_be_spelled(words: WordList) -> None:
    free, bound = WordleTask(words, constrain=False), WordleTask(words, constrain=True)
    spelled = free.actions(encode_words(["crane", "trace", "zzzzz"]))
    real = np.ones(spelled.shape, dtype=bool)

    def is_legal(task: WordleTask) -> list[bool]:
        states = task.language.grammar.states_along(spelled, real)[:, :-1]
        legal = (states >= 0) & task.language.grammar.legal[states, spelled]
        return legal.all(axis=1).tolist()

    assert is_legal(free) == [True, True, True]
    assert is_legal(bound) == [True, True, False]
    # A letter stands where its token says, also without a list.
    assert free.language.grammar.legal.sum(axis=1).tolist() == [26] * 5
    assert free.language.tokens == bound.language.tokens


@pytest.mark.parametrize("constrain", [True, False])
def test_settings_make_the_same_task_again(words: WordList, constrain: bool) -> None:
    task = WordleTask(words, constrain)
    saved = json.loads(json.dumps(describe_task(task)))
    _, again = Members.of_saved(saved["task"], saved["settings"]).one()
    assert isinstance(again, WordleTask)
    assert again.words == words
    assert again.constrain is constrain
    assert again.settings() == task.settings()
    np.testing.assert_array_equal(
        again.language.grammar.next_state, task.language.grammar.next_state
    )


def test_a_config_chooses_the_words(tmp_path: Path) -> None:
    path = tmp_path / "three.txt"
    path.write_text("crane\nslate\nmoist\n")
    _, task = Members.of_run(configure("wordle", words=str(path), constrain=False)).one()
    assert isinstance(task, WordleTask)
    assert task.words == load_words(str(path))
    assert task.constrain is False
    assert task.full_evaluation() == 3


def test_a_task_that_is_not_there() -> None:
    with pytest.raises(UserError, match="unknown task 'wordel': did you mean 'wordle'"):
        configure("wordel")
    with pytest.raises(UserError, match="unknown task 'chess'"):
        Members.of_saved("chess", {})


@pytest.mark.parametrize(
    "settings",
    [{}, {"words": "x", "answers": None, "other_guesses": [], "constrain": True}, [], None],
)
def test_damaged_settings_are_told(settings: Any) -> None:
    with pytest.raises(UserError, match="settings of the task 'wordle' are damaged"):
        Members.of_saved("wordle", settings)


def test_an_evaluation_plays_every_answer_once(wordle: WordleTask) -> None:
    def answers(of: int, batch: int) -> list[int]:
        return [
            answer
            for first in range(0, of, batch)
            for answer in wordle.reset_options(first, min(batch, of - first), of)["answers"]
        ]

    assert sorted(answers(12, 5)) == list(range(12))
    assert sorted(answers(24, 24)) == sorted([*range(12)] * 2)
    # Fewer games than answers: a fixed sample without repeats, the same however it is cut.
    assert len(set(answers(7, 7))) == 7
    assert answers(7, 7) == answers(7, 3)
    assert answers(7, 7) != list(range(7))


def test_metrics_by_hand(wordle: WordleTask) -> None:
    def game(won: list[int], valid: list[int], repeated: list[int], fits: list[int]) -> dict:
        names = ("won", "valid", "repeated", "clue_consistent")
        columns = (won, valid, repeated, fits)
        words = {"guess": np.array(valid) - 1, "pattern": np.zeros(len(won), dtype=int)}
        flags = {n: np.array(c, dtype=bool) for n, c in zip(names, columns, strict=True)}
        return {**flags, **words}

    infos = [
        game([1], [1], [0], [1]),
        game([0, 0, 1], [1, 0, 1], [0, 0, 0], [1, 0, 1]),
        game([0] * 6, [1] * 6, [0, 1, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1]),
    ]
    metrics = wordle.metrics(np.array([0.0, -2.0, -6.0]), infos)
    assert metrics["histogram"] == {"1": 1, "2": 0, "3": 1, "4": 0, "5": 0, "6": 0, "lost": 1}
    assert metrics["win_rate"] == pytest.approx(2 / 3)
    assert metrics["invalid_rate"] == pytest.approx(0.1)
    assert metrics["repeated_rate"] == pytest.approx(0.1)
    assert metrics["clue_violating_rate"] == pytest.approx(0.3)
    assert wordle.describe(metrics) == (
        "won 66.7%; guesses needed  1: 1  2: 0  3: 1  4: 0  5: 0  6: 0  lost: 1\n"
        "guesses: 10.0% not in the list, 10.0% repeated, 30.0% against a clue"
    )


def test_a_win_with_the_last_guess_is_counted_there(wordle: WordleTask) -> None:
    won = np.array([False] * 5 + [True])
    infos = {name: np.ones(6, dtype=int) for name in wordle.step_infos} | {"won": won}
    infos["guess"] = np.full(6, -1)
    histogram = wordle.metrics(np.array([-5.0]), [infos])["histogram"]
    assert (histogram["6"], histogram["lost"]) == (1, 0)


def test_the_data_are_described_beside_peoples_games(wordle: WordleTask) -> None:
    returns = {
        "novice": np.array([-6.0, -3.0], dtype=np.float32),
        "expert": np.array([0.0, -3.0], dtype=np.float32),
    }
    bars, distance = wordle.describe_data(returns).splitlines()
    assert bars == (
        "guesses needed  1: 25.0%  2: 0.0%  3: 0.0%  4: 50.0%  5: 0.0%  6: 0.0%  lost: 25.0%"
    )
    # What these games have more of than people's: 25 - 0.68, 50 - 31.81 and 25 - 2.87 percent.
    assert float(distance.split()[-1]) == pytest.approx(0.646, abs=1e-3)


def test_collecting_is_the_crowds_play_whoever_does_the_work(
    wordle: WordleTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textrl.envs.wordle.crowd.CHUNK_GAMES", 20)
    made = wordle.collect(50, seed=1, folder=tmp_path / "data", workers=2)
    expected = episodes_to_table(wordle.episodes(simulate_crowd(wordle.words, 50, seed=1)))
    assert made.to_list() == expected.to_pylist()
    assert load_episodes(str(tmp_path / "data")).to_list() == made.to_list()
    assert json.loads((tmp_path / "data" / "task.json").read_text()) == describe_task(wordle)
    with pytest.raises(UserError, match="exists already"):
        wordle.collect(50, seed=1, folder=tmp_path / "data")


def test_the_default_dataset_is_made_once(wordle: WordleTask, tmp_path: Path) -> None:
    first = wordle.default_dataset(30, seed=0)
    (folder,) = (tmp_path / "cache" / "datasets").iterdir()
    assert folder.name == f"wordle-{wordle.words.digest}-30-seed0"
    made = folder.stat().st_mtime_ns
    assert wordle.default_dataset(30, seed=0).to_list() == first.to_list()
    assert folder.stat().st_mtime_ns == made
    assert wordle.default_dataset(30, seed=1).to_list() != first.to_list()
