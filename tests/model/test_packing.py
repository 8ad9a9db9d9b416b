"""Packed histories: the same numbers and gradients as GPT-2's own, without its padding."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from textrl.bisimulation.pairs import draw_pairs
from textrl.data.batches import Batch, collate, similar_groups
from textrl.data.dataset import Rows, episodes_to_table
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.model.backbones import at_places
from textrl.model.network import TextRLModel
from textrl.model.packing import History, Packing

MakeEpisodes = Callable[..., list[Episode]]
MakeModel = Callable[..., TextRLModel]
GROUPS = [(), (7,), (2, 5), (1, 1, 1, 1, 1, 1, 1)]


@pytest.fixture
def batch(language: Language, random_episodes: MakeEpisodes) -> Batch:
    """Seven episodes, sorted as a step's are."""
    rows = Rows.from_table(episodes_to_table(random_episodes(7, seed=3)))
    return collate(rows, np.argsort(rows.lengths, kind="stable"), language)


def is_state(batch: Batch) -> Tensor:
    found = batch.state_positions > 0
    found[:, 0] = True
    return found


def by_transformers(model: TextRLModel, batch: Batch) -> dict[str, Tensor]:
    """The same heads on what transformers' own forward makes of the padded batch."""
    embedded = model.backbone.get_input_embeddings()(batch.tokens)
    hidden = model.backbone(inputs_embeds=embedded).last_hidden_state
    phi = model.representation(at_places(hidden, batch.state_positions))
    return {
        "representation": phi,
        "policy": model.policy(phi),
        "v": model.v(phi)[..., 0],
        "q": torch.stack([head(phi) for head in model.q]),
    }


def loss_of(said: dict[str, Tensor], counts: Tensor) -> Tensor:
    """Any function of all outputs at real states."""
    random = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.float64)
    for name in ("representation", "policy", "v", "q"):
        values = said[name][:, counts] if name == "q" else said[name][counts]
        total = total + (values * torch.rand(values.shape, generator=random)).sum()
    return total


@pytest.mark.parametrize("groups", GROUPS)
def test_outputs_and_gradients_are_those_of_transformers(
    language: Language, make_model: MakeModel, batch: Batch, groups: tuple[int, ...]
) -> None:
    model = make_model(language, layers=3).double()
    counts = is_state(batch)
    ours = model(batch.tokens, batch.state_positions, groups=groups)
    theirs = by_transformers(model, batch)
    for name, value in theirs.items():
        mine = ours[name]
        assert mine.shape == value.shape
        same = (mine[:, counts], value[:, counts]) if name == "q" else (mine[counts], value[counts])
        torch.testing.assert_close(*same, rtol=0, atol=1e-11)
    trained = [p for p in model.parameters() if p.requires_grad]
    gradients = [
        torch.autograd.grad(loss_of(said, counts), trained, allow_unused=True)
        for said in (ours, theirs)
    ]
    for mine, other in zip(*gradients, strict=True):
        assert (mine is None) == (other is None)
        if mine is not None and other is not None:
            torch.testing.assert_close(mine, other, rtol=0, atol=1e-10)
    assert sum(g is not None for g in gradients[0]) > 30


@pytest.mark.parametrize("groups", GROUPS)
def test_the_slow_encoder_is_asked_where_pairs_need_it(
    language: Language, make_model: MakeModel, batch: Batch, groups: tuple[int, ...]
) -> None:
    model = make_model(language).double()
    pairs = draw_pairs(batch, (0,))
    with torch.no_grad():
        some = model(batch.tokens, batch.state_positions, pairs=pairs, groups=groups)
        slow = model.encode(History(batch.tokens, None, batch.state_positions), slow=True)
    at = (pairs.episode, pairs.state)
    torch.testing.assert_close(some.target_representation[at], slow[at], rtol=0, atol=1e-11)


def test_groups_hold_their_longest_and_no_more(batch: Batch) -> None:
    time = batch.tokens.shape[1]
    groups = similar_groups(batch.state_positions)
    assert sum(groups) == len(batch.tokens)
    packing = Packing.of(batch.state_positions, time, groups)
    furthest = [part.max() + 1 for part in batch.state_positions.split(list(groups))]
    assert [tokens for _, tokens in packing.shapes] == furthest
    assert [episodes for episodes, _ in packing.shapes] == list(groups)
    packed = packing.pack(batch.tokens)
    assert len(packed) == sum(packing.sizes)
    row, position = torch.tensor([0, 3, 6]), torch.tensor([0, 2, 1])
    assert torch.equal(packed[packing.rows_at(row, position)], batch.tokens[row, position])


@pytest.mark.parametrize("groups", [(), (3, 4)])
def test_packing_and_unpacking_have_the_right_gradients(
    batch: Batch, groups: Sequence[int]
) -> None:
    packing = Packing.of(batch.state_positions, batch.tokens.shape[1], groups)
    counts = is_state(batch)
    hidden = torch.randn(sum(packing.sizes), 2, dtype=torch.float64, requires_grad=True)

    def there_and_back(hidden: Tensor) -> Tensor:
        states = packing.at_states(hidden)
        return packing.unpack(states, 2 * states)[:, counts]  # on padding there is no gradient

    first, second = there_and_back(hidden)
    at = packing.rows_at(torch.arange(7)[:, None], batch.state_positions)[counts]
    assert torch.equal(first, hidden[at]) and torch.equal(second, 2 * hidden[at])
    assert torch.autograd.gradcheck(there_and_back, (hidden,))
