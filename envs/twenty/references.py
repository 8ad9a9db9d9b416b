"""What the reference players score in a world: the yardstick beside every result."""

import numpy as np

from textrl.envs.twenty.crowd import simulate_chunk
from textrl.envs.twenty.optimal import optimal_play, wasted_turns
from textrl.envs.twenty.players import halving_tree, random_score
from textrl.envs.twenty.things import World
from textrl.tasks.task import Reference

SIMULATED_GAMES = 10_000


def references(world: World, seed: int = 0) -> dict[str, Reference]:
    """Expected scores over uniformly drawn things, by player; the seed matters to the crowd."""
    crowd = simulate_chunk(world, 0, SIMULATED_GAMES, seed).scores(world)
    halving = wasted_turns(halving_tree(world), world.table)
    return {
        "random": Reference(random_score(world), 0.0, "exact"),
        "crowd": Reference(
            float(crowd.mean()),
            float(crowd.std(ddof=1) / np.sqrt(len(crowd))),
            f"{len(crowd):,} simulated games",
        ),
        "halving": Reference(-float(halving.mean()), 0.0, "exact"),
        "optimal": Reference(
            -optimal_play(world).cost / len(world.things), 0.0, "exact tree search"
        ),
    }
