"""Behaviour cloning, by hand, against loops, and what must not matter to it."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from textrl.data.batches import Batch
from textrl.losses.bc import bc_loss, imitation_loss
from textrl.losses.outputs import TextRLOutput


def total(outputs: TextRLOutput, batch: Batch) -> torch.Tensor:
    return bc_loss(outputs, batch).total


def test_by_hand(random_case: Any) -> None:
    case = random_case(0, lengths=(2, 1), truncated=(False, False), tokens=3)
    batch = replace(
        case.batch,
        actions=torch.tensor([[0, 2], [1, 0]]),
        legal=torch.tensor([[[True, True, False], [True, True, True]]] * 2),
    )
    # Odds 1 : 3 of two, 1 : 1 : 2 of three, 1 : 3 of two; what is illegal has the best of odds.
    odds = [[[1.0, 3.0, 99.0], [1.0, 1.0, 2.0]], [[1.0, 3.0, 99.0], [1.0, 1.0, 1.0]]]
    terms = bc_loss(TextRLOutput(policy=torch.tensor(odds).log()), batch)
    expected = -(math.log(1 / 4) + math.log(2 / 4) + math.log(3 / 4)) / 3
    assert terms.policy.item() == pytest.approx(expected)
    assert terms.total.item() == pytest.approx(expected)
    assert terms.accuracy.item() == pytest.approx(2 / 3)


def test_against_loops(random_case: Any) -> None:
    for seed in range(5):
        case = random_case(seed)
        batch, logits = case.batch, case.outputs.policy
        losses, hits = [], []
        for episode in range(4):
            for k in range(5):
                if batch.is_action[episode, k]:
                    legal = [t for t in range(4) if batch.legal[episode, k, t]]
                    scores = {t: float(logits[episode, k, t]) for t in legal}
                    taken = int(batch.actions[episode, k])
                    partition = sum(math.exp(score) for score in scores.values())
                    losses.append(math.log(partition) - scores[taken])
                    hits.append(max(scores, key=scores.__getitem__) == taken)
        terms = bc_loss(case.outputs, batch)
        assert len(losses) == 11
        assert terms.total.item() == pytest.approx(sum(losses) / 11, abs=1e-6)
        assert terms.accuracy.item() == pytest.approx(sum(hits) / 11, abs=1e-6)


def test_gradcheck(random_case: Any) -> None:
    case = random_case(1)
    logits = case.outputs.policy.requires_grad_()
    assert torch.autograd.gradcheck(lambda each: imitation_loss(each, case.batch), (logits,))


def test_padding_does_not_matter(random_case: Any) -> None:
    case = random_case(2)
    wide = case.padded(3)
    torch.testing.assert_close(total(wide.outputs, wide.batch), total(case.outputs, case.batch))
    gradient = wide.gradients(total)["policy"]
    torch.testing.assert_close(gradient[:, :6], case.gradients(total)["policy"])
    assert (gradient[:, 6:] == 0).all()


def test_order_and_micro_batches_do_not_matter(random_case: Any) -> None:
    case = random_case(3)
    whole, gradient = total(case.outputs, case.batch), case.gradients(total)["policy"]
    turned = case.pick([2, 0, 3, 1])
    torch.testing.assert_close(total(turned.outputs, turned.batch), whole)
    parts = [[0], [1, 3], [2]]
    cut = [case.pick(part) for part in parts]
    torch.testing.assert_close(sum(total(part.outputs, part.batch) for part in cut), whole)
    for part, episodes in zip(cut, parts, strict=True):
        torch.testing.assert_close(part.gradients(total)["policy"], gradient[episodes])


@pytest.mark.parametrize("value", [1e4, -1e4, 1e30])
def test_illegal_tokens_do_not_matter(random_case: Any, value: float) -> None:
    case = random_case(4)
    changed = case.outputs.policy.masked_fill(~case.batch.legal, value)
    assert (changed != case.outputs.policy).any()
    before, after = (
        bc_loss(TextRLOutput(policy=logits), case.batch)
        for logits in (case.outputs.policy, changed)
    )
    assert torch.equal(before.total, after.total)
    assert torch.equal(before.accuracy, after.accuracy)
    gradient = case.gradients(total)["policy"]
    assert (gradient[~case.batch.legal] == 0).all()


def test_one_action_is_an_episode(random_case: Any) -> None:
    case = random_case(5, lengths=(1,), truncated=(False,))
    legal = case.outputs.policy[0, 0][case.batch.legal[0, 0]]
    taken = case.outputs.policy[0, 0, case.batch.actions[0, 0]]
    torch.testing.assert_close(total(case.outputs, case.batch), legal.logsumexp(0) - taken)
