"""Value iteration on (cell, live goal), counted from a study's data: who knows what to remember."""

import numpy as np

from textrl.envs.gridworld.behaviour import CHUNK_EPISODES, NO_STEP, chunk_sizes, walk_chunk
from textrl.envs.gridworld.layout import ACTIONS, MODES
from textrl.envs.gridworld.rules import NOTHING, Rules
from textrl.envs.gridworld.solve import evaluate

DISCOUNT = 0.99
SWEEPS = 300


def tabular_return(rules: Rules, episodes: int, seed: int, doubt: int = 0) -> float:
    """The exact return of the greedy policy; what the data do not show is taken to earn nothing.

    doubt: so many more times each action is taken to have been tried, and to have earned nothing.
    Without it, more episodes do not make the return rise steadily: where an action was tried
    thousands of times, a worse one that was tried twice, with luck, can still look better.
    """
    counts = np.zeros((rules.states, len(ACTIONS), rules.states))
    for chunk, size in enumerate(chunk_sizes(episodes)):
        walks = walk_chunk(rules, chunk, CHUNK_EPISODES, seed)
        state = np.full(size, rules.start)
        for step in range(rules.horizon):
            cell = walks.cells[:size, step + 1]
            goes_on = cell != NO_STEP
            entered = np.maximum(cell, 0)
            mode = rules.layout.next_mode[state // rules.layout.cells, entered]
            ahead = np.where(goes_on, mode * rules.layout.cells + entered, state)
            at = (state[goes_on], walks.actions[:size, step][goes_on], ahead[goes_on])
            np.add.at(counts, at, 1)
            state = ahead
    seen = counts.sum(axis=2, keepdims=True)
    odds = counts / np.maximum(seen + doubt, 1)
    over, values = rules.outcome != NOTHING, np.zeros(rules.states)
    for _ in range(SWEEPS):
        ahead_value = np.where(over, rules.reward, DISCOUNT * values)
        action_values = odds @ ahead_value
        values = action_values.max(axis=1)
    greedy = np.eye(len(ACTIONS))[action_values.argmax(axis=1)]
    return evaluate(rules, greedy.reshape(len(MODES), rules.layout.cells, len(ACTIONS))).score
