"""The shared operations, against numbers by hand and loops."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from textrl.algorithms.cql import CQLOptions
from textrl.algorithms.ilql import ILQLOptions
from textrl.losses.bc import bc_loss
from textrl.losses.cql import cql_loss
from textrl.losses.ilql import ilql_loss
from textrl.losses.ops import (
    at_end_of_action,
    lambda_returns,
    legal_only,
    masked_mean,
    next_states,
    of_actions,
)


def doubles(values: list[Any]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_masked_mean_divides_by_the_count_it_is_given() -> None:
    values = doubles([[1.0, 2.0], [4.0, 100.0]])
    counts = torch.tensor([[True, True], [True, False]])
    assert masked_mean(values, counts, total=3).item() == pytest.approx(7 / 3)
    assert masked_mean(values, counts, total=14).item() == pytest.approx(0.5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_masked_mean_stops_what_is_not_finite(bad: float) -> None:
    values = doubles([[1.0, bad]]).requires_grad_()
    mean = masked_mean(values, torch.tensor([[True, False]]), total=1)
    mean.backward()
    assert mean.item() == 1.0
    assert values.grad.tolist() == [[1.0, 0.0]]


def test_of_actions_takes_each_states_own_entry() -> None:
    values = torch.arange(12.0).reshape(2, 2, 3)
    actions = torch.tensor([[2, 0], [1, 1]])
    assert of_actions(values, actions).tolist() == [[2.0, 3.0], [7.0, 10.0]]
    twins = torch.stack([values, -values])
    assert of_actions(twins, actions).tolist() == [
        [[2.0, 3.0], [7.0, 10.0]],
        [[-2.0, -3.0], [-7.0, -10.0]],
    ]


def test_legal_only_leaves_nothing_else() -> None:
    values = legal_only(doubles([[1.0, 2.0, 3.0]]), torch.tensor([[True, False, True]]))
    assert values.tolist() == [[1.0, float("-inf"), 3.0]]
    assert values.softmax(-1)[0, 1] == 0.0


def test_next_states_shifts_by_one() -> None:
    # With the history's end as a third state, then without one: a zero stands there.
    assert next_states(doubles([[5.0, 6.0, 7.0]]), actions=2).tolist() == [[6.0, 7.0]]
    assert next_states(doubles([[5.0, 6.0]]), actions=2).tolist() == [[6.0, 0.0]]


def test_values_at_the_end_of_each_action() -> None:
    # Two actions of two tokens; one of three and one that was cut after its first; one token.
    values = doubles([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 0.0, 0.0, 0.0]])
    ends = torch.tensor([[0, 1, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0]]).bool()
    is_action = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    found = at_end_of_action(values, ends, is_action)
    assert found.tolist() == [[2, 2, 4, 4], [7, 7, 7, 8], [9, 0, 0, 0]]


def by_hand(mix: float) -> list[list[float]]:
    """Terminated after three actions, then cut after two, with discount 0.5."""
    return lambda_returns(
        rewards=doubles([[1.0, 2.0, 4.0], [1.0, 2.0, 0.0]]),
        next_values=doubles([[10.0, 20.0, 30.0], [10.0, 20.0, 30.0]]),
        has_next=torch.tensor([[True, True, False], [True, True, False]]),
        mix=doubles([[mix, mix, 0.0], [mix, 0.0, 0.0]]),
        discount=0.5,
    ).tolist()


def test_lambda_returns_by_hand() -> None:
    # One step: r + 0.5 V; all the way: 1 + 0.5 (2 + 0.5 * 4), and 2 + 0.5 * 20 from the cut.
    assert by_hand(0.0) == [[6.0, 12.0, 4.0], [6.0, 12.0, 0.0]]
    assert by_hand(1.0) == [[3.0, 4.0, 4.0], [7.0, 12.0, 0.0]]
    # Half and half: 2 + 0.5 (10 + 2) = 8, 1 + 0.5 (5 + 4) = 5.5; 1 + 0.5 (5 + 6) = 6.5.
    assert by_hand(0.5) == [[5.5, 8.0, 4.0], [6.5, 12.0, 0.0]]


def test_lambda_returns_of_windows_are_those_of_the_whole_episode() -> None:
    rewards = doubles([[1.0, 2.0, 4.0, 8.0]])
    values = doubles([[10.0, 20.0, 30.0, 0.0]])
    going_on = torch.tensor([[True, True, True, False]])
    all_the_way = doubles([[1.0, 1.0, 1.0, 0.0]])
    whole = lambda_returns(rewards, values, going_on, all_the_way, discount=0.5)
    first = lambda_returns(
        rewards[:, :2],
        values[:, :2],
        going_on[:, :2],
        all_the_way[:, :2],
        discount=0.5,
        return_after=doubles([[0.0, 4.0 + 0.5 * 8.0]]),
    )
    assert first.tolist() == whole[:, :2].tolist()
    half = lambda_returns(
        rewards[:, :2],
        values[:, :2],
        going_on[:, :2],
        doubles([[0.5, 0.5]]),
        discount=0.5,
        return_after=doubles([[0.0, 8.0]]),
    )
    # 2 + 0.5 (0.5 * 20 + 0.5 * 8) = 9, 1 + 0.5 (0.5 * 10 + 0.5 * 9) = 5.75.
    assert half.tolist() == [[5.75, 9.0]]


@pytest.mark.parametrize("mixes", [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3), (0.95, 0.2), (1.0, 0.0)])
def test_lambda_returns_against_a_backward_loop(
    random_case: Any, mixes: tuple[float, float]
) -> None:
    for seed in range(5):
        case = random_case(seed)
        batch, v = case.batch, case.outputs.v
        mix = torch.where(batch.ends_action, *doubles(list(mixes)))
        is_last = batch.is_action & (batch.is_action.cumsum(1) == batch.is_action.sum(1)[:, None])
        actual = lambda_returns(
            batch.rewards,
            next_states(v, 5),
            batch.has_next,
            torch.where(is_last, 0.0, mix),
            discount=0.9,
        )
        for episode, count in enumerate([3, 1, 5, 2]):
            was_cut = bool(batch.has_next[episode, count - 1])
            after = float(v[episode, count]) if was_cut else 0.0
            for k in reversed(range(count)):
                goal = float(batch.rewards[episode, k]) + 0.9 * after
                assert actual[episode, k].item() == pytest.approx(goal, abs=1e-6)
                before = mixes[0] if batch.ends_action[episode, k - 1] else mixes[1]
                after = (1 - before) * float(v[episode, k]) + before * goal


def test_lambda_returns_keep_the_losses_precision() -> None:
    single = torch.tensor([[1.0]])
    returns = lambda_returns(single, single, single > 0, torch.zeros(1, 1), discount=0.99)
    assert returns.dtype == torch.float32
    assert returns.item() == pytest.approx(1.99)


@pytest.mark.parametrize(
    "loss",
    [
        bc_loss,
        lambda outputs, batch: cql_loss(outputs, batch, CQLOptions(conservatism=0.1)),
        lambda outputs, batch: ilql_loss(outputs, batch, ILQLOptions()),
    ],
)
def test_no_grammar_is_one_that_allows_everything(random_case: Any, loss: Any) -> None:
    case = random_case(3)
    everything = replace(case.batch, legal=torch.ones_like(case.batch.legal))
    anything = replace(case.batch, legal=None)
    masked, free = (vars(loss(case.outputs, batch)) for batch in (everything, anything))
    assert all(torch.equal(masked[name], free[name]) for name in masked)
    assert not torch.equal(vars(loss(case.outputs, case.batch))["total"], free["total"])
