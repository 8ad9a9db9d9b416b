"""The things of the game and what can be asked about them: read from world.txt, and checked."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORLD = Path(__file__).parent / "world.txt"
MOST_QUESTIONS = 2_000
"""Guesses included: the table of answers has a column for each thing."""
QUESTION_WORDS = 5
"""Tokens of every question, its mark included. Games are played side by side, word by word: with
questions of one length none has to wait for another."""


@dataclass(frozen=True)
class World:
    """Things, and questions of which each is answered with yes or no for every thing.

    facts: (questions asked of kinds, things) True where the answer is yes.
    """

    things: tuple[str, ...]
    kinds: tuple[str, ...]
    """Questions about what the thing is like, such as `is it an animal ?`; words and the mark are
    separated by blanks."""
    facts: NDArray[np.bool_]

    @classmethod
    def make(cls, things: Sequence[str], yes: Mapping[str, Sequence[str]]) -> "World":
        """The world of these things; yes: by question, the things to which the answer is yes."""
        if len(things) + len(yes) > MOST_QUESTIONS:
            raise ValueError(f"more than {MOST_QUESTIONS:,} things and questions about them")
        number = {thing: i for i, thing in enumerate(things)}
        facts = np.zeros((len(yes), len(things)), dtype=bool)
        for row, (question, named) in zip(facts, yes.items(), strict=True):
            for thing in named:
                if thing not in number:
                    raise ValueError(f"{question!r} names {thing!r}, which is none of the things")
                if row[number[thing]]:
                    raise ValueError(f"{question!r} names {thing!r} twice")
                row[number[thing]] = True
        world = cls(tuple(things), tuple(yes), facts)
        world._check()
        return world

    @classmethod
    def parse(cls, text: str) -> "World":
        """The world that lines of `things: ...` and `question: things` describe."""
        things: list[str] = []
        yes: dict[str, list[str]] = {}
        for line in text.splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            what, colon, named = line.partition(":")
            if not colon or what in yes:
                raise ValueError(f"a line needs a new question and a colon: {line!r}")
            if what == "things":
                things += named.split()
            else:
                yes[what] = named.split()
        return cls.make(things, yes)

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """All that can be asked: the kinds, then the guesses, in the order of the things."""
        return self.kinds + tuple(f"is it {with_article(thing)} ?" for thing in self.things)

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        """(questions, things) True where the answer is yes."""
        return np.concatenate([self.facts, np.eye(len(self.things), dtype=bool)])

    @cached_property
    def yes(self) -> dict[str, list[str]]:
        """By kind, the things to which the answer is yes: what `make` takes."""
        return {
            question: [self.things[i] for i in np.flatnonzero(row)]
            for question, row in zip(self.kinds, self.facts, strict=True)
        }

    @cached_property
    def digest(self) -> str:
        """Names the world by its content: for caches, and to tell checkpoints' worlds apart."""
        lines = [" ".join(self.things), *(f"{q}: {' '.join(t)}" for q, t in self.yes.items())]
        return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()[:16]

    def guess_of(self, thing: int) -> int:
        """The question that names this thing."""
        return len(self.kinds) + thing

    def _check(self) -> None:
        if len(set(self.things)) != len(self.things) or len(self.things) < 2:
            raise ValueError("a world needs two things or more, none of them twice")
        if len(set(self.questions)) != len(self.questions):
            raise ValueError("a question about kinds asks what a guess asks")
        for question in self.questions:
            if len(question.split()) != QUESTION_WORDS or not question.endswith(" ?"):
                raise ValueError(f"{question!r} is not {QUESTION_WORDS - 1} words and ' ?'")
        for question, row in zip(self.kinds, self.facts, strict=True):
            if row.all() or not row.any():
                raise ValueError(f"{question!r} tells no two things apart")
        known: dict[bytes, str] = {}
        for thing, column in zip(self.things, self.facts.T, strict=True):
            other = known.setdefault(column.tobytes(), thing)
            if other != thing:
                raise ValueError(f"no question tells {thing!r} from {other!r}")


def with_article(thing: str) -> str:
    """A cat, an apple."""
    return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing}"


@cache
def load_world() -> World:
    """The world that comes along."""
    return World.parse(WORLD.read_text(encoding="utf-8"))
