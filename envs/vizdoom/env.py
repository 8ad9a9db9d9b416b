"""My Way Home as a gymnasium environment: find the armor in a maze, from what is in sight.

An action is one of turn left, turn right, move forward (0..2), for four tics. An observation is the
view in grey, (80, 80). Each tic costs 0.0001; coming to the armor earns 1.0 and terminates the
episode; after 525 decisions it is truncated. It begins at one of 17 spots, or, if `hard`, always at
the one farthest from the armor, and looks in a random direction. The infos tell, for reports and
not for players:

- x, y, angle: where the agent is, in map units, and looks, in degrees, 0 east and 90 north;
- spot: the number of the spot where it began;
- success: it has found the armor;
- tics: how many the action took, fewer than four if it found the armor before.

reset takes the option `episode_seed`, which begins the very episode that another reset's info told
the episode_seed of. The environment has a vectorized form in envs/vizdoom/vector.py.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from textrl.envs.vizdoom.engine import MAX_SEED, Engine, Frame
from textrl.envs.vizdoom.rules import ACTIONS, FRAME_SHAPE, FRAME_SKIP

RENDER_MODES = ["rgb_array"]


def frame_space() -> "spaces.Box[np.uint8]":
    """Views in grey."""
    return spaces.Box(0, 255, FRAME_SHAPE, np.uint8)


class MyWayHomeEnv(gymnasium.Env[Frame, int | np.int64]):
    """One episode at a time. The view rendered is in colour, beside the map with the agent's path.

    The engine runs beside this process, which is not pinned to a core as those of the vectorized
    form are.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": RENDER_MODES,
        "render_fps": 35 / FRAME_SKIP,
    }

    def __init__(self, hard: bool = False, render_mode: str | None = None) -> None:
        self.hard, self.render_mode = hard, render_mode
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = frame_space()
        self._engine: Engine | None = Engine(hard, colour=render_mode is not None)
        self._path: list[tuple[float, float]] = []

    @property
    def engine(self) -> Engine:
        """The engine, unless it was closed."""
        if self._engine is None:
            raise gymnasium.error.ClosedEnvironmentError("this environment was closed")
        return self._engine

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Frame, dict[str, Any]]:
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(MAX_SEED))
        episode_seed = int((options or {}).get("episode_seed", episode_seed))
        self.engine.reset(episode_seed)
        self._path = [(self.engine.x, self.engine.y)]
        return self.engine.frame, {**self._info(), "episode_seed": episode_seed}

    def step(self, action: int | np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        engine = self.engine
        if not self.action_space.contains(action):
            raise ValueError(f"an action must be one of 0..{len(ACTIONS) - 1}: {action}")
        if not self._path:
            raise gymnasium.error.ResetNeeded("reset the environment before its first step")
        reward = 0.0
        if not engine.is_over:  # else it waits for a reset
            reward = engine.step(int(action))
            self._path.append((engine.x, engine.y))
        return engine.frame, reward, engine.success, engine.truncated, self._info()

    def _info(self) -> dict[str, Any]:
        engine = self.engine
        return {
            "x": engine.x,
            "y": engine.y,
            "angle": engine.angle,
            "spot": engine.spot,
            "success": engine.success,
            "tics": engine.tics,
        }

    def render(self) -> Frame | None:
        if self.render_mode is None or self.engine.screen is None:
            return None
        from textrl.envs.vizdoom.render import draw_view  # only who looks on needs Pillow

        return draw_view(self.engine.screen, self._path, self.engine.angle)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
