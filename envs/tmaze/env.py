"""The T-maze as gymnasium environments: one walk, or a batch stepped by arrays.

An action is forward, up or down (0..2); an observation is a number of rules.OBSERVATIONS. The info
of a step tells the cue and the arm entered (0 none, 1 up, 2 down) and the place.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from textrl.envs.tmaze.rules import ACTIONS, OBSERVATIONS, Rules, Walk, begin

Seen = NDArray[np.int64]


class TMazeVectorEnv(gymnasium.vector.VectorEnv[Seen, NDArray[np.integer[Any]], NDArray[Any]]):
    """A batch of walks. Finished ones wait for a reset: their steps change and earn nothing."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012 (gymnasium's way)

    def __init__(self, num_envs: int = 1, corridor: int = 10) -> None:
        self.num_envs, self.rules = num_envs, Rules(corridor)
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.single_observation_space = spaces.Discrete(len(OBSERVATIONS))
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._steps = np.zeros(num_envs, dtype=np.int64)
        self._walk: Walk

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        self._walk = begin(self.num_envs, self.np_random)
        self._steps[:] = 0
        return self._walk.seen(self.rules, self.np_random), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Seen, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self.action_space.contains(actions):
            raise ValueError(f"actions must be {self.num_envs} numbers 0..2: {actions}")
        before = self._walk
        playing = (before.arm == 0) & (self._steps < self.rules.horizon)
        after = before.after(self.rules, np.asarray(actions, dtype=np.int64))
        self._walk = walk = Walk(
            before.cue,
            np.where(playing, after.place, before.place),
            np.where(playing, after.arm, before.arm),
        )
        self._steps += playing
        seen = walk.seen(self.rules, self.np_random)
        infos = {
            "played": playing,
            "seen": seen,
            "cue": walk.cue,
            "arm": walk.arm,
            "place": walk.place,
        }
        terminated = walk.arm > 0
        truncated = ~terminated & (self._steps >= self.rules.horizon)
        return seen, np.where(playing, walk.pays(), 0.0), terminated, truncated, infos


class TMazeEnv(gymnasium.Env[int, int]):
    """One walk."""

    def __init__(self, corridor: int = 10) -> None:
        self._batch = TMazeVectorEnv(1, corridor)
        self.action_space = self._batch.single_action_space
        self.observation_space = self._batch.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._batch.np_random = self.np_random
        seen, _ = self._batch.reset()
        return int(seen[0]), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        seen, rewards, terminated, truncated, infos = self._batch.step(np.array([action]))
        info = {name: values[0].item() for name, values in infos.items() if name != "played"}
        return int(seen[0]), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info
