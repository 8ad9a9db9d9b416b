"""What other players score on a map: the yardstick beside every result."""

from functools import cache

import numpy as np

from textrl.envs.gridworld.behaviour import behaviour_policies
from textrl.envs.gridworld.memoryless import best_memoryless
from textrl.envs.gridworld.rules import Rules
from textrl.envs.gridworld.solve import evaluate, optimal_plan
from textrl.tasks.task import Reference


@cache
def references(rules: Rules) -> dict[str, Reference]:
    """Expected scores by player, none of them simulated.

    The policies of the data; the data, which hold as many episodes of each; the best player found
    that sees the cell but remembers nothing; the best that knows which goal is live, which the
    cells seen so far always tell.
    """
    scores = {
        name: evaluate(rules, policy).score for name, policy in behaviour_policies(rules).items()
    }
    scores["data"] = float(np.mean(list(scores.values())))
    scores["memoryless"] = evaluate(rules, best_memoryless(rules)).score
    scores["optimal"] = optimal_plan(rules).score
    how = {"memoryless": "exact; best policy found", "optimal": "exact dynamic programming"}
    return {name: Reference(score, 0.0, how.get(name, "exact")) for name, score in scores.items()}
