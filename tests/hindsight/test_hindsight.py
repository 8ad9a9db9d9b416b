"""Hindsight queries: surveyed and drawn by hand-made rules, the loss against loops, invariances."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from textrl.bisimulation.loss import bisimulation_targets
from textrl.config.presets import configure
from textrl.config.train import RepresentationConfig, Stage
from textrl.data.batches import Batch
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, Language
from textrl.errors import UserError
from textrl.hindsight.head import HindsightHead
from textrl.hindsight.loss import hindsight_loss
from textrl.hindsight.queries import CommonQueries, Queries, draw_queries
from textrl.hindsight.survey import (
    REWARD_CLASSES,
    Survey,
    borders_between,
    impurity,
    survey,
)
from textrl.losses.outputs import TextRLOutput
from textrl.training.optimizers import schedule

WIDTH, CLASSES, LONGEST = 3, 5, 16
OPTIONS = RepresentationConfig(weight=0.7, next=0.4)


def a_survey(about_observations: bool = True, answerable: float = 0.8) -> Survey:
    """Three classes of rewards; observation 0 is never worth asking about."""
    weight = torch.tensor([0.0, 1.0, 0.5, 2.0, 0.25], dtype=torch.float64)
    return Survey(torch.tensor([-0.5, 0.5]), weight, about_observations, answerable)


@pytest.fixture
def batch_of(random_case: Any) -> Callable[..., Batch]:
    """A random batch with classes of observations where actions end."""

    def make(seed: int, **options: Any) -> Batch:
        rng = np.random.default_rng(seed)
        batch = random_case(seed, **{"lengths": (5, 2, 7, 3), **options}).batch
        seen = torch.from_numpy(rng.integers(-1, CLASSES, size=batch.actions.shape))
        return replace(batch, observations=torch.where(batch.ends_action, seen, -1))

    return make


def said(batch: Batch, seed: int, classes: int = CLASSES) -> TextRLOutput:
    """What a model might say, in float64."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Tensor:
        return torch.from_numpy(rng.normal(size=shape))

    shape = batch.actions.shape
    return TextRLOutput(
        answers=normal(*shape, REWARD_CLASSES + classes),
        next_reward=normal(*shape),
        next_dynamics=normal(*shape, classes or 2 * WIDTH),
        target_representation=normal(shape[0], batch.state_positions.shape[1], WIDTH),
    )


def log_odds(logits: np.ndarray, right: int) -> float:
    return float(logits[right] - math.log(np.exp(logits).sum()))


def reference(
    outputs: TextRLOutput, batch: Batch, queries: Queries, found: Survey, classes: int
) -> dict[str, float]:
    """The terms by plain loops."""
    out = {name: value.numpy() for name, value in outputs.items()}
    sums = dict.fromkeys(["query_reward", "query_observation", "next_reward", "next"], 0.0)
    for e, length in enumerate(batch.is_action.sum(dim=1).tolist()):
        for t in range(length):
            much = 1.0 if batch.weight is None else float(batch.weight[e])
            if queries.is_asked[e, t]:
                k = int(queries.step[e, t])
                earned = float(batch.rewards[e, k])
                right = sum(earned >= border for border in found.borders.tolist())
                answer = out["answers"][e, t]
                sums["query_reward"] -= much * log_odds(answer[: found.reward_classes], right)
                seen = int(batch.observations[e, k])
                if not found.about_observations and classes and seen >= 0:
                    sums["query_observation"] -= much * log_odds(answer[REWARD_CLASSES:], seen)
            end = next((k for k in range(t, length) if batch.ends_action[e, k]), length - 1)
            off = out["next_reward"][e, t] - float(batch.rewards[e, end])
            sums["next_reward"] += much * off**2
            seen, dynamics = int(batch.observations[e, end]), out["next_dynamics"][e, t]
            if classes and seen >= 0:
                sums["next"] -= much * log_odds(dynamics, seen)
            if not classes and batch.has_next[e, end]:
                z = out["target_representation"][e, end + 1]
                for axis in range(WIDTH):
                    log_deviation = dynamics[WIDTH + axis]
                    gap = (z[axis] - dynamics[axis]) / math.exp(log_deviation)
                    sums["next"] += much * (gap**2 / 2 + log_deviation)
    share = {"query_reward": found.answerable, "query_observation": found.answerable}
    return {name: value / batch.action_count / share.get(name, 1.0) for name, value in sums.items()}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("about_observations", "classes"), [(True, CLASSES), (False, CLASSES), (False, 0)]
)
def test_the_loss_is_that_of_plain_loops(
    batch_of: Callable[..., Batch], seed: int, about_observations: bool, classes: int
) -> None:
    batch = batch_of(seed)
    if not classes:
        batch = replace(batch, observations=torch.full_like(batch.observations, -1))
    if seed % 2:
        batch = replace(batch, weight=torch.tensor([1.0, 0.0, 2.5, 0.5], dtype=torch.float64))
    found = a_survey(about_observations)
    queries, outputs = draw_queries(batch, found, (seed,), LONGEST), said(batch, seed, classes)
    added, terms = hindsight_loss(outputs, batch, queries, found, OPTIONS)
    expected = reference(outputs, batch, queries, found, classes)
    assert float(terms.query_reward) == pytest.approx(expected["query_reward"], rel=1e-9)
    assert float(terms.query_observation) == pytest.approx(expected["query_observation"], rel=1e-9)
    assert float(terms.next_reward) == pytest.approx(expected["next_reward"], rel=1e-9)
    assert float(terms.next_observation) == pytest.approx(expected["next"], rel=1e-9)
    total = 0.7 * (expected["query_reward"] + expected["query_observation"])
    assert float(added) == pytest.approx(
        total + 0.4 * (expected["next_reward"] + expected["next"]), rel=1e-9
    )
    assert expected["query_reward"] > 0


@pytest.mark.parametrize("about_observations", [True, False])
def test_the_gradient_is_right_down_to_the_representation(
    batch_of: Callable[..., Batch], about_observations: bool
) -> None:
    batch, found = batch_of(1, lengths=(3, 2), truncated=(True, False)), a_survey(True)
    found = replace(found, about_observations=about_observations)
    queries = draw_queries(batch, found, (1,), LONGEST)
    assert queries.is_asked.any()
    torch.manual_seed(0)
    head = HindsightHead(WIDTH, actions=4, classes=CLASSES).double()
    phi = torch.randn(*batch.actions.shape, WIDTH, dtype=torch.float64, requires_grad=True)

    def loss(phi: Tensor) -> Tensor:
        answers, reward, dynamics = head(phi, queries)
        outputs = TextRLOutput(answers=answers, next_reward=reward, next_dynamics=dynamics)
        return hindsight_loss(outputs, batch, queries, found, OPTIONS)[0]

    assert torch.autograd.gradcheck(loss, (phi,))
    loss(phi).backward()
    assert phi.grad is not None
    assert (phi.grad.abs().sum(dim=-1) > 0).equal(batch.is_action)


def test_parts_of_a_step_add_up_and_padding_does_not_matter(
    batch_of: Callable[..., Batch],
) -> None:
    whole, found = batch_of(2), a_survey()
    outputs = said(whole, 2)
    queries = draw_queries(whole, found, (5, 3), LONGEST)
    total, _ = hindsight_loss(outputs, whole, queries, found, OPTIONS)
    parts = []
    for first in (0, 1):
        rows = torch.arange(first, 4, 2)
        cut = int(whole.is_action[rows].sum(dim=1).max())
        names = ("actions", "rewards", "observations", "ends_action", "is_action", "has_next")
        part = replace(
            whole,
            **{name: getattr(whole, name)[rows, :cut] for name in names},
            state_positions=whole.state_positions[rows, : cut + 1],
            first_place=first,
            place_stride=2,
        )
        asked = draw_queries(part, found, (5, 3), LONGEST)
        real = part.is_action
        assert asked.step[real].equal(queries.step[rows, :cut][real])
        assert asked.is_asked.equal(queries.is_asked[rows, :cut])
        heard = TextRLOutput(**{n: x[rows, : cut + (n[0] == "t")] for n, x in outputs.items()})
        parts.append(hindsight_loss(heard, part, asked, found, OPTIONS)[0])
    assert float(sum(parts)) == pytest.approx(float(total), rel=1e-12)


def test_queries_are_later_steps_drawn_by_weight(batch_of: Callable[..., Batch]) -> None:
    """How often each step is asked about is its weight's share of what follows the history."""
    batch, found = batch_of(3, lengths=(8,), truncated=(False,)), a_survey()
    batch = replace(
        batch,
        ends_action=torch.tensor([[True] * 8]),
        observations=torch.tensor([[1, 0, 3, -1, 2, 1, 0, 0]]),
    )
    weights = [1.0, 0.0, 2.0, 0.0, 0.5, 1.0, 0.0, 0.0]
    draws = 4000
    steps = [draw_queries(batch, found, (7, n), LONGEST) for n in range(draws)]
    assert steps[0].is_asked.tolist() == [[True] * 6 + [False] * 2]
    for t in range(6):
        counts = Counter(int(each.step[0, t]) for each in steps)
        assert all(k >= t and weights[k] > 0 for k in counts)
        for k in range(t, 8):
            share = weights[k] / sum(weights[t:])
            error = math.sqrt(share * (1 - share) / draws)
            assert counts[k] / draws == pytest.approx(share, abs=4 * error)
    asked = steps[0]
    assert asked.observation is not None
    assert asked.observation.equal(batch.observations.gather(1, asked.step))


def test_an_action_is_asked_about_as_the_sum_of_its_tokens(batch_of: Callable[..., Batch]) -> None:
    batch, found = batch_of(4, tokens=6), a_survey(about_observations=False)
    queries = draw_queries(batch, found, (0,), LONGEST)
    head = HindsightHead(WIDTH, actions=6, classes=CLASSES).double()
    embedded = head.embed(queries)
    checked = 0
    for e, t in queries.is_asked.nonzero().tolist():
        k = int(queries.step[e, t])
        first = max((j + 1 for j in range(k) if batch.ends_action[e, j]), default=0)
        numbers = [(j - first) * 6 + int(batch.actions[e, j]) for j in range(first, k + 1)]
        expected = head.of_action.weight[numbers].sum(dim=0)
        assert torch.allclose(embedded[e, t], expected, rtol=0, atol=1e-12)
        checked += len(numbers) > 1
    assert checked, "no action of several tokens was asked about"


def episodes(outcomes: list[tuple[int, float]]) -> list[Episode]:
    """One step each: the class observed, and the reward."""
    return [
        Episode((BEGIN_ID, 2), (Step((5, 7), reward, (3,), seen),), True, False, "novice")
        for seen, reward in outcomes
    ]


def surveyed(make_rows: Any, language: Language, outcomes: Any, **options: Any) -> Survey:
    rows = make_rows(episodes(outcomes))
    return survey(rows, np.arange(len(rows)), language, 4, RepresentationConfig(**options))


def test_the_survey_by_hand(make_rows: Any, language: Language) -> None:
    """Class 1: 1 of 4 pays; class 2 always pays, class 0 never; class 3 does not occur."""
    outcomes = [(1, 1.0), (1, 0.0), (1, 0.0), (1, 0.0), (2, 1.0), (0, 0.0), (0, 0.0), (0, 0.0)]
    found = surveyed(make_rows, language, outcomes)
    assert found.about_observations and found.borders.tolist() == [0.5]
    assert found.weight.tolist() == pytest.approx([0, 2 * 0.25 * 0.75, 0, 0])
    assert found.answerable == 0.5  # four of eight episodes have something to ask
    assert found.class_of(torch.tensor([0.0, 1.0])).tolist() == [0, 1]
    uniform = surveyed(make_rows, language, outcomes, draw="uniform")
    assert uniform.weight.tolist() == [1.0] * 4 and uniform.answerable == 1.0
    assert not surveyed(make_rows, language, outcomes, query="action").about_observations
    # Where the observation tells the reward, there is nothing to ask about it.
    assert not surveyed(make_rows, language, outcomes[4:]).about_observations
    with pytest.raises(UserError, match="never differ at the same observation: ask about actions"):
        surveyed(make_rows, language, outcomes[4:], query="observation")


def test_rewards_are_told_apart_by_value_or_by_quantile() -> None:
    assert borders_between({-1.0: 5, 0.0: 1, 2.0: 9}).tolist() == [-0.5, 1.0]
    many = borders_between({float(x): 1 for x in range(160)})
    assert many.tolist() == [9.5 + 10 * i for i in range(REWARD_CLASSES - 1)]
    # One reward that nearly all share is a class of its own; the others are one class each side.
    skewed = borders_between({float(x): 10_000 if x == 7 else 1 for x in range(20)})
    assert skewed.tolist() == [7.5]
    assert borders_between({3.0: 2}).tolist() == []
    table = np.array([[2.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    assert impurity(table).tolist() == [0.5, 0.0, 0.0]


def test_the_metric_compares_what_tests_are_expected_to_pay(
    make_rows: Any, language: Language
) -> None:
    """Class 1 pays in 1 of 4, class 2 in 2 of 4: their queries are as 6 to 8 (4 p (1 - p) each)."""
    outcomes = [(1, 2.0), *[(1, 0.0)] * 3, *[(2, 2.0)] * 2, *[(2, 0.0)] * 2, (0, 0.0)]
    found = surveyed(make_rows, language, outcomes)
    assert found.tests.tolist() == [2, 1] and found.values.tolist() == [0.0, 2.0]
    assert found.shares.tolist() == pytest.approx([8 / 14, 6 / 14])
    torch.manual_seed(0)
    head = HindsightHead(WIDTH, actions=4, classes=CLASSES)
    z, tests = torch.randn(3, WIDTH), CommonQueries.of(found, torch.device("cpu"))
    expected = torch.empty(3, 2)
    for i in range(3):
        for j, (seen, share) in enumerate(((2, 8 / 14), (1, 6 / 14))):
            said = head.answer(z[i], head.of_observation.weight[seen])[:2].softmax(dim=-1)
            expected[i, j] = share * 2.0 * said[1]
    assert torch.allclose(head.expect(z, tests), expected, rtol=0, atol=1e-6)
    partner = torch.tensor([1, 2, 0])
    targets = bisimulation_targets(expected, torch.zeros(3, 4), partner, 4, 1.0)
    gap = (expected - expected[partner]).abs()
    assert targets.tolist() == pytest.approx((gap[:, 0] + gap[:, 1]).tolist())


def test_stages_of_a_run() -> None:
    def stages(**options: Any) -> list[str]:
        run = configure("gridworld", max_steps=6, **options)
        return [run.representation.stage(step, 6).value for step in range(6)]

    assert stages() == [Stage.ALGORITHM] * 6
    hindsight = {"represent": "hindsight", "represent_steps": 2}
    assert stages(**hindsight) == ["alone"] * 2 + ["frozen"] * 4
    late = ["alone"] * 2 + ["frozen"] * 3 + ["algorithm"]
    assert stages(**hindsight, represent_finetune=1) == late
    assert stages(represent="hindsight", represent_steps=0) == ["beside"] * 6
    assert stages(represent="runs/other") == ["frozen"] * 6
    tuned = ["frozen"] * 4 + ["algorithm"] * 2
    assert stages(represent="runs/other", represent_finetune=2) == tuned


def test_each_stage_has_a_schedule_of_its_own() -> None:
    options = {"represent": "hindsight", "represent_steps": 40, "warmup_steps": 4}
    run = configure("gridworld", max_steps=100, **options)
    first = configure("gridworld", max_steps=40, warmup_steps=4)
    rest = configure("gridworld", max_steps=60, warmup_steps=4)
    expected = [schedule(step, first) for step in range(40)]
    expected += [schedule(step, rest) for step in range(60)]
    assert [schedule(step, run) for step in range(100)] == expected


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"represent": "hindsight", "max_steps": 400}, "leaves none of --max-steps 400"),
        ({"represent": "hindsight", "bisim": 0.05}, "leave one of them out"),
        ({"represent": "runs/x", "bisim": 0.05}, "leave one of them out"),
        ({"represent": "hindsight", "backbone": "user/lm"}, "is for new backbones"),
        ({"metric": "hindsight"}, "give it a weight with --bisim"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        configure("gridworld", **options)
    both = configure("gridworld", represent="hindsight", represent_steps=0, bisim=0.05)
    assert both.bisimulation.is_trained
