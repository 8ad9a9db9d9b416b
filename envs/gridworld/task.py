"""The switch gridworld as a task: episodes as tokens, where data come from, how play is judged."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from textrl.config.train import MemberConfig, TrainConfig
from textrl.data.collect import cached_dataset, collect
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, ActionGrammar, Language
from textrl.envs.gridworld import GridworldOptions
from textrl.envs.gridworld.behaviour import BEHAVIOURS, NOISE, Walks, chunk_sizes, walk_chunk
from textrl.envs.gridworld.env import SwitchGridVectorEnv
from textrl.envs.gridworld.layout import ACTIONS, SAFE_LIVE, UNSAFE_LIVE, Layout, load_layout
from textrl.envs.gridworld.references import references
from textrl.envs.gridworld.rules import AT_SAFE_GOAL, AT_UNSAFE_GOAL, IN_LAVA, NOTHING, Rules
from textrl.errors import UserError
from textrl.tasks.task import Reference, Task

FULL_EVALUATION = 1000


class GridworldTask(Task):
    """The game on one map.

    An episode begins with the start cell; a step is the action's token, then that of the cell seen.
    """

    name = "gridworld"
    step_infos: tuple[str, ...] = ("cell", "mode", "reached")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        layout = rules.layout
        names = tuple(layout.cell_name(cell) for cell in layout.open_cells.tolist())
        grammar = ActionGrammar.from_slots([range(len(ACTIONS))], len(ACTIONS))
        self.language = Language(names, ACTIONS, grammar)
        self.observation_classes = len(names)
        # What an episode ends in has no class of its own: the cell says it.
        self._class_of_cell = np.full(layout.cells, -1)
        self._class_of_cell[layout.open_cells] = np.arange(len(names))

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "GridworldTask":
        """As a training run asks for it."""
        options: GridworldOptions = member.task_options
        return cls(Rules(load_layout(options.layout)))

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], folder: Path | None = None
    ) -> "GridworldTask":
        """As a checkpoint describes it."""
        text, name = "\n".join(settings["map"]), str(settings["layout"])
        try:
            layout = Layout.parse(text, name)
            return cls(Rules(layout, float(settings["slip"]), int(settings["horizon"])))
        except UserError as error:
            raise ValueError(str(error)) from error

    def summary(self) -> str:
        """For cards."""
        return (
            f"A gridworld of {self.rules.layout.height} x {self.rules.layout.width} cells with"
            " walls and lava. Which of two goals is live depends on the switch that was stepped on"
            " first, and the agent sees nothing but its own cell: it has to remember where it has"
            f" been. {self.rules.slip:.0%} of all moves go in another direction than told. The"
            f" score is 1 for reaching the live goal within {self.rules.horizon} steps, else 0."
        )

    def settings(self) -> dict[str, Any]:
        """The map itself, so that a checkpoint plays on where the file is not."""
        return {"layout": self.rules.layout.name, **self.data_settings()}

    def data_settings(self) -> dict[str, Any]:
        """Episodes of another map or with other luck teach another game."""
        return {
            "map": list(self.rules.layout.rows),
            "slip": self.rules.slip,
            "horizon": self.rules.horizon,
        }

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """Episodes of the behaviour policies on this map."""
        # How the policies play is no part of the game, but other noise makes other data.
        content = json.dumps({**self.data_settings(), "noise": NOISE}, sort_keys=True)
        digest = hashlib.sha256(content.encode("ascii")).hexdigest()[:16]
        name = f"gridworld-{digest}-{episodes}-seed{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Let the behaviour policies play this many episodes into a new dataset folder."""
        sizes = chunk_sizes(episodes)
        origin = {"episodes": episodes, "seed": seed, "noise": NOISE}
        make = partial(_chunk, self, sizes, seed)
        return collect(make, len(sizes), folder, self, origin, workers)

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """How often each behaviour reached a goal."""
        shares = "  ".join(f"{name}: {values.mean():.1%}" for name, values in returns.items())
        together = np.concatenate(list(returns.values())).mean()
        return f"reached the live goal  {shares}  all: {together:.1%}"

    def episodes(self, walks: Walks) -> Iterator[Episode]:
        """Finished walks as episodes."""
        classes = self._class_of_cell[walks.cells]
        lengths = (walks.actions >= 0).sum(axis=1).tolist()
        won = np.isin(walks.reached, (AT_UNSAFE_GOAL, AT_SAFE_GOAL)).tolist()
        for seen, actions, length, is_won, reached, who in zip(
            classes.tolist(),
            (walks.actions + self.language.first_action).tolist(),
            lengths,
            won,
            walks.reached.tolist(),
            walks.behaviour.tolist(),
            strict=True,
        ):
            tokens = [self.language.first_observation + each for each in seen]
            steps = tuple(
                Step(
                    (actions[i],),
                    1.0 if is_won and i == length - 1 else 0.0,
                    (tokens[i + 1],),
                    seen[i + 1],
                )
                for i in range(length)
            )
            terminated = reached != NOTHING
            prompt = (BEGIN_ID, tokens[0])
            yield Episode(prompt, steps, terminated, not terminated, BEHAVIOURS[who])

    def make_envs(self, episodes: int) -> SwitchGridVectorEnv:
        """Episodes side by side."""
        rules = self.rules
        return SwitchGridVectorEnv(episodes, rules.layout, rules.slip, rules.horizon)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """All episodes begin alike."""
        return {}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """The start cell."""
        start = self.language.first_observation + self._class_of_cell[self.rules.layout.start]
        return np.tile(np.array([BEGIN_ID, start], dtype=np.int64), (episodes, 1))

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """One token is one action."""
        if actions.shape[1:] != (1,) or ((actions < 0) | (actions >= len(ACTIONS))).any():
            raise ValueError(f"actions must be rows of one number 0..{len(ACTIONS) - 1}: {actions}")
        return actions[:, 0]

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The cell that the agent is in now."""
        return self.language.first_observation + self.observation_class(infos)[:, None]

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The cell's place among those that are not wall."""
        return np.asarray(self._class_of_cell[infos["cell"]], dtype=np.int64)

    def full_evaluation(self) -> int:
        """Chance decides every episode: enough of them to tell agents apart by 0.03."""
        return FULL_EVALUATION

    def references(self, seed: int) -> dict[str, Reference]:
        """What others score on this map."""
        return dict(references(self.rules))

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> dict[str, Any]:
        """How the episodes went, besides their scores."""
        reached = np.array([int(info["reached"][-1]) for info in infos])
        mode = np.array([int(info["mode"][-1]) for info in infos])
        return {
            "safe_goal": float((reached == AT_SAFE_GOAL).mean()),
            "unsafe_goal": float((reached == AT_UNSAFE_GOAL).mean()),
            "lava": float((reached == IN_LAVA).mean()),
            "time_out": float((reached == NOTHING).mean()),
            "tripped_safe": float((mode == SAFE_LIVE).mean()),
            "tripped_unsafe": float((mode == UNSAFE_LIVE).mean()),
            "steps": float(np.mean([len(info["reached"]) for info in infos])),
        }

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same for people."""
        return (
            f"safe goal {metrics['safe_goal']:.1%}, unsafe goal {metrics['unsafe_goal']:.1%},"
            f" lava {metrics['lava']:.1%}, out of time {metrics['time_out']:.1%}\n"
            f"tripped first: the safe switch {metrics['tripped_safe']:.1%},"
            f" the unsafe one {metrics['tripped_unsafe']:.1%};"
            f" {metrics['steps']:.1f} steps an episode"
        )


def _chunk(task: GridworldTask, sizes: list[int], seed: int, chunk: int) -> Iterator[Episode]:
    return task.episodes(walk_chunk(task.rules, chunk, sizes[chunk], seed))
