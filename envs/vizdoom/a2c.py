"""A2C learns My Way Home from what it does, through stable-baselines3: a policy to collect with."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from textrl.envs.vizdoom.actor import STACK, Network, make_players, save_actor
from textrl.envs.vizdoom.engine import MAX_SEED
from textrl.envs.vizdoom.rules import FRAME_SHAPE
from textrl.envs.vizdoom.vector import MyWayHomeVectorEnv
from textrl.errors import UserError

try:
    from stable_baselines3 import A2C
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import VecEnv, VecFrameStack
except ImportError as error:
    raise UserError(
        f"training by A2C needs stable-baselines3 ({error}): pip install 'offline-textrl[a2c]'"
    ) from error

SETTINGS: dict[str, Any] = {"n_steps": 20, "ent_coef": 0.01, "vf_coef": 0.5, "gamma": 0.99}
"""Longer stretches than the customary 5 steps, since rewards are rare, and some randomness kept."""
CURVE_FILE = "curve.jsonl"
EXPORTED = {
    "convolutions.0": "features_extractor.cnn.0",
    "convolutions.1": "features_extractor.cnn.2",
    "convolutions.2": "features_extractor.cnn.4",
    "hidden": "features_extractor.linear.0",
    "action": "action_net",
}
"""Our names of layers -> those of stable-baselines3's CnnPolicy."""


@dataclass(frozen=True)
class Judged:
    """How a policy played after so many steps (decisions), in so many episodes of its own."""

    steps: int
    success: float
    episodes: int
    training_success: float | None  # of the last 100 episodes that it learned from
    seconds: float


def train_a2c(
    steps: int,
    seed: int,
    folder: Path,
    workers: int | None = None,
    envs: int = 16,
    evaluate_every: int = 100_000,
    evaluate_episodes: int = 100,
    until: float = 1.0,
) -> Path:
    """Learn for so many steps, or until this share of an evaluation's episodes succeeds.

    folder: gets a checkpoint `step-N` with every evaluation, and a curve; the last checkpoint is
    returned. workers: None = one per core; what is learned does not depend on it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    game = MyWayHomeVectorEnv(envs, workers=workers)
    try:
        stacked = VecFrameStack(AutoResetEnvs(game), STACK, channels_order="first")
        model = A2C("CnnPolicy", stacked, seed=seed, **SETTINGS)
        model.set_logger(Logger(None, []))  # its own would leave an empty folder behind
        with tqdm(total=steps, unit="step") as bar:
            while True:
                # Evaluation gave up the episodes that were under way.
                model.set_env(stacked, force_reset=True)
                left = steps - model.num_timesteps
                model.learn(
                    min(evaluate_every, left), partial(_tell, bar, model), reset_num_timesteps=False
                )
                network = export(model.policy.state_dict())
                success, episodes = success_share(network, game, evaluate_episodes, seed)
                judged = Judged(
                    model.num_timesteps,
                    success,
                    episodes,
                    _training_success(model),
                    round(bar.format_dict["elapsed"], 1),
                )
                checkpoint = folder / f"step-{judged.steps:08d}"
                save_actor(checkpoint, network, {**asdict(judged), "seed": seed, **SETTINGS})
                with (folder / CURVE_FILE).open("a", encoding="utf-8") as curve:
                    curve.write(json.dumps(asdict(judged)) + "\n")
                tqdm.write(
                    f"{judged.steps:,} steps: found the armor in {success:.1%} of {episodes}"
                    f" episodes -> {checkpoint}"
                )
                if success >= until or judged.steps >= steps:
                    return checkpoint
    finally:
        game.close()


def _tell(bar: "tqdm[Any]", model: A2C, *_: object) -> bool:
    """After each step of all episodes."""
    share = _training_success(model)
    if share is not None:
        bar.set_postfix_str(f"{share:.0%} of the last episodes found it", refresh=False)
    bar.update(model.n_envs)
    return True


def _training_success(model: A2C) -> float | None:
    """Of the last 100 episodes that it learned from, once there are as many.

    The first to end are the short ones, which found the armor.
    """
    recent = model.ep_success_buffer
    return float(np.mean(recent)) if recent and len(recent) == recent.maxlen else None


def export(weights: dict[str, Tensor]) -> Network:
    """What acts, out of the weights of a CnnPolicy."""
    network = Network()
    network.load_state_dict(
        {
            f"{ours}.{part}": weights[f"{theirs}.{part}"]
            for ours, theirs in EXPORTED.items()
            for part in ("weight", "bias")
        }
    )
    return network.requires_grad_(False)


def success_share(
    network: Network, game: MyWayHomeVectorEnv, episodes: int, seed: int
) -> tuple[float, int]:
    """How much of at least so many episodes it finds the armor in, and of how many exactly.

    They are the same episodes every time, played as a dataset's are: actions are drawn.
    """
    rng = np.random.default_rng([seed, 1])
    rounds = -(-episodes // game.num_envs)
    found = 0
    for _ in range(rounds):
        seeds = rng.integers(MAX_SEED, size=game.num_envs)
        frames, _ = game.reset(options={"episode_seeds": seeds})
        act, is_over = make_players(network, game.num_envs, rng), np.zeros(game.num_envs, bool)
        while not is_over.all():
            frames, _, terminated, truncated, _ = game.step(act(frames))
            is_over = terminated | truncated
        found += int(terminated.sum())
    return found / (rounds * game.num_envs), rounds * game.num_envs


class AutoResetEnvs(VecEnv):
    """The game as stable-baselines3 has it: a channel, and a new episode as soon as one ends."""

    def __init__(self, game: MyWayHomeVectorEnv) -> None:
        self.game = game
        frames = spaces.Box(0, 255, (1, *FRAME_SHAPE), np.uint8)
        super().__init__(game.num_envs, frames, game.single_action_space)
        self._actions: NDArray[np.int64] = np.zeros(game.num_envs, dtype=np.int64)

    def reset(self) -> NDArray[np.uint8]:
        frames, _ = self.game.reset(seed=self._seeds[0])
        self._reset_seeds()
        return frames[:, None]

    def step_async(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        frames, rewards, terminated, truncated, _ = self.game.step(self._actions)
        is_over = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(is_over):
            infos[i] = {
                "terminal_observation": frames[i][None],
                "TimeLimit.truncated": bool(truncated[i]),
                "is_success": bool(terminated[i]),
            }
        if is_over.any():
            frames, _ = self.game.reset(options={"reset_mask": is_over})
        return frames[:, None], rewards, is_over, infos

    def close(self) -> None:
        self.game.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.game, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError("the game has no settings that change")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        raise NotImplementedError("the episodes have no methods of their own")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> Sequence[bool]:
        return [False] * self.num_envs
