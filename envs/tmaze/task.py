"""The T-maze as a task: walks as tokens, where data come from, how play is judged."""

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
from textrl.envs.tmaze import TMazeOptions
from textrl.envs.tmaze.env import TMazeVectorEnv
from textrl.envs.tmaze.rules import ACTIONS, OBSERVATIONS, Rules, arrival, begin, behave
from textrl.tasks.task import Reference, Task

CHUNK_EPISODES = 1000
FULL_EVALUATION = 1000


class TMazeTask(Task):
    """One maze. A step is the action's token, then that of what is seen."""

    name = "tmaze"
    step_infos: tuple[str, ...] = ("cue", "arm", "place")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        grammar = ActionGrammar.from_slots([range(len(ACTIONS))], len(ACTIONS))
        self.language = Language(OBSERVATIONS, ACTIONS, grammar)
        self.observation_classes = len(OBSERVATIONS)

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "TMazeTask":
        """As a training run asks for it."""
        options: TMazeOptions = member.task_options
        return cls(Rules(options.corridor))

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "TMazeTask":
        """As a checkpoint describes it."""
        return cls(Rules(int(settings["corridor"])))

    def summary(self) -> str:
        """For cards."""
        return (
            f"A T-maze. A cue at its entrance says which arm pays; a corridor of"
            f" {self.rules.corridor} cells that show noise leads to the junction, where the agent"
            " has to remember the cue. The score is 1 for the right arm within"
            f" {self.rules.horizon} steps, else 0."
        )

    def settings(self) -> dict[str, Any]:
        """How long the cue is to be carried."""
        return {"corridor": self.rules.corridor}

    data_settings = settings

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """Walks of a player that knows nothing of the cue."""
        name = f"tmaze-{self.rules.corridor}-{episodes}-seed{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Let that player walk this often into a new dataset folder."""
        chunks = -(-episodes // CHUNK_EPISODES)
        make = partial(_chunk, self, episodes, seed)
        origin = {"episodes": episodes, "seed": seed}
        return collect(make, chunks, folder, self, origin, workers)

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """How often the right arm was entered."""
        return f"entered the right arm: {np.concatenate(list(returns.values())).mean():.1%}"

    def walks(self, count: int, random: np.random.Generator) -> Iterator[Episode]:
        """Walks of the data's player."""
        language, walk = self.language, begin(count, random)
        steps: list[list[Step]] = [[] for _ in range(count)]
        for _ in range(self.rules.horizon):
            playing = np.flatnonzero(walk.arm == 0)
            actions = behave(self.rules, walk, random)
            walk = walk.after(self.rules, actions)
            seen, paid = walk.seen(self.rules, random).tolist(), walk.pays().tolist()
            for i in playing.tolist():
                token = language.first_observation + seen[i]
                action = language.first_action + int(actions[i])
                steps[i].append(Step((action,), paid[i], (token,), seen[i]))
        for each, arm in zip(steps, walk.arm.tolist(), strict=True):
            yield Episode((BEGIN_ID,), tuple(each), arm > 0, arm == 0, "wanderer")

    def make_envs(self, episodes: int) -> TMazeVectorEnv:
        """Walks side by side."""
        return TMazeVectorEnv(episodes, self.rules.corridor)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """All walks begin alike."""
        return {}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """Nothing is seen outside."""
        return np.full((episodes, 1), BEGIN_ID, dtype=np.int64)

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """One token is one action."""
        if actions.shape[1:] != (1,) or ((actions < 0) | (actions >= len(ACTIONS))).any():
            raise ValueError(f"actions must be rows of one number 0..{len(ACTIONS) - 1}: {actions}")
        return actions[:, 0]

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """What is seen now."""
        return self.language.first_observation + self.observation_class(infos)[:, None]

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """Its number."""
        return np.asarray(infos["seen"], dtype=np.int64)

    def full_evaluation(self) -> int:
        """Half of the walks have each cue: enough to tell agents apart by 0.03."""
        return FULL_EVALUATION

    def references(self, seed: int) -> dict[str, Reference]:
        """Exact scores: of the data, of random play, of who forgets the cue, of the best."""
        rules = self.rules
        scores = {
            "random": arrival(rules, rules.forward_chances(False)) / 2,
            "data": arrival(rules, rules.forward_chances(True)) / 2,
            "memoryless": 0.5,
            "optimal": 1.0,
        }
        return {name: Reference(score, 0.0, "exact") for name, score in scores.items()}

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> dict[str, Any]:
        """How the walks went, besides their scores."""
        arm, cue = (np.array([int(info[name][-1]) for info in infos]) for name in ("arm", "cue"))
        return {
            "right_arm": float((arm == cue).mean()),
            "wrong_arm": float(((arm > 0) & (arm != cue)).mean()),
            "time_out": float((arm == 0).mean()),
            "steps": float(np.mean([len(info["arm"]) for info in infos])),
        }

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same for people."""
        return (
            f"right arm {metrics['right_arm']:.1%}, wrong arm {metrics['wrong_arm']:.1%},"
            f" out of time {metrics['time_out']:.1%}; {metrics['steps']:.1f} steps an episode"
        )


def _chunk(task: TMazeTask, episodes: int, seed: int, chunk: int) -> Iterator[Episode]:
    """Whole chunks are walked, so that fewer episodes are the first of more."""
    walks = task.walks(CHUNK_EPISODES, np.random.default_rng([seed, chunk]))
    for number, walk in enumerate(walks):
        if chunk * CHUNK_EPISODES + number < episodes:
            yield walk
