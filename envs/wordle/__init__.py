"""Wordle: the game, its environments, a simulated crowd, reference players, a game for people."""

from dataclasses import dataclass

from textrl.config.options import option
from textrl.tasks.entry import Activity, TaskEntry


@dataclass(frozen=True)
class WordleOptions:
    """What a run may set of the game."""

    words: str = option("paper", "word list: paper (236 answers), full, or a file")
    constrain: bool = option(True, "let the policy spell only words of the list")


@dataclass(frozen=True)
class WordleCollect:
    """Where the games come from."""

    tweets: str = option("", "read games that people shared on Twitter from this CSV instead")


@dataclass(frozen=True)
class WordlePlay:
    """Where to play against an agent."""

    web: bool = option(False, "play in the browser instead of this terminal")
    host: str = option("127.0.0.1", "web: address to listen on; 0.0.0.0 lets anyone connect")
    port: int = option(7860, "web: port to listen on")
    space: str = option("", "write a folder that is a Hugging Face Space")


TASK = TaskEntry(
    name="wordle",
    title="find a hidden word in six guesses",
    task="textrl.envs.wordle.task:WordleTask",
    options=WordleOptions,
    collect_options=WordleCollect,
    playing=Activity(WordlePlay, "textrl.envs.wordle.play.start:start"),
)
