"""Twenty Questions as a task: a game as words, where its data come from, how play is judged."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset
from numpy.typing import NDArray

from textrl.config.train import MemberConfig, TrainConfig
from textrl.data.collect import cached_dataset, collect, refuse_existing
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, ActionGrammar, Language
from textrl.envs.twenty import TwentyCollect
from textrl.envs.twenty.conversations import write_conversations
from textrl.envs.twenty.crowd import BEHAVIOURS, NO_QUESTION, Games, chunk_sizes, simulate_chunk
from textrl.envs.twenty.env import TwentyQuestionsVectorEnv
from textrl.envs.twenty.game import ANSWERS, MAX_TURNS
from textrl.envs.twenty.references import references
from textrl.envs.twenty.things import World, load_world
from textrl.tasks.task import Reference, Task


class TwentyTask(Task):
    """The game over one world.

    A turn is a question, word by word up to its mark, which the agent chooses, and the answer, one
    word. Only whole questions of the world can be spelled.
    """

    name = "twenty"
    observation_classes = len(ANSWERS)
    step_infos = ("repeated", "known", "possible", "won")

    def __init__(self, world: World) -> None:
        self.world = world
        spelled = [question.split() for question in world.questions]
        words = tuple(dict.fromkeys(word for question in spelled for word in question))
        number = {word: i for i, word in enumerate(words)}
        self.spellings = np.array([[number[word] for word in each] for each in spelled])
        """(questions, 5) each question as action numbers."""
        self._number_of = {tuple(each): i for i, each in enumerate(self.spellings.tolist())}
        grammar = ActionGrammar.from_spellings(self.spellings, len(words))
        self.language = Language(ANSWERS, words, grammar)

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "TwentyTask":
        """As a training run asks for it: there is one world."""
        return cls(load_world())

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "TwentyTask":
        """As a checkpoint describes it."""
        world = World.make(settings["things"], settings["yes"])
        if world.digest != settings["digest"]:
            raise ValueError("the world is not the one that the checkpoint was made with")
        return cls(world)

    def summary(self) -> str:
        """For cards."""
        return (
            f"Twenty Questions: find out which of {len(self.world.things)} things is meant, by"
            f" asking up to {MAX_TURNS} questions that are answered with yes or no, such as 'does"
            " it have wheels ?'. Naming the thing is a question too, and wins. The score is minus"
            f" the number of questions that did not name it, -{MAX_TURNS} where none did."
        )

    def settings(self) -> dict[str, Any]:
        """The world itself, so that a checkpoint plays on where the file has changed."""
        return {
            "digest": self.world.digest,
            "things": list(self.world.things),
            "yes": self.world.yes,
        }

    def data_settings(self) -> dict[str, Any]:
        """Games of another world teach other facts."""
        return {"digest": self.world.digest}

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """Games of the simulated crowd."""
        name = f"twenty-{self.world.digest}-{episodes}-seed{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Let the simulated crowd play this many games into a new dataset folder."""
        sizes, origin = chunk_sizes(episodes), {"episodes": episodes, "seed": seed}
        make = partial(_crowd_chunk, self, sizes, seed)
        return collect(make, len(sizes), folder, self, origin, workers)

    def check_collecting(self, options: TwentyCollect) -> None:
        """Refuse to write over a file."""
        if options.conversations:
            refuse_existing(Path(options.conversations))

    def collect_as(
        self,
        options: TwentyCollect,
        episodes: int,
        seed: int,
        folder: Path,
        workers: int | None = None,
    ) -> tuple[Dataset, str]:
        """The crowd's games, as chat messages too if that is asked for."""
        rows, how = super().collect_as(options, episodes, seed, folder, workers)
        if options.conversations:
            write_conversations(rows, self.language, Path(options.conversations))
        return rows, how

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """How the players of each skill did."""
        names = [name for name in BEHAVIOURS if name in returns]
        names += sorted(set(returns) - set(names))
        return "questions wasted  " + "  ".join(f"{n}: {-returns[n].mean():.2f}" for n in names)

    def episodes(self, games: Games) -> Iterator[Episode]:
        """Finished games as episodes."""
        first = self.language.first_action
        spelled = [tuple(each) for each in (self.spellings + first).tolist()]
        for hidden, asked, who in zip(
            games.hidden.tolist(), games.questions.tolist(), games.skill.tolist(), strict=True
        ):
            answers = self.world.table[:, hidden]
            steps = [
                Step(
                    spelled[question],
                    0.0 if question == self.world.guess_of(hidden) else -1.0,
                    (self.language.first_observation + int(answers[question]),),
                    int(answers[question]),
                )
                for question in asked
                if question != NO_QUESTION
            ]
            yield Episode((BEGIN_ID,), tuple(steps), True, False, BEHAVIOURS[who])

    def make_envs(self, episodes: int) -> TwentyQuestionsVectorEnv:
        """Games side by side."""
        return TwentyQuestionsVectorEnv(episodes, self.world)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """The things one after the other: as many games as things look for each of them once."""
        things = len(self.world.things)
        order = np.arange(things)
        if of % things:
            order = np.random.default_rng(of).permutation(things)
        return {"things": order[np.arange(first, first + episodes) % things]}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """Nothing is known before the first question."""
        return np.full((episodes, 1), BEGIN_ID, dtype=np.int64)

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the questions."""
        spelled = [tuple(each) for each in actions.tolist()]
        for each in spelled:
            if each not in self._number_of:
                raise ValueError(f"action numbers {each} spell no question")
        return np.array([self._number_of[each] for each in spelled], dtype=np.int64)

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """Yes or no."""
        return self.language.first_observation + self.observation_class(infos)[:, None]

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The same as a number."""
        return np.asarray(infos["answer"], dtype=np.int64)

    def full_evaluation(self) -> int:
        """Episodes that look for every thing once."""
        return len(self.world.things)

    def references(self, seed: int) -> dict[str, Reference]:
        """What others score in this world."""
        return references(self.world, seed)

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> dict[str, Any]:
        """How the games went, besides their scores."""
        won = np.array([bool(info["won"][-1]) for info in infos])
        known = np.concatenate([info["known"] for info in infos])
        repeated = np.concatenate([info["repeated"] for info in infos])
        return {
            "win_rate": float(won.mean()),
            "turns": float(np.mean([len(info["won"]) for info in infos])),
            "known_rate": float(known.mean()),
            "repeated_rate": float(repeated.mean()),
        }

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same for people."""
        return (
            f"won {metrics['win_rate']:.1%}; {metrics['turns']:.1f} questions a game,"
            f" {metrics['known_rate']:.1%} of them with an answer that was known already,"
            f" {metrics['repeated_rate']:.1%} asked before"
        )


def _crowd_chunk(task: TwentyTask, sizes: list[int], seed: int, chunk: int) -> Iterator[Episode]:
    return task.episodes(simulate_chunk(task.world, chunk, sizes[chunk], seed))
