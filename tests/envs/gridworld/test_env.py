"""The environments: gymnasium's checks, the rules by hand, and one episode against many."""

import warnings
from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from textrl.envs.gridworld.env import SwitchGridEnv, SwitchGridVectorEnv
from textrl.envs.gridworld.layout import DOWN, LEFT, RIGHT, STAY, UP, Layout
from textrl.errors import UserError


@pytest.fixture
def registered() -> Iterator[str]:
    name = "test/SwitchGrid-v0"
    gymnasium.register(
        name,
        entry_point="textrl.envs.gridworld.env:SwitchGridEnv",
        vector_entry_point="textrl.envs.gridworld.env:SwitchGridVectorEnv",
    )
    yield name
    del gymnasium.registry[name]


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_gymnasium_finds_no_fault(registered: str, render_mode: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(registered, render_mode=render_mode).unwrapped)
        vector = gymnasium.make_vec(registered, num_envs=3, render_mode=render_mode)
    cells, _ = vector.reset(seed=0)
    assert cells in vector.observation_space
    assert vector.step(vector.action_space.sample())[0] in vector.observation_space
    views = vector.render()
    assert views is None if render_mode is None else len(views) == 3


def follow(env: SwitchGridEnv, actions: list[int]) -> list[tuple[int, float, bool, bool, int, int]]:
    """Cell, reward, terminated, truncated, mode, reached after each action from the start."""
    env.reset(seed=0)
    steps = []
    for action in actions:
        cell, reward, terminated, truncated, info = env.step(action)
        assert info["cell"] == cell
        steps.append((cell, reward, terminated, truncated, info["mode"], info["reached"]))
    return steps


def test_each_switch_makes_its_goal_live(corridor: Layout) -> None:
    env = SwitchGridEnv(corridor, slip=0)
    assert follow(env, [RIGHT, RIGHT]) == [
        (3, 0.0, False, False, 2, 0),
        (4, 1.0, True, False, 2, 2),
    ]
    assert follow(env, [LEFT, LEFT]) == [
        (1, 0.0, False, False, 1, 0),
        (0, 1.0, True, False, 1, 1),
    ]


def test_the_first_switch_decides_for_good(corridor: Layout) -> None:
    steps = follow(SwitchGridEnv(corridor, slip=0), [RIGHT, LEFT, LEFT, LEFT, STAY, *[RIGHT] * 4])
    assert [cell for cell, *_ in steps] == [3, 2, 1, 0, 0, 1, 2, 3, 4]
    assert [mode for *_, mode, _ in steps] == [2] * 9
    # The other goal is plain floor: nothing ends there, also for who stays.
    assert [reached for *_, reached in steps] == [0] * 8 + [2]
    assert [reward for _, reward, *_ in steps] == [0.0] * 8 + [1.0]


def test_no_goal_is_live_before_a_switch() -> None:
    layout = Layout.parse("UFSr\n..d.", "goals first")
    steps = follow(SwitchGridEnv(layout, slip=0), [LEFT, LEFT])
    assert steps == [(1, 0.0, False, False, 0, 0), (0, 0.0, False, False, 0, 0)]


def test_lava_ends_the_episode_without_reward(tiny: Layout) -> None:
    steps = follow(SwitchGridEnv(tiny, slip=0), [DOWN, DOWN, RIGHT, RIGHT])
    assert [cell for cell, *_ in steps] == [4, 8, 9, 10]
    assert steps[-1] == (10, 0.0, True, False, 1, 3)
    assert not any(terminated for _, _, terminated, *_ in steps[:-1])


def test_walls_and_borders_hold_back(tiny: Layout) -> None:
    steps = follow(SwitchGridEnv(tiny, slip=0), [UP, LEFT, RIGHT, DOWN, UP])
    assert [cell for cell, *_ in steps] == [0, 0, 1, 1, 1]


def test_time_runs_out_after_the_horizon() -> None:
    steps = follow(SwitchGridEnv(), [STAY] * 50)
    assert [truncated for _, _, _, truncated, *_ in steps] == [False] * 49 + [True]
    assert not any(terminated for _, _, terminated, *_ in steps)


def test_the_last_step_can_still_win_or_lose(corridor: Layout, tiny: Layout) -> None:
    won = follow(SwitchGridEnv(corridor, slip=0, horizon=2), [RIGHT, RIGHT])[-1]
    assert won == (4, 1.0, True, False, 2, 2)
    lost = follow(SwitchGridEnv(tiny, slip=0, horizon=4), [DOWN, DOWN, RIGHT, RIGHT])[-1]
    assert lost == (10, 0.0, True, False, 1, 3)


def test_moves_slip_as_often_as_they_should() -> None:
    layout = Layout.parse(".....\n..S..\n.....\nUdrF.", "open")
    count = 40_000
    for action in (UP, RIGHT, DOWN, LEFT):
        env = SwitchGridVectorEnv(count, layout)
        env.reset(seed=action)
        cells = env.step(np.full(count, action))[0]
        shares = np.bincount(cells, minlength=layout.cells)[layout.moves[layout.start]] / count
        expected = np.full(5, 0.2 / 3)
        expected[action], expected[STAY] = 0.8, 0.0
        # Four standard deviations; what cannot happen never does.
        assert (np.abs(shares - expected) <= 4 * np.sqrt(expected * (1 - expected) / count)).all()
        assert shares.sum() == 1


def test_staying_never_slips() -> None:
    env = SwitchGridVectorEnv(10_000, slip=1.0)
    cells, _ = env.reset(seed=0)
    assert (env.step(np.full(10_000, STAY))[0] == cells).all()


def test_the_seed_decides_everything() -> None:
    def cells(seed: int) -> list[list[int]]:
        env = SwitchGridVectorEnv(20)
        env.reset(seed=seed)
        actions = np.random.default_rng(0).integers(5, size=(30, 20))
        return [env.step(action)[0].tolist() for action in actions]

    assert cells(1) == cells(1) != cells(2)
    single = SwitchGridEnv()
    walks = []
    for _ in range(2):
        single.reset(seed=4)
        walks.append([single.step(DOWN)[0] for _ in range(30)])
    assert walks[0] == walks[1]


class Replay:
    """Random numbers of one episode of a batch, again."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._numbers = iter(numbers)

    def random(self, size: int) -> np.ndarray:
        assert size == 1
        return np.array([next(self._numbers)])


def test_one_episode_goes_as_in_a_batch() -> None:
    count, horizon = 60, 25
    actions = np.random.default_rng(0).integers(5, size=(horizon, count))
    luck = np.random.default_rng(1).random((horizon, count))
    batch = SwitchGridVectorEnv(count, horizon=horizon)
    batch.reset()
    batch.np_random = np.random.default_rng(1)
    steps = [batch.step(action) for action in actions]
    ends = np.bincount(steps[-1][4]["reached"], minlength=4)
    assert ends[0] > 0
    assert ends[3] > 0

    single = SwitchGridEnv(horizon=horizon)
    for i in range(count):
        single.reset()
        single._batch.np_random = Replay(luck[:, i])  # type: ignore[assignment]
        for step in range(horizon):
            cells, rewards, terminations, truncations, infos = steps[step]
            cell, reward, terminated, truncated, info = single.step(int(actions[step, i]))
            assert (cell, reward) == (cells[i], rewards[i])
            assert (terminated, truncated) == (terminations[i], truncations[i])
            assert info == {name: infos[name][i] for name in info}
            assert infos["played"][i]
            if terminated:
                break


def test_finished_episodes_wait_while_others_go_on(corridor: Layout) -> None:
    env = SwitchGridVectorEnv(2, corridor, slip=0, horizon=4)
    env.reset(seed=0)
    env.step(np.array([RIGHT, STAY]))
    env.step(np.array([RIGHT, STAY]))
    cells, rewards, terminated, truncated, infos = env.step(np.array([LEFT, LEFT]))
    assert cells.tolist() == [4, 1]
    assert rewards.tolist() == [0.0, 0.0]
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, False])
    assert infos["played"].tolist() == [False, True]
    assert infos["reached"].tolist() == [2, 0]
    _, _, terminated, truncated, _ = env.step(np.array([LEFT, RIGHT]))
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, True])
    cells, _, terminated, truncated, infos = env.step(np.array([LEFT, RIGHT]))
    assert cells.tolist() == [4, 2]
    assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, True])
    assert not infos["played"].any()

    cells, _ = env.reset(options={"reset_mask": np.array([True, False])})
    assert cells.tolist() == [2, 2]
    cells, _, terminated, truncated, infos = env.step(np.array([LEFT, RIGHT]))
    assert cells.tolist() == [1, 2]
    assert infos["mode"].tolist() == [1, 1]
    assert infos["played"].tolist() == [True, False]


def test_what_was_returned_is_not_changed_later(corridor: Layout) -> None:
    env = SwitchGridVectorEnv(1, corridor, slip=0)
    start, _ = env.reset(seed=0)
    cells, _, terminated, _, infos = env.step(np.array([RIGHT]))
    env.step(np.array([RIGHT]))
    assert (start.tolist(), cells.tolist(), infos["cell"].tolist()) == ([2], [3], [3])
    assert not terminated.any()


def test_wrong_use_is_refused(corridor: Layout) -> None:
    env = SwitchGridVectorEnv(2, corridor)
    env.reset(seed=0)
    for actions in ([0, 5], [0, -1], [0], [0, 0, 0]):
        with pytest.raises(ValueError, match=r"2 numbers 0\.\.4"):
            env.step(np.array(actions))
    with pytest.raises(UserError, match=r"slip 1\.5 is not a probability"):
        SwitchGridEnv(corridor, slip=1.5)
    with pytest.raises(UserError, match="horizon 0 leaves no step"):
        SwitchGridEnv(corridor, horizon=0)
    with pytest.raises(UserError, match="no map 'nowhere'"):
        SwitchGridEnv("nowhere")
