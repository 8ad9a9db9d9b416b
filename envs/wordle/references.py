"""What the reference players score on a list: the yardstick beside every result."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from textrl.envs.wordle.best_known import best_known
from textrl.envs.wordle.crowd import chunk_sizes, simulate_chunk
from textrl.envs.wordle.decisions import wrong_guesses
from textrl.envs.wordle.games import NO_GUESS
from textrl.envs.wordle.optimal import optimal_play
from textrl.envs.wordle.players import partition_tree, play_clue_consistent, random_score
from textrl.envs.wordle.words import WordList
from textrl.tasks.task import Reference

SIMULATED_GAMES = 50_000
CROWD_GAMES, CROWD_SEED = 20_000, 1_000_003


def references(words: WordList, seed: int = 0) -> dict[str, Reference]:
    """Expected scores over uniformly drawn answers, by player.

    `optimal` only where it is known; on the full list `best_known`, a tree that comes with textrl.

    The seed matters to `clue_consistent` alone, which plays every answer equally often. `crowd` is
    who made the default data; `partitions` always guesses what splits the possible answers into
    most parts.
    """
    answers = len(words.answers)
    rounds = -(-SIMULATED_GAMES // answers)
    scores = play_clue_consistent(
        words, np.tile(np.arange(answers), rounds), np.random.default_rng(seed)
    )
    partitions = wrong_guesses(partition_tree(words), words.table)
    crowd = crowd_scores(words)
    found = {
        "random": Reference(random_score(words), 0.0, "exact"),
        "clue_consistent": Reference(
            float(scores.mean()),
            float(scores.std(ddof=1) / np.sqrt(len(scores))),
            f"{len(scores):,} simulated games",
        ),
        "crowd": Reference(
            float(crowd.mean()),
            float(crowd.std(ddof=1) / np.sqrt(len(crowd))),
            f"{len(crowd):,} games as in the data",
        ),
        "partitions": Reference(-float(partitions.mean()), 0.0, "exact"),
    }
    optimal, known = optimal_play(words), best_known(words)
    if optimal is not None:
        found["optimal"] = Reference(-optimal.cost / answers, 0.0, "exact tree search")
    elif known is not None:
        how = f"best tree found; none is above {-known.bound / answers:.3f}"
        found["best_known"] = Reference(-known.cost / answers, 0.0, how)
    return found


@lru_cache
def crowd_scores(words: WordList) -> NDArray[np.float64]:
    """Scores of the simulated crowd, in games that no default dataset begins with."""
    sizes = chunk_sizes(CROWD_GAMES)
    chunks = [simulate_chunk(words, n, size, CROWD_SEED) for n, size in enumerate(sizes)]
    wrong = [
        (games.guesses != NO_GUESS).sum(axis=1) - (games.guesses == games.answers[:, None]).any(1)
        for games in chunks
    ]
    return -np.concatenate(wrong).astype(np.float64)
