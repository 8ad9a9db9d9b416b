"""A package of somebody else's: a task and an algorithm that textrl has never heard of.

The task: say heads or tails, see which it is, say it again; the second saying earns 1 if right.
The algorithm: imitation, with an option of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from datasets import Dataset
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from textrl import Algorithm, Task, option
from textrl.config.train import MemberConfig, TrainConfig
from textrl.data.collect import cached_dataset, collect
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, ActionGrammar, Language
from textrl.tasks.task import Reference


@dataclass(frozen=True)
class CoinOptions:
    """What a run may set."""

    bias: float = option(0.5, "chance of heads", minimum=0, maximum=1)


class CoinEnvs(VectorEnv[Any, Any, Any]):
    """Coins side by side."""

    def __init__(self, num_envs: int, bias: float) -> None:
        self.num_envs, self._bias = num_envs, bias
        self.single_action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        chance = np.random.default_rng(seed).random(self.num_envs)
        self._coin, self._turn = (chance < self._bias).astype(np.int64), 0
        return np.zeros(self.num_envs), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._turn += 1
        rewards = (actions == self._coin).astype(np.float64) * (self._turn == 2)
        ended = np.full(self.num_envs, self._turn >= 2)
        return None, rewards, ended, np.zeros_like(ended), {"coin": self._coin}


class CoinTask(Task):
    """The game."""

    name = "coin"
    title = "say what you saw"
    options = CoinOptions
    observation_classes = 2
    step_infos = ("coin",)

    def __init__(self, bias: float = 0.5) -> None:
        self.bias = bias
        says = ("tails!", "heads!")
        self.language = Language(("tails", "heads"), says, ActionGrammar.from_slots([(0, 1)], 2))

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "CoinTask":
        return cls(member.task_options.bias)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "CoinTask":
        return cls(settings["bias"])

    def summary(self) -> str:
        return "A coin: say what it shows. 1 if the second saying is right."

    def settings(self) -> dict[str, Any]:
        return {"bias": self.bias}

    def data_settings(self) -> dict[str, Any]:
        return self.settings()

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        name = f"coin-{self.bias}-{episodes}-{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        make = partial(_episodes, self, episodes, seed)
        return collect(make, 1, folder, self, {"seed": seed, "episodes": episodes}, workers)

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        return f"right: {np.concatenate(list(returns.values())).mean():.1%}"

    def make_envs(self, episodes: int) -> CoinEnvs:
        return CoinEnvs(episodes, self.bias)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        return {}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        return np.full((episodes, 1), BEGIN_ID)

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        return actions[:, 0]

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        return self.language.first_observation + infos["coin"][:, None]

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        return np.asarray(infos["coin"])

    def full_evaluation(self) -> int:
        return 50

    def references(self, seed: int) -> dict[str, Reference]:
        return {"optimal": Reference(1.0, 0.0, "by eye")}

    def metrics(self, scores: NDArray[np.float64], infos: Sequence[Any]) -> dict[str, Any]:
        return {"right": float(scores.mean())}

    def describe(self, metrics: Mapping[str, Any]) -> str:
        return f"right {metrics['right']:.0%}"


def _episodes(task: CoinTask, episodes: int, seed: int, chunk: int) -> Iterator[Episode]:
    random = np.random.default_rng(seed)
    for _ in range(episodes):
        coin = int(random.random() < task.bias)
        first, second = int(random.integers(2)), coin if random.random() < 0.9 else 1 - coin
        seen, says = task.language.first_observation + coin, task.language.first_action
        steps = (
            Step((says + first,), 0.0, (seen,), coin),
            Step((says + second,), float(second == coin), (seen,), coin),
        )
        yield Episode((BEGIN_ID,), steps, True, False, "mostly right")


@dataclass(frozen=True)
class SoftOptions:
    """What the loss weighs."""

    smoothing: float = option(0.1, "share of the likelihood that goes to all tokens", minimum=0)


@dataclass(frozen=True)
class SoftTerms:
    """What is minimized."""

    total: torch.Tensor


def soft_loss(outputs: Any, batch: Any, options: SoftOptions) -> SoftTerms:
    """Imitation with smoothed labels."""
    actions = batch.actions.shape[1]
    losses = torch.nn.functional.cross_entropy(
        outputs.policy[:, :actions].flatten(0, 1),
        batch.actions.flatten(),
        reduction="none",
        label_smoothing=options.smoothing,
    )
    return SoftTerms((losses * batch.counts.flatten()).sum() / batch.action_count)


SOFT = Algorithm(
    name="soft-bc",
    title="behaviour cloning with smoothed labels",
    heads=("policy",),
    loss=soft_loss,
    options=SoftOptions,
)
