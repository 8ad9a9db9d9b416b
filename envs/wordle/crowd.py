"""A simulated crowd of human-like Wordle players of mixed skill.

What a player does depends only on the rows seen so far, never on the hidden answer: nobody peeks.
Offline RL needs that (the value of a guess is read off the games in which it was made), and it is
why the crowd wins in one or two guesses less often than people do, some of whom probably had heard
the answer: no opener can win 0.68 % of its games against 2,200 equally likely answers.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from textrl.envs.wordle.game import (
    ALL_GREEN,
    BLACK,
    GREEN,
    MAX_GUESSES,
    PATTERNS,
    Letters,
    colours_of,
    score,
)
from textrl.envs.wordle.games import NO_GUESS, Games, concatenate
from textrl.envs.wordle.words import WordList

HUMAN_HISTOGRAM = np.array([0.0068, 0.0623, 0.2289, 0.3181, 0.2338, 0.1214, 0.0287])
"""Shares won in 1..6 guesses, then lost, of 30,374,242 games that people shared on Twitter."""

CHUNK_GAMES = 2048
FAMILIARITY_SPREAD = 1.0
"""Standard deviation of the log of a word's familiarity.

How often people use a word is spread widely, about log-normally, and has nothing to do with how
much it tells as a guess. The lists carry no frequencies, so each word's place in the spread is
drawn from a hash of the word: it is as familiar to every player and in every list.
"""
RARE_OPENER_WEIGHT = 0.1
"""How much less a word appeals as an opener when it is not a common one (not an answer)."""
RARE_WORDS_RECALLED = 20
"""How many rare words cross the mind of a player who looks for one."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Skill:
    """How one class of players plays."""

    name: str
    share: float
    """Of all games."""
    attention: tuple[float, float, float]
    """Chances to take in a row fully, without its blacks, or for its greens only."""
    opener_taste: float
    """How strongly openers of frequent letters are preferred; 0: any word will do."""
    rare_words: float
    """Chance to look for a guess beyond the common words."""
    words_compared: int
    """Possible words thought of before a guess; the one that tells most words apart is played."""


SKILLS = (
    Skill("novice", 0.26, (0.25, 0.50, 0.25), 0.5, 0.08, 1),
    Skill("casual", 0.27, (0.65, 0.25, 0.10), 0.8, 0.08, 1),
    Skill("careful", 0.26, (1.00, 0.00, 0.00), 1.2, 0.04, 1),
    Skill("expert", 0.21, (1.00, 0.00, 0.00), 2.0, 0.00, 3),
)
BEHAVIOURS = tuple(skill.name for skill in SKILLS)
_ATTENTION_ODDS = np.cumsum([skill.attention for skill in SKILLS], axis=1)
_RARE_WORDS = np.array([skill.rare_words for skill in SKILLS])


@dataclass(frozen=True)
class Knowledge:
    """What every player of a word list knows."""

    letters: Letters
    """(guesses, 5) of all words; the common ones, that come to mind first, are the answers."""
    table: NDArray[np.uint8]
    """(guesses, answers) patterns"""
    familiarity: NDArray[np.float64]
    """(guesses,) how readily a word comes to mind, against the others"""
    opener_odds: NDArray[np.float64]
    """(skills, guesses) cumulative chances of the openers"""
    agrees: NDArray[np.bool_]
    """(clues, patterns): may the answer be a word against which the guess would give the pattern?

    A clue is a row as the player took it in: attention * PATTERNS + pattern.
    """


@dataclass(frozen=True)
class Thoughts:
    """The common words that players think possible, as pairs in ascending order of game."""

    game: Indices
    word: Indices


def simulate_crowd(words: WordList, games: int, seed: int) -> Games:
    """Games of the crowd against uniformly drawn answers, the same for the same arguments."""
    return concatenate(
        [simulate_chunk(words, chunk, size, seed) for chunk, size in enumerate(chunk_sizes(games))]
    )


def chunk_sizes(games: int) -> list[int]:
    """How simulate_crowd cuts its games into chunks: CHUNK_GAMES each, the last what remains."""
    return [min(CHUNK_GAMES, games - start) for start in range(0, max(1, games), CHUNK_GAMES)]


def simulate_chunk(words: WordList, chunk_index: int, chunk_size: int, seed: int) -> Games:
    """One chunk of a crowd's games; chunks need nothing of each other and can run in parallel.

    Those of sizes chunk_sizes(games), joined in order, are simulate_crowd(words, games, seed).
    """
    knowledge = _common_knowledge(words)
    rng = np.random.default_rng([seed, chunk_index])
    answers = rng.integers(len(words.answers), size=chunk_size, dtype=np.int32)
    skill = rng.choice(len(SKILLS), size=chunk_size, p=[each.share for each in SKILLS])
    guesses = np.full((chunk_size, MAX_GUESSES), NO_GUESS, dtype=np.int32)
    clues = np.zeros((chunk_size, MAX_GUESSES), dtype=np.int64)

    playing = np.arange(chunk_size)
    guesses[:, 0] = _draw_openers(knowledge, skill, rng)
    for turn in range(1, MAX_GUESSES):
        pattern = knowledge.table[guesses[playing, turn - 1], answers[playing]]
        playing, pattern = playing[pattern != ALL_GREEN], pattern[pattern != ALL_GREEN]
        # The fewer guesses are left, the closer people look and the less they gamble.
        calm = 1 - ((turn - 1) / (MAX_GUESSES - 2)) ** 2
        clues[playing, :turn] = _take_in(
            clues[playing, : turn - 1], pattern, skill[playing], calm, rng
        )
        if turn == 1:
            thoughts = _first_thoughts(knowledge, playing, guesses[:, 0], clues[:, 0])
        else:
            thoughts = _second_thoughts(
                knowledge, thoughts, playing, guesses[:, :turn], clues[:, :turn]
            )
        guesses[playing, turn] = _choose_common(knowledge, thoughts, playing, skill, rng)
        seekers = playing[rng.random(len(playing)) < calm * _RARE_WORDS[skill[playing]]]
        rare = _recall_rare(knowledge, guesses[seekers, :turn], clues[seekers, :turn], rng)
        guesses[seekers, turn] = np.where(rare == NO_GUESS, guesses[seekers, turn], rare)
    return Games(answers, guesses, skill.astype(np.uint8), BEHAVIOURS)


@lru_cache(maxsize=4)
def _common_knowledge(words: WordList) -> Knowledge:
    familiarity = _familiarity(words.guesses)
    return Knowledge(
        letters=words.guess_letters,
        table=words.table,
        familiarity=familiarity,
        opener_odds=_opener_odds(words.guess_letters, len(words.answers), familiarity),
        agrees=_agreement(),
    )


def _familiarity(words: Sequence[str]) -> NDArray[np.float64]:
    hashes = [hashlib.sha256(word.encode("ascii")).digest() for word in words]
    uniform = [(int.from_bytes(digest[:4], "big") + 0.5) / 2**32 for digest in hashes]
    normal = NormalDist(sigma=FAMILIARITY_SPREAD)
    return np.exp([normal.inv_cdf(place) for place in uniform])


def _opener_odds(
    letters: Letters, common: int, familiarity: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(skills, guesses) cumulative chances: liked are familiar words of frequent letters."""
    in_slot = letters[:, :, None] == np.arange(26)
    anywhere = in_slot.any(axis=1)
    appeal = anywhere @ anywhere[:common].mean(axis=0)
    appeal += np.tensordot(in_slot, in_slot[:common].mean(axis=0), axes=2)
    appeal = (appeal - appeal[:common].mean()) / max(appeal[:common].std(), 1e-9)
    taste = np.array([skill.opener_taste for skill in SKILLS])
    weights = familiarity * np.exp(taste[:, None] * appeal)
    weights[:, common:] *= RARE_OPENER_WEIGHT
    odds = weights.cumsum(axis=1)
    return np.asarray(odds / odds[:, -1:])


def _agreement() -> NDArray[np.bool_]:
    """Knowledge.agrees: full attention asks for the same row, less for the same in some slots."""
    colours = colours_of(np.arange(PATTERNS, dtype=np.uint8))
    row, other = colours[:, None], colours[None]
    same = row == other
    fully = same.all(axis=-1)
    without_blacks = (same | (row == BLACK)).all(axis=-1)
    greens_only = (same | (row != GREEN)).all(axis=-1)
    return np.concatenate([fully, without_blacks, greens_only])


def _draw_openers(knowledge: Knowledge, skill: Indices, rng: Generator) -> Indices:
    chance = rng.random(len(skill))
    openers = np.empty(len(skill), dtype=np.int64)
    for index, odds in enumerate(knowledge.opener_odds):
        openers[skill == index] = np.searchsorted(odds, chance[skill == index], side="right")
    return openers


def _take_in(
    clues: Indices, pattern: NDArray[np.uint8], skill: Indices, calm: float, rng: Generator
) -> Indices:
    """(games, rows) clues once a row of that pattern is there; the less calm, the more is reread.

    clues: (games, rows - 1) as taken in before; pattern, skill: (games,).
    """
    chance = rng.random(len(skill))
    attention = (chance[:, None] >= _ATTENTION_ODDS[skill, :-1]).sum(axis=1)
    clues = np.column_stack([clues, attention * PATTERNS + pattern])
    rereads = rng.random(clues.shape) >= calm
    return np.where(rereads, clues % PATTERNS, clues)


def _first_thoughts(
    knowledge: Knowledge, playing: Indices, guesses: NDArray[np.int32], clues: Indices
) -> Thoughts:
    """What is possible after the opener; guesses, clues: (games,), playing: those still on."""
    # Dense over all common words: faster than pairs as long as nothing has been ruled out.
    patterns = knowledge.table[guesses[playing]]
    position, word = np.nonzero(knowledge.agrees[clues[playing, None], patterns])
    return Thoughts(playing[position], word)


def _second_thoughts(
    knowledge: Knowledge,
    thoughts: Thoughts,
    playing: Indices,
    guesses: NDArray[np.int32],
    clues: Indices,
) -> Thoughts:
    """The thoughts that agree with all rows as now understood; guesses, clues: (games, rows)."""
    is_playing = np.zeros(len(guesses), dtype=bool)
    is_playing[playing] = True
    goes_on = is_playing[thoughts.game]
    game, word = thoughts.game[goes_on], thoughts.word[goes_on]
    # The last row first: it rules out most.
    for row in reversed(range(guesses.shape[1])):
        patterns = knowledge.table[guesses[game, row], word]
        agrees = knowledge.agrees[clues[game, row], patterns]
        game, word = game[agrees], word[agrees]
    return Thoughts(game, word)


def _choose_common(
    knowledge: Knowledge, thoughts: Thoughts, playing: Indices, skill: Indices, rng: Generator
) -> Indices:
    """One of the words thought possible for each game in play, the best of those compared."""
    counts = np.bincount(thoughts.game, minlength=len(skill))[playing]
    starts = np.cumsum(counts) - counts
    most_compared = max(each.words_compared for each in SKILLS)
    odds = np.concatenate([[0.0], np.cumsum(knowledge.familiarity[thoughts.word])])
    below, above = odds[starts], odds[starts + counts]
    draws = below + (above - below) * rng.random((most_compared, len(playing)))
    place = np.searchsorted(odds, draws.T, side="right") - 1
    options = thoughts.word[np.clip(place, starts[:, None], (starts + counts - 1)[:, None])]
    chosen: Indices = options[:, 0].copy()
    for index, each in enumerate(SKILLS):
        if each.words_compared > 1:
            those = skill[playing] == index
            compared = options[those, : each.words_compared]
            chosen[those] = _tells_most_apart(
                knowledge.table, thoughts.word, starts[those], counts[those], compared
            )
    return chosen


def _tells_most_apart(
    table: NDArray[np.uint8], words: Indices, starts: Indices, counts: Indices, options: Indices
) -> Indices:
    """Of each game's options, the one that splits the words thought possible into most parts.

    The words of game i are words[starts[i] : starts[i] + counts[i]]; options: (games, compared).
    """
    games = len(options)
    game = np.repeat(np.arange(games), counts)
    place = np.arange(len(game)) - np.repeat(np.cumsum(counts) - counts, counts)
    word = words[starts[game] + place]
    parts = np.empty(options.shape, dtype=np.int64)
    for column in range(options.shape[1]):
        occurs = np.zeros((games, PATTERNS), dtype=bool)
        occurs[game, table[options[game, column], word]] = True
        parts[:, column] = occurs.sum(axis=1)
    return np.asarray(options[np.arange(games), parts.argmax(axis=1)])


def _recall_rare(
    knowledge: Knowledge, guesses: NDArray[np.int32], clues: Indices, rng: Generator
) -> Indices:
    """A rare word that agrees with the clues (games, rows), NO_GUESS where none comes to mind."""
    words, common = knowledge.table.shape
    if words == common or len(guesses) == 0:
        return np.full(len(guesses), NO_GUESS)
    recalled = rng.integers(common, words, size=(len(guesses), RARE_WORDS_RECALLED))
    agrees = np.ones(recalled.shape, dtype=bool)
    for row in range(guesses.shape[1]):
        guess = knowledge.letters[guesses[:, row], None]
        patterns = score(guess, knowledge.letters[recalled])
        agrees &= knowledge.agrees[clues[:, row, None], patterns]
    first = recalled[np.arange(len(guesses)), agrees.argmax(axis=1)]
    return np.where(agrees.any(axis=1), first, NO_GUESS)
