"""The environments: gymnasium's checks, one episode against many, workers that die."""

import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import textrl.envs.registration  # noqa: F401 (registers them)
from textrl.envs.vizdoom.env import MyWayHomeEnv
from textrl.envs.vizdoom.vector import MyWayHomeVectorEnv
from textrl.errors import UserError

NAME = "textrl/MyWayHome-v0"
INFOS = {"x", "y", "angle", "spot", "success", "tics"}


@pytest.fixture(scope="module")
def three() -> Iterator[MyWayHomeVectorEnv]:
    vector = MyWayHomeVectorEnv(3)
    yield vector
    vector.close()


def test_gymnasium_finds_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(NAME, render_mode="rgb_array").unwrapped
        check_env(env)
        vector = gymnasium.make_vec(NAME, num_envs=2, hard=True, render_mode="rgb_array")
    env.close()
    frames, infos = vector.reset(seed=0)
    assert frames in vector.observation_space
    assert set(infos) == INFOS | {"episode_seed"}
    assert infos["spot"].tolist() == [5, 5]
    frames, *_, infos = vector.step(vector.action_space.sample())
    assert frames in vector.observation_space
    assert set(infos) == INFOS | {"played"}
    views = vector.render()
    assert len(views) == 2
    assert views[0].shape[2] == 3
    vector.close()


def test_a_seed_decides_everything_whatever_the_number_of_workers() -> None:
    actions = np.random.default_rng(0).integers(3, size=(12, 3))
    stories = []
    for workers in (1, 2):
        vector = MyWayHomeVectorEnv(3, workers=workers)
        frames, infos = vector.reset(seed=7)
        story = [frames, *infos.values()]
        for action in actions:
            frames, rewards, *_, infos = vector.step(action)
            story += [frames, rewards, *infos.values()]
        vector.close()
        stories.append(story)
    assert all((a == b).all() for a, b in zip(*stories, strict=True))


def test_one_episode_goes_as_in_a_batch(three: MyWayHomeVectorEnv) -> None:
    actions = np.random.default_rng(1).integers(3, size=(20, 3))
    frames, begun = three.reset(seed=1)
    steps = [three.step(action) for action in actions]
    single = MyWayHomeEnv()
    for i in range(3):
        options = {"episode_seed": begun["episode_seed"][i]}
        frame, info = single.reset(options=options)
        assert (frame == frames[i]).all()
        assert info == {name: begun[name][i] for name in info}
        for step, (seen, rewards, terminated, truncated, infos) in enumerate(steps):
            frame, reward, *ended, info = single.step(int(actions[step, i]))
            assert (frame == seen[i]).all()
            assert (reward, *ended) == (rewards[i], terminated[i], truncated[i])
            assert info == {name: infos[name][i] for name in info}
    single.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        single.step(0)


def test_finished_episodes_wait_while_others_go_on(three: MyWayHomeVectorEnv) -> None:
    three.reset(seed=2)
    three._states["decisions"][1] = 524  # one decision before its time is up
    first = three.step(np.array([0, 0, 0]))
    assert first[4]["played"].tolist() == [True, True, True]
    assert three._states["decisions"].tolist() == [1, 1, 1]  # the engine knows better
    three._states["success"][1] = True
    frames, rewards, terminated, truncated, infos = three.step(np.array([1, 1, 1]))
    assert infos["played"].tolist() == [True, False, True]
    assert (frames[1] == first[0][1]).all()
    assert rewards[1] == 0
    assert (terminated.tolist(), truncated.any()) == ([False, True, False], False)
    again, infos = three.reset(options={"reset_mask": np.array([False, True, False])})
    assert infos["tics"].tolist() == [4, 0, 4]
    assert (again[0] == frames[0]).all()
    assert not (again[1] == frames[1]).all()
    assert three.step(np.array([2, 2, 2]))[4]["played"].all()


def test_what_was_returned_is_not_changed_later(three: MyWayHomeVectorEnv) -> None:
    frames, infos = three.reset(seed=3)
    kept = frames.copy(), infos["angle"].copy()
    three.step(np.array([0, 0, 0]))
    assert (frames == kept[0]).all()
    assert (infos["angle"] == kept[1]).all()


def test_wrong_use_is_refused(three: MyWayHomeVectorEnv) -> None:
    for actions in ([0, 3, 0], [0, -1, 0], [0], [0, 0, 0, 0]):
        with pytest.raises(ValueError, match=r"3 numbers 0\.\.2"):
            three.step(np.array(actions))


def test_episodes_are_cut_off_after_525_decisions() -> None:
    vector = MyWayHomeVectorEnv(1, hard=True)
    vector.reset(seed=0)
    for decision in range(525):
        _, rewards, terminated, truncated, _ = vector.step(np.array([decision % 2]))
        assert rewards.tolist() == [pytest.approx(-0.0004)]
        assert not terminated.any()
        assert truncated.tolist() == [decision == 524]
    frames, rewards, _, truncated, infos = vector.step(np.array([0]))
    assert (rewards.tolist(), truncated.tolist()) == ([0.0], [True])
    assert not infos["played"].any()
    assert frames.std() > 3
    vector.close()


@pytest.mark.parametrize("when", ["waiting", "told"])
def test_a_worker_that_dies_is_an_error_and_takes_its_engines_along(when: str) -> None:
    vector = MyWayHomeVectorEnv(2, workers=2)
    vector.reset(seed=0)
    workers = [process for process, _ in vector._workers]
    engines = [pid for process in workers for pid in descendants(process.pid)]
    assert len(engines) >= 2
    os.kill(workers[0].pid, signal.SIGKILL)
    if when == "waiting":
        workers[0].join()
    with pytest.raises(UserError, match=r"a ViZDoom worker died \(exit code -9\)"):
        for _ in range(3):
            vector.step(np.array([0, 0]))
    until = time.monotonic() + 60
    while any(is_alive(pid) for pid in engines):
        assert time.monotonic() < until, "engines live on"
        time.sleep(0.05)
    assert not any(process.is_alive() for process in workers)
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        vector.step(np.array([0, 0]))
    vector.close()


def descendants(pid: int) -> list[int]:
    """The engines of a worker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "vizdoom" and int(rest.split()[1]) == pid:
            found.append(int(path.parent.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
