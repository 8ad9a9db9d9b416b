"""ILQL, by hand, against loops, and what must not matter to it."""

import math
from dataclasses import asdict, replace
from typing import Any

import pytest
import torch

from textrl.algorithms.ilql import ILQLOptions
from textrl.data.batches import Batch
from textrl.losses.ilql import expectile_value_loss, ilql_loss
from textrl.losses.ops import conservative_loss, of_actions
from textrl.losses.outputs import TextRLOutput

WEIGHTS = ILQLOptions(
    discount=0.9,
    expectile=0.7,
    conservatism=0.3,
    action_lambda=0.8,
    return_lambda=0.4,
    value_weight=0.6,
)


def total(outputs: TextRLOutput, batch: Batch) -> torch.Tensor:
    return ilql_loss(outputs, batch, WEIGHTS).total


def two_actions(has_next: bool) -> tuple[TextRLOutput, Batch]:
    """One episode of two actions over two tokens, token 0 taken both times, rewards -1 and 0."""
    outputs = TextRLOutput(
        policy=torch.zeros(1, 3, 2),
        q=torch.tensor(
            [[[[1.0, 0.0], [3.0, 5.0], [9.0, 9.0]]], [[[2.0, 0.0], [1.0, 1.0], [9.0, 9.0]]]]
        ),
        target_q=torch.tensor(
            [[[[4.0, 0.0], [1.0, 0.0], [9.0, 9.0]]], [[[3.0, 0.0], [2.0, 0.0], [9.0, 9.0]]]]
        ),
        v=torch.tensor([[1.0, 2.0, 4.0]]),
    )
    batch = Batch(
        tokens=torch.zeros(1, 4, dtype=torch.int64),
        state_positions=torch.tensor([[0, 1, 3]]),
        legal=torch.ones(1, 3, 2, dtype=torch.bool),
        actions=torch.tensor([[0, 0]]),
        rewards=torch.tensor([[-1.0, 0.0]]),
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
    weights = ILQLOptions(discount=0.5, expectile=0.8, conservatism=0.1, value_weight=2.0)
    terms = ilql_loss(*two_actions(has_next=False), weights)
    # Returns -1 + 0.5 * 2 = 0 and 0; twins' squared errors 1 + 4, 9 + 1.
    assert terms.q.item() == pytest.approx(7.5)
    # Min target Q 3 and 1 against V 1 and 2: gaps 2 and -1.
    assert terms.v.item() == pytest.approx((0.8 * 4 + 0.2 * 1) / 2)
    gaps = [math.log(1 + math.exp(-1)), math.log(1 + math.exp(-2))]
    gaps += [2 + math.log(1 + math.exp(-2)), math.log(2)]
    assert terms.conservative.item() == pytest.approx(sum(gaps) / 2)
    assert terms.policy.item() == pytest.approx(math.log(2))
    assert terms.total.item() == pytest.approx(
        math.log(2) + 2.0 * (7.5 + 1.7) + 0.1 * sum(gaps) / 2
    )
    assert terms.mean_q.item() == pytest.approx(1.75)
    assert terms.mean_v.item() == pytest.approx(1.5)


def test_by_hand_truncated() -> None:
    # The last return is now 0 + 0.5 * 4 = 2: squared errors 1 + 4, 1 + 1.
    terms = ilql_loss(*two_actions(has_next=True), ILQLOptions(discount=0.5))
    assert terms.q.item() == pytest.approx(3.5)
    # Looking to the end, the first is -1 + 0.5 * 2 = 0 as well.
    weights = ILQLOptions(discount=0.5, return_lambda=1.0)
    assert ilql_loss(*two_actions(has_next=True), weights).q.item() == pytest.approx(3.5)
    # Ended instead: 0 at last, -1 before it, so 4 + 9 and 9 + 1.
    assert ilql_loss(*two_actions(has_next=False), weights).q.item() == pytest.approx(11.5)


def test_by_hand_within_one_action() -> None:
    # Two tokens of one action: how far they look ahead is another setting.
    outputs, batch = two_actions(has_next=False)
    batch = replace(batch, ends_action=torch.tensor([[False, True]]))
    for weights, expected in (
        (ILQLOptions(discount=0.5, return_lambda=1.0), 7.5),
        (ILQLOptions(discount=0.5, action_lambda=1.0), 11.5),
    ):
        assert ilql_loss(outputs, batch, weights).q.item() == pytest.approx(expected)


def reference(case: Any, weights: ILQLOptions) -> dict[str, float]:
    """The same loss by plain loops."""
    batch, out = case.batch, case.outputs
    q, target_q, v, logits = (x.numpy() for x in (out.q, out.target_q, out.v, out.policy))
    sums = dict.fromkeys(("policy", "q", "v", "conservative", "mean_q", "mean_v"), 0.0)
    for episode in range(len(batch.actions)):
        count = int(batch.is_action[episode].sum())
        goal = 0.0
        for k in reversed(range(count)):
            taken = int(batch.actions[episode, k])
            if k < count - 1:
                is_whole = batch.ends_action[episode, k]
                mix = weights.return_lambda if is_whole else weights.action_lambda
                after = (1 - mix) * v[episode, k + 1] + mix * goal
            else:
                after = v[episode, count] if batch.has_next[episode, k] else 0.0
            goal = float(batch.rewards[episode, k]) + weights.discount * after
            legal = [t for t in range(logits.shape[-1]) if batch.legal[episode, k, t]]
            whole = batch.ends_action[episode, k] or k == count - 1 or not weights.whole_actions
            if whole:  # else it stays what it is at the action's last token
                action_q = min(target_q[0, episode, k, taken], target_q[1, episode, k, taken])
            gap = action_q - v[episode, k]
            share = weights.expectile if gap > 0 else 1 - weights.expectile
            sums["v"] += share * gap**2
            sums["mean_v"] += v[episode, k]
            odds = {t: math.exp(logits[episode, k, t]) for t in legal}
            sums["policy"] -= math.log(odds[taken] / sum(odds.values()))
            for twin in (0, 1):
                mine = q[twin, episode, k]
                sums["q"] += (mine[taken] - goal) ** 2
                sums["mean_q"] += mine[taken] / 2
                partition = sum(math.exp(mine[t]) for t in legal)
                sums["conservative"] += math.log(partition) - mine[taken]
    means = {name: value / batch.action_count for name, value in sums.items()}
    means["total"] = (
        means["policy"]
        + weights.value_weight * (means["q"] + means["v"])
        + weights.conservatism * means["conservative"]
    )
    return means


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("within", "across"), [(0.0, 0.0), (0.8, 0.4), (1.0, 1.0), (1.0, 0.0)])
def test_against_loops(random_case: Any, within: float, across: float, whole: bool) -> None:
    weights = replace(WEIGHTS, action_lambda=within, return_lambda=across, whole_actions=whole)
    for seed in range(5):
        cut = (False, True, True, False) if seed % 2 else (False,) * 4
        case = random_case(seed, truncated=cut)
        actual = asdict(ilql_loss(case.outputs, case.batch, weights))
        expected = reference(case, weights)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name].item() == pytest.approx(value, abs=1e-6), name


def test_gradcheck(random_case: Any) -> None:
    case = random_case(1)
    batch, out = case.batch, case.outputs

    def loss(weights: ILQLOptions, *leaves: torch.Tensor) -> torch.Tensor:
        names = ("policy", "q", "v")[: len(leaves)]
        given = {"v": out.v, **dict(zip(names, leaves, strict=True))}
        return ilql_loss(TextRLOutput(target_q=out.target_q, **given), batch, weights).total

    policy, q, v = (x.clone().requires_grad_() for x in (out.policy, out.q, out.v))
    assert torch.autograd.gradcheck(lambda *leaves: loss(WEIGHTS, *leaves), (policy, q))
    # V is also the bootstrap, which takes no gradient: without a future it is only itself.
    present = replace(WEIGHTS, discount=0.0)
    assert torch.autograd.gradcheck(lambda *leaves: loss(present, *leaves), (policy, q, v))


def test_no_gradient_reaches_targets_or_bootstrap(random_case: Any) -> None:
    case = random_case(2, truncated=(True,) * 4)
    gradients = case.gradients(lambda out, batch: ilql_loss(out, batch, WEIGHTS).total)
    assert gradients["target_q"] is None
    # Column 5 is the end of the longest history: read as its value to come, never trained there.
    assert (gradients["v"][:, 5] == 0).all()
    only_q = case.gradients(lambda out, batch: ilql_loss(out, batch, WEIGHTS).q)
    assert only_q["v"] is None
    assert only_q["q"].abs().sum() > 0
    only_v = case.gradients(lambda out, batch: ilql_loss(out, batch, WEIGHTS).v)
    assert only_v["q"] is None
    assert only_v["target_q"] is None


@pytest.mark.parametrize("whole", [False, True])
def test_padding_does_not_matter(random_case: Any, whole: bool) -> None:
    case = random_case(3)
    wide = case.padded(4)
    weights = replace(WEIGHTS, whole_actions=whole)
    before, after = (asdict(ilql_loss(c.outputs, c.batch, weights)) for c in (case, wide))
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, msg=name)
    narrow, broad = (
        c.gradients(lambda *given: ilql_loss(*given, weights).total) for c in (case, wide)
    )
    for name, axis in (("policy", 1), ("q", 2), ("v", 1)):
        mine, extra = broad[name].split([6, 4], dim=axis)
        torch.testing.assert_close(mine, narrow[name])
        assert (extra == 0).all()


def test_a_cut_episode_does_not_touch_the_others(random_case: Any) -> None:
    # Alone, the ended episodes need no state for the history's end; beside a cut one they get one.
    case = random_case(4)
    ended = case.pick([0, 3])
    out = ended.outputs
    narrow = TextRLOutput(
        policy=out.policy[:, :5], q=out.q[:, :, :5], target_q=out.target_q[:, :, :5], v=out.v[:, :5]
    )
    batch = replace(ended.batch, legal=ended.batch.legal[:, :5])
    torch.testing.assert_close(total(narrow, batch), total(out, ended.batch))


def test_order_and_micro_batches_do_not_matter(random_case: Any) -> None:
    case = random_case(5)
    whole, gradients = ilql_loss(case.outputs, case.batch, WEIGHTS), case.gradients(total)
    turned = case.pick([2, 0, 3, 1])
    torch.testing.assert_close(total(turned.outputs, turned.batch), whole.total)
    parts = [[0], [1, 3], [2]]
    cut = [case.pick(part) for part in parts]
    sums = [asdict(ilql_loss(part.outputs, part.batch, WEIGHTS)) for part in cut]
    for name, value in asdict(whole).items():
        torch.testing.assert_close(sum(terms[name] for terms in sums), value, msg=name)
    for part, episodes in zip(cut, parts, strict=True):
        mine = part.gradients(total)
        torch.testing.assert_close(mine["q"], gradients["q"][:, episodes])
        torch.testing.assert_close(mine["v"], gradients["v"][episodes])


@pytest.mark.parametrize("value", [1e4, -1e4])
def test_illegal_tokens_do_not_matter(random_case: Any, value: float) -> None:
    case = random_case(6)
    illegal = ~case.batch.legal
    changed = TextRLOutput(
        v=case.outputs.v,
        **{
            name: getattr(case.outputs, name).masked_fill(illegal, value)
            for name in ("policy", "q", "target_q")
        },
    )
    before, after = (asdict(ilql_loss(out, case.batch, WEIGHTS)) for out in (case.outputs, changed))
    for name in before:
        assert torch.equal(before[name], after[name]), name
    gradients = case.gradients(total)
    assert (gradients["policy"][illegal] == 0).all()
    assert (gradients["q"][:, illegal] == 0).all()


def test_half_an_expectile_is_half_the_squared_error() -> None:
    generator = torch.Generator().manual_seed(0)
    v, target = torch.randn(2, 3, 4, dtype=torch.float64, generator=generator)
    counts = torch.ones(3, 4, dtype=torch.bool)
    loss = expectile_value_loss(v, target, counts, total=12, expectile=0.5)
    torch.testing.assert_close(loss, 0.5 * torch.nn.functional.mse_loss(v, target))


@pytest.mark.parametrize("expectile", [0.1, 0.5, 0.9])
def test_the_expectile_is_where_the_loss_is_least(expectile: float) -> None:
    # Of -1 and 3: the pull up, e (3 - v), equals the pull down, (1 - e) (v + 1), at v = 4 e - 1.
    v = torch.tensor(4 * expectile - 1, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[-1.0, 3.0]], dtype=torch.float64)
    counts = torch.ones(1, 2, dtype=torch.bool)
    expectile_value_loss(v.expand(1, 2), target, counts, 2, expectile).backward()
    assert v.grad.item() == pytest.approx(0.0, abs=1e-6)


def test_the_conservative_term_by_gradcheck(random_case: Any) -> None:
    case = random_case(7)
    batch, counts = case.batch, case.batch.is_action
    q = case.outputs.q[:, :, :5].clone().requires_grad_()

    def loss(q: torch.Tensor) -> torch.Tensor:
        return conservative_loss(q, batch.legal[:, :5], batch.actions, counts, 11)

    assert torch.autograd.gradcheck(loss, (q,))
    # It pushes the token taken up and the others down, in balance.
    (gradient,) = torch.autograd.grad(loss(q), q)
    torch.testing.assert_close(gradient.sum(-1), torch.zeros_like(gradient.sum(-1)))
    assert (of_actions(gradient, batch.actions) <= 0).all()


def test_one_action_is_an_episode(random_case: Any) -> None:
    for truncated in (False, True):
        case = random_case(8, lengths=(1,), truncated=(truncated,))
        out, batch = case.outputs, case.batch
        goal = batch.rewards[0, 0] + (0.9 * out.v[0, 1] if truncated else 0.0)
        taken = out.q[:, 0, 0, batch.actions[0, 0]]
        torch.testing.assert_close(ilql_loss(out, batch, WEIGHTS).q, (taken - goal).square().sum())


def test_the_value_weight_is_of_the_squared_errors_alone(random_case: Any) -> None:
    case = random_case(9)
    none, one, three = (
        ilql_loss(case.outputs, case.batch, replace(WEIGHTS, value_weight=weight))
        for weight in (0.0, 1.0, 3.0)
    )
    for name in ("policy", "q", "v", "conservative", "mean_q", "mean_v"):
        assert torch.equal(getattr(one, name), getattr(three, name)), name
    conservative, errors = WEIGHTS.conservatism * one.conservative, one.q + one.v
    assert one.q > 0.1 and one.v > 0.1 and conservative > 0.1
    torch.testing.assert_close(none.total, one.policy + conservative)
    torch.testing.assert_close(one.total, one.policy + errors + conservative)
    torch.testing.assert_close(three.total, one.policy + 3 * errors + conservative)

    def gradient(**changes: float) -> torch.Tensor:
        weights = replace(WEIGHTS, **changes)
        return case.gradients(lambda out, batch: ilql_loss(out, batch, weights).total)["q"]

    only_errors, only_conservative = gradient(conservatism=0.0), gradient(value_weight=0.0)
    torch.testing.assert_close(gradient(), only_errors + only_conservative)
    assert (only_conservative[:, ~case.batch.legal] == 0).all() and only_conservative.any()


def test_whole_actions_of_weighted_episodes_by_hand() -> None:
    # The two tokens are one action, of an episode that counts 2.5 times.
    outputs, batch = two_actions(has_next=False)
    batch = replace(
        batch,
        ends_action=torch.tensor([[False, True]]),
        weight=torch.tensor([2.5]),
        action_count=2 * 2.5,
        completed_count=2.5,
    )
    weights = ILQLOptions(discount=0.5, expectile=0.8, whole_actions=True)
    terms = ilql_loss(outputs, batch, weights)
    # Min target Q at the action's end is 1, against V 1 and 2: gaps 0 and -1.
    assert terms.v.item() == pytest.approx((0.8 * 0 + 0.2 * 1) / 2)
    assert terms.q.item() == pytest.approx(7.5)
    assert terms.mean_v.item() == pytest.approx(1.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_actions_of_weighted_episodes(random_case: Any, dtype: torch.dtype) -> None:
    # An episode of weight 2 counts as if it were there twice; weights are stored in float32.
    weights, often = replace(WEIGHTS, whole_actions=True), [0, 0, 1, 2, 2, 2, 3]
    for seed in range(5):
        case = random_case(seed)
        repeated = case.pick(often)
        actions, completed = repeated.batch.is_action, repeated.batch.ends_action
        counts = {"action_count": int(actions.sum()), "completed_count": int(completed.sum())}
        numbers = torch.tensor([2, 1, 3, 1], dtype=dtype)
        weighted = replace(case, batch=replace(case.batch, weight=numbers, **counts))
        repeated = replace(repeated, batch=replace(repeated.batch, **counts))
        actual = asdict(ilql_loss(weighted.outputs, weighted.batch, weights))
        expected = asdict(ilql_loss(repeated.outputs, repeated.batch, weights))
        looped = reference(repeated, weights)
        for name, value in actual.items():
            assert value.isfinite(), name
            torch.testing.assert_close(value, expected[name], msg=name)
            assert value.item() == pytest.approx(looped[name], abs=1e-6), name

        def loss(outputs: TextRLOutput, batch: Batch) -> torch.Tensor:
            return ilql_loss(outputs, batch, weights).total

        mine, theirs = weighted.gradients(loss), repeated.gradients(loss)
        for name, axis in (("policy", 0), ("q", 1), ("v", 0)):
            summed = torch.zeros_like(mine[name]).index_add(axis, torch.tensor(often), theirs[name])
            torch.testing.assert_close(mine[name], summed, msg=name)
