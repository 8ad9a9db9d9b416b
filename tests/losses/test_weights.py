"""An episode of weight 2 counts as if it were there twice, in every loss and part of a step."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from textrl.algorithms.cql import CQLOptions
from textrl.algorithms.ilql import ILQLOptions
from textrl.bisimulation.loss import BisimulationWeights, bisimulation_loss
from textrl.bisimulation.pairs import draw_pairs
from textrl.data.batches import Batch
from textrl.losses.bc import bc_loss
from textrl.losses.cql import cql_loss
from textrl.losses.ilql import ilql_loss
from textrl.losses.outputs import TextRLOutput

CQL = CQLOptions(conservatism=0.1, return_lambda=0.5)
ILQL = ILQLOptions(action_lambda=0.5)
WHOLE = replace(ILQL, whole_actions=True)
LOSSES: dict[str, Callable[[TextRLOutput, Batch], Any]] = {
    "bc": bc_loss,
    "cql": lambda outputs, batch: cql_loss(outputs, batch, CQL),
    "ilql": lambda outputs, batch: ilql_loss(outputs, batch, ILQL),
    "ilql of whole actions": lambda outputs, batch: ilql_loss(outputs, batch, WHOLE),
}


def weighted(batch: Batch, weight: list[float]) -> Batch:
    """With the counts that belong to these weights."""
    numbers = torch.tensor(weight, dtype=torch.float64)
    return replace(
        batch,
        weight=numbers,
        action_count=float(numbers @ batch.is_action.sum(1).double()),
        completed_count=float(numbers @ batch.ends_action.sum(1).double()),
    )


@pytest.mark.parametrize("name", LOSSES)
def test_a_weight_is_a_number_of_times(random_case: Callable[..., Any], name: str) -> None:
    case, loss = random_case(3), LOSSES[name]
    ours = loss(case.outputs, weighted(case.batch, [1, 2, 1, 3]))
    often = case.pick([0, 1, 1, 2, 3, 3, 3])
    theirs = loss(often.outputs, weighted(often.batch, [1] * 7))
    plain = loss(case.outputs, case.batch)
    for field in fields(ours):
        values = [getattr(terms, field.name) for terms in (ours, theirs, plain)]
        torch.testing.assert_close(values[0], values[1], rtol=1e-9, atol=1e-9)
    assert abs(float(ours.total - plain.total)) > 1e-3


@pytest.mark.parametrize("name", LOSSES)
def test_weighted_parts_add_up(random_case: Callable[..., Any], name: str) -> None:
    case, loss = random_case(4), LOSSES[name]
    batch = weighted(case.batch, [0.5, 2, 1, 3])
    whole = loss(case.outputs, batch)
    parts = []
    for episodes in ([0, 2], [1, 3]):
        part = case.pick(episodes)
        assert batch.weight is not None
        counted = replace(
            part.batch, weight=batch.weight[episodes], action_count=batch.action_count
        )
        parts.append(loss(part.outputs, counted))
    for field in fields(whole):
        added = sum(getattr(part, field.name) for part in parts)
        torch.testing.assert_close(getattr(whole, field.name), added, rtol=1e-9, atol=1e-9)


def test_the_models_of_the_bisimulation_loss(random_case: Callable[..., Any]) -> None:
    batch = weighted(random_case(11).batch, [1, 2, 0.5, 3])
    pairs = draw_pairs(batch, (0,))
    assert len(pairs.partner) == int(batch.ends_action.sum())  # nobody is alone in a group
    n, (episodes, states) = len(pairs.partner), batch.state_positions.shape
    torch.manual_seed(0)
    predicted = torch.randn(n, dtype=torch.float64)
    outputs = TextRLOutput(
        representation=torch.randn(episodes, states, 3, dtype=torch.float64),
        target_representation=torch.randn(episodes, states, 3, dtype=torch.float64),
        predicted_reward=predicted,
        predicted_dynamics=torch.randn(n, 6, dtype=torch.float64),
        imagined_reward=torch.randn(n, dtype=torch.float64),
        imagined_dynamics=torch.randn(n, 6, dtype=torch.float64),
    )
    _, terms = bisimulation_loss(outputs, batch, pairs, 0, BisimulationWeights(weight=1.0))
    assert batch.weight is not None
    weight = batch.weight[pairs.episode]
    errors = (predicted - batch.rewards[pairs.episode, pairs.state]).square()
    torch.testing.assert_close(terms.model_reward, (weight * errors).sum() / weight.sum())
    same = replace(batch, weight=None, completed_count=int(batch.ends_action.sum()))
    tripled = weighted(batch, [3.0] * 4)
    _, plain = bisimulation_loss(outputs, same, pairs, 0, BisimulationWeights(weight=1.0))
    _, scaled = bisimulation_loss(outputs, tripled, pairs, 0, BisimulationWeights(weight=1.0))
    for field in fields(plain):
        values = (getattr(plain, field.name), getattr(scaled, field.name))
        torch.testing.assert_close(*values, rtol=1e-9, atol=1e-9)
