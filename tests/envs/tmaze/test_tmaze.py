"""The T-maze: its rules by hand, exact scores against walks, data and environment alike."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest

from textrl.config.presets import configure
from textrl.data.language import BEGIN_ID
from textrl.envs import registration
from textrl.envs.tmaze.env import TMazeVectorEnv
from textrl.envs.tmaze.rules import (
    ARM,
    CUE,
    DOWN,
    FIRST_NOISE,
    FORWARD,
    JUNCTION,
    NOISE,
    UP,
    Rules,
    arrival,
)
from textrl.envs.tmaze.task import TMazeTask
from textrl.tasks.members import Members


def test_a_walk_by_hand() -> None:
    env = TMazeVectorEnv(200, corridor=2)
    env.reset(seed=0)
    everyone = np.full(200, FORWARD)
    seen, *_, infos = env.step(everyone)
    cue = infos["cue"]
    assert {*cue.tolist()} == {UP, DOWN} and (seen == CUE + cue - UP).all()
    seen, *_ = env.step(np.full(200, UP))  # a wall
    assert (seen == CUE + cue - UP).all()
    for _ in range(2):
        seen, *_ = env.step(everyone)
        assert {*seen.tolist()} == {*range(FIRST_NOISE, FIRST_NOISE + NOISE)}
    for _ in range(2):  # there is no way on
        seen, rewards, ended, *_ = env.step(everyone)
        assert (seen == JUNCTION).all() and not rewards.any() and not ended.any()
    seen, rewards, ended, cut, infos = env.step(np.full(200, DOWN))
    assert (seen == ARM + DOWN - UP).all() and ended.all() and not cut.any()
    assert (rewards == (cue == DOWN)).all() and 0 < rewards.mean() < 1
    _, rewards, *_, infos = env.step(np.full(200, UP))
    assert not rewards.any() and not infos["played"].any()


def test_time_runs_out() -> None:
    env = TMazeVectorEnv(1, corridor=3)
    env.reset(seed=0)
    for _ in range(env.rules.horizon - 1):
        *_, ended, cut, _ = env.step(np.array([UP]))
        assert not ended.any() and not cut.any()
    *_, ended, cut, _ = env.step(np.array([UP]))
    assert cut.all() and not ended.any()


@pytest.mark.parametrize("corridor", [1, 10, 40])
def test_exact_scores_are_those_of_walks(corridor: int) -> None:
    task = TMazeTask(Rules(corridor))
    episodes = list(task.walks(4000, np.random.default_rng(0)))
    entered = np.mean([episode.terminated for episode in episodes])
    exact = arrival(task.rules, task.rules.forward_chances(True))
    assert entered == pytest.approx(exact, abs=4 * np.sqrt(max(exact * (1 - exact), 1e-4) / 4000))
    scores = {name: each.mean for name, each in task.references(0).items()}
    mean = np.mean([episode.episode_return for episode in episodes])
    assert mean == pytest.approx(scores["data"], abs=4 * 0.5 / np.sqrt(4000))
    assert scores["random"] < scores["memoryless"] == 0.5 < scores["optimal"] == 1.0
    longest = max(len(episode.steps) for episode in episodes)
    assert 2 * longest + 1 <= 140  # the preset's context


def test_data_are_nested_and_the_same_again(tmp_path: Path) -> None:
    task = TMazeTask(Rules(3))
    few, many = task.collect(5, 7, tmp_path / "few", 1), task.collect(1003, 7, tmp_path / "many", 1)
    assert (len(few), len(many)) == (5, 1003)
    assert few["tokens"][:5] == many["tokens"][:5]
    assert few["tokens"][0][0] == BEGIN_ID
    assert task.collect(5, 8, tmp_path / "other", 1)["tokens"][:5] != few["tokens"][:5]


def test_the_task_is_registered_and_saved() -> None:
    assert "TMaze-v0" in registration.ENVIRONMENTS
    env = gymnasium.make("textrl/TMaze-v0", corridor=2)
    seen, _ = env.reset(seed=1)
    assert env.observation_space.contains(seen)
    seen, reward, ended, cut, info = env.step(FORWARD)
    assert seen == CUE + info["cue"] - UP and (reward, ended, cut) == (0.0, False, False)
    (_, task) = Members.of_run(configure("tmaze", preset="quick", corridor=5)).one()
    assert task.rules.corridor == 5
    assert TMazeTask.from_settings(task.settings()).rules == task.rules
