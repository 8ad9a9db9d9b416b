"""IQL, by hand, against loops, and what must not matter to it."""

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch

from textrl.algorithms.iql import IQLOptions
from textrl.data.batches import Batch
from textrl.losses.iql import huber, iql_loss
from textrl.losses.outputs import TextRLOutput

RETURNS = IQLOptions(
    discount=0.9,
    expectile=0.7,
    return_lambda=0.4,
    value_weight=0.6,
    advantage_steps=2,
    advantage_scale=0.8,
    weight_cap=3.0,
    policy_weight=0.5,
)
TIMES = replace(
    RETURNS, value="time-to-goal", v_learns="returns", return_cut=0.3, huber=0.2, advantage_steps=3
)
KINDS = [
    RETURNS,
    TIMES,
    replace(RETURNS, v_learns="returns", return_cut=0.2),
    replace(TIMES, v_learns="q", return_cut=0.0, advantage_steps=1, return_lambda=1.0),
]


def total(outputs: TextRLOutput, batch: Batch) -> torch.Tensor:
    return iql_loss(outputs, batch, RETURNS).total


def windows_of(case: Any, seed: int) -> Any:
    """The case with some of its cut episodes going on beyond the window, to the goal or not."""
    random = np.random.default_rng(seed)
    batch = case.batch
    goes_on = batch.left[:, 0].numpy() < 0
    left = np.where(goes_on, random.integers(-1, 60, size=len(goes_on)), 0)
    left = np.where(goes_on & (left == 0), -1, left)
    last = batch.is_action.sum(1) - 1
    is_followed, return_after = batch.is_followed.clone(), batch.return_after.clone()
    for row in np.flatnonzero(goes_on):
        is_followed[row, last[row]] = True
        return_after[row, last[row]] = random.normal()
    changed = {"is_followed": is_followed, "return_after": return_after}
    return replace(case, batch=replace(batch, left=torch.from_numpy(left)[:, None], **changed))


def loop_returns(case: Any, options: IQLOptions, row: int) -> tuple[list[float], list[float]]:
    """What Q learns at each action of an episode, and the values that it comes from."""
    batch, is_time = case.batch, options.value == "time-to-goal"
    values = case.outputs.slow_v[row].tolist()
    values = [min(0.0, value) for value in values] if is_time else values
    count = int(batch.is_action[row].sum())
    targets = [0.0] * count
    for k in reversed(range(count)):
        reward = -0.01 if is_time else float(batch.rewards[row, k])
        discount = 1.0 if is_time else options.discount
        if not batch.has_next[row, k]:
            targets[k] = reward
            continue
        ahead = values[k + 1]
        if k < count - 1:
            followed = targets[k + 1]
        elif not batch.is_followed[row, k]:
            followed = ahead
        elif is_time:
            left = int(batch.left[row, 0])
            says = left >= 0 and (
                not options.return_cut or -left / 100 > ahead - 2 * options.return_cut
            )
            followed = -left / 100 if says else ahead
        else:
            followed = float(batch.return_after[row, k])
        if options.return_cut and batch.is_followed[row, k]:
            followed = max(followed, ahead - options.return_cut)
        mix = options.return_lambda if batch.is_followed[row, k] else 0.0
        targets[k] = reward + discount * ((1 - mix) * ahead + mix * followed)
    return targets, values


def loop_weight(case: Any, options: IQLOptions, row: int, k: int, values: list[float]) -> float:
    """How much the policy imitates an action."""
    batch, is_time = case.batch, options.value == "time-to-goal"
    count = int(batch.is_action[row].sum())
    brought, scale = 0.0, 1.0
    for at in range(k, k + options.advantage_steps):
        if at == count:
            return 0.0  # the window ends before the steps do
        brought += scale * (-0.01 if is_time else float(batch.rewards[row, at]))
        scale *= 1.0 if is_time else options.discount
        if not batch.has_next[row, at]:
            scale = 0.0
            break
    else:
        at = k + options.advantage_steps - 1
    advantage = brought + (scale * values[at + 1] if scale else 0.0) - values[k]
    return min(options.weight_cap, math.exp(advantage / options.advantage_scale))


def reference(case: Any, options: IQLOptions) -> dict[str, float]:
    """The same loss by plain loops."""
    batch, out = case.batch, case.outputs
    names = ("policy", "q", "v", "mean_q", "mean_v", "mean_weight")
    sums = dict.fromkeys(names, 0.0)

    def error(gap: float) -> float:
        border = options.huber
        is_far = border and abs(gap) > border
        return border * (2 * abs(gap) - border) if is_far else gap**2

    for row in range(len(batch.actions)):
        targets, values = loop_returns(case, options, row)
        for k, target in enumerate(targets):
            taken = int(batch.actions[row, k])
            v = float(out.v[row, k])
            twins = [float(out.q[twin, row, k, taken]) for twin in (0, 1)]
            slow = min(float(out.target_q[twin, row, k, taken]) for twin in (0, 1))
            gap = (slow if options.v_learns == "q" else target) - v
            sums["v"] += (options.expectile if gap > 0 else 1 - options.expectile) * error(gap)
            sums["q"] += sum(error(q - target) for q in twins)
            weight = loop_weight(case, options, row, k, values)
            legal = [t for t in range(out.policy.shape[-1]) if batch.legal[row, k, t]]
            odds = {t: math.exp(out.policy[row, k, t]) for t in legal}
            sums["policy"] -= weight * math.log(odds[taken] / sum(odds.values()))
            sums["mean_v"] += v
            sums["mean_q"] += sum(twins) / 2
            sums["mean_weight"] += weight
    means = {name: value / batch.action_count for name, value in sums.items()}
    means["total"] = options.policy_weight * means["policy"] + options.value_weight * (
        means["q"] + means["v"]
    )
    return means


@pytest.mark.parametrize("options", KINDS)
def test_against_loops(random_case: Any, options: IQLOptions) -> None:
    weights = []
    for seed in range(6):
        case = random_case(seed, truncated=(False, True, True, bool(seed % 2)))
        case = windows_of(case, seed) if seed % 3 else case
        actual = asdict(iql_loss(case.outputs, case.batch, options))
        expected = reference(case, options)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name].item() == pytest.approx(value, abs=1e-6), name
        weights.append(expected["mean_weight"])
    assert min(weights) < 0.99 * max(weights)  # it does choose


def test_by_hand() -> None:
    # Two decisions from the goal, which V takes for 30 and 10; the second action is the goal's.
    outputs = TextRLOutput(
        policy=torch.zeros(1, 2, 2),
        q=torch.zeros(1, 1, 2, 2),
        target_q=torch.zeros(1, 1, 2, 2),
        v=torch.tensor([[-0.3, -0.1]]),
        slow_v=torch.tensor([[-0.3, -0.1]]),
    )
    batch = Batch(
        tokens=torch.zeros(1, 4, dtype=torch.int64),
        state_positions=torch.tensor([[0, 2]]),
        legal=torch.ones(1, 2, 2, dtype=torch.bool),
        actions=torch.tensor([[0, 1]]),
        rewards=torch.tensor([[0.0, 1.0]]),
        observations=torch.full((1, 2), -1),
        ends_action=torch.tensor([[True, True]]),
        is_action=torch.tensor([[True, True]]),
        has_next=torch.tensor([[True, False]]),
        is_followed=torch.tensor([[True, False]]),
        return_after=torch.zeros(1, 2),
        left=torch.tensor([[0]]),
        action_count=2,
        completed_count=2,
    )
    options = IQLOptions(
        value="time-to-goal",
        v_learns="returns",
        return_lambda=1.0,
        expectile=0.9,
        advantage_scale=0.1,
        weight_cap=100.0,
    )
    terms = iql_loss(outputs, batch, options)
    # Targets -0.02 and -0.01, both better than V said.
    assert terms.v.item() == pytest.approx(0.9 * (0.28**2 + 0.09**2) / 2)
    assert terms.q.item() == pytest.approx((0.02**2 + 0.01**2) / 2)
    # Advantages -0.01 - 0.1 + 0.3 = 0.19 and -0.01 + 0.1 = 0.09.
    weight = (math.exp(1.9) + math.exp(0.9)) / 2
    assert terms.mean_weight.item() == pytest.approx(weight, rel=1e-5)
    assert terms.policy.item() == pytest.approx(weight * math.log(2), rel=1e-5)


@pytest.mark.parametrize("options", KINDS)
def test_gradcheck(random_case: Any, options: IQLOptions) -> None:
    case = windows_of(random_case(1), 1)
    batch, out = case.batch, case.outputs

    def loss(policy: torch.Tensor, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        given = TextRLOutput(policy=policy, q=q, v=v, target_q=out.target_q, slow_v=out.slow_v)
        return iql_loss(given, batch, options).total

    leaves = [x.clone().requires_grad_() for x in (out.policy, out.q, out.v)]
    assert torch.autograd.gradcheck(loss, leaves)


@pytest.mark.parametrize("options", KINDS)
def test_no_gradient_reaches_the_slow_copies(random_case: Any, options: IQLOptions) -> None:
    case = windows_of(random_case(2, truncated=(True,) * 4), 2)
    gradients = case.gradients(lambda out, batch: iql_loss(out, batch, options).total)
    assert gradients["target_q"] is None and gradients["slow_v"] is None
    # Column 5 is the end of the longest history: read as its value to come, never trained there.
    assert (gradients["v"][:, 5] == 0).all()
    only_policy = case.gradients(lambda out, batch: iql_loss(out, batch, options).policy)
    assert only_policy["q"] is None and only_policy["v"] is None


@pytest.mark.parametrize("options", KINDS)
def test_padding_does_not_matter(random_case: Any, options: IQLOptions) -> None:
    case = windows_of(random_case(3), 3)
    wide = case.padded(4)
    before, after = (asdict(iql_loss(c.outputs, c.batch, options)) for c in (case, wide))
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, msg=name)
    narrow, broad = (
        c.gradients(lambda *given: iql_loss(*given, options).total) for c in (case, wide)
    )
    for name, axis in (("policy", 1), ("q", 2), ("v", 1)):
        mine, extra = broad[name].split([6, 4], dim=axis)
        torch.testing.assert_close(mine, narrow[name])
        assert (extra == 0).all()


@pytest.mark.parametrize("options", KINDS)
def test_order_and_micro_batches_do_not_matter(random_case: Any, options: IQLOptions) -> None:
    case = windows_of(random_case(5), 5)
    whole = iql_loss(case.outputs, case.batch, options)
    turned = case.pick([2, 0, 3, 1])
    torch.testing.assert_close(iql_loss(turned.outputs, turned.batch, options).total, whole.total)
    cut = [case.pick(part) for part in ([0], [1, 3], [2])]
    sums = [asdict(iql_loss(part.outputs, part.batch, options)) for part in cut]
    for name, value in asdict(whole).items():
        torch.testing.assert_close(sum(terms[name] for terms in sums), value, msg=name)


@pytest.mark.parametrize("value", [1e4, -1e4])
def test_illegal_tokens_do_not_matter(random_case: Any, value: float) -> None:
    case = random_case(6)
    illegal = ~case.batch.legal
    changed = TextRLOutput(
        v=case.outputs.v,
        slow_v=case.outputs.slow_v,
        **{
            name: getattr(case.outputs, name).masked_fill(illegal, value)
            for name in ("policy", "q", "target_q")
        },
    )
    before, after = (asdict(iql_loss(out, case.batch, RETURNS)) for out in (case.outputs, changed))
    for name in before:
        assert torch.equal(before[name], after[name]), name
    gradients = case.gradients(total)
    assert (gradients["policy"][illegal] == 0).all()
    assert (gradients["q"][:, illegal] == 0).all()


def test_rewards_do_not_matter_to_the_time_that_is_left(random_case: Any) -> None:
    case = windows_of(random_case(7), 7)
    other = replace(case.batch, rewards=case.batch.rewards + 5, return_after=case.batch.rewards)
    one, two = (iql_loss(case.outputs, batch, TIMES).total for batch in (case.batch, other))
    assert torch.equal(one, two)
    # But how far the goal was does.
    ended = random_case(8, truncated=(True,) * 4)
    reached = replace(ended.batch, left=torch.ones_like(ended.batch.left))
    reached = replace(reached, is_followed=reached.is_action)
    unknown = replace(reached, left=torch.full_like(reached.left, -1))
    one, two = (iql_loss(ended.outputs, batch, TIMES).q for batch in (reached, unknown))
    assert one != two


def test_errors_far_out_count_in_proportion() -> None:
    errors = torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(huber(errors, 0.0), errors.square())
    bounded = huber(errors, 1.0)
    assert bounded.tolist() == [5.0, 0.25, 0.0, 0.25, 5.0]
    bounded.sum().backward()
    assert errors.grad.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
