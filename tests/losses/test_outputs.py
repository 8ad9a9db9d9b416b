"""How a model acts by what its heads say: which of them count, and how much."""

import math
from typing import Any

import pytest
import torch

from textrl.losses.outputs import TextRLOutput, action_scores

INF = math.inf
# Odds 1 : 3 of the two legal tokens; the lower twin says 1 and -2; V is 0.5.
HERE = TextRLOutput(
    policy=torch.tensor([[1.0, 3.0, 99.0]]).log(),
    q=torch.tensor([[[50.0, 60.0, 70.0]], [[50.0, 60.0, 70.0]]]),
    target_q=torch.tensor([[[1.0, 4.0, 9.0]], [[2.0, -2.0, 9.0]]]),
    v=torch.tensor([0.5]),
)
LEGAL = torch.tensor([[True, True, False]])
LOG_PI = [math.log(1 / 4), math.log(3 / 4)]


@pytest.mark.parametrize(
    ("acts_by", "expected"),
    [
        ((), [LOG_PI[0] + 2 * 0.5, LOG_PI[1] - 2 * 2.5]),
        (("policy", "q"), [LOG_PI[0] + 2 * 0.5, LOG_PI[1] - 2 * 2.5]),
        (("policy",), LOG_PI),
        (("q",), [2 * 0.5, -2 * 2.5]),
    ],
)
def test_scores_by_hand(acts_by: tuple[str, ...], expected: list[float]) -> None:
    (scores,) = action_scores(HERE, LEGAL, beta=2.0, acts_by=acts_by)
    assert scores.tolist() == pytest.approx([*expected, -INF])


def without(outputs: TextRLOutput, *names: str) -> TextRLOutput:
    kept = ("policy", "q", "target_q", "v")
    return TextRLOutput(**{n: getattr(outputs, n) for n in kept if n not in names})


@pytest.mark.parametrize("beta", [0.0, 1.0, 4.0])
def test_a_head_that_does_not_count_might_as_well_not_be_there(
    random_case: Any, beta: float
) -> None:
    for seed in range(3):
        case = random_case(seed)
        outputs, legal = case.outputs, case.batch.legal
        imitates = action_scores(outputs, legal, beta, ("policy",))
        assert torch.equal(imitates, action_scores(without(outputs, "q", "target_q"), legal, beta))
        assert torch.equal(imitates, action_scores(outputs, legal, 7.0, ("policy",)))
        by_values = action_scores(outputs, legal, beta, ("q",))
        assert torch.equal(by_values, action_scores(without(outputs, "policy"), legal, beta))
        # V is the same for all tokens of a state: without it, the same choices.
        no_v = action_scores(without(outputs, "v"), legal, beta, ("q",))
        torch.testing.assert_close(by_values.softmax(-1), no_v.softmax(-1))
        both = action_scores(outputs, legal, beta)
        torch.testing.assert_close(both, imitates + by_values)
        for scores in (imitates, by_values, both):
            assert (scores[~legal] == -INF).all() and scores[legal].isfinite().all()


def test_without_a_grammar_every_token_counts() -> None:
    (by_policy,) = action_scores(HERE, None, 2.0, ("policy",))
    assert by_policy.exp().tolist() == pytest.approx([1 / 103, 3 / 103, 99 / 103])
    (by_values,) = action_scores(HERE, None, 2.0, ("q",))
    assert by_values.tolist() == pytest.approx([1.0, -5.0, 17.0])


@pytest.mark.parametrize(("acts_by", "lost"), [(("policy",), "policy"), (("q",), "target_q")])
def test_nothing_acts_without_the_head_that_should(acts_by: tuple[str, ...], lost: str) -> None:
    with pytest.raises(AssertionError, match="cannot act"):
        action_scores(without(HERE, lost), LEGAL, 1.0, acts_by)
