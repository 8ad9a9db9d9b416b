"""One ViZDoom engine that plays My Way Home: a process of its own, told what to do by this one."""

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.envs.vizdoom.guard import engine_folder
from textrl.envs.vizdoom.maze import load_maze, scenario_path, write_hard_scenario
from textrl.envs.vizdoom.rules import FRAME_SHAPE, FRAME_SKIP, HOME_REWARD, HORIZON, TIC_REWARD
from textrl.errors import UserError, first_line

try:
    import cv2
    import vizdoom
except ImportError as error:
    raise UserError(
        f"My Way Home needs ViZDoom and OpenCV ({error}): pip install 'offline-textrl[vizdoom]'"
    ) from error

Frame = NDArray[np.uint8]

START_TICS = 10
"""Before an episode begins, as in the scenario's own configuration."""
HEIGHT, WIDTH = 240, 320
GREY = (0.21, 0.72, 0.07)
"""Shares of red, green and blue in the engine's own grey, which is rounded down."""
NEAR_HOME = 80.0
"""The armor is taken where both x and y are within 36 of it; a decision moves at most 28."""
MAX_SEED = 2**31 - 1

BUTTONS = ([1, 0, 0], [0, 1, 0], [0, 0, 1])
_CROP = slice((WIDTH - HEIGHT) // 2, (WIDTH + HEIGHT) // 2)


def shrink(screen: Frame) -> Frame:
    """The middle 240 x 240 of a screen as means of 3 x 3 pixels.

    As cv2.resize with INTER_AREA does it, to the last bit, in two thirds of the time.
    """
    middle = screen[:, _CROP]
    rows = np.add(middle[0::3], middle[1::3], dtype=np.uint16)
    rows += middle[2::3]
    total = rows[:, 0::3] + rows[:, 1::3] + rows[:, 2::3]
    return np.asarray(cv2.convertScaleAbs(total, alpha=1 / 9), dtype=np.uint8)


class Engine:
    """Plays one episode after another.

    frame: what the agent sees, (80, 80), a new array after each step. When the armor was found it
    is the last view before, a tic earlier: the engine shows none of an episode that is over.
    x, y, angle: where the agent is and looks. spot: where it began. decisions: so far.
    success: it found the armor. tics: how many the last step took.
    screen: the whole view in colour, (240, 320, 3), if asked for. game: ViZDoom's own interface.
    """

    frame: Frame
    screen: NDArray[np.uint8] | None

    def __init__(self, hard: bool = False, colour: bool = False) -> None:
        """hard: always begin at the farthest spot."""
        self.hard = hard
        self._colour = colour
        self.game = _start(_scenario(hard), colour)
        maze = load_maze()
        self._maze = maze
        self._home_x, self._home_y = maze.armor.tolist()
        self.x = self.y = self.angle = 0.0
        self.spot, self.decisions, self.tics, self.success = 0, 0, 0, False
        self.frame, self.screen = np.zeros(FRAME_SHAPE, dtype=np.uint8), None

    def reset(self, seed: int) -> None:
        """Begin the episode of this seed (0 to 2^31 - 1)."""
        try:
            self.game.set_seed(seed)
            self.game.new_episode()
        except Exception as error:
            raise _stopped(error) from error
        self.decisions, self.tics, self.success = 0, 0, False
        state = self.game.get_state()
        self._look(state.screen_buffer)
        self.x, self.y, self.angle = state.game_variables.tolist()
        self.spot = self._maze.nearest_spot(self.x, self.y)

    def step(self, action: int) -> float:
        """Do one of ACTIONS for FRAME_SKIP tics; what it earned."""
        try:
            state, last = self._advance(action)
        except Exception as error:
            raise _stopped(error) from error
        if last is not None:
            self._look(last.screen_buffer)
            self.x, self.y, self.angle = last.game_variables.tolist()
        self.success = state is None
        self.decisions += 1
        return self.tics * TIC_REWARD + (HOME_REWARD if self.success else 0.0)

    def _advance(self, action: int) -> tuple[Any, Any]:
        """The state after the action, None if that ended the episode; and the last one seen."""
        game, buttons = self.game, BUTTONS[action]
        if max(abs(self.x - self._home_x), abs(self.y - self._home_y)) > NEAR_HOME:
            game.make_action(buttons, FRAME_SKIP)
            self.tics = FRAME_SKIP
            state = game.get_state()
            return state, state
        # Tic by tic, so that the last view and the number of tics are those of the very end.
        last = None
        for tic in range(1, FRAME_SKIP + 1):
            self.tics = tic
            game.make_action(buttons, 1)
            state = game.get_state()
            if state is None:
                break
            last = state
        return state, last

    def _look(self, screen: NDArray[np.uint8]) -> None:
        if self._colour:
            self.screen = screen
            # In this order, which decides how the engine's own sum is rounded.
            red, green, blue = (screen[..., i] * GREY[i] for i in range(3))
            screen = (red + green + blue).astype(np.uint8)
        self.frame = shrink(screen)

    @property
    def truncated(self) -> bool:
        """Time ran out."""
        return not self.success and self.decisions >= HORIZON

    @property
    def is_over(self) -> bool:
        """Either way."""
        return self.success or self.decisions >= HORIZON

    def close(self) -> None:
        """End the engine's process."""
        self.game.close()


def _start(scenario: Path, colour: bool) -> Any:
    game = vizdoom.DoomGame()
    game.set_doom_scenario_path(str(scenario))
    game.set_doom_map("map01")
    game.set_doom_skill(5)
    game.set_available_buttons(
        [vizdoom.Button.TURN_LEFT, vizdoom.Button.TURN_RIGHT, vizdoom.Button.MOVE_FORWARD]
    )
    game.set_available_game_variables(
        [
            vizdoom.GameVariable.POSITION_X,
            vizdoom.GameVariable.POSITION_Y,
            vizdoom.GameVariable.ANGLE,
        ]
    )
    game.set_screen_resolution(vizdoom.ScreenResolution.RES_320X240)
    formats = vizdoom.ScreenFormat
    game.set_screen_format(formats.RGB24 if colour else formats.GRAY8)
    game.set_render_hud(False)
    game.set_window_visible(False)
    game.set_sound_enabled(False)
    game.set_mode(vizdoom.Mode.PLAYER)
    game.set_episode_start_time(START_TICS)
    game.set_episode_timeout(0)  # its last view would be blank: whoever steps counts for itself
    folder = engine_folder()
    game.set_doom_config_path(str(folder / "engine.ini"))
    try:
        with contextlib.chdir(folder):  # it makes a folder where it starts
            game.init()
    except Exception as error:  # ViZDoom's errors have no common base
        raise UserError(
            f"the ViZDoom engine does not start ({first_line(error)}): see"
            " https://vizdoom.farama.org/faq"
        ) from error
    return game


def _scenario(hard: bool) -> Path:
    if not hard:
        return scenario_path()
    path = engine_folder() / "hard.wad"
    if not path.exists():
        write_hard_scenario(path)
    return path


def _stopped(error: Exception) -> UserError:
    return UserError(f"the ViZDoom engine has stopped ({first_line(error)}): start it again")


def cores() -> list[int]:
    """The cores that this process may use; none where processes cannot be pinned."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin_worker(number: int) -> None:
    """Keep this process, and so the engines it starts, on one core, by the worker's number.

    An engine and whoever tells it what to do take turns: on different cores each would sleep and be
    woken for every frame, at a third of the speed.
    """
    cv2.setNumThreads(1)
    available = cores()
    if not available:
        return
    os.sched_setaffinity(0, {available[number % len(available)]})
