"""The bisimulation loss, against loops, by gradients, and what must not matter to it."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from textrl.bisimulation.loss import (
    BisimulationTerms,
    BisimulationWeights,
    bisimulation_loss,
    correlation,
    distance,
    dynamics_distance,
    dynamics_fit,
    weights_of,
)
from textrl.bisimulation.pairs import GROUPS, Pairs, draw_pairs
from textrl.config.presets import configure
from textrl.data.batches import Batch
from textrl.losses.outputs import TextRLOutput
from textrl.training.loop import has_collapsed

PAIR_TENSORS = [field for field in fields(Pairs) if field.name != "from_data"]

WIDTH = 3
PER_HISTORY = (
    "predicted_reward",
    "predicted_dynamics",
    "imagined_reward",
    "imagined_dynamics",
    "inverse",
)
WEIGHTS = BisimulationWeights(weight=0.7, discount=0.6, inverse=0.2)


@dataclass(frozen=True)
class Compared:
    """What the loss takes, but for its weights."""

    outputs: TextRLOutput
    batch: Batch
    pairs: Pairs
    classes: int

    def loss(self, weights: BisimulationWeights) -> tuple[Tensor, BisimulationTerms]:
        return bisimulation_loss(self.outputs, self.batch, self.pairs, self.classes, weights)

    def given(self, **outputs: Tensor) -> "Compared":
        """With some of the outputs replaced."""
        names = ("representation", "target_representation", *PER_HISTORY)
        return replace(
            self,
            outputs=TextRLOutput(
                **{name: outputs.get(name, getattr(self.outputs, name)) for name in names}
            ),
        )


@pytest.fixture
def compared(random_case: Any) -> Callable[..., Compared]:
    """Random batches with pairs and what a model might say of them. classes = 0: Gaussians."""

    def make(seed: int, classes: int, lengths: tuple[int, ...] = (3, 2, 5, 2)) -> Compared:
        rng = np.random.default_rng(seed)

        def normal(*shape: int) -> Tensor:
            return torch.from_numpy(rng.normal(size=shape))

        batch = random_case(seed, lengths=lengths).batch
        seen = torch.from_numpy(rng.integers(-1, max(1, classes), size=batch.actions.shape))
        batch = replace(batch, observations=torch.where(batch.ends_action, seen, -1))
        pairs = draw_pairs(batch, (seed,))
        n, said = len(pairs.partner), classes or 2 * WIDTH
        assert n >= 3
        outputs = TextRLOutput(
            representation=normal(*batch.legal.shape[:2], WIDTH),
            target_representation=normal(*batch.legal.shape[:2], WIDTH),
            predicted_reward=normal(n),
            predicted_dynamics=normal(n, said),
            imagined_reward=normal(n),
            imagined_dynamics=normal(n, said),
            inverse=normal(n, batch.legal.shape[2]),
        )
        return Compared(outputs, batch, pairs, classes)

    return make


def softmax(logits: np.ndarray) -> np.ndarray:
    return np.exp(logits) / np.exp(logits).sum()


def reference(case: Compared, weights: BisimulationWeights) -> dict[str, float]:
    """The same terms by plain loops, and what is added to the algorithm's loss."""
    batch, pairs, classes = case.batch, case.pairs, case.classes
    out = {name: value.numpy() for name, value in case.outputs.items()}
    rewards, dynamics = out["imagined_reward"], out["imagined_dynamics"]
    sums = dict.fromkeys([field.name for field in fields(BisimulationTerms)], 0.0)
    learned, targets, points = [], [], []
    for i in range(len(pairs.partner)):
        j, e, k = int(pairs.partner[i]), int(pairs.episode[i]), int(pairs.state[i])
        mine = out["representation"][e, k]
        gap = mine - out["representation"][pairs.episode[j], pairs.state[j]]
        far = {
            "l1": np.abs(gap).sum(),
            "squared-l2": (gap**2).sum(),
            "l2": math.sqrt((gap**2).sum()),
        }[weights.distance]
        if classes:
            apart = np.abs(softmax(dynamics[i]) - softmax(dynamics[j])).sum()
        else:
            means = dynamics[i, :WIDTH] - dynamics[j, :WIDTH]
            deviations = np.exp(dynamics[i, WIDTH:]) - np.exp(dynamics[j, WIDTH:])
            apart = math.sqrt((means**2).sum() + (deviations**2).sum())
        goal = abs(rewards[i] - rewards[j]) + weights.discount * apart
        learned.append(far)
        targets.append(goal)
        points.append(mine)
        sums["bisimulation"] += (far - goal) ** 2
        sums["model_reward"] += (out["predicted_reward"][i] - float(batch.rewards[e, k])) ** 2
        said, seen = out["predicted_dynamics"][i], int(batch.observations[e, k])
        if classes and seen >= 0:
            sums["model_dynamics"] -= math.log(softmax(said)[seen])
        if batch.has_next[e, k]:
            sums["inverse"] -= math.log(softmax(out["inverse"][i])[int(pairs.actions[i])])
            if not classes:
                for axis in range(WIDTH):
                    deviation = math.exp(said[WIDTH + axis])
                    off = (out["target_representation"][e, k + 1, axis] - said[axis]) / deviation
                    sums["model_dynamics"] += off**2 / 2 + math.log(deviation)
    n = len(learned)
    sums["learned_distance"], sums["target_distance"] = sum(learned), sum(targets)
    sums["distance_correlation"] = n * np.corrcoef(learned, targets)[0, 1]
    sums["embedding_norm"] = sum(np.linalg.norm(point) for point in points)
    middle = np.mean(points, axis=0)
    squares = [((point - middle) ** 2).sum() for point in points]
    sums["embedding_spread"] = n * math.sqrt(np.mean(squares))
    means = {name: value / batch.completed_count for name, value in sums.items()}
    means["added"] = (
        means["model_reward"]
        + means["model_dynamics"]
        + weights.weight * means["bisimulation"]
        + weights.inverse * means["inverse"]
    )
    return means


@pytest.mark.parametrize("classes", [0, 5])
@pytest.mark.parametrize("kind", ["l2", "squared-l2", "l1"])
def test_against_loops(compared: Callable[..., Compared], classes: int, kind: str) -> None:
    for seed, discount in ((0, 1.0), (1, 0.3), (2, 0.0)):
        weights = BisimulationWeights(0.7, kind, discount, inverse=0.2)
        case = compared(seed, classes)
        added, terms = case.loss(weights)
        actual = {**asdict(terms), "added": added}
        expected = reference(case, weights)
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            assert actual[name].item() == pytest.approx(value, abs=1e-6), name


def test_by_hand() -> None:
    # Representations 5 apart, rewards 1 apart, coins of 1/2 and of 3/4: 1 + 0.5 * 0.5 = 1.25.
    phi = torch.tensor([[[0.0, 0.0]], [[3.0, 4.0]]])
    coins = torch.tensor([[0.5, 0.5], [0.75, 0.25]]).log()
    ones = torch.ones(2, 1, dtype=torch.bool)
    batch = Batch(
        tokens=torch.zeros(2, 2, dtype=torch.int64),
        state_positions=torch.zeros(2, 1, dtype=torch.int64),
        legal=torch.ones(2, 1, 1, dtype=torch.bool),
        actions=torch.zeros(2, 1, dtype=torch.int64),
        rewards=torch.tensor([[3.0], [0.0]]),
        observations=torch.tensor([[0], [-1]]),
        ends_action=ones,
        is_action=ones,
        has_next=~ones,
        is_followed=~ones,
        return_after=torch.zeros(2, 1),
        left=torch.zeros(2, 1, dtype=torch.int64),
        action_count=2,
        completed_count=2,
        place_stride=GROUPS,  # the two are of one group
    )
    outputs = TextRLOutput(
        representation=phi,
        target_representation=phi,
        predicted_reward=torch.tensor([1.0, 0.0]),
        predicted_dynamics=coins,
        imagined_reward=torch.tensor([1.0, 0.0]),
        imagined_dynamics=coins,
    )
    weights = BisimulationWeights(weight=0.1, discount=0.5)
    added, terms = bisimulation_loss(outputs, batch, draw_pairs(batch, (0,)), 2, weights)
    assert terms.bisimulation.item() == pytest.approx(3.75**2)
    assert terms.learned_distance.item() == pytest.approx(5.0)
    assert terms.target_distance.item() == pytest.approx(1.25)
    assert terms.model_reward.item() == pytest.approx(4 / 2)
    assert terms.model_dynamics.item() == pytest.approx(math.log(2) / 2)  # nothing seen after one
    assert terms.inverse.item() == 0.0
    assert added.item() == pytest.approx(2 + math.log(2) / 2 + 0.1 * 3.75**2)
    assert terms.embedding_norm.item() == pytest.approx(2.5)
    assert terms.embedding_spread.item() == pytest.approx(2.5)
    assert terms.distance_correlation.item() == 0.0  # both pairs are the same


@pytest.mark.parametrize("classes", [0, 5])
@pytest.mark.parametrize("kind", ["l2", "squared-l2", "l1"])
def test_gradcheck(compared: Callable[..., Compared], classes: int, kind: str) -> None:
    case, weights = compared(3, classes), replace(WEIGHTS, distance=kind)
    names = ("representation", "predicted_reward", "predicted_dynamics", "inverse")

    def added(*leaves: Tensor) -> Tensor:
        return case.given(**dict(zip(names, leaves, strict=True))).loss(weights)[0]

    leaves = [getattr(case.outputs, name).clone().requires_grad_() for name in names]
    assert torch.autograd.gradcheck(added, leaves)


@pytest.mark.parametrize("classes", [0, 5])
def test_who_learns_from_what(compared: Callable[..., Compared], classes: int) -> None:
    case = compared(4, classes)
    names = ("representation", "target_representation", *PER_HISTORY)

    def learners(pick: Callable[[Tensor, BisimulationTerms], Tensor], **changes: float) -> set[str]:
        leaves = {name: getattr(case.outputs, name).clone().requires_grad_() for name in names}
        pick(*case.given(**leaves).loss(replace(WEIGHTS, **changes))).backward()
        return {name for name, leaf in leaves.items() if leaf.grad is not None}

    assert learners(lambda _, terms: terms.bisimulation) == {"representation"}
    assert learners(lambda _, terms: terms.model_reward) == {"predicted_reward"}
    assert learners(lambda _, terms: terms.model_dynamics) == {"predicted_dynamics"}
    assert learners(lambda _, terms: terms.inverse) == {"inverse"}
    models = {"predicted_reward", "predicted_dynamics"}
    assert learners(lambda added, _: added) == {"representation", "inverse", *models}
    assert learners(lambda added, _: added, weight=0.0, inverse=0.0) == models
    assert learners(lambda added, _: added, inverse=0.0) == {"representation", *models}


@pytest.mark.parametrize("classes", [0, 5])
def test_the_order_of_episodes_and_of_histories_does_not_matter(
    compared: Callable[..., Compared], classes: int
) -> None:
    case = compared(5, classes)
    before = asdict(case.loss(WEIGHTS)[1])
    batch, pairs, out = case.batch, case.pairs, case.outputs

    order = torch.tensor([2, 0, 3, 1])  # which episode comes where
    place = order.argsort()
    tensors = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    turned = replace(
        case.given(
            representation=out.representation[order],
            target_representation=out.target_representation[order],
        ),
        batch=replace(batch, **{n: t[order] for n, t in tensors.items() if torch.is_tensor(t)}),
        pairs=replace(pairs, episode=place[pairs.episode]),
    )

    order = torch.randperm(len(pairs.dice), generator=torch.Generator().manual_seed(0))
    place = order.argsort()
    listed = {field.name: getattr(pairs, field.name)[order] for field in PAIR_TENSORS}
    shuffled = replace(
        case.given(**{name: out[name][order] for name in PER_HISTORY}),
        pairs=Pairs(**{**listed, "partner": place[pairs.partner[order]]}),
    )
    # A pair has no first and second.
    swapped = replace(case, pairs=replace(pairs, partner=pairs.partner.argsort()))
    for other in (turned, shuffled, swapped):
        for name, value in asdict(other.loss(WEIGHTS)[1]).items():
            torch.testing.assert_close(value, before[name], msg=name)


@pytest.mark.parametrize("classes", [0, 5])
def test_a_steps_parts_add_up_to_its_mean(compared: Callable[..., Compared], classes: int) -> None:
    parts = [compared(seed, classes) for seed in (6, 7)]
    whole = sum(part.batch.completed_count for part in parts)
    sums = dict.fromkeys(reference(parts[0], WEIGHTS), 0.0)
    expected = dict(sums)
    for part in parts:
        of_step = replace(part, batch=replace(part.batch, completed_count=whole))
        added, terms = of_step.loss(WEIGHTS)
        for name, value in {**asdict(terms), "added": added}.items():
            sums[name] += value.item()
        # Alone, the part is a mean over its own histories.
        for name, value in reference(part, WEIGHTS).items():
            expected[name] += value * part.batch.completed_count / whole
    for name, value in expected.items():
        assert sums[name] == pytest.approx(value, abs=1e-6), name


@pytest.mark.parametrize("classes", [0, 5])
def test_padding_never_enters_a_pair(
    compared: Callable[..., Compared], random_case: Any, classes: int
) -> None:
    case = compared(11, classes)
    assert len(case.pairs.partner) == case.batch.completed_count  # nobody is alone in a group
    wide = random_case(11, lengths=(3, 2, 5, 2)).padded(3).batch
    wide = replace(
        wide, observations=torch.nn.functional.pad(case.batch.observations, (0, 3), value=-1)
    )
    pairs = draw_pairs(wide, (11,))
    for field in PAIR_TENSORS:
        assert torch.equal(getattr(pairs, field.name), getattr(case.pairs, field.name)), field.name

    def stretched(values: Tensor) -> Tensor:
        return torch.nn.functional.pad(values, (0, 0, 0, 3), value=1e3)

    out = case.outputs
    phi = stretched(out.representation).requires_grad_()
    padded = replace(case, batch=wide, pairs=pairs).given(
        representation=phi, target_representation=stretched(out.target_representation)
    )
    added, terms = padded.loss(WEIGHTS)
    expected_added, expected = case.loss(WEIGHTS)
    torch.testing.assert_close(added, expected_added)
    for name, value in asdict(expected).items():
        torch.testing.assert_close(getattr(terms, name), value, msg=name)
    added.backward()
    # Where no action ends, neither padding nor the middle of an action feels anything.
    assert (phi.grad[:, :5][~case.batch.ends_action] == 0).all()
    assert (phi.grad[:, 5:] == 0).all()
    assert (phi.grad[:, :5][case.batch.ends_action] != 0).all()


def test_w2_of_one_axis_against_its_quantiles() -> None:
    # In one dimension W2 is the root mean square gap between the two quantile functions.
    generator = torch.Generator().manual_seed(0)
    said = torch.randn(6, 2, 2, dtype=torch.float64, generator=generator)
    places = (torch.arange(400_000, dtype=torch.float64) + 0.5) / 400_000
    normal = torch.special.ndtri(places)
    for one, other in said:
        quantiles = [mean + log_deviation.exp() * normal for mean, log_deviation in (one, other)]
        expected = (quantiles[0] - quantiles[1]).square().mean().sqrt()
        actual = dynamics_distance(one[None], other[None], classes=0)
        assert actual.item() == pytest.approx(expected.item(), rel=1e-4)


def test_w2_of_several_axes_by_hand() -> None:
    one = torch.tensor([[0.0, 0.0, math.log(1), math.log(2)]])
    other = torch.tensor([[3.0, 4.0, math.log(13), math.log(2)]])
    assert dynamics_distance(one, other, classes=0).item() == pytest.approx(13.0)  # 9 + 16 + 144
    assert dynamics_distance(one, one, classes=0).item() == 0.0


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_l1_stays_between_zero_and_two(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    one, other = scale * torch.randn(2, 500, 6, dtype=torch.float64, generator=generator)
    apart = dynamics_distance(one, other, classes=6)
    assert (apart > 0).all() and (apart <= 2 + 1e-12).all()
    torch.testing.assert_close(apart, dynamics_distance(other, one, classes=6))
    torch.testing.assert_close(apart, dynamics_distance(one + 5.0, other, classes=6))
    assert (dynamics_distance(one, one, classes=6) == 0).all()


def test_l1_is_two_where_nothing_is_shared() -> None:
    one, other = torch.tensor([[200.0, 0.0, 0.0]]), torch.tensor([[0.0, 200.0, 0.0]])
    assert dynamics_distance(one, other, classes=3).item() == pytest.approx(2.0)


def test_the_gaussian_fit_is_the_likelihood() -> None:
    generator = torch.Generator().manual_seed(0)
    said = torch.randn(5, 6, dtype=torch.float64, generator=generator)
    followed = torch.randn(5, 3, dtype=torch.float64, generator=generator)
    gaussian = torch.distributions.Normal(said[:, :3], said[:, 3:].exp())
    expected = -gaussian.log_prob(followed).sum(-1) - 1.5 * math.log(2 * math.pi)
    nothing = torch.zeros(0, dtype=torch.int64)
    torch.testing.assert_close(dynamics_fit(said, nothing, followed, classes=0), expected)


def test_correlation_is_pearsons() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=50)
    for b in (a + rng.normal(size=50), -3 * a + 1, rng.normal(size=50)):
        actual = correlation(torch.from_numpy(a), torch.from_numpy(b)).item()
        assert actual == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-9)
    still = torch.ones(50, dtype=torch.float64)
    assert correlation(torch.from_numpy(a), still).item() == 0.0


@pytest.mark.parametrize("kind", ["l2", "squared-l2", "l1"])
def test_distances_by_hand(kind: str) -> None:
    a, b = torch.tensor([[1.0, -1.0], [2.0, 2.0]]), torch.tensor([[4.0, 3.0], [2.0, 2.0]])
    far = {"l2": 5.0, "squared-l2": 25.0, "l1": 7.0}[kind]
    assert distance(a, b, kind).tolist() == [far, 0.0]


@pytest.mark.parametrize("kind", ["l2", "squared-l2", "l1"])
def test_collapsed_representations_are_told_and_harm_nobody(
    compared: Callable[..., Compared], kind: str
) -> None:
    case = compared(10, classes=5)
    one_point = torch.ones_like(case.outputs.representation).requires_grad_()
    added, terms = case.given(representation=one_point).loss(replace(WEIGHTS, distance=kind))
    added.backward()
    assert one_point.grad.isfinite().all()
    values = {name: value.item() for name, value in vars(terms).items()}
    assert all(math.isfinite(value) for value in values.values())
    assert values["embedding_spread"] == 0.0 and values["learned_distance"] == 0.0
    assert has_collapsed(values)
    healthy = {name: value.item() for name, value in asdict(case.loss(WEIGHTS)[1]).items()}
    assert not has_collapsed(healthy)
    assert not has_collapsed({"total": 1.0})  # a line of metrics without the diagnostics


def test_nearly_collapsed_is_collapsed() -> None:
    assert has_collapsed({"embedding_norm": 10.0, "embedding_spread": 0.09})
    assert not has_collapsed({"embedding_norm": 10.0, "embedding_spread": 0.11})


def test_a_stride_makes_up_for_the_steps_left_out() -> None:
    often = configure("wordle", bisim=0.1, bisim_inverse=0.2).bisimulation
    seldom = configure("wordle", bisim=0.1, bisim_inverse=0.2, bisim_stride=4).bisimulation
    assert seldom.compares_every == 4 * often.compares_every
    for name in ("weight", "inverse"):
        of_often, of_seldom = (getattr(weights_of(each), name) for each in (often, seldom))
        assert of_seldom == 4 * of_often > 0
