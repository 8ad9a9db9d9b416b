"""The engine: determinism, ends, the last view, starts, and nothing left when it goes."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from textrl.envs.vizdoom.behaviour import navigator, walk
from textrl.envs.vizdoom.engine import Engine
from textrl.envs.vizdoom.guard import engine_folder
from textrl.envs.vizdoom.maze import load_maze
from textrl.errors import UserError


def run(engine: Engine, seed: int, actions: list[int]) -> list[tuple]:
    engine.reset(seed)
    story = [(engine.frame.tobytes(), engine.x, engine.y, engine.angle)]
    for action in actions:
        reward = engine.step(action)
        story.append((engine.frame.tobytes(), engine.x, engine.y, engine.angle, reward))
    return story


def test_an_episode_follows_from_its_seed_whatever_was_before(engine: Engine) -> None:
    actions = np.random.default_rng(0).integers(3, size=30).tolist()
    first = run(engine, 5, actions)
    other = run(engine, 6, [2] * 7)
    assert run(engine, 5, actions) == first
    assert other[0] != first[0]
    fresh = Engine()
    assert run(fresh, 5, actions) == first
    fresh.close()


def test_turning_and_moving_do_what_they_say(engine: Engine) -> None:
    for action, sign in ((0, 1), (1, -1)):
        story = run(engine, 3, [action] * 4)
        turns = [(b[3] - a[3] + 180) % 360 - 180 for a, b in pairwise(story)]
        assert [t * sign > 5 for t in turns] == [True] * 4
        assert {s[1:3] for s in story} == {story[0][1:3]}
    story = run(engine, 3, [2] * 4)
    assert len({s[1:3] for s in story}) == 5
    assert len({s[3] for s in story}) == 1


def test_a_frame_is_the_middle_of_the_screen_in_means_of_nine(engine: Engine) -> None:
    engine.reset(8)
    screen = engine.game.get_state().screen_buffer
    assert screen.shape == (240, 320)
    means = screen[:, 40:280].astype(float).reshape(80, 3, 80, 3).mean(axis=(1, 3))
    assert engine.frame.dtype == np.uint8
    assert np.abs(engine.frame - means).max() <= 0.5 + 1e-9
    assert engine.frame.std() > 3  # there is something to see


def test_time_runs_out_with_a_real_view_and_is_no_end_of_the_game(engine: Engine) -> None:
    engine.reset(3)
    rewards = [engine.step(0) for _ in range(525)]
    assert (engine.truncated, engine.success, engine.is_over) == (True, False, True)
    assert rewards == [pytest.approx(-0.0004)] * 525
    last = engine.frame
    assert last.std() > 3
    # The very view of the last tic: the game would go on from here.
    screen = engine.game.get_state().screen_buffer
    shrunk = cv2.resize(screen[:, 40:280], (80, 80), interpolation=cv2.INTER_AREA)
    assert (shrunk == last).all()


def test_coming_home_terminates_with_a_reward_and_the_last_view(engine: Engine) -> None:
    engine.reset(4)
    act = navigator(np.random.default_rng(0))
    rewards, frames = [], [engine.frame]
    while not engine.is_over:
        rewards.append(engine.step(act(engine.x, engine.y, engine.angle)))
        frames.append(engine.frame)
    assert (engine.truncated, engine.success) == (False, True)
    assert 1 <= engine.tics <= 4
    assert rewards[:-1] == [pytest.approx(-0.0004)] * (len(rewards) - 1)
    assert rewards[-1] == pytest.approx(1 - 0.0001 * engine.tics)
    assert engine.frame.std() > 3
    # Next to the armor, whose box and the agent's touch at 36 in x and y, but for a tic's way.
    gap = np.abs(load_maze().armor - (engine.x, engine.y)).max()
    assert 20 < gap < 36 + 8
    # The engine's own total agrees on what that was worth.
    assert engine.game.is_episode_finished()
    assert engine.game.get_total_reward() == pytest.approx(1.0)


def test_the_navigator_comes_home_from_every_spot_it_is_sent_to(engine: Engine) -> None:
    walks = [walk(engine, "navigator", np.random.default_rng([1, i]), False) for i in range(12)]
    assert all(each.success for each in walks)
    spots = {each.spot for each in walks}
    assert len(spots) >= 6
    for each in walks:
        assert np.hypot(*(load_maze().spots[each.spot] - each.places[0, :2])) < 1
        assert sum(each.rewards) > 0.93


def test_hard_episodes_begin_at_the_farthest_spot_looking_anywhere(hard_engine: Engine) -> None:
    angles = set()
    for seed in range(6):
        hard_engine.reset(seed)
        assert hard_engine.spot == load_maze().farthest_spot
        assert (round(hard_engine.x), round(hard_engine.y)) == (544, -672)
        angles.add(round(hard_engine.angle))
    assert len(angles) == 6
    home = walk(hard_engine, "navigator", np.random.default_rng(0), keep_frames=False)
    assert home.success
    assert 100 < len(home.actions) < 160


def test_colour_is_the_same_view(engine: Engine) -> None:
    colour = Engine(colour=True)
    colour.reset(9)
    engine.reset(9)
    assert colour.screen is not None
    assert colour.screen.shape == (240, 320, 3)
    assert (colour.frame == engine.frame).all()
    colour.close()


def test_an_engine_that_was_killed_is_an_error(tmp_path: Path) -> None:
    engine = Engine()
    engine.reset(0)
    (pid,) = engines_in(engine_folder(), engine.game.get_instance_id())
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(UserError, match="the ViZDoom engine has stopped"):
        for _ in range(5):
            engine.step(0)
    engine.close()


def test_nothing_is_left_of_a_process_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import time; from envs.vizdoom.engine import Engine; engine = Engine();"
        "engine.reset(0); print(engine.game.get_instance_id(), flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None
    name = process.stdout.readline().decode().strip()
    assert len(engines_in(tmp_path, name)) == 1
    assert len(list(tmp_path.iterdir())) == 1
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while engines_in(tmp_path, name) or list(tmp_path.iterdir()):
        assert time.monotonic() < until, "the engine lives on"
        time.sleep(0.05)
    assert not list(Path("/dev/shm").glob(f"ViZDoom*{name}"))


def engines_in(folder: Path, name: str = "") -> list[int]:
    """Processes of engines that have their files in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "+viz_instance_id" in words and str(folder) in words and name in words:
            found.append(int(path.parent.name))
    return found
