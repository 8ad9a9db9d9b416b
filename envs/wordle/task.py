"""Wordle as a task: how a game becomes tokens, where its data comes from, how play is judged."""

import hashlib
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
from textrl.envs.wordle import WordleCollect, WordleOptions
from textrl.envs.wordle.crowd import HUMAN_HISTOGRAM, chunk_sizes, simulate_chunk
from textrl.envs.wordle.env import WordleVectorEnv
from textrl.envs.wordle.game import MAX_GUESSES, PATTERNS, WORD_LENGTH, colours_of
from textrl.envs.wordle.games import NO_GUESS, Games
from textrl.envs.wordle.references import references
from textrl.envs.wordle.regret import regret_by_guess
from textrl.envs.wordle.tweets import read_tweets
from textrl.envs.wordle.words import WordList, load_words
from textrl.errors import UserError
from textrl.tasks.task import Reference, Task

LETTERS = "abcdefghijklmnopqrstuvwxyz"
COLOURS = ("black", "yellow", "green")
TWEETS_HOW = (
    "Games that people shared on Twitter: the colours are theirs, the letters were drawn, row by"
    " row, from the words that give those colours."
)


class WordleTask(Task):
    """The game over one word list.

    A turn is five letter tokens that the agent chooses, then five tokens that it sees. Each token
    says which letter stands at which place, the seen ones with its colour as well: a clue means the
    same wherever in the history it stands.
    """

    name = "wordle"
    observation_classes = PATTERNS
    step_infos = ("guess", "pattern", "valid", "repeated", "clue_consistent", "won")

    def __init__(self, words: WordList, constrain: bool = True) -> None:
        """constrain: only words of the list can be spelled; else any five letters."""
        self.words, self.constrain = words, constrain
        places = range(1, WORD_LENGTH + 1)
        clues = [f"{x}{place}={c}" for place in places for x in LETTERS for c in COLOURS]
        letters = [f"{x}{place}" for place in places for x in LETTERS]
        if constrain:
            spellings = words.guess_letters + _first_at_place(len(LETTERS))
            grammar = ActionGrammar.from_spellings(spellings, len(letters))
        else:
            slots = np.arange(len(letters)).reshape(WORD_LENGTH, len(LETTERS))
            grammar = ActionGrammar.from_slots(slots.tolist(), len(letters))
        kinds = tuple(range(len(LETTERS))) * WORD_LENGTH
        self.language = Language(tuple(clues), tuple(letters), grammar, kinds)

    @classmethod
    def from_config(cls, member: MemberConfig, run: TrainConfig) -> "WordleTask":
        """As a training run asks for it."""
        options: WordleOptions = member.task_options
        return cls(load_words(options.words), options.constrain)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], folder: Path | None = None) -> "WordleTask":
        """As a checkpoint describes it."""
        answers, others = tuple(settings["answers"]), tuple(settings["other_guesses"])
        words = WordList(settings["words"], answers, answers + others)
        if words.digest != settings["digest"]:
            raise ValueError("the words are not those that the checkpoint was made with")
        return cls(words, settings["constrain"])

    def summary(self) -> str:
        """For cards."""
        return (
            f"Wordle: find a hidden five-letter word within {MAX_GUESSES} guesses. Each guess is"
            " answered with a colour for every letter: green at its place, yellow elsewhere in the"
            " word, black not in it. The score is minus the number of wrong guesses, 0 at best and"
            f" -{MAX_GUESSES} for a word that was not found. The list {self.words.name!r} has"
            f" {len(self.words.answers):,} answers and {len(self.words.guesses):,} allowed guesses."
        )

    def settings(self) -> dict[str, Any]:
        """The list itself, so that a checkpoint plays on where the file is not."""
        answers = self.words.answers
        return {
            "words": self.words.name,
            "digest": self.words.digest,
            "answers": list(answers),
            "other_guesses": list(self.words.guesses[len(answers) :]),
            "constrain": self.constrain,
        }

    def data_settings(self) -> dict[str, Any]:
        """Games of another list teach words that this one lacks."""
        return {"words": self.words.name, "digest": self.words.digest}

    def default_dataset(self, episodes: int, seed: int) -> Dataset:
        """Games of the simulated crowd on this list."""
        name = f"wordle-{self.words.digest}-{episodes}-seed{seed}"
        return cached_dataset(name, lambda folder: self.collect(episodes, seed, folder))

    def collect(
        self, episodes: int, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Let the simulated crowd play this many games into a new dataset folder."""
        sizes = chunk_sizes(episodes)
        make = partial(_crowd_chunk, self, sizes, seed)
        origin = {"episodes": episodes, "seed": seed}
        return collect(make, len(sizes), folder, self, origin, workers)

    def check_collecting(self, options: WordleCollect) -> None:
        """Refuse a file that is not there."""
        if options.tweets and not Path(options.tweets).is_file():
            raise UserError(f"--tweets {options.tweets}: there is no such file")

    def collect_as(
        self,
        options: WordleCollect,
        episodes: int,
        seed: int,
        folder: Path,
        workers: int | None = None,
    ) -> tuple[Dataset, str]:
        """The crowd's games, or those that people shared."""
        if not options.tweets:
            return super().collect_as(options, episodes, seed, folder, workers)
        return self.collect_tweets(Path(options.tweets), seed, folder, workers), TWEETS_HOW

    def collect_tweets(
        self, path: Path, seed: int, folder: Path, workers: int | None = None
    ) -> Dataset:
        """Read the games that people shared into a new dataset folder, and say what was skipped."""
        games, summary = read_tweets(path, self.words, seed)
        print(summary.describe())
        if not len(games):
            raise UserError(f"no usable game in {str(path)!r}")
        sizes = chunk_sizes(len(games))
        borders = np.cumsum([0, *sizes])
        make = partial(_games_chunk, self, games, borders)
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        origin = {"tweets": content, "games": len(games), "seed": seed}
        return collect(make, len(sizes), folder, self, origin, workers)

    def describe_data(self, returns: Mapping[str, NDArray[np.float32]]) -> str:
        """How many guesses the games took, beside people's games."""
        wrong = -np.concatenate(list(returns.values())).astype(np.int64)
        shares = np.bincount(wrong, minlength=MAX_GUESSES + 1) / len(wrong)
        distance = np.abs(shares - HUMAN_HISTOGRAM).sum() / 2
        names = [str(n) for n in range(1, MAX_GUESSES + 1)] + ["lost"]
        bars = "  ".join(f"{name}: {share:.1%}" for name, share in zip(names, shares, strict=True))
        return f"guesses needed  {bars}\ntotal variation distance to people's games: {distance:.3f}"

    def episodes(self, games: Games) -> Iterator[Episode]:
        """Finished games as episodes."""
        actions = self.actions(self.words.guess_letters) + self.language.first_action
        patterns = games.patterns(self.words)
        clues = self.clues(self.words.guess_letters[games.guesses], patterns.clip(0)).tolist()
        spelled = [tuple(word) for word in actions.tolist()]
        for answer, guesses, classes, seen, who in zip(
            games.answers.tolist(),
            games.guesses.tolist(),
            patterns.tolist(),
            clues,
            games.behaviour.tolist(),
            strict=True,
        ):
            steps = [
                Step(spelled[guess], 0.0 if guess == answer else -1.0, tuple(clue), pattern)
                for guess, pattern, clue in zip(guesses, classes, seen, strict=True)
                if guess != NO_GUESS
            ]
            yield Episode((BEGIN_ID,), tuple(steps), True, False, games.behaviours[who])

    def actions(self, letters: NDArray[np.integer]) -> NDArray[np.int64]:
        """Words (..., 5) as action numbers."""
        return letters.astype(np.int64) + _first_at_place(len(LETTERS))

    def clues(
        self, letters: NDArray[np.integer], patterns: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """Guessed words (..., 5) and their patterns (...) as the tokens seen, (..., 5)."""
        colours = colours_of(patterns).astype(np.int64)
        at_place = _first_at_place(len(LETTERS) * len(COLOURS))
        first = self.language.first_observation
        return first + at_place + letters.astype(np.int64) * len(COLOURS) + colours

    def make_envs(self, episodes: int) -> WordleVectorEnv:
        """Games side by side."""
        return WordleVectorEnv(num_envs=episodes, words=self.words)

    def reset_options(self, first: int, episodes: int, of: int) -> dict[str, Any]:
        """The answers one after the other: as many games as answers play every answer once."""
        answers = len(self.words.answers)
        if of % answers == 0:
            return {"answers": np.arange(first, first + episodes) % answers}
        order = np.random.default_rng(of).permutation(answers)
        return {"answers": order[np.arange(first, first + episodes) % answers]}

    def prompt(self, episodes: int) -> NDArray[np.int64]:
        """Nothing is known before the first guess."""
        return np.full((episodes, 1), BEGIN_ID, dtype=np.int64)

    def to_env_actions(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Letters 0..25."""
        return actions % len(LETTERS)

    def observe(self, actions: NDArray[np.int64], infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The coloured letters."""
        return self.clues(actions % len(LETTERS), infos["pattern"])

    def observation_class(self, infos: Mapping[str, Any]) -> NDArray[np.int64]:
        """The colour pattern."""
        return np.asarray(infos["pattern"], dtype=np.int64)

    def full_evaluation(self) -> int:
        """Episodes that play every answer once."""
        return len(self.words.answers)

    def references(self, seed: int) -> dict[str, Reference]:
        """What others score on this list."""
        return references(self.words, seed)

    def metrics(
        self, scores: NDArray[np.float64], infos: Sequence[Mapping[str, NDArray[np.generic]]]
    ) -> dict[str, Any]:
        """How the games went, besides their scores."""
        steps = {name: np.concatenate([info[name] for info in infos]) for name in self.step_infos}
        won = np.array([bool(info["won"][-1]) for info in infos])
        turns = np.array([len(info["won"]) for info in infos])
        histogram = {str(n): int((won & (turns == n)).sum()) for n in range(1, MAX_GUESSES + 1)}
        games = [(info["guess"].tolist(), info["pattern"].tolist()) for info in infos]
        return {
            "win_rate": float(won.mean()),
            "histogram": {**histogram, "lost": int((~won).sum())},
            "invalid_rate": float(1 - steps["valid"].mean()),
            "repeated_rate": float(steps["repeated"].mean()),
            "clue_violating_rate": float(1 - steps["clue_consistent"].mean()),
            "regret_by_guess": regret_by_guess(self.words, games),
        }

    def describe(self, metrics: Mapping[str, Any]) -> str:
        """The same for people."""
        bars = "  ".join(f"{name}: {count}" for name, count in metrics["histogram"].items())
        lines = [
            f"won {metrics['win_rate']:.1%}; guesses needed  {bars}",
            f"guesses: {metrics['invalid_rate']:.1%} not in the list,"
            f" {metrics['repeated_rate']:.1%} repeated,"
            f" {metrics['clue_violating_rate']:.1%} against a clue",
        ]
        if metrics.get("regret_by_guess"):  # a report of an earlier version has none
            lost = enumerate(metrics["regret_by_guess"], start=1)
            each = "  ".join(f"{turn}: {regret:.3f}" for turn, regret in lost)
            lines.append(f"lost against perfect play, by guess  {each}")
        return "\n".join(lines)


def _first_at_place(per_place: int) -> NDArray[np.int64]:
    return np.arange(WORD_LENGTH, dtype=np.int64) * per_place


def _crowd_chunk(task: WordleTask, sizes: list[int], seed: int, chunk: int) -> Iterator[Episode]:
    return task.episodes(simulate_chunk(task.words, chunk, sizes[chunk], seed))


def _games_chunk(
    task: WordleTask, games: Games, borders: NDArray[np.int64], chunk: int
) -> Iterator[Episode]:
    place = np.arange(len(games))
    return task.episodes(games.select((place >= borders[chunk]) & (place < borders[chunk + 1])))
