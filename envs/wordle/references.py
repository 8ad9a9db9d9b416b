"""What the reference players score on a list: the yardstick beside every result."""

import numpy as np

from envs.wordle.decisions import wrong_guesses
from envs.wordle.optimal import optimal_play
from envs.wordle.players import greedy_tree, play_clue_consistent, random_score
from envs.wordle.words import WordList
from textrl.task import Reference

SIMULATED_GAMES = 50_000


def references(words: WordList, seed: int = 0) -> dict[str, Reference]:
    """Expected scores over uniformly drawn answers, by player; `optimal` only where it is known.

    The seed matters to `clue_consistent` alone, which plays every answer equally often.
    """
    answers = len(words.answers)
    rounds = -(-SIMULATED_GAMES // answers)
    scores = play_clue_consistent(
        words, np.tile(np.arange(answers), rounds), np.random.default_rng(seed)
    )
    greedy = wrong_guesses(greedy_tree(words), words.table)
    found = {
        "random": Reference(random_score(words), 0.0, "exact"),
        "clue_consistent": Reference(
            float(scores.mean()),
            float(scores.std(ddof=1) / np.sqrt(len(scores))),
            f"{len(scores):,} simulated games",
        ),
        "greedy": Reference(-float(greedy.mean()), 0.0, "exact"),
    }
    optimal = optimal_play(words)
    if optimal is not None:
        found["optimal"] = Reference(-optimal.cost / answers, 0.0, "exact tree search")
    return found
