"""Reference players: random and halving."""

import numpy as np

from textrl.envs.twenty.game import MAX_TURNS
from textrl.envs.twenty.optimal import Decision
from textrl.envs.twenty.things import World


def random_score(world: World) -> float:
    """The exact expected score of asking any question each time, whatever was answered."""
    wasted = 1 - 1 / len(world.questions)
    return -sum(wasted**turn for turn in range(1, MAX_TURNS + 1))


def halving_tree(world: World) -> Decision:
    """Always the question that splits the possible things most evenly.

    Of equal questions a guess goes first, which may win at once, then the first of the world.
    """

    def decide(possible: np.ndarray, turns: int) -> Decision | None:
        if not len(possible) or not turns:
            return None
        yes = world.table[:, possible].sum(axis=1)
        preference = 2 * np.minimum(yes, len(possible) - yes)
        preference[len(world.kinds) + possible] += 1
        question = int(preference.argmax())
        is_yes = world.table[question, possible]
        is_guess = question >= len(world.kinds)
        return Decision(
            question,
            decide(possible[~is_yes], turns - 1),
            None if is_guess else decide(possible[is_yes], turns - 1),
        )

    tree = decide(np.arange(len(world.things)), MAX_TURNS)
    assert tree is not None
    return tree
