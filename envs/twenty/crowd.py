"""A simulated crowd that plays Twenty Questions, from novices to experts.

What a player does depends only on the answers heard so far, never on the hidden thing: nobody
peeks. Players have habits. Many begin with `is it an animal ?`, as people do, although another
question splits the world better; some questions come to everyone's mind sooner than others, and on
top of that everyone has favourites. Novices ask what comes to mind, even what they could know
already, forget answers and ask again, and guess too early; the better a player, the more questions
are compared before one is asked. These figures are a model of people, chosen before any agent was
trained and not fitted to anything.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from textrl.envs.twenty.game import MAX_TURNS, answer, is_named, score, still_possible
from textrl.envs.twenty.things import World

CHUNK_GAMES = 2048
NO_QUESTION = -1
FAMILIARITY_SPREAD = 1.0
"""Standard deviation of the log of how readily a question or a thing comes to anyone's mind; each
one's place in the spread is drawn from a hash of its words."""
FAVOUR_SPREAD = 1.0
"""The same, of what one player likes more than others do; drawn anew for every player."""
OPENER = "is it an animal ?"

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Skill:
    """How one class of players plays."""

    name: str
    share: float
    """Of all games."""
    habit: float
    """Chance to begin with OPENER."""
    attention: float
    """Chance to take an answer in; what is not taken in is as if it had never been asked."""
    sense: float
    """Chance, each turn, to think before asking: only of questions with an answer still open."""
    compared: int
    """Questions thought of before one is asked: the one that splits the possible things best."""
    names_at: int
    """With so many possible things or fewer left, one of them is named."""
    impatience: float
    """Chance, each turn, to name one of more."""


SKILLS = (
    Skill("novice", 0.30, 0.5, 0.75, 0.4, 1, 5, 0.12),
    Skill("casual", 0.30, 0.4, 0.88, 0.8, 2, 4, 0.05),
    Skill("careful", 0.25, 0.3, 0.97, 1.0, 3, 2, 0.01),
    Skill("expert", 0.15, 0.2, 1.00, 1.0, 6, 3, 0.00),
)
BEHAVIOURS = tuple(skill.name for skill in SKILLS)


@dataclass(frozen=True)
class Games:
    """Finished games.

    hidden: (games,) the things. questions: (games, 20) what was asked, NO_QUESTION after the end.
    skill: (games,) who played, an index into BEHAVIOURS.
    """

    hidden: Numbers
    questions: Numbers
    skill: Numbers

    def __len__(self) -> int:
        return len(self.hidden)

    def won(self, world: World) -> NDArray[np.bool_]:
        """(games,) whether the thing was named."""
        return np.asarray((self.questions == len(world.kinds) + self.hidden[:, None]).any(axis=1))

    def scores(self, world: World) -> Numbers:
        """(games,) minus the number of questions that did not name the thing."""
        return score((self.questions != NO_QUESTION).sum(axis=1), self.won(world))


def chunk_sizes(games: int) -> list[int]:
    """How a crowd's games are cut: CHUNK_GAMES each, the last what remains."""
    return [min(CHUNK_GAMES, games - start) for start in range(0, max(1, games), CHUNK_GAMES)]


def simulate_chunk(world: World, chunk: int, size: int, seed: int) -> Games:
    """One chunk of a crowd's games; chunks need nothing of each other and can run in parallel."""
    rng = np.random.default_rng([seed, chunk])
    hidden = rng.integers(len(world.things), size=size)
    skill = rng.choice(len(SKILLS), size=size, p=[each.share for each in SKILLS])
    return play(world, hidden, skill, rng)


def play(world: World, hidden: Numbers, skill: Numbers, rng: Generator) -> Games:
    """Let players of these skills, (games,), look for these things, (games,)."""
    games, kinds = len(hidden), len(world.kinds)
    question_liking, thing_liking = (
        common + FAVOUR_SPREAD * rng.standard_normal((games, len(common)))
        for common in _familiarity(world)
    )
    questions = np.full((games, MAX_TURNS), NO_QUESTION)
    possible = np.ones((games, len(world.things)), dtype=bool)  # as far as the player knows
    recalled = np.zeros((games, kinds), dtype=bool)  # asked, and the answer was taken in
    playing = np.arange(games)
    for turn in range(MAX_TURNS):
        skills, now = skill[playing], possible[playing]
        asked = _ask(
            world, question_liking[playing], now, recalled[playing], skills, turn == 0, rng
        )
        named = kinds + _draw(thing_liking[playing], now, rng)
        names = now.sum(axis=1) <= _of("names_at")[skills]
        names |= rng.random(len(playing)) < _of("impatience")[skills]
        chosen = np.where(names | (asked == NO_QUESTION), named, asked)
        questions[playing, turn] = chosen

        said = answer(world, chosen, hidden[playing])
        takes_in = rng.random(len(playing)) < _of("attention")[skills]
        now[takes_in] = still_possible(world, now[takes_in], chosen[takes_in], said[takes_in])
        possible[playing] = now
        about_kinds = takes_in & (chosen < kinds)
        recalled[playing[about_kinds], chosen[about_kinds]] = True
        playing = playing[~is_named(world, chosen, hidden[playing])]
    return Games(hidden, questions, skill)


def _ask(
    world: World,
    liking: NDArray[np.float64],
    possible: NDArray[np.bool_],
    recalled: NDArray[np.bool_],
    skills: Numbers,
    is_first: bool,
    rng: Generator,
) -> Numbers:
    """(games,) a question about kinds for each player; NO_QUESTION where none comes to mind."""
    count = possible.sum(axis=1, keepdims=True)
    yes = possible.astype(np.float32) @ world.facts.T.astype(np.float32)
    smaller_part = np.minimum(yes, count - yes)
    thinks = rng.random(len(skills)) < _of("sense")[skills]
    comes_to_mind = ~recalled & ((smaller_part > 0) | ~thinks[:, None])
    best = np.full(len(skills), NO_QUESTION)
    best_part = np.full(len(skills), -1.0)
    for number in range(int(_of("compared").max())):
        thought = _draw(liking, comes_to_mind, rng)
        part = smaller_part[np.arange(len(skills)), thought]
        better = (part > best_part) & (number < _of("compared")[skills])
        better &= comes_to_mind.any(axis=1)
        best, best_part = np.where(better, thought, best), np.where(better, part, best_part)
    if is_first and OPENER in world.kinds:
        from_habit = rng.random(len(skills)) < _of("habit")[skills]
        best = np.where(from_habit, world.kinds.index(OPENER), best)
    return best


def _draw(liking: NDArray[np.float64], allowed: NDArray[np.bool_], rng: Generator) -> Numbers:
    """(games,) one of the allowed, (games, n), with odds of the exponential of the liking."""
    # The largest of values with Gumbel noise has the odds of a softmax.
    noisy = np.where(allowed, liking + rng.gumbel(size=liking.shape), -np.inf)
    return np.asarray(noisy.argmax(axis=1))


def _of(name: str) -> NDArray[np.float64]:
    """(skills,) one figure of all of SKILLS."""
    return np.array([getattr(skill, name) for skill in SKILLS])


@lru_cache(maxsize=4)
def _familiar(words: tuple[str, ...]) -> NDArray[np.float64]:
    digests = [hashlib.sha256(each.encode("utf-8")).digest() for each in words]
    uniform = [(int.from_bytes(digest[:4], "big") + 0.5) / 2**32 for digest in digests]
    normal = NormalDist(sigma=FAMILIARITY_SPREAD)
    return np.array([normal.inv_cdf(place) for place in uniform])


def _familiarity(world: World) -> Sequence[NDArray[np.float64]]:
    """The log of how readily each question about kinds, and each thing, comes to mind."""
    return _familiar(world.kinds), _familiar(world.things)
