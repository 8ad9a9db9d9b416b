"""The best policy that cannot remember: it sees the cell, not which switch was tripped.

What such a policy (cells, actions) scores is a polynomial of its probabilities, with gradients as
exact and as cheap as the score. The search climbs from several starts and keeps the best policy
found, chancy or not. That is a lower bound on the best one, not proven to be it; on large maps,
where fewer gradients are affordable, a looser one.
"""

import numpy as np
from numpy.typing import NDArray

from textrl.envs.gridworld.layout import ACTIONS, MODES
from textrl.envs.gridworld.rules import NOTHING, Rules
from textrl.envs.gridworld.solve import evaluate, optimal_plan, step_forward

MAX_STARTS, FINALISTS = 24, 3
MAX_GRADIENTS = 100
"""Of each climb of a finalist; a fifth of it decides who is one."""
STATE_BUDGET = 300_000
"""Gradients times states that one climb may cost; where it binds there is only one start."""

Policy = NDArray[np.float64]


def best_memoryless(rules: Rules, seed: int = 0) -> Policy:
    """The best policy found, (cells, actions); deterministic in the seed.

    Hills differ, so many starts climb a little and the highest of them go on to the top.
    """
    rng = np.random.default_rng(seed)
    affordable = STATE_BUDGET // rules.states
    gradients = int(np.clip(affordable, 10, MAX_GRADIENTS))
    starts = [_informed_start(rules)]
    if affordable >= MAX_GRADIENTS:
        shape = (MAX_STARTS - 1, rules.layout.cells)
        starts += list(rng.dirichlet(np.ones(len(ACTIONS)), shape))
    begun = [climb(rules, start, gradients // 5) for start in starts]
    begun.sort(key=lambda policy: evaluate(rules, policy).score)
    found = []
    for policy in begun[-FINALISTS:]:
        chancy = climb(rules, policy, gradients)
        found += [chancy, climb_corners(rules, chancy.argmax(axis=1), gradients)]
    return max(found, key=lambda policy: evaluate(rules, policy).score)


def _informed_start(rules: Rules) -> Policy:
    """What knowing the mode would have it do, over all modes, and a little of everything else."""
    return np.asarray(0.8 * optimal_plan(rules).policy[0].mean(axis=0) + 0.2 / len(ACTIONS))


def score_and_gradient(rules: Rules, policy: Policy) -> tuple[float, Policy]:
    """The expected return of a policy and its derivatives, both (cells, actions).

    The derivative by the chance of an action in a cell is the chance to be there times the value
    of the action, summed over modes and steps.
    """
    travel = np.tile(policy @ rules.travel_chances, (len(MODES), 1))
    going_on = rules.outcome == NOTHING
    presence = np.zeros((rules.horizon, rules.states))
    presence[0, rules.start] = 1
    for step in range(rules.horizon - 1):
        presence[step + 1] = step_forward(rules, presence[step], travel) * going_on
    values = rules.reward
    by_direction = np.zeros_like(travel)
    for step in reversed(range(rules.horizon)):
        ahead = values[rules.next_state]
        by_direction += presence[step, :, None] * ahead
        values = np.where(going_on, (travel * ahead).sum(axis=1), rules.reward)
    by_cell = by_direction.reshape(len(MODES), *policy.shape).sum(axis=0)
    return float(values[rules.start]), by_cell @ rules.travel_chances.T


def climb(rules: Rules, policy: Policy, gradients: int) -> Policy:
    """Ascent among policies of any probabilities.

    Multiplying the probabilities by their derivatives never lowers a polynomial without negative
    coefficients (Baum and Eagon). Powers of the derivatives go further at the risk of too far, so
    the power grows while that works and shrinks when it does not.
    """
    score, gradient = score_and_gradient(rules, policy)
    power = 1.0
    for _ in range(gradients):
        largest = np.where(policy > 0, gradient, 0).max(axis=1, keepdims=True)
        relative = np.divide(gradient, largest, out=np.ones_like(gradient), where=largest > 0)
        # Where the policy never goes, the derivative may be larger than any in use.
        trial = policy * np.minimum(relative, 1) ** power
        trial /= trial.sum(axis=1, keepdims=True)
        trial_score, trial_gradient = score_and_gradient(rules, trial)
        if trial_score < score:
            power = max(power / 4, 1.0) if power > 1 else power / 4
            continue
        policy, score, gradient = trial, trial_score, trial_gradient
        power *= 1.5
    return policy


def climb_corners(rules: Rules, actions: NDArray[np.int64], gradients: int) -> Policy:
    """Ascent among policies that never draw: change the action of one cell at a time.

    actions: (cells,). The derivatives tell which changes to try, the most promising first.
    """
    corners = np.eye(len(ACTIONS))
    score, gradient = score_and_gradient(rules, corners[actions])
    untried = _promising(actions, gradient)
    for _ in range(gradients):
        if not untried:
            break
        cell, action = untried.pop()
        trial = actions.copy()
        trial[cell] = action
        trial_score, trial_gradient = score_and_gradient(rules, corners[trial])
        if trial_score > score:
            actions, score = trial, trial_score
            untried = _promising(actions, trial_gradient)
    return corners[actions]


def _promising(actions: NDArray[np.int64], gradient: Policy) -> list[tuple[int, int]]:
    """The changes (cell, action) that the derivatives speak for, the best last."""
    gains = (gradient - np.take_along_axis(gradient, actions[:, None], axis=1)).ravel()
    places = np.flatnonzero(gains > 1e-12)
    best_last = places[np.argsort(gains[places], kind="stable")]
    return [divmod(place, len(ACTIONS)) for place in best_last.tolist()]
