"""Environments x policy -> episodes."""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from tqdm import tqdm

from textrl.acting.policy import Policy
from textrl.data.episode import Episode, Step
from textrl.data.progress import progress_bar
from textrl.tasks.task import Task

PATIENCE = 5  # seconds after which a progress bar appears


@dataclass(frozen=True)
class Played:
    """Finished episodes and what the environment said of each step."""

    episodes: list[Episode]
    infos: list[dict[str, NDArray[np.generic]]]  # per episode: name -> one value per step

    @property
    def scores(self) -> NDArray[np.float64]:
        """Each episode's return."""
        return np.array([episode.episode_return for episode in self.episodes])


def play(task: Task, policy: Policy, episodes: int, seed: int) -> Played:
    """Play this many episodes of the task, in batches; deterministic in the seed."""
    played = Played([], [])
    batches = -(-episodes // task.episodes_at_once)
    size = -(-episodes // batches)
    with (
        progress_bar(total=episodes, unit="episode", leave=False, delay=PATIENCE) as progress,
        contextlib.ExitStack() as open_envs,
    ):
        envs: VectorEnv[Any, Any, Any] | None = None
        for first in range(0, episodes, size):
            count = min(size, episodes - first)
            if envs is None or envs.num_envs != count:  # some take long to start: used again
                envs = task.make_envs(count)
                open_envs.callback(envs.close)
            batch = _play_batch(task, envs, policy, first, episodes, seed, progress)
            played.episodes.extend(batch.episodes)
            played.infos.extend(batch.infos)
    return played


def _play_batch(
    task: Task,
    envs: VectorEnv[Any, Any, Any],
    policy: Policy,
    first: int,
    of: int,
    seed: int,
    progress: tqdm,
) -> Played:
    count = envs.num_envs
    frames, _ = envs.reset(seed=seed + first, options=task.reset_options(first, count, of))
    prompt = task.prompt(count)
    policy.begin(prompt, frames if task.frame_shape else None)
    steps: list[list[Step]] = [[] for _ in range(count)]
    infos: list[dict[str, list[np.generic]]] = [{} for _ in range(count)]
    terminated = np.zeros(count, dtype=bool)
    playing = np.arange(count)
    actions: NDArray[np.int64] | None = None
    while len(playing):
        chosen = policy.act()
        if actions is None:
            actions = chosen.copy()
        actions[playing] = chosen  # a finished environment ignores what it is told
        frames, rewards, ended, cut, info = envs.step(task.to_env_actions(actions))
        seen = task.observe(actions, info)
        classes = task.observation_class(info)
        for row, episode in enumerate(playing):
            spelled = tuple((chosen[row] + task.language.first_action).tolist())
            answer = tuple(seen[episode].tolist())
            steps[episode].append(
                Step(spelled, float(rewards[episode]), answer, int(classes[episode]))
            )
            for name in task.step_infos:
                infos[episode].setdefault(name, []).append(info[name][episode])
        terminated |= ended
        going_on = ~(ended | cut)[playing]
        policy.observe(seen[playing], frames[playing] if task.frame_shape else None)
        if not going_on.all():
            policy.keep(np.flatnonzero(going_on))
            playing = playing[going_on]
            progress.update(int((~going_on).sum()))
    episodes = [
        Episode(
            tuple(prompt[i].tolist()),
            tuple(steps[i]),
            bool(terminated[i]),
            not terminated[i],
            "policy",
        )
        for i in range(count)
    ]
    return Played(episodes, [{name: np.array(v) for name, v in info.items()} for info in infos])
