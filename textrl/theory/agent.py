"""How many different histories a trained agent tells apart: clusters of its representations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import NDArray

from textrl.data.batches import collate, read_rows
from textrl.data.language import Language
from textrl.model.network import TextRLModel
from textrl.theory.aggregate import cover_points

EPISODES_AT_ONCE = 64


@torch.no_grad()
def history_representations(
    model: TextRLModel, rows: Dataset, language: Language, count: int
) -> tuple[NDArray[np.float64], list[bytes]]:
    """phi (n, width) of the first `count` different histories before an action, and the histories.

    A history is the bytes of its token ids, 8 to a token. Fewer than count if the data have fewer.
    """
    found: dict[bytes, NDArray[np.float64]] = {}
    for start in range(0, len(rows), EPISODES_AT_ONCE):
        picks = np.arange(start, min(start + EPISODES_AT_ONCE, len(rows)))
        batch = collate(read_rows(rows, picks), np.arange(len(picks)), language)
        phi = model(batch.tokens, batch.state_positions).representation.double().numpy()
        tokens, positions = batch.tokens.numpy(), batch.state_positions.numpy()
        for row, column in np.argwhere(batch.is_action.numpy()):
            history = tokens[row, : positions[row, column] + 1].tobytes()
            found.setdefault(history, phi[row, column])
            if len(found) == count:
                return np.array(list(found.values())), list(found)
    return np.array(list(found.values())), list(found)


def spread(points: NDArray[np.float64]) -> float:
    """Root mean square distance to the mean, as training reports it."""
    return float(np.sqrt(np.square(points - points.mean(axis=0)).sum(axis=1).mean()))


def agent_clusters(
    points: NDArray[np.float64],
    histories: Sequence[bytes],
    shares: Sequence[float],
    sizes: Sequence[int],
    seeds: int,
) -> dict[str, Any]:
    """Clusters of `sizes` histories drawn at random, at epsilon = each share of the spread.

    Two histories of a cluster are within epsilon of each other (Euclidean). Means over the draws.
    """
    whole = spread(points)
    counts = np.zeros((seeds, len(shares), len(sizes)))
    last_tokens = np.zeros((seeds, len(sizes)))
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(points))
        for column, size in enumerate(sizes):
            chosen = points[order[:size]]
            last_tokens[seed, column] = len({histories[i][-8:] for i in order[:size]})
            for row, share in enumerate(shares):
                counts[seed, row, column] = cover_points(chosen, share * whole / 2).max() + 1
    return {
        "spread": whole,
        "histories": list(sizes),
        "last_tokens": last_tokens.mean(axis=0).tolist(),
        "draws": seeds,
        "clusters": [
            {
                "epsilon_of_spread": share,
                "mean": counts[:, row].mean(axis=0).tolist(),
                "least": counts[:, row].min(axis=0).tolist(),
                "most": counts[:, row].max(axis=0).tolist(),
            }
            for row, share in enumerate(shares)
        ],
    }
