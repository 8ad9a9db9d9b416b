"""Twenty Questions as gymnasium environments: one game, or a batch stepped by arrays.

An action is the number of a question in `world.questions`: those about kinds first, then the
guesses. The observation is the dialogue so far: (20, 2) numbers, each row a question and its answer
(1 yes, 0 no), -1 where nothing was said yet. The reward is -1 for every question that does not name
the thing, 0 for the one that does. Both ends of a game terminate it: a player who has asked twenty
times has lost by the rules of the game, which the dialogue shows; there is no rest of the game that
a time limit would have cut off, and whose value would have to be guessed. The info of a step tells:

- answer: what was answered, 1 yes, 0 no;
- repeated: the same question was asked before;
- known: the answer followed from the earlier ones, so that the question told nothing;
- possible: how many things agree with all answers now;
- won: the thing was named;
- thing: the hidden thing, an index in `world.things`, once the game is over (else -1).
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from textrl.envs.twenty.game import ANSWERS, MAX_TURNS, answer, is_named, still_possible
from textrl.envs.twenty.things import World, load_world, with_article
from textrl.errors import unknown

Dialogue = NDArray[np.int16]


class TwentyQuestionsVectorEnv(
    gymnasium.vector.VectorEnv[Dialogue, NDArray[np.integer[Any]], NDArray[Any]]
):
    """A batch of games. Finished ones wait for a reset: their steps change and earn nothing.

    reset takes the options `things`, the hidden things as indices (drawn if not given), and
    `reset_mask`, which games to begin anew (all of them if not given). The infos are arrays over
    the games; one more, `played`, tells whether this step was one of a game still going.
    """

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": ["ansi"],
        "autoreset_mode": AutoresetMode.DISABLED,
    }

    def __init__(
        self, num_envs: int = 1, world: World | None = None, render_mode: str | None = None
    ) -> None:
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.world = world or load_world()
        questions, things = len(self.world.questions), len(self.world.things)
        self.single_action_space = spaces.Discrete(questions)
        self.single_observation_space = spaces.Box(-1, questions - 1, (MAX_TURNS, 2), np.int16)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._hidden = np.zeros(num_envs, dtype=np.int64)
        self._dialogues = np.full((num_envs, MAX_TURNS, 2), -1, dtype=np.int16)
        self._possible = np.ones((num_envs, things), dtype=bool)
        self._turns = np.zeros(num_envs, dtype=np.int64)
        self._won = np.zeros(num_envs, dtype=bool)
        self._over = np.zeros(num_envs, dtype=bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Dialogue, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        things = len(self.world.things)
        drawn = self.np_random.integers(things, size=self.num_envs)
        hidden = np.asarray(options.get("things", drawn))
        fresh = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        if hidden.shape != (self.num_envs,) or ((hidden < 0) | (hidden >= things)).any():
            raise ValueError(f"things must be {self.num_envs} indices below {things}: {hidden}")
        self._hidden[fresh] = hidden[fresh]
        self._dialogues[fresh] = -1
        self._possible[fresh] = True
        self._turns[fresh] = 0
        self._won[fresh] = False
        self._over[fresh] = False
        return self._dialogues.copy(), {}

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[Dialogue, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self.action_space.contains(actions):
            most = len(self.world.questions) - 1
            raise ValueError(f"actions must be {self.num_envs} numbers 0..{most}: {actions}")
        questions = actions.astype(np.int64)
        playing = ~self._over
        answers = answer(self.world, questions, self._hidden)
        repeated = (self._dialogues[:, :, 0] == questions[:, None]).any(axis=1)
        possible = still_possible(self.world, self._possible, questions, answers)
        before, after = self._possible.sum(axis=1), possible.sum(axis=1)
        named = is_named(self.world, questions, self._hidden)

        games = np.flatnonzero(playing)
        self._dialogues[games, self._turns[games], 0] = questions[games]
        self._dialogues[games, self._turns[games], 1] = answers[games]
        self._possible[games] = possible[games]
        self._turns[games] += 1
        self._won |= playing & named
        self._over = self._won | (self._turns == MAX_TURNS)

        infos = {
            "played": playing,
            "answer": np.where(playing, answers, False).astype(np.int64),
            "repeated": playing & repeated,
            "known": playing & (before == after) & ~named,
            "possible": self._possible.sum(axis=1),
            "won": self._won.copy(),
            "thing": np.where(self._over, self._hidden, -1),
        }
        rewards = np.where(playing & ~self._won, -1.0, 0.0)
        never = np.zeros(self.num_envs, dtype=bool)
        return self._dialogues.copy(), rewards, self._over.copy(), never, infos

    def render(self) -> tuple[str, ...] | None:
        if self.render_mode is None:
            return None
        ends = np.where(self._won, -1, np.where(self._over, self._hidden, -1))
        return tuple(
            dialogue_text(self.world, dialogue, missed)
            for dialogue, missed in zip(self._dialogues, ends.tolist(), strict=True)
        )


class TwentyQuestionsEnv(gymnasium.Env[Dialogue, int]):
    """One game. reset draws the thing, or takes it from options={"thing": word or index}."""

    metadata = {  # noqa: RUF012 (gymnasium declares it so)
        "render_modes": ["ansi"],
        "render_fps": 1,  # check_env warns where it is missing
    }

    def __init__(self, world: World | None = None, render_mode: str | None = None) -> None:
        self._games = TwentyQuestionsVectorEnv(1, world, render_mode)
        self.render_mode = render_mode
        self.world = self._games.world
        self.action_space = self._games.single_action_space
        self.observation_space = self._games.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Dialogue, dict[str, Any]]:
        super().reset(seed=seed)
        if options and "thing" in options:
            hidden = self._thing_index(options["thing"])
        else:
            hidden = int(self.np_random.integers(len(self.world.things)))
        dialogues, _ = self._games.reset(options={"things": [hidden]})
        return dialogues[0], {}

    def step(self, action: int) -> tuple[Dialogue, float, bool, bool, dict[str, Any]]:
        dialogues, rewards, terminated, truncated, infos = self._games.step(np.array([action]))
        info = {name: values[0].item() for name, values in infos.items() if name != "played"}
        return dialogues[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> str | None:
        views = self._games.render()
        return None if views is None else views[0]

    def _thing_index(self, thing: str | int) -> int:
        if not isinstance(thing, str):
            return int(thing)
        if thing not in self.world.things:
            raise unknown("thing", thing, self.world.things)
        return self.world.things.index(thing)


def dialogue_text(world: World, dialogue: Dialogue, missed: int = -1) -> str:
    """A dialogue, one question a line; missed: the thing to tell at the end, -1 = none."""
    lines = [
        f"{turn:2}. {as_written(world.questions[question])} {ANSWERS[said]}"
        for turn, (question, said) in enumerate(dialogue.tolist(), start=1)
        if question >= 0
    ]
    if missed >= 0:
        lines.append(f"    lost: it was {with_article(world.things[missed])}")
    return "\n".join(lines)


def as_written(question: str) -> str:
    """As people write it: `Is it an animal?`"""
    return question[0].upper() + question[1:].replace(" ?", "?")
