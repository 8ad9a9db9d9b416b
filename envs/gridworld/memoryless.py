"""The best policy that cannot remember: it sees the cell, not which switch was tripped.

What such a policy (cells, actions) scores is a polynomial of its probabilities, with gradients as
exact and as cheap as the score. The search climbs from several starts and keeps the best policy
found, chancy or not. That is a lower bound on the best one: finding that for sure is hard.
"""

import numpy as np
from numpy.typing import NDArray

from envs.gridworld.layout import ACTIONS, MODES
from envs.gridworld.rules import NOTHING, Rules
from envs.gridworld.solve import evaluate, step_forward

STARTS = 3
CLIMBING_STEPS = 80
MAX_STATE_VISITS = 1_000_000
"""Bounds the work on large maps: states times gradients taken, per start."""

Policy = NDArray[np.float64]


def best_memoryless(rules: Rules, seed: int = 0, starts: int = STARTS) -> Policy:
    """The best policy found, (cells, actions); deterministic in the seed."""
    rng = np.random.default_rng(seed)
    steps = int(np.clip(MAX_STATE_VISITS // rules.states, 10, CLIMBING_STEPS))
    found = []
    for _ in range(starts):
        start = rng.dirichlet(np.ones(len(ACTIONS)), rules.layout.cells)
        chancy = climb(rules, start, steps)
        found += [chancy, climb_corners(rules, chancy.argmax(axis=1), steps)]
    return max(found, key=lambda policy: evaluate(rules, policy).score)


def score_and_gradient(rules: Rules, policy: Policy) -> tuple[float, Policy]:
    """The expected return of a policy and its derivatives, both (cells, actions).

    The derivative by the chance of an action in a cell is the chance to be there times the value
    of the action, summed over modes and steps.
    """
    table = np.tile(policy, (len(MODES), 1))
    going_on = rules.outcome == NOTHING
    presence = np.zeros((rules.horizon, rules.states))
    presence[0, rules.start] = 1
    for step in range(rules.horizon - 1):
        presence[step + 1] = step_forward(rules, presence[step], table) * going_on
    values = rules.reward
    gradient = np.zeros_like(table)
    for step in reversed(range(rules.horizon)):
        action_values = rules.action_values(values)
        gradient += presence[step, :, None] * action_values
        values = np.where(going_on, (table * action_values).sum(axis=1), rules.reward)
    by_cell = gradient.reshape(len(MODES), *policy.shape).sum(axis=0)
    return float(values[rules.start]), by_cell


def climb(rules: Rules, policy: Policy, steps: int) -> Policy:
    """Ascent among policies of any probabilities.

    Multiplying the probabilities by their derivatives never lowers a polynomial without negative
    coefficients (Baum and Eagon). Powers of the derivatives go further at the risk of too far, so
    the power grows while that works and shrinks when it does not.
    """
    score, gradient = score_and_gradient(rules, policy)
    power = 1.0
    for _ in range(steps):
        largest = gradient.max(axis=1, keepdims=True)
        factors = np.divide(gradient, largest, out=np.ones_like(gradient), where=largest > 0)
        trial = policy * factors**power
        trial /= trial.sum(axis=1, keepdims=True)
        trial_score, trial_gradient = score_and_gradient(rules, trial)
        if trial_score < score:
            power = max(power / 4, 1.0) if power > 1 else power / 4
            continue
        policy, score, gradient = trial, trial_score, trial_gradient
        power *= 1.5
    return policy


def climb_corners(rules: Rules, actions: NDArray[np.int64], steps: int) -> Policy:
    """Ascent among policies that never draw: change the action of one cell at a time.

    actions: (cells,). The derivatives tell which changes to try, the most promising first.
    """
    corners = np.eye(len(ACTIONS))
    score, gradient = score_and_gradient(rules, corners[actions])
    for _ in range(steps):
        gains = gradient - gradient[np.arange(len(actions)), actions][:, None]
        order = np.argsort(-gains, axis=None, kind="stable")
        for change in order[: min(20, int((gains > 1e-12).sum()))].tolist():
            cell, action = divmod(change, len(ACTIONS))
            trial = actions.copy()
            trial[cell] = action
            trial_score, trial_gradient = score_and_gradient(rules, corners[trial])
            if trial_score > score:
                actions, score, gradient = trial, trial_score, trial_gradient
                break
        else:
            break
    return corners[actions]
