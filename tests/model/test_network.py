"""The network: saved and loaded, its heads and targets, and reading bit by bit."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel

from textrl.data.language import Language
from textrl.losses.outputs import TextRLOutput
from textrl.model.gpt2_cache import GPT2Cache
from textrl.model.network import TextRLConfig, TextRLModel

MakeModel = Callable[..., TextRLModel]
HEADS = ("policy", "q", "target_q", "v")


def random_tokens(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 9, shape, generator=torch.Generator().manual_seed(seed))


def at_every_token(model: TextRLModel, tokens: torch.Tensor) -> TextRLOutput:
    positions = torch.arange(tokens.shape[1]).expand(tokens.shape)
    with torch.no_grad():
        return model(tokens, positions)


@pytest.mark.parametrize("load", [TextRLModel.from_pretrained, AutoModel.from_pretrained])
def test_a_saved_model_is_the_same_bit_for_bit(
    language: Language, make_model: MakeModel, tmp_path: Path, load: Callable[[Path], TextRLModel]
) -> None:
    model = make_model(language, beta=2.5)
    model.save_pretrained(tmp_path)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), TextRLConfig)
    torch.manual_seed(99)
    loaded = load(tmp_path)
    assert isinstance(loaded, TextRLModel)
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    for name in ("vocabulary", "first_action", "action_tokens", "heads", "context", "beta"):
        assert getattr(loaded.config, name) == getattr(model.config, name)
    tokens = random_tokens(2, 7)
    ours, theirs = at_every_token(model, tokens), at_every_token(loaded, tokens)
    for name in HEADS:  # the weights lie elsewhere in memory, which may change the last bit
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-6)


def test_loaded_targets_are_still_frozen(
    language: Language, make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model(language)
    model.save_pretrained(tmp_path)
    loaded = TextRLModel.from_pretrained(tmp_path)
    ours, theirs = (
        {name: parameter.requires_grad for name, parameter in each.named_parameters()}
        for each in (model, loaded)
    )
    assert ours == theirs


@pytest.mark.parametrize(
    "heads", [("policy",), ("policy", "q", "v"), ("q",), ("q", "world"), ("policy", "inverse")]
)
def test_only_the_heads_asked_for_are_there(
    language: Language, make_model: MakeModel, heads: tuple[str, ...]
) -> None:
    model = make_model(language, heads=heads)
    output = model(random_tokens(3, 5))
    expected = {*heads, *(["target_q"] if "q" in heads else [])}
    says = {name for name in HEADS if getattr(output, name) is not None}
    assert says == expected - {"world", "inverse"}
    if "world" in heads:
        expected |= {"target_backbone", "target_representation"}
    parts = {name.split(".")[0] for name in model.state_dict()}
    assert parts == {"backbone", "representation", *expected}
    model.update_targets(0.5)


def test_shapes(language: Language, make_model: MakeModel) -> None:
    output = make_model(language)(random_tokens(3, 8), torch.zeros(3, 6, dtype=torch.int64))
    assert output.representation.shape == (3, 6, 16)
    assert output.policy.shape == (3, 6, 4)
    assert output.q.shape == output.target_q.shape == (2, 3, 6, 4)
    assert output.v.shape == (3, 6)


def test_targets_start_equal_and_follow_by_the_rate(
    language: Language, make_model: MakeModel
) -> None:
    model = make_model(language, moved=False)
    weights = dict(model.named_parameters())
    pairs = [
        (weight, weights[name.removeprefix("target_")])
        for name, weight in weights.items()
        if name.startswith("target_")
    ]
    slow = (model.target_q, model.target_backbone, model.target_representation)
    assert len(pairs) == sum(len(list(part.parameters())) for part in slow)
    assert all(torch.equal(target, online) for target, online in pairs)
    assert not torch.equal(model.q[0][0].weight, model.q[1][0].weight)  # twins are two
    with torch.no_grad():
        for _, online in pairs:
            online.add_(torch.randn_like(online))
    before = [target.clone() for target, _ in pairs]
    held = [online.clone() for _, online in pairs]
    model.update_targets(0.25)
    for (target, online), then, same in zip(pairs, before, held, strict=True):
        torch.testing.assert_close(target, 0.75 * then + 0.25 * online)
        assert torch.equal(online, same)
    model.update_targets(1.0)
    assert all(torch.equal(target, online) for target, online in pairs)


def test_targets_take_no_gradient_and_give_none(language: Language, make_model: MakeModel) -> None:
    model = make_model(language).train()
    output = model(random_tokens(2, 6))
    assert not output.target_q.requires_grad
    (output.policy.sum() + output.q.sum() + output.v.sum() + output.target_q.sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad != name.startswith("target_"), name
        # Nobody asked the world model.
        assert (parameter.grad is None) == name.startswith(("target_", "world")), name


def test_the_values_share_of_the_gradient(language: Language, make_model: MakeModel) -> None:
    tokens = random_tokens(2, 6)

    def learn(head: str, share: float) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """What the head says, and the gradients of the representation and of its own weights."""
        model = make_model(language, value_gradient=share)
        says = getattr(model(tokens), head)
        says.square().sum().backward()
        learned = [model.representation.weight, *getattr(model, head).parameters()]
        return says.detach(), [each.grad for each in learned]

    for head, share in (("policy", 1.0), ("q", 0.25), ("v", 0.25)):
        (says, whole), (also_says, less) = (learn(head, share) for share in (1.0, 0.25))
        assert torch.equal(says, also_says)
        torch.testing.assert_close(less[0], share * whole[0])
        torch.testing.assert_close(less[1:], whole[1:])
        assert whole[0].abs().max() > 1e-4


def test_heads_read_the_position_they_are_given(language: Language, make_model: MakeModel) -> None:
    model, tokens = make_model(language), random_tokens(3, 9)
    positions = torch.tensor([[0, 4, 8, 4], [1, 2, 3, 0], [8, 7, 6, 5]])
    full = at_every_token(model, tokens)
    with torch.no_grad():
        some, last = model(tokens, positions), model(tokens)
    for row in range(3):
        where = positions[row]
        for name in HEADS:
            axes = (slice(None), row) if "q" in name else (row,)
            picked = full[name][axes][:, where] if "q" in name else full[name][axes][where]
            torch.testing.assert_close(some[name][axes], picked, rtol=0, atol=2e-6)
            end = full[name][axes][:, -1:] if "q" in name else full[name][axes][-1:]
            torch.testing.assert_close(last[name][axes], end, rtol=0, atol=2e-6)


def test_what_comes_later_changes_nothing_before(language: Language, make_model: MakeModel) -> None:
    model, tokens = make_model(language), random_tokens(3, 6)
    padding = torch.zeros(3, 5, dtype=torch.int64)
    short = at_every_token(model, tokens)
    for rest in (padding, random_tokens(3, 5, seed=1)):
        long = at_every_token(model, torch.cat([tokens, rest], dim=1))
        for name in HEADS:
            same = long[name][:, :, :6] if "q" in name else long[name][:, :6]
            torch.testing.assert_close(same, short[name], rtol=0, atol=2e-6)


def test_what_comes_before_matters(language: Language, make_model: MakeModel) -> None:
    model, tokens = make_model(language), random_tokens(1, 6)
    other = tokens.clone()
    other[0, 0] = tokens[0, 0] % 8 + 1
    one, two = at_every_token(model, tokens), at_every_token(model, other)
    assert (one.policy[:, -1] - two.policy[:, -1]).abs().max() > 1e-4


def test_reading_step_by_step_is_reading_at_once(language: Language, make_model: MakeModel) -> None:
    model, tokens = make_model(language), random_tokens(3, 10)
    full, cache = at_every_token(model, tokens), GPT2Cache()
    with torch.no_grad():
        for start, end in ((0, 1), (1, 2), (2, 6), (6, 7), (7, 10)):
            output = model(tokens[:, start:end], past_key_values=cache)
            assert output.q is None  # to act, the targets are enough
            there = slice(end - 1, end)
            for name, expected in (
                ("policy", full.policy[:, there]),
                ("target_q", full.target_q[:, :, there]),
                ("v", full.v[:, there]),
            ):
                torch.testing.assert_close(output[name], expected, rtol=0, atol=1e-5)
