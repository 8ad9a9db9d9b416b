"""POMDPs whose histories grow exponentially with the horizon while what matters stays small.

All pay once, at the last step, so that every value is between 0 and 1.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from textrl.theory.pomdp import POMDP


def switch(
    horizon: int, noise: int = 2, slip: float = 0.2, pays: tuple[float, float] = (1.0, 0.6)
) -> POMDP:
    """The first action trips one of two switches, the other one by mistake with chance `slip`.

    The second observation shows which; all others are noise (one of `noise` at random). The last
    action pays with the switch's chance if it names the switch. What matters: which switch is on.
    """
    if horizon < 2 or noise < 2:
        raise ValueError("the switch needs a horizon and noise of at least 2")
    start, shown, past = 0, (1, 2), (3, 4)
    transition = np.zeros((5, 2, 5))
    emission = np.zeros((5, noise))
    reward = np.zeros((horizon, 5, 2))
    emission[start, 0] = 1
    for action in (0, 1):
        transition[start, action, shown[action]] = 1 - slip
        transition[start, action, shown[1 - action]] = slip
    for which in (0, 1):
        transition[shown[which], :, past[which]] = transition[past[which], :, past[which]] = 1
        emission[shown[which], which] = 1
        emission[past[which]] = 1 / noise
        reward[-1, (shown[which], past[which]), which] = pays[which]
    return POMDP(np.eye(5)[start], transition, emission, reward)


def listening(horizon: int, accuracy: float = 0.8, pays: tuple[float, float] = (1.0, 1.0)) -> POMDP:
    """One of two modes is hidden. Action 0 listens: the next observation is right with `accuracy`.

    Action 1 does not: it is noise. The last action pays with the mode's chance if it names it.
    What matters: how much more often the one mode was heard than the other.
    """
    if horizon < 2:
        raise ValueError("listening needs a horizon of at least 2")
    deaf, alert = (0, 1), (2, 3)  # hidden states by mode
    transition = np.zeros((4, 2, 4))
    emission = np.zeros((4, 2))
    reward = np.zeros((horizon, 4, 2))
    for mode in (0, 1):
        for state in (deaf[mode], alert[mode]):
            transition[state, 0, alert[mode]] = transition[state, 1, deaf[mode]] = 1
            reward[-1, state, mode] = pays[mode]
        emission[deaf[mode]] = 0.5
        emission[alert[mode], mode], emission[alert[mode], 1 - mode] = accuracy, 1 - accuracy
    return POMDP(np.array([0.5, 0.5, 0, 0]), transition, emission, reward)


def bet(horizon: int, parity: bool = False) -> POMDP:
    """The first observation names an action. Who takes it bets, who takes the other plays safe.

    At the last step, action 0 pays for sure after the bet, and action 1 nothing; what is safe pays
    half, whatever is done. With parity, the bet pays if action 1 was taken an even number of times
    after it. Either way, over actions taken at random, betting and playing safe come to the same.
    """
    if horizon < 2:
        raise ValueError("a bet needs a horizon of at least 2")
    shown, safe, even, odd = (0, 1), 2, 3, 4
    transition = np.zeros((5, 2, 5))
    emission = np.full((5, 2), 0.5)
    reward = np.zeros((horizon, 5, 2))
    for named in shown:
        transition[named, named, even] = transition[named, 1 - named, safe] = 1
        emission[named] = np.eye(2)[named]
    transition[safe, :, safe] = 1
    for before, other in ((even, odd), (odd, even)):
        transition[before, 0, before] = transition[before, 1, other if parity else before] = 1
    reward[-1, safe] = 0.5
    reward[-1, even, 0] = reward[-1, odd, 1] = 1
    return POMDP(np.array([0.5, 0.5, 0, 0, 0]), transition, emission, reward)


def random_pomdp(
    random: np.random.Generator,
    horizon: int = 3,
    states: int = 3,
    actions: int = 2,
    observations: int = 2,
) -> POMDP:
    """Every chance and every mean reward drawn at random."""
    return POMDP(
        random.dirichlet(np.ones(states)),
        random.dirichlet(np.ones(states), size=(states, actions)),
        random.dirichlet(np.ones(observations), size=states),
        random.random((horizon, states, actions)),
    )


FAMILIES: dict[str, Callable[[int], POMDP]] = {"switch": switch, "listening": listening}
"""Name -> the POMDP of a horizon."""
BETS: dict[str, Callable[[int], POMDP]] = {"bet": bet, "parity bet": partial(bet, parity=True)}
"""Families made for tests to fail on: what an action is worth hangs on later ones."""
