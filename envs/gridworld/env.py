"""The switch gridworld as gymnasium environments: one episode, or a batch stepped by arrays.

An action is one of up, right, down, left, stay (0..4). A move goes in one of the three other
directions with probability `slip`; staying never slips; a wall or the border of the map holds the
agent back. An observation is the number of the agent's cell, row * width + column, nothing else.

The first switch that the agent enters makes one goal live, for good: a switch `d` the unsafe one, a
switch `r` the safe one. Entering the live goal is rewarded with 1.0 and terminates the episode; a
goal that is not live is plain floor. Lava terminates it with 0.0. An episode still going after
`horizon` steps is truncated. The info of a step tells:

- cell: where the agent is, as in the observation;
- mode: which goal is live, 0 none, 1 unsafe, 2 safe. This is the hidden part of the state: for
  reports, not for players;
- reached: 0 nothing, 1 the unsafe goal, 2 the safe goal, 3 lava.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import ACTIONS, Layout
from textrl.envs.gridworld.render import draw_map, map_text
from textrl.envs.gridworld.rules import HORIZON, NOTHING, SLIP, borders_of, draw, make_rules

Cells = NDArray[np.int64]
RENDER_MODES = ["ansi", "rgb_array"]


class SwitchGridVectorEnv(
    gymnasium.vector.VectorEnv[Cells, NDArray[np.integer[Any]], NDArray[Any]]
):
    """A batch of episodes. Finished ones wait for a reset: their steps change and earn nothing.

    reset takes the option `reset_mask`, which episodes to begin anew (all of them if not given).
    The infos are arrays over the episodes; one more, `played`, tells whether this step was one of
    an episode still going.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": RENDER_MODES,
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self,
        num_envs: int = 1,
        layout: str | Layout = "default",
        slip: float = SLIP,
        horizon: int = HORIZON,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.rules = make_rules(layout, slip, horizon)
        self.layout = self.rules.layout
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.single_observation_space = spaces.Discrete(self.layout.cells)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._states = np.full(num_envs, self.rules.start)
        self._paths = np.full((num_envs, horizon + 1), self.layout.start)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._travel_borders = borders_of(self.rules.travel_chances)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Cells, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        fresh = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        self._states[fresh] = self.rules.start
        self._steps[fresh] = 0
        return self._states % self.layout.cells, {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Cells, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self.action_space.contains(actions):
            raise ValueError(f"actions must be {self.num_envs} numbers 0..4: {actions}")
        terminated, truncated = self._flags()
        playing = ~(terminated | truncated)
        luck = self.np_random.random(self.num_envs)
        travelled = draw(self._travel_borders[actions], luck)
        states = self.rules.next_state[self._states, travelled]
        self._states = np.where(playing, states, self._states)
        self._steps += playing
        cells = self._states % self.layout.cells
        self._paths[playing, self._steps[playing]] = cells[playing]

        infos = {
            "played": playing,
            "cell": cells.copy(),
            "mode": self._states // self.layout.cells,
            "reached": self.rules.outcome[self._states],
        }
        rewards = np.where(playing, self.rules.reward[self._states], 0.0)
        return cells, rewards, *self._flags(), infos

    def render(self) -> tuple[str, ...] | tuple[NDArray[np.uint8], ...] | None:
        if self.render_mode is None:
            return None
        modes = (self._states // self.layout.cells).tolist()
        paths = [
            path[: steps + 1].tolist() for path, steps in zip(self._paths, self._steps, strict=True)
        ]
        views = zip(modes, paths, strict=True)
        if self.render_mode == "ansi":
            return tuple(map_text(self.layout, path[-1], mode) for mode, path in views)
        return tuple(draw_map(self.layout, path[-1], mode, path) for mode, path in views)

    def _flags(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which episodes are terminated, which truncated; never both."""
        terminated = self.rules.outcome[self._states] != NOTHING
        return terminated, ~terminated & (self._steps >= self.rules.horizon)


class SwitchGridEnv(gymnasium.Env[int, int]):
    """One episode."""

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": RENDER_MODES,
        "render_fps": 8,
    }

    def __init__(
        self,
        layout: str | Layout = "default",
        slip: float = SLIP,
        horizon: int = HORIZON,
        render_mode: str | None = None,
    ) -> None:
        self._batch = SwitchGridVectorEnv(1, layout, slip, horizon, render_mode)
        self.render_mode = render_mode
        self.rules, self.layout = self._batch.rules, self._batch.layout
        self.action_space = self._batch.single_action_space
        self.observation_space = self._batch.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._batch.np_random = self.np_random
        cells, _ = self._batch.reset()
        return int(cells[0]), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        cells, rewards, terminated, truncated, infos = self._batch.step(np.array([action]))
        info = {name: values[0].item() for name, values in infos.items() if name != "played"}
        return int(cells[0]), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> str | NDArray[np.uint8] | None:
        views = self._batch.render()
        return None if views is None else views[0]
