"""A small task whose observations are frames: a corridor, and a light where the agent stands."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.data.language import BEGIN_ID, FRAME, ActionGrammar, Language
from textrl.tasks.task import Reference, Task

CELLS = 8
SIDE = 5 * CELLS  # of a frame; the encoder's map of it is 2 x 2


def view(cell: int, time: int) -> NDArray[np.uint8]:
    """What is seen in a cell, and a little clock, so that no two frames of an episode are alike."""
    pixels = np.zeros((SIDE, SIDE), dtype=np.uint8)
    pixels[:, 5 * cell : 5 * cell + 5] = 255
    pixels[0, 0] = time
    pixels[8:16, 8:16] += np.uint8(17 * time % 256)
    return pixels


class Corridors:
    """Episode k begins in cell k % 7 and has 5 + k % 4 moves to get to the last cell."""

    def __init__(self, episodes: int, spare: int) -> None:
        self.num_envs, self._spare = episodes, spare

    def _frames(self) -> NDArray[np.uint8]:
        return np.stack([view(int(cell), int(time)) for cell, time in self._now])

    @property
    def _now(self) -> list[tuple[int, int]]:
        return list(zip(self._cell.tolist(), self._time.tolist(), strict=True))

    def reset(self, seed: int, options: dict[str, Any]) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        number = options["first"] + np.arange(self.num_envs)
        self._cell, self._time = number % (CELLS - 1), np.zeros(self.num_envs, dtype=np.int64)
        self._limit = 5 + number % 4 + self._spare
        self._is_over = np.zeros(self.num_envs, dtype=bool)
        return self._frames(), {}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[
        NDArray[np.uint8], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
    ]:
        goes = np.clip(self._cell + np.where(actions == 1, 1, -1), 0, CELLS - 1)
        bumps = (goes == self._cell).astype(np.int64)
        self._cell = np.where(self._is_over, self._cell, goes)
        self._time = self._time + ~self._is_over
        arrived = self._cell == CELLS - 1
        cut = (self._time == self._limit) & ~arrived
        self._is_over = arrived | cut
        return self._frames(), arrived - 0.125, arrived, cut, {"bumps": bumps}

    def close(self) -> None:
        pass


class FrameTask(Task):
    """The corridor as a task. A frame comes after a word: quiet, or bump where a wall was hit."""

    name = "corridor"
    # Ids: <pad> 0, <begin> 1, quiet 2, bump 3, <frame> 4, left 5, right 6.
    language = Language(
        ("quiet", "bump", FRAME), ("left", "right"), ActionGrammar.from_slots([[0, 1]], 2)
    )
    observation_classes = 0
    step_infos = ("bumps",)
    frame_shape = (SIDE, SIDE)
    ends_at_goal = True
    episodes_at_once = 512
    sampled_rounds = 2

    def __init__(self, spare: int = 0, has_variant: bool = False) -> None:
        """spare: moves more than usual, which is what the variant "patient" has."""
        self.spare, self.has_variant = spare, has_variant

    def make_envs(self, episodes: int) -> Corridors:
        return Corridors(episodes, self.spare)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        return {"first": first}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        return np.tile([BEGIN_ID, 4], (episodes, 1))

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        return actions[:, 0]

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        return np.stack([2 + infos["bumps"], np.full(len(actions), 4)], axis=1)

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        return np.full(len(infos["bumps"]), -1)

    def variants(self) -> dict[str, "FrameTask"]:
        return {"patient": FrameTask(spare=9)} if self.has_variant else {}

    def references(self, seed: int) -> dict[str, Reference]:
        return {"optimal": Reference(0.5 + self.spare, 0.0, "going right")}

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        return {"moves": sum(len(info["bumps"]) for info in infos)}

    def describe(self, metrics: Mapping[str, Any]) -> str:
        return f"{metrics['moves']} moves"
