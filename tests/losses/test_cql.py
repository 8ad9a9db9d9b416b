"""CQL, by hand, against loops, and what must not matter to it."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch

from textrl.algorithms.cql import CQLOptions
from textrl.data.batches import Batch
from textrl.losses.cql import cql_loss, double_q_values
from textrl.losses.outputs import TextRLOutput

WEIGHTS = CQLOptions(discount=0.9, conservatism=0.3, return_lambda=0.4, value_weight=0.6)


def total(outputs: TextRLOutput, batch: Batch) -> torch.Tensor:
    return cql_loss(outputs, batch, WEIGHTS).total


def two_actions(has_next: bool) -> tuple[TextRLOutput, Batch]:
    """One episode of two actions over three tokens: token 0 taken twice, rewards -1 and 2.

    The last token would be best of all, and is never legal.
    """
    outputs = TextRLOutput(
        q=torch.tensor([[[[1.0, 0.0, 9.0], [3.0, 5.0, 9.0], [2.0, 1.0, 9.0]]]]),
        target_q=torch.tensor([[[[7.0, 7.0, 8.0], [6.0, 4.0, 8.0], [-2.0, 3.0, 8.0]]]]),
    )
    batch = Batch(
        tokens=torch.zeros(1, 4, dtype=torch.int64),
        state_positions=torch.tensor([[0, 1, 3]]),
        legal=torch.tensor([[[True, True, False]] * 3]),
        actions=torch.tensor([[0, 0]]),
        rewards=torch.tensor([[-1.0, 2.0]]),
        observations=torch.full((1, 2), -1),
        ends_action=torch.tensor([[True, True]]),
        is_action=torch.tensor([[True, True]]),
        has_next=torch.tensor([[True, has_next]]),
        is_followed=torch.tensor([[True, False]]),
        return_after=torch.zeros(1, 2),
        left=torch.zeros(1, 1, dtype=torch.int64),
        action_count=2,
        completed_count=2,
    )
    return outputs, batch


def test_by_hand_terminated() -> None:
    terms = cql_loss(*two_actions(has_next=False), CQLOptions(discount=0.5, conservatism=0.1))
    # Online likes token 1 at the second state, where the target says 4: -1 + 0.5 * 4 = 1, then 2.
    assert terms.q.item() == pytest.approx(((1 - 1) ** 2 + (3 - 2) ** 2) / 2)
    gaps = [math.log(1 + math.exp(-1)), 2 + math.log(1 + math.exp(-2))]
    assert terms.conservative.item() == pytest.approx(sum(gaps) / 2)
    assert terms.total.item() == pytest.approx(0.5 + 0.1 * sum(gaps) / 2)
    assert terms.mean_q.item() == pytest.approx(2.0)
    assert terms.accuracy.item() == pytest.approx(0.5)


def test_by_hand_truncated() -> None:
    # At the history's end online likes token 0, where the target says -2: 2 + 0.5 * -2 = 1.
    terms = cql_loss(*two_actions(has_next=True), CQLOptions(discount=0.5))
    assert terms.q.item() == pytest.approx((0 + (3 - 1) ** 2) / 2)


def test_by_hand_looking_ahead() -> None:
    # To the end: 2 and -1 + 0.5 * 2 = 0 if it ended; 1 and -1 + 0.5 * 1 = -0.5 if it was cut.
    far = CQLOptions(discount=0.5, return_lambda=1.0)
    ended, cut = (cql_loss(*two_actions(has_next), far) for has_next in (False, True))
    assert ended.q.item() == pytest.approx((1**2 + 1**2) / 2)
    assert cut.q.item() == pytest.approx((1.5**2 + 2**2) / 2)
    # Half of it: -1 + 0.5 (0.5 * 4 + 0.5 * 2) = 0.5 at first.
    half = CQLOptions(discount=0.5, return_lambda=0.5)
    mixed = cql_loss(*two_actions(has_next=False), half)
    assert mixed.q.item() == pytest.approx((0.5**2 + 1**2) / 2)


def test_the_online_twin_chooses_and_its_own_target_says_the_value() -> None:
    q = torch.tensor([[[[1.0, 2.0, 5.0]]], [[[2.0, 1.0, 5.0]]]])
    target_q = torch.tensor([[[[10.0, 20.0, 50.0]]], [[[30.0, 40.0, 50.0]]]])
    legal = torch.tensor([[[True, True, False]]])
    assert double_q_values(q, target_q, legal).tolist() == [[[20.0]], [[30.0]]]


def reference(case: Any, weights: CQLOptions) -> dict[str, float]:
    """The same loss by plain loops."""
    batch = case.batch
    q, target_q = case.outputs.q.numpy(), case.outputs.target_q.numpy()
    legal = batch.legal.numpy()
    sums = dict.fromkeys(("q", "conservative", "mean_q", "accuracy"), 0.0)
    for episode in range(len(batch.actions)):
        count = int(batch.is_action[episode].sum())
        goals = [0.0] * len(q)
        for k in reversed(range(count)):
            taken = int(batch.actions[episode, k])
            allowed = np.flatnonzero(legal[episode, k])
            for twin in range(len(q)):
                after = 0.0
                if k < count - 1 or batch.has_next[episode, k]:
                    later = np.flatnonzero(legal[episode, k + 1])
                    best = later[q[twin, episode, k + 1, later].argmax()]
                    after = target_q[twin, episode, k + 1, best]
                if k < count - 1:
                    mix = weights.return_lambda
                    after = (1 - mix) * after + mix * goals[twin]
                goals[twin] = float(batch.rewards[episode, k]) + weights.discount * after
                mine = q[twin, episode, k]
                sums["q"] += (mine[taken] - goals[twin]) ** 2
                sums["conservative"] += np.log(np.exp(mine[allowed]).sum()) - mine[taken]
                sums["mean_q"] += mine[taken] / len(q)
            greedy = allowed[q[:, episode, k, allowed].min(axis=0).argmax()]
            sums["accuracy"] += greedy == taken
    means = {name: value / batch.action_count for name, value in sums.items()}
    conservative = weights.conservatism * means["conservative"]
    means["total"] = weights.value_weight * means["q"] + conservative
    return means


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("ahead", [0.0, 0.4, 1.0])
def test_against_loops(random_case: Any, heads: int, ahead: float) -> None:
    weights = replace(WEIGHTS, return_lambda=ahead)
    for seed in range(6):
        cut = (False, True, True, False) if seed % 2 else (False,) * 4
        case = random_case(seed, truncated=cut)
        out = case.outputs
        case = replace(case, outputs=TextRLOutput(q=out.q[:heads], target_q=out.target_q[:heads]))
        actual = asdict(cql_loss(case.outputs, case.batch, weights))
        expected = reference(case, weights)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name].item() == pytest.approx(value, abs=1e-6), name


def test_gradcheck(random_case: Any) -> None:
    case = random_case(1)

    def loss(q: torch.Tensor) -> torch.Tensor:
        return total(TextRLOutput(q=q, target_q=case.outputs.target_q), case.batch)

    assert torch.autograd.gradcheck(loss, (case.outputs.q.clone().requires_grad_(),))


def test_no_gradient_reaches_targets_or_bootstrap(random_case: Any) -> None:
    case = random_case(2, truncated=(True,) * 4)
    gradients = case.gradients(total)
    assert gradients["target_q"] is None
    assert gradients["policy"] is None and gradients["v"] is None
    # Column 5 is the end of the longest history: read as its value to come, never trained there.
    assert (gradients["q"][:, :, 5] == 0).all()
    assert gradients["q"].abs().sum() > 0


def test_padding_does_not_matter(random_case: Any) -> None:
    case = random_case(3)
    wide = case.padded(4)
    before, after = (asdict(cql_loss(c.outputs, c.batch, WEIGHTS)) for c in (case, wide))
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, msg=name)
    mine, extra = wide.gradients(total)["q"].split([6, 4], dim=2)
    torch.testing.assert_close(mine, case.gradients(total)["q"])
    assert (extra == 0).all()


def test_a_cut_episode_does_not_touch_the_others(random_case: Any) -> None:
    # Alone, the ended episodes need no state for the history's end; beside a cut one they get one.
    ended = random_case(4).pick([0, 3])
    out, batch = ended.outputs, ended.batch
    narrow = TextRLOutput(q=out.q[:, :, :5], target_q=out.target_q[:, :, :5])
    fewer = replace(batch, legal=batch.legal[:, :5])
    torch.testing.assert_close(total(narrow, fewer), total(out, batch))


def test_order_and_micro_batches_do_not_matter(random_case: Any) -> None:
    case = random_case(5)
    whole, gradient = cql_loss(case.outputs, case.batch, WEIGHTS), case.gradients(total)["q"]
    turned = case.pick([2, 0, 3, 1])
    torch.testing.assert_close(total(turned.outputs, turned.batch), whole.total)
    parts = [[0], [1, 3], [2]]
    cut = [case.pick(part) for part in parts]
    sums = [asdict(cql_loss(part.outputs, part.batch, WEIGHTS)) for part in cut]
    for name, value in asdict(whole).items():
        torch.testing.assert_close(sum(terms[name] for terms in sums), value, msg=name)
    for part, episodes in zip(cut, parts, strict=True):
        torch.testing.assert_close(part.gradients(total)["q"], gradient[:, episodes])


@pytest.mark.parametrize("value", [1e4, -1e4, 1e30])
def test_illegal_tokens_do_not_matter(random_case: Any, value: float) -> None:
    case = random_case(6)
    illegal = ~case.batch.legal
    changed = TextRLOutput(
        q=case.outputs.q.masked_fill(illegal, value),
        target_q=case.outputs.target_q.masked_fill(illegal, value),
    )
    assert (changed.q != case.outputs.q).any()
    before, after = (asdict(cql_loss(out, case.batch, WEIGHTS)) for out in (case.outputs, changed))
    for name in before:
        assert torch.equal(before[name], after[name]), name
    assert (case.gradients(total)["q"][:, illegal] == 0).all()


def test_one_action_is_an_episode(random_case: Any) -> None:
    for truncated in (False, True):
        case = random_case(8, lengths=(1,), truncated=(truncated,))
        out, batch = case.outputs, case.batch
        goal = batch.rewards[0, 0].expand(2)
        if truncated:
            goal = goal + 0.9 * double_q_values(out.q, out.target_q, batch.legal)[:, 0, 1]
        taken = out.q[:, 0, 0, batch.actions[0, 0]]
        torch.testing.assert_close(cql_loss(out, batch, WEIGHTS).q, (taken - goal).square().sum())


def test_the_value_weight_is_of_the_squared_errors_alone(random_case: Any) -> None:
    case = random_case(9)
    none, one, three = (
        cql_loss(case.outputs, case.batch, replace(WEIGHTS, value_weight=weight))
        for weight in (0.0, 1.0, 3.0)
    )
    for name in ("q", "conservative", "mean_q", "accuracy"):  # the terms are told as they are
        assert torch.equal(getattr(one, name), getattr(three, name)), name
    conservative = WEIGHTS.conservatism * one.conservative
    assert one.q > 0.1 and conservative > 0.1
    torch.testing.assert_close(none.total, conservative)
    torch.testing.assert_close(one.total, one.q + conservative)
    torch.testing.assert_close(three.total, 3 * one.q + conservative)

    def gradient(**changes: float) -> torch.Tensor:
        weights = replace(WEIGHTS, **changes)
        return case.gradients(lambda out, batch: cql_loss(out, batch, weights).total)["q"]

    only_errors, only_conservative = gradient(conservatism=0.0), gradient(value_weight=0.0)
    torch.testing.assert_close(gradient(), only_errors + only_conservative)
    assert (only_conservative[:, ~case.batch.legal] == 0).all() and only_conservative.any()
