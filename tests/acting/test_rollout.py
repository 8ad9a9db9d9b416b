"""Playing: the episodes are what the game says they are, and fit for training."""

from collections.abc import Callable

import numpy as np
import pytest
from datasets import Dataset

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.acting.rollout import Played, play
from textrl.data.episode import Episode
from textrl.data.validate import check_episodes
from textrl.envs.wordle.env import WordleEnv
from textrl.envs.wordle.task import LETTERS, WordleTask
from textrl.evaluation.play import evaluate
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]


def sampled(task: WordleTask, model: TextRLModel, seed: int = 0) -> Policy:
    return Policy(model, task.language, Decoding(0.0, sample=True), seed)


def play_48(task: WordleTask, make_model: MakeModel, seed: int = 0) -> Played:
    """Every one of twelve answers four times, by a model that knows the words but not the game."""
    return play(task, sampled(task, make_model(task.language), seed), episodes=48, seed=0)


def assert_replays(task: WordleTask, episode: Episode, infos: dict, answer: int) -> None:
    """Play the episode's guesses again in the environment for one game."""
    env = WordleEnv(task.words)
    env.reset(options={"answer": answer})
    language = task.language
    assert episode.prompt == (1,)
    for number, step in enumerate(episode.steps):
        spelled = [language.tokens[token] for token in step.action]
        assert [token[1:] for token in spelled] == ["1", "2", "3", "4", "5"]
        letters = np.array([LETTERS.index(token[0]) for token in spelled])
        board, reward, terminated, _, info = env.step(letters)
        assert reward == step.reward
        colours = [("black", "yellow", "green")[c] for c in board[number, :, 1]]
        clue = [f"{token}={colour}" for token, colour in zip(spelled, colours, strict=True)]
        assert [language.tokens[token] for token in step.observation] == clue
        assert step.observation_class == info["pattern"]
        assert terminated == (number == len(episode.steps) - 1)
        for name in task.step_infos:
            assert infos[name][number] == info[name]
    assert (episode.terminated, episode.truncated) == (True, False)


@pytest.mark.parametrize("at_once", [512, 5])
def test_episodes_replay(
    wordle: WordleTask, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(wordle, "episodes_at_once", at_once)
    played = play_48(wordle, make_model)
    assert len(played.episodes) == len(played.infos) == 48
    for number, episode in enumerate(played.episodes):
        assert_replays(wordle, episode, played.infos[number], answer=number % 12)
    won = [bool(infos["won"][-1]) for infos in played.infos]
    assert 5 < sum(won) < 43  # games end at different times, so the batch did shrink
    wrong = [
        len(episode.steps) - is_won for episode, is_won in zip(played.episodes, won, strict=True)
    ]
    assert played.scores.tolist() == [-float(count) for count in wrong]


def test_greedy_play_does_not_depend_on_how_many_play_at_once(
    wordle: WordleTask, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(wordle.language)

    def episodes() -> list[Episode]:
        policy = Policy(model, wordle.language, Decoding(1.0, sample=False), seed=0)
        return play(wordle, policy, 24, seed=0).episodes

    together = episodes()
    monkeypatch.setattr(wordle, "episodes_at_once", 7)
    assert episodes() == together
    assert together[:12] == together[12:]


def test_play_is_deterministic_in_the_seed(wordle: WordleTask, make_model: MakeModel) -> None:
    once, again, other = (play_48(wordle, make_model, seed) for seed in (3, 3, 4))
    assert once.episodes == again.episodes
    assert once.episodes != other.episodes


def test_played_episodes_can_be_learned_from(
    wordle: WordleTask, make_model: MakeModel, make_rows: Callable[[list[Episode]], Dataset]
) -> None:
    played = play_48(wordle, make_model)
    rows = make_rows(played.episodes)
    check_episodes(rows, wordle.language, 61, wordle.observation_classes)
    assert rows["episode_return"][:] == played.scores.tolist()


def test_evaluate_sums_up_and_leaves_the_model_as_it_was(
    wordle: WordleTask, make_model: MakeModel
) -> None:
    model = make_model(wordle.language).train()
    result = evaluate(wordle, model, Decoding(0.0, sample=True), episodes=48, seed=0)
    assert model.training
    expected = play_48(wordle, make_model)
    assert result.scores.tolist() == expected.scores.tolist()
    summary = result.to_json()
    assert summary["episodes"] == 48
    assert summary["mean"] == pytest.approx(expected.scores.mean())
    assert summary["interval_95"][0] < summary["mean"] < summary["interval_95"][1]
    assert sum(summary["histogram"].values()) == 48
