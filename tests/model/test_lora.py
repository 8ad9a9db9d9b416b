"""LoRA: what is trained, what is saved, and what comes back."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from tests.hub_server import HubServer
from tests.tiny_lms import CONFIGS, CONTEXT, TOKENS, random_batch, random_tokens, save_lm, task_of
from textrl.algorithms.ilql import ILQLOptions
from textrl.bisimulation.loss import BisimulationWeights, bisimulation_loss
from textrl.bisimulation.pairs import draw_pairs
from textrl.config.presets import configure
from textrl.config.train import TrainConfig
from textrl.errors import UserError
from textrl.losses.ilql import ilql_loss
from textrl.model import lora
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.sharing.hub import open_repo, push
from textrl.tasks.members import Members
from textrl.training.optimizers import make_optimizers
from textrl.training.state import TrainingState, load_memory, load_state, memory_of, save_state

ROOT = Path(__file__).parents[2]
BISIMULATION = BisimulationWeights(weight=0.1)


def adapter_on(folder: Path, seed: int = 0, **changes: Any) -> tuple[TextRLModel, TrainConfig]:
    """A new agent with LoRA on the language model in the folder, and its settings."""
    shape = {"backbone": str(folder), "context": CONTEXT, "lora_rank": 3, "learning_rate": 1e-2}
    config = configure("text", **{**shape, **changes})
    torch.manual_seed(seed)
    return new_model(Members({"text": task_of(TOKENS)}), config), config


def train_some(
    model: TextRLModel, config: TrainConfig, steps: range = range(4), optimizers: Any = None
) -> list[float]:
    """The losses of some steps, each on a batch of its own."""
    optimizers = optimizers or make_optimizers(model, config)
    totals = []
    for step in steps:
        batch = random_batch(seed=step)
        pairs = draw_pairs(batch, (step,)) if "world" in model.config.heads else None
        outputs = model.train()(batch.tokens, batch.state_positions, pairs=pairs)
        total = ilql_loss(outputs, batch, ILQLOptions()).total
        if pairs is not None:
            total = total + bisimulation_loss(outputs, batch, pairs, 0, BISIMULATION)[0]
        total.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        model.update_targets(0.1)
        totals.append(total.item())
    return totals


def everything(model: TextRLModel) -> dict[str, torch.Tensor]:
    tokens = random_tokens(2, 9)
    with torch.no_grad():
        said = model.train(False)(tokens, torch.arange(9).expand(2, 9))
    return {name: said[name] for name in ("representation", "policy", "q", "target_q", "v")}


@pytest.mark.parametrize("kind", CONFIGS)
def test_only_adapters_and_heads_are_trained(kind: str, tmp_path: Path) -> None:
    lm = save_lm(kind, tmp_path)
    model, config = adapter_on(tmp_path, bisim=0.1)
    with torch.no_grad():
        tokens = random_tokens(2, 9)
        assert torch.equal(everything(model)["policy"], lm(tokens).logits)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    in_backbone = {name for name in trained if name.startswith("backbone")}
    assert in_backbone and all(".lora_" in n and ".default." in n for n in in_backbone)
    assert {n.split(".")[0] for n in trained} == {"backbone", "representation", "q", "v", "world"}
    before = {name: p.clone() for name, p in model.named_parameters()}
    train_some(model, config)
    for name, parameter in model.named_parameters():
        is_slow = name.startswith("target_") or ".target." in name
        moved = not torch.equal(parameter, before[name])
        assert moved == (name in trained or is_slow), name
        assert parameter.requires_grad == (name in trained), name


def test_the_slow_adapter_follows_and_reads_as_a_copy_would(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    model, config = adapter_on(tmp_path, bisim=0.1)
    train_some(model, config)
    weights = dict(model.backbone.named_parameters())
    slow = {n: p.clone() for n, p in weights.items() if ".target." in n}
    online = {n: weights[n.replace(".target.", ".default.")].clone() for n in slow}
    assert any((slow[n] - online[n]).abs().max() > 1e-4 for n in slow)
    model.update_targets(0.25)
    for name in slow:
        expected = 0.75 * slow[name] + 0.25 * online[name]
        torch.testing.assert_close(weights[name], expected, rtol=0, atol=1e-6)
        assert not weights[name].requires_grad

    batch, pairs = random_batch(), draw_pairs(random_batch(), (0,))
    said = model.train(False)(batch.tokens, batch.state_positions, pairs=pairs)
    # The same by an agent whose own adapter is the slow one.
    other, _ = adapter_on(tmp_path, bisim=0.1)
    state = {n: t.clone() for n, t in model.state_dict().items()}
    for name in [n for n in state if ".target." in n]:
        state[name.replace(".target.", ".default.")] = state[name]
    state |= {n.removeprefix("target_"): t for n, t in state.items() if n.startswith("target_repr")}
    other.load_state_dict(state)
    expected = other.train(False)(batch.tokens, batch.state_positions).representation
    assert torch.equal(said.target_representation, expected)
    assert (said.representation - expected).abs().max() > 1e-3
    assert not said.target_representation.requires_grad and said.representation.requires_grad


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_adapter_comes_back_in_a_fresh_process(kind: str, tmp_path: Path) -> None:
    save_lm(kind, tmp_path / "lm")
    model, config = adapter_on(tmp_path / "lm", bisim=0.1, bisim_inverse=0.1)
    train_some(model, config)
    model.save_pretrained(tmp_path / "agent")
    said = everything(model)
    save_file({n: t.contiguous() for n, t in said.items()}, tmp_path / "said.safetensors")
    script = (
        "import sys, torch\n"
        "from safetensors.torch import load_file\n"
        "from tests.model.test_lora import everything\n"
        "from textrl.model.network import TextRLModel\n"
        "said = everything(TextRLModel.from_pretrained(sys.argv[1]))\n"
        "expected = load_file(sys.argv[2])\n"
        "assert said.keys() == expected.keys()\n"
        "for name in said: assert torch.equal(said[name], expected[name]), name\n"
    )
    if kind == "llama":  # a process takes seconds to start
        command = [sys.executable, "-c", script, tmp_path / "agent", tmp_path / "said.safetensors"]
        subprocess.run(command, check=True, cwd=ROOT, timeout=120)
    loaded = AutoModel.from_pretrained(tmp_path / "agent")
    assert all(torch.equal(said[name], each) for name, each in everything(loaded).items())

    saved = load_file(tmp_path / "agent" / "model.safetensors")
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    targets = {n for n in model.state_dict() if n.startswith("target_") or ".target." in n}
    assert saved.keys() == names | targets  # every head and every slow copy, nothing frozen
    parts = {name.split(".")[0] for name in saved}
    assert parts >= {"backbone", "representation", "q", "v", "target_q", "world", "inverse"}
    told = json.loads((tmp_path / "agent" / "config.json").read_text())
    assert told["backbone"] == str((tmp_path / "lm").resolve())
    assert told["lora"]["rank"] == 3 and told["base_digest"]


def test_going_on_is_the_same_as_never_having_stopped(tmp_path: Path) -> None:
    save_lm("qwen2", tmp_path / "lm")
    whole, config = adapter_on(tmp_path / "lm", bisim=0.1)
    expected = train_some(whole, config, range(6))

    model, _ = adapter_on(tmp_path / "lm", bisim=0.1)
    optimizers = make_optimizers(model, config)
    losses = train_some(model, config, range(3), optimizers)
    state = TrainingState(3, 0.0, 0.0, 0)
    save_state(tmp_path / "state", model.saved_state(), memory_of(optimizers), state)
    size = sum(f.stat().st_size for f in (tmp_path / "state").rglob("*.safetensors"))
    model, _ = adapter_on(tmp_path / "lm", seed=9, bisim=0.1)
    optimizers = make_optimizers(model, config)
    assert load_state(tmp_path / "state", model) == state
    load_memory(tmp_path / "state", optimizers)
    losses += train_some(model, config, range(3, 6), optimizers)
    assert losses == expected
    ours, theirs = model.state_dict(), whole.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    held = {n: p for n, p in model.named_parameters() if not p.requires_grad and "target" not in n}
    assert held and size < 4.5 * 4 * sum(t.numel() for t in model.saved_state().values())
    weights = load_file(next((tmp_path / "state").rglob("model.safetensors")))
    assert not held.keys() & weights.keys()


def test_without_a_base_or_on_another_it_says_so(tmp_path: Path) -> None:
    save_lm("llama", tmp_path / "lm")
    model, config = adapter_on(tmp_path / "lm")
    train_some(model, config, range(1))
    model.save_pretrained(tmp_path / "agent")
    said = everything(model)
    (tmp_path / "lm").rename(tmp_path / "moved")
    with pytest.raises(UserError, match=r"language model is not available: .*lm.* base") as error:
        TextRLModel.from_pretrained(tmp_path / "agent")
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="dtype is not for an adapter"):
        TextRLModel.from_pretrained(tmp_path / "agent", dtype=torch.bfloat16)
    loaded = TextRLModel.from_pretrained(tmp_path / "agent", base=str(tmp_path / "moved"))
    assert all(torch.equal(said[name], each) for name, each in everything(loaded).items())
    save_lm("llama", tmp_path / "lm", seed=1)
    with pytest.raises(UserError, match="is not the language model that the adapter was trained"):
        TextRLModel.from_pretrained(tmp_path / "agent")


def test_layers_by_name(tmp_path: Path) -> None:
    save_lm("llama", tmp_path)
    model, _ = adapter_on(tmp_path, lora_targets="q_proj, v_proj")
    adapted = {n.split(".")[4] for n, p in model.named_parameters() if ".lora_" in n}
    assert adapted == {"q_proj", "v_proj"}
    model, _ = adapter_on(tmp_path)
    assert set(model.config.lora["targets"]) == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }
    with pytest.raises(UserError, match="unknown LoRA target 'q_prj': did you mean 'q_proj'"):
        adapter_on(tmp_path, lora_targets="q_prj")


def test_half_precision_stays_where_nothing_is_trained(tmp_path: Path) -> None:
    lm = save_lm("llama", tmp_path).to(torch.bfloat16)
    lm.save_pretrained(tmp_path)
    model, config = adapter_on(tmp_path, bisim=0.1)
    kinds = {p.dtype for n, p in model.named_parameters() if p.requires_grad or "target" in n}
    assert kinds == {torch.float32}
    held = {p.dtype for n, p in model.named_parameters() if n.startswith("output")}
    assert held == {torch.bfloat16}
    with torch.no_grad():
        expected = lm(random_tokens(2, 9)).logits.float()
    assert torch.equal(everything(model)["policy"], expected)
    before = train_some(model, config, range(1))
    assert train_some(model, config, range(1)) < before

    model.merge_adapter()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    model.save_pretrained(tmp_path / "merged")
    loaded = TextRLModel.from_pretrained(tmp_path / "merged")
    ours, theirs = model.state_dict(), loaded.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype and torch.equal(ours[name], theirs[name])
    half = TextRLModel.from_pretrained(tmp_path / "merged", dtype=torch.bfloat16)
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert half.generate(random_tokens(1, 3), max_new_tokens=2, beta=1.0).shape[0] == 1


def test_peft_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_lm("llama", tmp_path)
    monkeypatch.setattr(lora, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'offline-textrl\[lora\]'"):
        adapter_on(tmp_path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: configure("text", lora_rank=4), "--lora-rank 4 is for pretrained language models"),
        (
            lambda: configure("text", lora_rank=4, backbone="a/b", optimizer="muon"),
            "with --lora-rank use adamw",
        ),
    ],
)
def test_settings_that_do_not_go_together(make: Callable[[], TrainConfig], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_on_the_hub_an_adapter_names_the_commit_of_its_base(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canwrite")
    patterns = ("*.json", "*.safetensors")
    save_lm("llama", tmp_path / "lm")
    open_repo("mine/lm", "model", False, ())
    push(tmp_path / "lm", "mine/lm", "model", patterns, "first")
    model, config = adapter_on(Path("mine/lm"))
    train_some(model, config, range(1))
    model.save_pretrained(tmp_path / "agent")
    told = json.loads((tmp_path / "agent" / "config.json").read_text())
    assert told["backbone"] == "mine/lm" and len(told["base_revision"]) == 40
    open_repo("mine/adapter", "model", False, ())
    push(tmp_path / "agent", "mine/adapter", "model", patterns, "first")
    said = everything(model)
    loaded = TextRLModel.from_pretrained("mine/adapter")
    assert all(torch.equal(said[name], each) for name, each in everything(loaded).items())
    assert {p.name for p in (tmp_path / "agent").iterdir()} == {"config.json", "model.safetensors"}
