"""A finished game, guess by guess: what each one lost, how lucky it was, what the model thought."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.game import ALL_GREEN, MAX_GUESSES, encode_words, score
from textrl.envs.wordle.optimal import SEARCH_LIMIT, Search, SearchLimitReached
from textrl.envs.wordle.play.duel import Duel, Rows, fitting
from textrl.envs.wordle.play.explain import about_its_guess, about_your_guess
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.regret import Regret, regret_by_partitions, regret_of
from textrl.envs.wordle.words import WordList
from textrl.errors import UserError

MOST_SETS = 20_000  # that a search remembers before it begins anew, a few kilobytes each


@dataclass(frozen=True)
class Judged:
    """One guess."""

    word: str
    before: int
    """How many words were possible."""
    after: int
    is_right: bool
    expected: float
    """How many were to be expected after it, over the words possible before."""
    luck: float | None
    """The share of those words that would have left more, ties counting half; None: no chance."""
    lost: float | None
    """Guesses that it cost against the best word; None where that is not known."""
    best: str | None
    sentence: str


@dataclass(frozen=True)
class Analysis:
    """Both boards of a game."""

    yours: tuple[Judged, ...]
    models: tuple[Judged, ...]
    method: str
    """How what is lost was found: "exact", "partitions", or "" for not at all."""


def analyse(duel: Duel, opponent: Opponent) -> Analysis:
    """Judge every guess of a finished game."""
    if not duel.is_over:
        raise UserError("a game is analysed when it is over")
    boards = [duel.yours[: turn + 1] for turn in range(len(duel.yours))]
    advice = opponent.advise(boards)
    yours = [
        about_your_guess(row.word, q, its) for row, (its, q) in zip(duel.yours, advice, strict=True)
    ]
    models = [about_its_guess(row.guess) for row in duel.models]
    method = method_for(duel)
    return Analysis(
        judge_board(duel, duel.yours, yours, method),
        judge_board(duel, duel.models, models, method),
        method,
    )


def method_for(duel: Duel) -> str:
    """How what a guess loses can be found in this game."""
    guesses, answers = len(duel.words.guesses), len(duel.words.answers)
    if duel.mode == "stump" and guesses != answers:
        return ""  # the hidden word need not be an answer, and all guesses are too many to weigh
    return "exact" if guesses * guesses * answers <= SEARCH_LIMIT else "partitions"


def judge_board(
    duel: Duel, rows: Rows, sentences: Sequence[str], method: str
) -> tuple[Judged, ...]:
    """Judge the guesses of one board."""
    words, judged = duel.words, []
    for turn, (row, sentence) in enumerate(zip(rows, sentences, strict=True)):
        possible = fitting(duel, rows[:turn])
        patterns = score(encode_words([row.word])[0], words.guess_letters)
        seen = patterns[possible]
        sizes = np.bincount(seen, minlength=ALL_GREEN + 1)
        left = sizes[seen].astype(np.float64)
        outcomes = np.where(seen == ALL_GREEN, 0, left)  # to be right is better than to know it
        actual = 0 if row.pattern == ALL_GREEN else row.left
        has_luck = len(np.unique(outcomes)) > 1
        luck = float((outcomes > actual).mean() + (outcomes == actual).mean() / 2)
        answers = patterns[: len(words.answers)]
        regret = regret_in(words, answers, possible, MAX_GUESSES - turn, method)
        judged.append(
            Judged(
                row.word,
                len(possible),
                row.left,
                row.pattern == ALL_GREEN,
                float(left.mean()),
                luck if has_luck else None,
                None if regret is None else regret.lost,
                None if regret is None else words.guesses[regret.best],
                sentence,
            )
        )
    return tuple(judged)


def regret_in(
    words: WordList,
    patterns: NDArray[np.uint8],
    possible: NDArray[np.intp],
    guesses_left: int,
    method: str,
) -> Regret | None:
    """What a guess with these patterns (answers,) loses; None where it would take too long."""
    if not method:
        return None
    if method == "partitions":
        return regret_by_partitions(words.table, patterns, possible, guesses_left)
    search = _search(words)
    if len(search.solved) + len(search.lower_bounds) > MOST_SETS:
        _search.cache_clear()
        search = _search(words)
    search.cells_seen = 0  # the limit is for one guess, not for all that were ever judged
    try:
        return regret_of(search, patterns, possible, guesses_left)
    except SearchLimitReached:
        return None


@lru_cache(maxsize=1)
def _search(words: WordList) -> Search:
    """Remembers what it has solved: games have most of their beginnings in common."""
    return Search(words.table)


def summary(analysis: Analysis, who: str, judged: Sequence[Judged]) -> str:
    """A board in one sentence."""
    lost = [each.lost for each in judged if each.lost is not None]
    lucks = [each.luck for each in judged if each.luck is not None]
    told = []
    if lost:
        against = "perfect play" if analysis.method == "exact" else "the best splits"
        told.append(f"lost {max(0.0, sum(lost)):.2f} guesses against {against}")
    if lucks:
        told.append(f"had luck {100 * sum(lucks) / len(lucks):.0f} of 100")
    return f"{who} {' and '.join(told)}." if told else ""


def how_it_was_judged(method: str) -> str:
    """What the figures are, for people."""
    lost = {
        "exact": "Lost: guesses more than perfect play would need from there, by exact search.",
        "partitions": "Lost: an estimate by partitions, since the list is too long for an exact"
        " search: how many fewer groups of words the guess could tell apart than the best one.",
        "": "What guesses lost is not known here: any of the words it knows could be yours.",
    }[method]
    return f"{lost} Luck: 50 is average; more means that the colours left fewer words than usual."
