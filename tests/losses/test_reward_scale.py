"""The scale of rewards inside the losses: other units, the same learning."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from textrl.algorithms.cql import CQLOptions
from textrl.algorithms.ilql import ILQLOptions
from textrl.losses.cql import cql_loss
from textrl.losses.ilql import ilql_loss
from textrl.losses.outputs import TextRLOutput

SCALE = 7.0


@pytest.mark.parametrize(
    ("loss", "options"),
    [(cql_loss, CQLOptions(conservatism=0.3)), (ilql_loss, ILQLOptions(conservatism=0.3))],
)
def test_rewards_in_other_units_give_the_same_loss(
    random_case: Callable[..., Any], loss: Any, options: Any
) -> None:
    case = random_case(0)
    plain = loss(case.outputs, case.batch, options)
    outputs = TextRLOutput(
        policy=case.outputs.policy,
        q=SCALE * case.outputs.q,
        target_q=SCALE * case.outputs.target_q,
        v=SCALE * case.outputs.v,
    )
    batch = replace(case.batch, rewards=SCALE * case.batch.rewards)
    scaled = loss(outputs, batch, replace(options, reward_scale=SCALE))
    for name in ("total", "q", "conservative"):
        torch.testing.assert_close(getattr(scaled, name), getattr(plain, name))
    torch.testing.assert_close(scaled.mean_q, SCALE * plain.mean_q)  # in the data's units


def test_without_the_scale_it_is_another_loss(random_case: Callable[..., Any]) -> None:
    case = random_case(0)
    options = CQLOptions()
    plain = cql_loss(case.outputs, case.batch, options)
    scaled = cql_loss(case.outputs, case.batch, replace(options, reward_scale=SCALE))
    torch.testing.assert_close(scaled.q, plain.q / SCALE**2)
