"""Pairs of histories: who meets whom, and choices by dice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from datasets import Dataset

from textrl.bisimulation.loss import BisimulationWeights, bisimulation_loss
from textrl.bisimulation.pairs import GROUPS, Pairs, draw_pairs, throw
from textrl.data.batches import Batch, EpisodeBatches, collate
from textrl.data.dataset import Rows, episodes_to_table
from textrl.data.episode import Episode, Step
from textrl.data.language import Language
from textrl.model.network import TextRLModel

PAIR_TENSORS = [field for field in fields(Pairs) if field.name != "from_data"]

MakeEpisodes = Callable[..., list[Episode]]
MakeModel = Callable[..., TextRLModel]
MakeRows = Callable[[list[Episode]], Dataset]
JUST_BELOW_ONE = 1 - 2**-24  # the largest that torch.rand gives in single precision


def batch_of(episodes: list[Episode], language: Language) -> Batch:
    rows = Rows.from_table(episodes_to_table(episodes))
    return collate(rows, np.arange(len(episodes)), language)


def in_one_group(batch: Batch) -> Batch:
    """As if another group's episodes stood between these."""
    return replace(batch, place_stride=GROUPS)


def same(one: Pairs, other: Pairs) -> bool:
    return all(torch.equal(getattr(one, f.name), getattr(other, f.name)) for f in PAIR_TENSORS)


def test_every_history_is_in_two_pairs_and_never_with_itself(
    language: Language, random_episodes: MakeEpisodes
) -> None:
    for seed in range(20):
        batch = batch_of(random_episodes(5, seed), language)
        pairs = draw_pairs(batch, (seed,))
        n = len(pairs.partner)
        assert n == int(batch.ends_action.sum())
        assert sorted(pairs.partner.tolist()) == list(range(n))  # once as partner, once as itself
        assert (pairs.partner != torch.arange(n)).all()


def test_two_histories_meet_each_other(language: Language) -> None:
    batch = batch_of([Episode((1,), (Step((5, 7), 0.0),), True, False, "x")] * 2, language)
    for seed in range(5):
        assert draw_pairs(in_one_group(batch), (seed,)).partner.tolist() == [1, 0]
        assert draw_pairs(batch, (seed,)).partner.tolist() == []  # each alone in its group


@pytest.mark.parametrize(("first", "stride"), [(0, 1), (1, 1), (3, 3), (0, 2), (1, 4)])
def test_partners_are_of_one_group(
    language: Language, random_episodes: MakeEpisodes, first: int, stride: int
) -> None:
    batch = replace(batch_of(random_episodes(8), language), first_place=first, place_stride=stride)
    group = (first + stride * np.arange(8)) % GROUPS
    assert {*group} == ({0, 1} if stride % 2 else {first % 2})
    for seed in range(20):
        pairs = draw_pairs(batch, (seed,))
        assert len(pairs.partner) == int(batch.ends_action.sum())
        mine, partners = group[pairs.episode], group[pairs.episode[pairs.partner]]
        assert (mine == partners).all()


def test_a_history_alone_in_its_group_is_left_out(language: Language) -> None:
    one, two = (Episode((1,), (Step((5, 7), 0.0, (2,)),) * n, True, False, "x") for n in (1, 2))
    pairs = draw_pairs(batch_of([two, one], language), (0,))
    assert pairs.episode.tolist() == [0, 0] and pairs.partner.tolist() == [1, 0]
    pairs = draw_pairs(batch_of([one, two], language), (0,))
    assert pairs.episode.tolist() == [1, 1] and pairs.partner.tolist() == [1, 0]


Met = dict[tuple[int, int], tuple[object, ...]]


def who_meets_whom(parts: list[Batch], seed: tuple[int, ...]) -> Met:
    """Of each history, by its episode's place in the step and its state: its partner and dice."""
    met: Met = {}
    for batch in parts:
        pairs = draw_pairs(batch, seed)
        place = batch.first_place + batch.place_stride * pairs.episode
        history = list(zip(place.tolist(), pairs.state.tolist(), strict=True))
        for i, partner in enumerate(pairs.partner.tolist()):
            assert history[i] not in met
            met[history[i]] = (
                history[partner],
                float(pairs.dice[i]),
                int(pairs.actions[i]),
                tuple(pairs.legal[i].tolist()),
            )
    return met


@pytest.mark.parametrize(("processes", "accumulation"), [(2, 1), (1, 2)])
def test_two_halves_of_a_step_compare_what_the_whole_does(
    language: Language,
    random_episodes: MakeEpisodes,
    make_rows: MakeRows,
    processes: int,
    accumulation: int,
) -> None:
    rows = make_rows(random_episodes(40))

    def step_of(number: int, process: int, **split: int) -> list[Batch]:
        of_step = EpisodeBatches(
            rows, language, batch_size=10, whole_every=1, process=process, **split
        )
        return of_step.step(number)

    for number in range(4):
        (whole,) = step_of(number, 0)
        split = {"processes": processes, "accumulation": accumulation}
        halves = [each for p in range(processes) for each in step_of(number, p, **split)]
        assert len(halves) == 2
        for place, half in enumerate(halves):  # it is every second episode of the whole
            actions = whole.actions[place::2][:, : half.actions.shape[1]]
            assert torch.equal(half.actions, actions)
            assert torch.equal(half.is_action.sum(1), whole.is_action[place::2].sum(1))
            assert (half.first_place, half.place_stride) == (place, 2)
        met = who_meets_whom([whole], (3, number, 0))
        assert len(met) == int(whole.ends_action.sum())
        assert who_meets_whom(halves, (3, number, 0)) == met
        assert who_meets_whom(halves, (4, number, 0)) != met
        # The groups do not throw the same dice.
        dice = [draw_pairs(half, (3, number, 0)).dice[:5].tolist() for half in halves]
        assert dice[0] != dice[1]


def test_only_tokens_that_complete_an_action_count(
    language: Language, random_episodes: MakeEpisodes
) -> None:
    batch = batch_of(random_episodes(12), language)
    pairs = draw_pairs(batch, (0,))
    drawn = set(zip(pairs.episode.tolist(), pairs.state.tolist(), strict=True))
    assert len(drawn) == len(pairs.episode)
    places = np.ndindex(*batch.ends_action.shape)
    assert drawn == {place for place in places if batch.ends_action[place]}
    for i, place in enumerate(zip(pairs.episode.tolist(), pairs.state.tolist(), strict=True)):
        assert batch.is_action[place]
        assert pairs.actions[i] == batch.actions[place]
        assert torch.equal(pairs.legal[i], batch.legal[place])
        assert pairs.legal[i, pairs.actions[i]]


def test_the_seed_decides(language: Language, random_episodes: MakeEpisodes) -> None:
    batch = batch_of(random_episodes(12), language)
    seed = (7, 3, 0, 1)
    torch.manual_seed(0)
    first = draw_pairs(batch, seed)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), after), "drawing pairs moved the global random numbers"
    assert same(draw_pairs(batch, seed), first)
    for place in range(4):
        other = tuple(number + (i == place) for i, number in enumerate(seed))
        again = draw_pairs(batch, other)
        assert not torch.equal(again.partner, first.partner)
        assert not torch.equal(again.dice, first.dice)


def test_everybody_meets_everybody_in_the_end(
    language: Language, random_episodes: MakeEpisodes
) -> None:
    batch = in_one_group(batch_of(random_episodes(2, truncated=0.0), language))
    n = int(batch.ends_action.sum())
    met = Counter()
    for seed in range(2000):
        met.update(enumerate(draw_pairs(batch, (seed,)).partner.tolist()))
    assert n > 3 and len(met) == n * (n - 1)
    # 2,000 / (n - 1) meetings each are expected, with a standard deviation below their root.
    expected = 2000 / (n - 1)
    assert max(abs(count - expected) for count in met.values()) < 5 * expected**0.5


@pytest.mark.parametrize("classes", [0, 7])
@pytest.mark.parametrize("completed", [0, 1])
def test_fewer_than_two_histories_make_no_pair(
    language: Language, make_model: MakeModel, completed: int, classes: int
) -> None:
    steps = (*[Step((5, 7), -1.0, (2,), 3)] * completed, Step((5,), 0.0))
    batch = batch_of([Episode((1,), steps, False, True, "x")], language)
    pairs = draw_pairs(batch, (0,))
    assert all(len(getattr(pairs, field.name)) == 0 for field in PAIR_TENSORS)
    model = make_model(language, observation_classes=classes).train()
    outputs = model(batch.tokens, batch.state_positions, pairs=pairs)
    weights = BisimulationWeights(weight=1.0)
    added, terms = bisimulation_loss(outputs, batch, pairs, classes, weights)
    added.backward()
    assert added.item() == 0.0
    for field in fields(terms):
        assert getattr(terms, field.name).item() == 0.0, field.name
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or (parameter.grad == 0).all(), name


def test_pairs_move_as_a_whole(language: Language, random_episodes: MakeEpisodes) -> None:
    moved = draw_pairs(batch_of(random_episodes(3), language), (0,)).to(torch.device("meta"))
    assert {getattr(moved, field.name).device.type for field in PAIR_TENSORS} == {"meta"}


def test_throw_by_hand() -> None:
    odds = torch.tensor([[0.25, 0.5, 0.25]]).expand(6, 3)
    dice = torch.tensor([0.0, 0.24, 0.25, 0.74, 0.75, JUST_BELOW_ONE])
    assert throw(dice, odds).tolist() == [0, 0, 1, 1, 2, 2]


def test_throw_follows_the_odds() -> None:
    dice = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    odds = torch.tensor([0.1, 0.0, 0.6, 0.3])
    shares = torch.bincount(throw(dice, odds.expand(20_000, 4)), minlength=4) / 20_000
    # Five standard errors of a share of 20,000 throws are at most 0.018.
    np.testing.assert_allclose(shares.numpy(), odds.numpy(), atol=0.018)
    assert shares[1] == 0


@pytest.mark.parametrize("dice", [0.0, 1e-30, 0.5, JUST_BELOW_ONE])
def test_throw_never_takes_what_cannot_be(dice: float) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 5 * torch.randn(5000, 9, generator=generator)
    possible = torch.rand(5000, 9, generator=generator) < 0.3
    possible[torch.arange(5000), torch.randint(9, (5000,), generator=generator)] = True
    odds = logits.masked_fill(~possible, -torch.inf).softmax(dim=-1)
    taken = throw(torch.full((5000,), dice), odds)
    assert possible[torch.arange(5000), taken].all()
    assert (odds[torch.arange(5000), taken] > 0).all()
