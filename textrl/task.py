"""What the toolkit asks of a task. A task lives in envs/; this is all that it has to be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from datasets import Dataset
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from textrl.batches import Batches
from textrl.config import TrainConfig
from textrl.dataset import Rows
from textrl.language import Language, TokenLanguage

StepInfos = Mapping[str, NDArray[Any]]
"""What an environment said of each step of one episode: name -> (steps,)."""


@dataclass(frozen=True)
class Reference:
    """The score of a player to compare with."""

    mean: float
    stderr: float
    """0.0 when the mean is exact."""
    how: str


class AnyTask(Protocol):
    """What models and checkpoints ask of any task, be it one to play or one that was logged."""

    name: str
    language: TokenLanguage
    observation_classes: int
    """Classes of the `observation` column; 0 = none."""
    frame_shape: tuple[int, ...] | None = None
    """Of the frames, (height, width), where the environment's observations are frames."""

    def summary(self) -> str:
        """The task and its score in a few sentences, for someone who does not know it."""

    def settings(self) -> dict[str, Any]:
        """What makes this task this task (its word list, its map), as JSON; kept in checkpoints."""


class LoggedTask(AnyTask):
    """A task without an environment: there is nothing but what was logged, part of it held out.

    Its tokenizer lies in the checkpoint's folder, beside task.json.
    """

    discount: float
    """Per action token: of the returns that values are compared with."""

    def batches(
        self, config: TrainConfig, best_only: bool, process: int = 0, processes: int = 1
    ) -> tuple[Batches, int]:
        """A training run's batches, and of how many episodes; best_only: the top config.keep_top.

        process, processes: whose share of them.
        """
        raise NotImplementedError

    def held_out(self, episodes: int) -> tuple[Rows, NDArray[np.float32]]:
        """That many episodes that training does not see, always the same, and their returns."""
        raise NotImplementedError

    def held_out_count(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def describe_data(self) -> str:
        """What is worth knowing of the logs, in a line or a few."""
        raise NotImplementedError


class Task(AnyTask, Protocol):
    """A game with its token language, its data and its yardsticks; what has a value is optional."""

    language: Language
    step_infos: tuple[str, ...]
    """Which of the environment's infos `metrics` reads."""
    episodes_at_once: int = 512
    """How many episodes an evaluation plays side by side."""
    sampled_rounds: int = 4
    """How often an evaluation by sampling plays each episode: a sample differs each time."""

    def data_settings(self) -> dict[str, Any]:
        """The part of the settings that a dataset must share to be of use here."""

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """The task's own dataset, made on first use and cached."""

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Make a dataset of this many episodes in a new folder; workers: None = one per core."""

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """What is worth knowing of a dataset, given its returns by behaviour."""

    def make_envs(self, episodes: int) -> VectorEnv[Any, Any, Any]:
        """Environments that play `episodes` episodes side by side."""

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """What tells reset that these are episodes first, first + 1, ... of an evaluation."""

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """The tokens before the first action, (episodes, tokens)."""

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Action numbers (episodes, tokens per action) as the environment takes them."""

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The tokens that follow an action, (episodes, tokens)."""

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The same observation as one class per episode, for the dynamics model."""

    def full_evaluation(self) -> int:
        """How many episodes a complete evaluation plays."""

    def variants(self) -> "dict[str, Task]":
        """Harder or other settings that a complete evaluation plays as well, by name."""
        return {}

    def references(self, seed: int) -> dict[str, Reference]:
        """What other players score, the optimum among them where it is known."""

    def metrics(self, scores: NDArray[np.float64], infos: Sequence[StepInfos]) -> dict[str, Any]:
        """How the episodes went, besides their scores."""

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same metrics for people, in a line or a few."""
