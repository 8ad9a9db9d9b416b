"""Agents on pretrained language models: they begin as those, and are saved whole."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma2Config

from tests.tiny_lms import (
    CONFIGS,
    CONTEXT,
    TOKENS,
    WIDTH,
    agent_on,
    random_batch,
    random_tokens,
    save_lm,
    task_of,
)
from textrl.algorithms.ilql import ILQLOptions
from textrl.bisimulation.pairs import draw_pairs
from textrl.config.presets import configure
from textrl.errors import UserError
from textrl.losses.ilql import ilql_loss
from textrl.losses.outputs import TextRLOutput
from textrl.model.build import new_model
from textrl.model.language_model import load_lm
from textrl.model.network import TextRLModel
from textrl.tasks.members import Members
from textrl.training.optimizers import make_optimizers

WITH_WORLD = ("policy", "q", "v", "world", "inverse")


def at_every_token(model: TextRLModel, tokens: torch.Tensor) -> TextRLOutput:
    with torch.no_grad():
        return model(tokens, torch.arange(tokens.shape[1]).expand(tokens.shape))


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("q_head", ["mlp", "low-rank", "shared"])
def test_it_begins_as_the_language_model(kind: str, q_head: str, tmp_path: Path) -> None:
    lm = save_lm(kind, tmp_path)
    model, tokens = agent_on(tmp_path, q_head=q_head), random_tokens(3, 12)
    said = at_every_token(model, tokens)
    with torch.no_grad():
        expected = lm(tokens).logits
    assert expected.std() > 0.1
    assert torch.equal(said.policy, expected)
    assert said.q.shape == said.target_q.shape == (2, 3, 12, TOKENS)
    assert said.v.shape == (3, 12)
    for values in (said.q, said.target_q, said.v):  # so beta changes nothing yet
        assert not values.any()


@pytest.mark.parametrize(
    ("kind", "heads"), [*((kind, WITH_WORLD) for kind in CONFIGS), ("llama", ("q",))]
)
def test_a_saved_agent_needs_its_language_model_no_more(
    kind: str, heads: tuple[str, ...], tmp_path: Path
) -> None:
    save_lm(kind, tmp_path / "lm")
    model = agent_on(tmp_path / "lm", moved=True, heads=heads, q_head="low-rank")
    with torch.no_grad():
        for parameter in model.backbone.parameters():
            parameter.add_(0.01)
    model.save_pretrained(tmp_path / "agent")
    (tmp_path / "lm").rename(tmp_path / "elsewhere")
    loaded = TextRLModel.from_pretrained(tmp_path / "agent").train(False)
    before, after = model.state_dict(), loaded.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert [p.requires_grad for p in model.parameters()] == [
        p.requires_grad for p in loaded.parameters()
    ]
    tokens = random_tokens(2, 9)
    ours, theirs = at_every_token(model, tokens), at_every_token(loaded, tokens)
    for name in {"policy", "q", "target_q", "v"} & set(ours):
        torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=1e-5)


def test_the_representation_is_what_every_head_reads(tmp_path: Path) -> None:
    lm = save_lm("llama", tmp_path)
    model, tokens = agent_on(tmp_path, moved=True), random_tokens(2, 7)
    said = at_every_token(model, tokens)
    with torch.no_grad():
        hidden = lm.base_model(tokens).last_hidden_state
        weight, bias = model.representation[0].weight, model.representation[0].bias
        phi = hidden + hidden @ weight.T + bias
        torch.testing.assert_close(said.representation, phi)
        torch.testing.assert_close(said.policy, phi @ lm.lm_head.weight.T)
        assert (said.policy - lm(tokens).logits).abs().max() > 1


def test_q_of_a_token_by_hand(tmp_path: Path) -> None:
    lm = save_lm("qwen2", tmp_path)
    embeddings = lm.get_input_embeddings().weight.detach()  # tied
    tokens = random_tokens(1, 5)
    for kind in ("mlp", "low-rank", "shared"):
        model = agent_on(tmp_path, moved=True, q_head=kind, q_rank=3)
        said = at_every_token(model, tokens)
        phi = said.representation[0, 4]
        for number in range(2):
            head = model.target_q[number]
            layers = head.query if kind == "shared" else head
            normal = (phi - phi.mean()) / (phi.var(unbiased=False) + 1e-5).sqrt()
            normal = normal * layers[0].weight + layers[0].bias
            hidden = (layers[1].weight @ normal + layers[1].bias).relu()
            if kind == "low-rank":
                assert layers[3].weight.shape == (3, 2 * WIDTH)
                hidden = layers[3].weight @ hidden
            read = layers[-1].weight @ hidden + layers[-1].bias
            if kind == "shared":
                assert read.shape == (WIDTH + 1,)
                norm = embeddings.square().sum(dim=1).sqrt().mean()
                read = embeddings @ read[:-1] / norm + read[-1]
            torch.testing.assert_close(said.target_q[number, 0, 4], read, rtol=1e-5, atol=1e-5)
        sizes = {p.numel() for p in model.q.parameters()}
        assert (max(sizes) >= TOKENS * 3) == (kind != "shared" or WIDTH > 3)


def test_shared_q_leaves_the_embeddings_alone(tmp_path: Path) -> None:
    save_lm("qwen2", tmp_path)
    for kind in ("llama", "qwen2"):
        save_lm(kind, tmp_path)
        model = agent_on(tmp_path, moved=True, heads=("q",)).train()
        batch = random_batch()
        model(batch.tokens, batch.state_positions).q.square().sum().backward()
        seen = set(batch.tokens.flatten().tolist())
        gradient = model.backbone.get_input_embeddings().weight.grad
        # The input embeddings of tokens that were read feel it, through the hidden states alone.
        assert {i for i in range(TOKENS) if gradient[i].any()} <= seen
        assert all(
            (p.grad is not None) == p.requires_grad and p.requires_grad != n.startswith("output")
            for n, p in model.named_parameters()
            if not n.startswith("target_")
        )


@pytest.mark.parametrize("kind", CONFIGS)
def test_padding_on_the_right_changes_nothing(kind: str, tmp_path: Path) -> None:
    save_lm(kind, tmp_path)
    model, tokens = agent_on(tmp_path, moved=True), random_tokens(2, 7)
    short = at_every_token(model, tokens)
    for rest in (torch.zeros(2, 5, dtype=torch.int64), random_tokens(2, 5, seed=1)):
        long = at_every_token(model, torch.cat([tokens, rest], dim=1))
        torch.testing.assert_close(long.policy[:, :7], short.policy, rtol=0, atol=1e-4)
        torch.testing.assert_close(long.q[:, :, :7], short.q, rtol=0, atol=1e-4)


def test_training_goes_down_and_dropout_is_off(tmp_path: Path) -> None:
    save_lm("gpt2", tmp_path)  # its config has dropout
    model, batch = agent_on(tmp_path, heads=WITH_WORLD).train(), random_batch()
    config = configure("text", learning_rate=3e-3)
    (optimizer,) = make_optimizers(model, config)
    totals = []
    for _ in range(8):
        outputs = model(batch.tokens, batch.state_positions, pairs=draw_pairs(batch, (0,)))
        again = model(batch.tokens, batch.state_positions)
        assert torch.equal(outputs.policy, again.policy)
        assert outputs.inverse.shape == (12, TOKENS)
        total = ilql_loss(outputs, batch, ILQLOptions()).total
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        model.update_targets(0.1)
        totals.append(total.item())
    assert totals[-1] < totals[0] - 0.5


def test_muon_takes_the_hidden_matrices(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    model = agent_on(tmp_path)
    config = configure("text", optimizer="muon", backbone=str(tmp_path))
    _, muon = make_optimizers(model, config)
    names = {id(p): n for n, p in model.named_parameters()}
    taken = {names[id(p)] for group in muon.param_groups for p in group["params"]}
    layers = [n for n, p in model.backbone.layers.named_parameters() if p.ndim == 2]
    assert taken == {f"backbone.layers.{name}" for name in layers}


def test_a_slow_copy_is_held_only_where_it_is_trained(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    members, shape = Members({"text": task_of(TOKENS)}), {"backbone": str(tmp_path)}
    plain = new_model(members, configure("text", context=CONTEXT, **shape))
    assert plain.config.heads == ("policy", "q", "v")
    assert (plain.config.layers, plain.config.width, plain.config.q_head) == (2, WIDTH, "shared")
    run = configure("text", algo="bc", context=CONTEXT, bisim=0.1, **shape)
    trained = new_model(members, run)
    assert trained.config.heads == ("policy", "world")
    assert not any(p.requires_grad for p in trained.target_backbone.parameters())


def test_what_a_language_model_cannot_do(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    fitting, longer = (
        configure("text", algo="bc", backbone=str(tmp_path), context=context)
        for context in (CONTEXT, 97)
    )
    with pytest.raises(UserError, match="has tokens of its own"):
        new_model(Members({"text": task_of(5)}), fitting)
    with pytest.raises(UserError, match=f"--context 97 is longer than .*: at most {CONTEXT}"):
        new_model(Members({"text": task_of(TOKENS)}), longer)


def remove_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def drop_a_layer(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights = {n: w for n, w in weights.items() if "layers.1" not in n}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def be_something_else(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"model_type": "bart-but-not"}))


def cap_the_logits(folder: Path) -> None:
    shape = {**CONFIGS["llama"]().to_dict(), "head_dim": 4, "final_logit_softcapping": 0.5}
    config = Gemma2Config(**{k: v for k, v in shape.items() if k != "model_type"})
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_weights, "cannot load a causal language model from .*safetensors"),
        (drop_a_layer, r"lacks weights, first model\.layers\.1"),
        (be_something_else, "cannot load a causal language model from .*bart-but-not"),
        (cap_the_logits, "caps or scales the logits"),
    ],
)
def test_a_folder_without_a_usable_language_model(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    save_lm("llama", tmp_path)
    damage(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        load_lm(str(tmp_path))
    assert "\n" not in str(error.value)
