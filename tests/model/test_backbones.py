"""Whatever reads the history: saved and loaded, bit by bit or at once, and its slow copy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel, GPT2Model

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.data.language import Language
from textrl.losses.outputs import TextRLOutput
from textrl.model.backbones import RNNBackbone, Shape, make_gpt2
from textrl.model.gpt2_cache import GPT2Cache
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]
HEADS = ("representation", "policy", "q", "target_q", "v")
KINDS: dict[str, dict[str, Any]] = {
    "gpt2": {"backbone": "gpt2"},
    "tanh": {"backbone": "rnn", "cell": "tanh"},
    "gru": {"backbone": "rnn", "cell": "gru"},
    "lstm": {"backbone": "rnn", "cell": "lstm"},
}


def hidden_states(backbone: nn.Module, tokens: Tensor) -> Tensor:
    """What a backbone makes of token ids."""
    embedded = backbone.get_input_embeddings()(tokens)
    return backbone(inputs_embeds=embedded).last_hidden_state


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, make_model: MakeModel, language: Language) -> MakeModel:
    """make_model with each of the backbones."""
    return lambda **changes: make_model(language, **{**KINDS[request.param], **changes})


def random_tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 9, shape, generator=torch.Generator().manual_seed(seed))


def at_every_token(model: TextRLModel, tokens: torch.Tensor) -> TextRLOutput:
    positions = torch.arange(tokens.shape[1]).expand(tokens.shape)
    with torch.no_grad():
        return model(tokens, positions)


def episodes_of(output: TextRLOutput, name: str) -> torch.Tensor:
    """A head's output with the episodes in front."""
    return output[name].transpose(0, 1) if "q" in name else output[name]


def same_weights(one: TextRLModel, other: TextRLModel) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


@pytest.mark.parametrize("load", [TextRLModel.from_pretrained, AutoModel.from_pretrained])
def test_a_saved_model_is_the_same_bit_for_bit(
    make: MakeModel, tmp_path: Path, load: Callable[[Path], TextRLModel]
) -> None:
    model = make(representation_hidden=24, representation_bound=3.0, observation_classes=5)
    with torch.no_grad():  # trained weights are no fresh ones, nor are its biases zero
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    torch.manual_seed(99)
    loaded = load(tmp_path)
    assert same_weights(model, loaded)
    ours, theirs = vars(model.config), vars(loaded.config)
    for name in ("backbone", "cell", "representation_hidden", "representation_bound", "heads"):
        assert ours[name] == theirs[name], name
    assert loaded.config.observation_classes == 5
    tokens = random_tokens(3, 9)
    one, two = at_every_token(model, tokens), at_every_token(loaded, tokens)
    for name in HEADS:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=1e-5)


def test_loaded_targets_are_frozen_and_go_on_moving(make: MakeModel, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path)
    loaded = TextRLModel.from_pretrained(tmp_path)
    weights = dict(loaded.named_parameters())
    for name, parameter in weights.items():
        assert parameter.requires_grad != name.startswith("target_"), name
    loaded.update_targets(1.0)
    for name, parameter in weights.items():
        if name.startswith("target_"):
            assert torch.equal(parameter, weights[name.removeprefix("target_")]), name
    # And what has moved is what is read.
    tokens = random_tokens(2, 5)
    with torch.no_grad():
        online = hidden_states(loaded.backbone, tokens)
        slow = hidden_states(loaded.target_backbone, tokens)
    torch.testing.assert_close(slow, online, rtol=0, atol=1e-6)


def test_the_slow_copy_follows_at_every_update_by_its_rate(make: MakeModel) -> None:
    model = make(moved=False, representation_hidden=8)
    weights = dict(model.named_parameters())
    slow = {name: p for name, p in weights.items() if name.startswith("target_")}
    kinds = {name.split(".")[0] for name in slow}
    assert kinds == {"target_q", "target_backbone", "target_representation"}
    expected = {name: parameter.detach().double().clone() for name, parameter in slow.items()}
    for rate in (0.25, 0.005, 0.5):
        with torch.no_grad():
            for name, parameter in weights.items():
                if name not in slow:
                    parameter.add_(torch.randn_like(parameter))
        held = {name: p.clone() for name, p in weights.items() if name not in slow}
        model.update_targets(rate)
        for name, target in expected.items():
            target += rate * (held[name.removeprefix("target_")] - target)
            torch.testing.assert_close(slow[name].double(), target, rtol=0, atol=1e-5)
        for name, before in held.items():
            assert torch.equal(weights[name], before), name


def test_acting_bit_by_bit_is_reading_at_once(make: MakeModel) -> None:
    model, tokens = make(), random_tokens(3, 10)
    full, cache = at_every_token(model, tokens), model.new_cache()
    kept = torch.arange(3)
    with torch.no_grad():
        for start, end in ((0, 1), (1, 2), (2, 6), (6, 7), (7, 10)):
            output = model(tokens[kept, start:end], past_key_values=cache)
            for name in ("representation", "policy", "target_q", "v"):
                whole = episodes_of(full, name)[kept]
                there = whole[:, :, end - 1 : end] if "q" in name else whole[:, end - 1 : end]
                torch.testing.assert_close(episodes_of(output, name), there, rtol=0, atol=1e-5)
            if end == 6:  # one of the episodes is over, the others change places
                kept = kept[[2, 0]]
                cache.batch_select_indices(torch.tensor([2, 0]))


def test_a_policy_with_a_cache_acts_as_one_that_reads_anew(
    make: MakeModel, language: Language
) -> None:
    model = make()
    policy = Policy(model, language, Decoding(beta=5.0, sample=False), seed=0)
    grammar = language.grammar
    history = random_tokens(6, 2).numpy()
    policy.begin(history)
    for turn in range(3):
        acted = policy.act()
        for number in range(6):
            row, state, expected = history[number].tolist(), 0, []
            while not expected or state:
                with torch.no_grad():
                    output = model(torch.tensor([row]))
                log_pi = output.policy[0, 0].masked_fill(
                    ~torch.from_numpy(grammar.legal[state]), -torch.inf
                )
                advantage = output.target_q[:, 0, 0].amin(0) - output.v[0, 0]
                expected.append(int((log_pi.log_softmax(0) + 5.0 * advantage).argmax()))
                row.append(expected[-1] + language.first_action)
                state = int(grammar.next_state[state, expected[-1]])
            assert acted[number].tolist() == expected
        seen = random_tokens(6, 3, seed=turn + 1).numpy()
        policy.observe(seen)
        history = np.concatenate([history, acted + language.first_action, seen], axis=1)


def test_what_comes_later_changes_nothing_before(make: MakeModel) -> None:
    model, tokens = make(), random_tokens(3, 6)
    short = at_every_token(model, tokens)
    for rest in (torch.zeros(3, 5, dtype=torch.int64), random_tokens(3, 5, seed=1)):
        long = at_every_token(model, torch.cat([tokens, rest], dim=1))
        for name in HEADS:
            same = long[name][:, :, :6] if "q" in name else long[name][:, :6]
            torch.testing.assert_close(same, short[name], rtol=0, atol=2e-6)


def test_what_comes_before_matters(make: MakeModel) -> None:
    model, tokens = make(), random_tokens(1, 6)
    other = tokens.clone()
    other[0, 0] = tokens[0, 0] % 8 + 1
    one, two = at_every_token(model, tokens), at_every_token(model, other)
    assert (one.representation[:, -1] - two.representation[:, -1]).abs().max() > 1e-4


def test_neighbours_do_not_matter(make: MakeModel) -> None:
    model, tokens = make(), random_tokens(5, 7)
    order = [3, 0, 4]
    all_of_them, some = at_every_token(model, tokens), at_every_token(model, tokens[order])
    for name in HEADS:
        mine = episodes_of(all_of_them, name)[order]
        torch.testing.assert_close(episodes_of(some, name), mine, rtol=0, atol=2e-6)


def test_the_seed_decides_the_weights(make: MakeModel) -> None:
    assert same_weights(make(seed=3), make(seed=3))
    assert not torch.equal(make(seed=3).representation.weight, make(seed=4).representation.weight)
    one, other = make(seed=3).backbone.state_dict(), make(seed=4).backbone.state_dict()
    matrices = [name for name, value in one.items() if value.ndim == 2]
    assert matrices and not any(torch.equal(one[name], other[name]) for name in matrices)


def test_the_bound_bounds_the_norm_and_nothing_else(make: MakeModel) -> None:
    tokens = random_tokens(4, 9)
    free = at_every_token(make(), tokens).representation
    norms = free.norm(dim=-1)
    bound = float(norms.median())  # so that some are above and some below
    bounded_model = make(representation_bound=bound)
    bounded = at_every_token(bounded_model, tokens).representation
    assert bounded.norm(dim=-1).max() <= bound * (1 + 1e-6)
    expected = free * (bound / norms).clamp(max=1.0)[..., None]
    torch.testing.assert_close(bounded, expected, rtol=0, atol=1e-5)
    assert (norms < bound).any() and (norms > bound).any()
    # The heads read what is bounded.
    said = at_every_token(bounded_model, tokens).policy
    torch.testing.assert_close(said, bounded_model.policy(bounded), rtol=0, atol=1e-5)


def test_a_hidden_layer_before_the_representation(make: MakeModel) -> None:
    model, tokens = make(representation_hidden=24), random_tokens(2, 5)
    with torch.no_grad():
        hidden = hidden_states(model.backbone, tokens)
        first, _, last = model.representation
        assert first.weight.shape == (24, 16) and last.weight.shape == (16, 24)
        expected = last(torch.relu(first(hidden)))
    actual = at_every_token(model, tokens).representation
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)


def shape_of(cell: str, layers: int) -> Shape:
    return Shape(vocabulary=9, layers=layers, width=4, attention_heads=1, context=8, cell=cell)


def test_a_tanh_network_by_a_loop() -> None:
    torch.manual_seed(0)
    backbone = RNNBackbone(shape_of("tanh", layers=2)).double()
    tokens = random_tokens(2, 6)
    weights = dict(backbone.cells.named_parameters())
    with torch.no_grad():
        read = hidden_states(backbone, tokens)
        for row in range(2):
            states = [torch.zeros(4, dtype=torch.float64)] * 2
            for time in range(6):
                below = backbone.embedding.weight[tokens[row, time]]
                for layer in range(2):
                    total = weights[f"weight_ih_l{layer}"] @ below + weights[f"bias_ih_l{layer}"]
                    total += weights[f"weight_hh_l{layer}"] @ states[layer]
                    total += weights[f"bias_hh_l{layer}"]
                    below = states[layer] = torch.tanh(total)
                torch.testing.assert_close(read[row, time], below)


@pytest.mark.parametrize(("cell", "gates"), [("tanh", 1), ("gru", 3), ("lstm", 4)])
def test_fresh_cells_neither_amplify_nor_forget(
    make_model: MakeModel, language: Language, cell: str, gates: int
) -> None:
    model = make_model(language, backbone="rnn", cell=cell)
    recurrent = [p for n, p in model.backbone.cells.named_parameters() if "weight_hh" in n]
    assert len(recurrent) == 2
    for matrix in recurrent:
        parts = matrix.detach().split(16)
        assert len(parts) == gates
        for gate in parts:
            torch.testing.assert_close(gate @ gate.t(), torch.eye(16), rtol=0, atol=1e-5)
        assert all(not torch.equal(parts[0], other) for other in parts[1:])
    biases = [p for n, p in model.backbone.cells.named_parameters() if "bias" in n]
    assert all((bias == 0).all() for bias in biases)


@pytest.mark.parametrize("cell", ["tanh", "lstm"])
def test_reading_some_places_is_reading_all_and_picking(
    make_model: MakeModel, language: Language, cell: str
) -> None:
    # GPT-2's are packed: see test_packing.
    backbone = make_model(language, backbone="rnn", cell=cell, layers=3).backbone
    embedded = torch.randn(4, 12, backbone.get_input_embeddings().embedding_dim)
    places = torch.tensor([[0, 3, 4, 11], [1, 2, 2, 5], [0, 0, 0, 0], [8, 9, 10, 11]])
    some = backbone(inputs_embeds=embedded, read_at=places).last_hidden_state
    everything = backbone(inputs_embeds=embedded).last_hidden_state
    picked = torch.stack([each[at] for each, at in zip(everything, places, strict=True)])
    assert torch.equal(some, picked)


def test_a_new_backbone_begins_as_gpt2_does() -> None:
    shape = Shape(vocabulary=9, layers=2, width=16, attention_heads=2, context=12, cell="tanh")
    torch.manual_seed(0)
    ours = make_gpt2(shape)
    torch.manual_seed(0)
    theirs = GPT2Model(ours.config)
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight), name


def test_candidates_read_what_led_to_them(make: MakeModel) -> None:
    """Two episodes, whose candidates branch off, take each other's place, and are left or taken."""
    model = make()
    random = torch.Generator().manual_seed(0)
    read = random_tokens(2, 3)  # of each row
    cache = model.new_cache()

    def agrees(new: Tensor) -> None:
        whole = at_every_token(model, read)
        output = model(new, past_key_values=cache)
        for name in ("representation", "policy", "target_q", "v"):
            there = episodes_of(whole, name)
            there = there[:, :, -1:] if "q" in name else there[:, -1:]
            torch.testing.assert_close(episodes_of(output, name), there, rtol=0, atol=1e-5)

    with torch.no_grad():
        agrees(read)
        for candidates in (2, 5):
            rows = 1
            for widened in (candidates, candidates + 1, candidates + 1):
                parents = torch.randint(rows, (2, widened), generator=random)
                parents = (parents + rows * torch.arange(2)[:, None]).flatten()
                cache.branch(parents)
                new = torch.randint(1, 9, (len(parents), 1), generator=random)
                read, rows = torch.cat([read[parents], new], dim=1), widened
                agrees(new)
            chosen = torch.tensor([rows - 1, rows])  # the first one's last, the second's first
            cache.branch(torch.arange(2 * rows))  # of which nothing has been read yet
            cache.settle(chosen)
            new = random_tokens(2, 4, seed=candidates)
            read = torch.cat([read[chosen], new], dim=1)
            agrees(new)
        cache.batch_select_indices(torch.tensor([1]))
        new = random_tokens(1, 60 - read.shape[1])  # more than there was room for at first
        read = torch.cat([read[1:], new], dim=1)
        agrees(new)


def test_a_cache_grows(language: Language, make_model: MakeModel) -> None:
    model, tokens = make_model(language), random_tokens(2, 40)
    small, large = GPT2Cache(room=2), GPT2Cache()
    with torch.no_grad():
        for start, end in ((0, 1), (1, 9), (9, 40)):
            one, other = (
                model(tokens[:, start:end], past_key_values=cache) for cache in (small, large)
            )
            assert torch.equal(one.policy, other.policy)
