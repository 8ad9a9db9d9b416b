"""The rules of Twenty Questions, for many games at once.

Someone thinks of a thing. Each turn the player asks one question, which is answered with yes or no;
naming the thing is a question too, and the yes to it wins. A game ends with that, or is lost after
MAX_TURNS questions.
"""

import numpy as np
from numpy.typing import NDArray

from textrl.envs.twenty.things import World

MAX_TURNS = 20
ANSWERS = ("no", "yes")

Numbers = NDArray[np.int64]


def answer(world: World, questions: Numbers, hidden: Numbers) -> NDArray[np.bool_]:
    """(games,) whether the answer to each question is yes."""
    return np.asarray(world.table[questions, hidden])


def is_named(world: World, questions: Numbers, hidden: Numbers) -> NDArray[np.bool_]:
    """(games,) whether the question names the hidden thing."""
    return np.asarray(questions == len(world.kinds) + hidden)


def still_possible(
    world: World, possible: NDArray[np.bool_], questions: Numbers, answers: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(games, things) which of the possible things agree with the answers to these questions."""
    return np.asarray(possible & (world.table[questions] == answers[:, None]))


def score(turns: NDArray[np.integer], won: NDArray[np.bool_]) -> Numbers:
    """Minus one for every question that did not name the thing."""
    return np.asarray(won - turns.astype(np.int64))
