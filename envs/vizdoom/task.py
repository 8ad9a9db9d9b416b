"""My Way Home as a task: frames as tokens, where data come from, how play is judged.

What needs the engine is imported where it is used, so that the other tasks do without ViZDoom.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from textrl.config.train import MemberConfig, TrainConfig
from textrl.data.collect import cached_dataset, collect
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, FRAME, ActionGrammar, Language
from textrl.envs.vizdoom import VizdoomCollect
from textrl.envs.vizdoom.references import references
from textrl.envs.vizdoom.rules import ACTIONS, FRAME_SHAPE, HORIZON
from textrl.tasks.task import Reference, Task

if TYPE_CHECKING:
    from textrl.envs.vizdoom.actor import Actor
    from textrl.envs.vizdoom.behaviour import Walk
    from textrl.envs.vizdoom.vector import MyWayHomeVectorEnv

FULL_EVALUATION = 25
"""Of the best actions alone, which mostly stand before a wall until time is up."""
SAMPLED_ROUNDS = 4
"""Sampled are as many episodes as in the paper, 100."""
FOUND = 0.5
"""Only who finds the armor has a return above this: time costs 0.21 at most."""


class VizdoomTask(Task):
    """The game, begun at any spot or, if hard, at the farthest.

    An episode begins with a frame; a step is the action's token, then that of the next frame.
    """

    name = "vizdoom"
    observation_classes = 0  # frames have no classes
    step_infos: tuple[str, ...] = ("x", "y", "angle", "spot", "success")
    frame_shape = FRAME_SHAPE
    ends_at_goal = True
    episodes_at_once = FULL_EVALUATION  # an engine takes 20 MB and a quarter of a second to start
    sampled_rounds = SAMPLED_ROUNDS

    def __init__(self, hard: bool = False) -> None:
        self.hard = hard
        grammar = ActionGrammar.from_slots([range(len(ACTIONS))], len(ACTIONS))
        self.language = Language((FRAME,), ACTIONS, grammar)

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "VizdoomTask":
        """As a training run asks for it: the data are of the base task, which has both in it."""
        return cls()

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], folder: Path | None = None
    ) -> "VizdoomTask":
        """As a checkpoint describes it."""
        if not isinstance(settings["hard"], bool):
            raise TypeError(f"'hard' must be true or false, not {settings['hard']!r}")
        if settings["horizon"] != HORIZON:
            raise ValueError(f"an episode has {HORIZON} decisions, not {settings['horizon']!r}")
        return cls(settings["hard"])

    def summary(self) -> str:
        """For cards."""
        begin = "in the room farthest from it" if self.hard else "anywhere in it"
        return (
            "ViZDoom's My Way Home: find the armor in a maze of rooms and corridors, beginning"
            f" {begin}, from what is in sight: frames of {FRAME_SHAPE[0]} x {FRAME_SHAPE[1]} grey"
            " pixels. The agent turns left or right or moves forward, for four tics of the game at"
            " a time. The score is 1 for finding it, less 0.0001 for each tic, of which there are"
            f" {HORIZON * 4:,}."
        )

    def settings(self) -> dict[str, Any]:
        """Where episodes begin and how long they are."""
        return {"hard": self.hard, "horizon": HORIZON}

    def data_settings(self) -> dict[str, Any]:
        """Wherever they begin, episodes teach the same game."""
        return {"horizon": HORIZON}

    def variants(self) -> dict[str, Task]:
        """The hard task, for agents that were trained on the base task."""
        return {} if self.hard else {"hard": VizdoomTask(hard=True)}

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """Episodes of the behaviour policies."""
        origin = self._origin(episodes, seed)
        digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:16]
        name = f"vizdoom-{digest}-{episodes}-seed{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self,
        episodes: int,
        seed: int,
        folder: Path,
        workers: int | None = None,
        actor: "Actor | None" = None,
    ) -> Dataset:
        """Let the behaviour policies play this many episodes into a new dataset folder.

        actor: a policy trained by A2C, to play in place of the medium player.
        """
        from textrl.envs.vizdoom.data import chunk_sizes

        sizes = chunk_sizes(episodes)
        make = partial(_chunk, self, sizes, seed, actor)
        origin = self._origin(episodes, seed, actor)
        return collect(make, len(sizes), folder, self, origin, workers)

    def check_collecting(self, options: VizdoomCollect) -> None:
        """Refuse a policy that cannot be loaded."""
        self._actor(options)

    def collect_as(
        self,
        options: VizdoomCollect,
        episodes: int,
        seed: int,
        folder: Path,
        workers: int | None = None,
    ) -> tuple[Dataset, str]:
        """The players' episodes, those of a policy trained by A2C among them if that is given."""
        actor = self._actor(options)
        rows = self.collect(episodes, seed, folder, workers, actor)
        how = f"Simulated by the players that the task brings along, seed {seed}."
        if actor is not None:
            how += (
                f" The a2c policy had learned for {actor.steps:,} steps and found the armor in"
                f" {actor.success:.1%} of {actor.episodes} episodes then."
            )
        return rows, how

    def _actor(self, options: VizdoomCollect) -> "Actor | None":
        from textrl.envs.vizdoom.actor import load_actor

        return load_actor(Path(options.a2c)) if options.a2c else None

    def _origin(self, episodes: int, seed: int, actor: "Actor | None" = None) -> dict[str, Any]:
        """All that the rows follow from."""
        from textrl.envs.vizdoom.behaviour import LOST, SLIPS, STRETCH, WANDER

        if actor is not None:
            return {**self.settings(), "episodes": episodes, "seed": seed, "a2c": actor.digest}
        medium = {"lost": LOST, "slips": SLIPS, "stretch": STRETCH, "wander": WANDER}
        return {**self.settings(), "episodes": episodes, "seed": seed, "medium": medium}

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """How often each behaviour found the armor."""
        found = {name: values > FOUND for name, values in returns.items()}
        shares = "  ".join(f"{name}: {values.mean():.1%}" for name, values in found.items())
        together = np.concatenate(list(found.values())).mean()
        return f"found the armor  {shares}  all: {together:.1%}"

    def episode(self, walk: "Walk") -> Episode:
        """A finished walk as an episode."""
        frame, first_action = self.language.first_observation, self.language.first_action
        steps = tuple(
            Step((first_action + action,), reward, (frame,))
            for action, reward in zip(walk.actions, walk.rewards, strict=True)
        )
        prompt = (BEGIN_ID, frame)
        ends = walk.success, not walk.success
        return Episode(prompt, steps, *ends, walk.player, walk.frames, f"spot {walk.spot:02d}")

    def make_envs(self, episodes: int) -> "MyWayHomeVectorEnv":
        """Episodes side by side."""
        from textrl.envs.vizdoom.vector import MyWayHomeVectorEnv

        return MyWayHomeVectorEnv(episodes, self.hard)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """The seed decides where episodes begin."""
        return {}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """The first frame."""
        prompt = np.array([BEGIN_ID, self.language.first_observation], dtype=np.int64)
        return np.tile(prompt, (episodes, 1))

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """One token is one action."""
        if actions.shape[1:] != (1,) or ((actions < 0) | (actions >= len(ACTIONS))).any():
            raise ValueError(f"actions must be rows of one number 0..{len(ACTIONS) - 1}: {actions}")
        return actions[:, 0]

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """A frame, whatever is in it."""
        return np.full((len(actions), 1), self.language.first_observation)

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """None."""
        return np.full(len(infos["success"]), -1)

    def full_evaluation(self) -> int:
        """A quarter of those that are sampled."""
        return FULL_EVALUATION

    def references(self, seed: int) -> dict[str, Reference]:
        """What the players score who are told where they are; simulated once, whatever the seed."""
        return references(self.hard)

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> dict[str, Any]:
        """How the episodes went, besides their scores; by_spot: spot -> [found, episodes]."""
        success = np.array([bool(info["success"][-1]) for info in infos])
        decisions = np.array([len(info["success"]) for info in infos])
        spots = np.array([int(info["spot"][-1]) for info in infos])
        return {
            "success": float(success.mean()),
            "decisions": float(decisions.mean()),
            "decisions_to_armor": float(decisions[success].mean()) if success.any() else None,
            "by_spot": {
                str(spot): [int(success[spots == spot].sum()), int((spots == spot).sum())]
                for spot in np.unique(spots).tolist()
            },
        }

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same for people."""
        taken = metrics["decisions_to_armor"]
        after = "" if taken is None else f" after {taken:.0f} decisions"
        spots = "  ".join(f"{spot}: {n}/{of}" for spot, (n, of) in metrics["by_spot"].items())
        return (
            f"found the armor {metrics['success']:.1%}{after};"
            f" {metrics['decisions']:.0f} decisions an episode\n"
            f"found by spot  {spots}"
        )


def _chunk(
    task: VizdoomTask, sizes: list[int], seed: int, actor: "Actor | None", chunk: int
) -> Iterator[Episode]:
    from textrl.envs.vizdoom.data import walk_chunk

    for walk in walk_chunk(task.hard, chunk, sizes[chunk], seed, actor):
        yield task.episode(walk)
