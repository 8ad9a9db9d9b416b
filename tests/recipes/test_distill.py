"""textrl distill: a plain language model that acts as the agent does, and needs nothing of ours."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.tiny_lms import save_chat_lm
from textrl.errors import run_recipe
from textrl.losses.outputs import action_scores
from textrl.recipes import distill, train
from textrl.sharing.checkpoint import load_agent
from textrl.training.distillation import Distillation, advantage_loss, distil, plain_lm

SETTINGS = "--task text --data talks.jsonl --backbone lm --context 96 --batch-size 4 --threads 1"
SETTINGS += " --accumulation 2 --max-steps 6 --evaluate-every 6 --save-every 6"
SETTINGS += " --learning-rate 1e-2 --warmup-steps 0 --no-final-evaluation --beta 3"
Run = Callable[..., None]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations in talks.jsonl, and two small agents of them: whole/ and adapter/."""
    folder = tmp_path_factory.mktemp("distill")
    save_chat_lm(folder / "lm")
    with (folder / "talks.jsonl").open("w") as file:
        for number in range(40):
            said = ("I am fine, thank you.", "no")[number % 2]
            messages = [{"role": "user", "content": "how are you today?"}]
            messages.append({"role": "assistant", "content": said})
            print(json.dumps({"messages": messages, "reward": 1 - number % 2}), file=file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEXTRL_CACHE", str(folder / "cache"))
        patch.chdir(folder)
        for name, more in (("whole", ""), ("adapter", "--lora-rank 3")):
            arguments = f"{SETTINGS} {more} --output {name}".split()
            patch.setattr(sys, "argv", ["train", *arguments])
            train.main()
    return folder


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(place)

    def run(*given: object) -> None:
        monkeypatch.setattr(sys, "argv", ["distill", *map(str, given)])
        run_recipe(distill.main)

    return run


def loose(agent: Any) -> Any:
    """With values that matter."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in agent.named_parameters():
            if name.startswith(("target_q", "v.")):
                parameter.add_(0.3 * torch.randn_like(parameter))
    return agent


@pytest.mark.parametrize("name", ["whole", "adapter"])
def test_the_plain_model_is_the_agents_own_without_its_representation(
    name: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    agent, _ = load_agent(name)
    with torch.no_grad():  # a representation that is the identity again
        for parameter in agent.representation.parameters():
            parameter.zero_()
        tokens = torch.arange(4, 24)[None]
        said = agent(tokens, torch.arange(20)[None]).policy
        torch.testing.assert_close(plain_lm(agent)(tokens).logits, said, rtol=0, atol=1e-4)


class Same:
    """The same batch at every step."""

    ahead = 1

    def __init__(self, batch: Any) -> None:
        self._batch = batch

    def step(self, step: int) -> list[Any]:
        return [self._batch]


def test_it_learns_to_act_as_the_agent_does(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    agent, task = load_agent("whole")
    loose(agent)
    batch, *_ = task.held_out_batches()
    how = Distillation(beta=3.0, steps=60, learning_rate=2e-2)
    lm, losses = distil(agent, Same(batch), how, task.language.turn_end_ids)
    with torch.no_grad():
        count = batch.actions.shape[1]
        said = agent(batch.tokens, batch.state_positions)
        target = action_scores(said, None, 3.0)[:, :count].softmax(dim=-1)
        entropy = -(target * target.clamp_min(1e-30).log()).sum(-1).mean()
        ours = lm(batch.tokens).logits[:, batch.state_positions[0, :count]].softmax(dim=-1)
        left = float(advantage_loss(agent, lm, batch, 3.0) - entropy)
    assert losses[0] - float(entropy) > 5 * left and left >= -1e-5
    assert float((ours - target).abs().sum(-1).mean()) < 0.5


def test_an_adapter_is_trained_and_merged(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside frozen random embeddings it cannot learn all, but what it learns stays."""
    monkeypatch.chdir(place)
    agent, task = load_agent("adapter")
    loose(agent)
    batch, *_ = task.held_out_batches()
    how = Distillation(beta=3.0, steps=30, learning_rate=2e-2, lora_rank=8)
    before = plain_lm(agent).state_dict()
    lm, losses = distil(agent, Same(batch), how, task.language.turn_end_ids)
    with torch.no_grad():
        merged = float(advantage_loss(agent, lm, batch, 3.0))
    assert merged < losses[0] - 0.05 and merged == pytest.approx(losses[-1], abs=0.02)
    after = lm.state_dict()
    assert after.keys() == before.keys()
    embeddings = "model.embed_tokens.weight"
    assert torch.equal(after[embeddings], before[embeddings])


@pytest.mark.parametrize("method", ["advantage", "turns"])
def test_it_loads_where_textrl_is_not(method: str, place: Path, run: Run) -> None:
    output = place / method
    run("adapter", "--output", output, "--method", method, "--steps", 3, "--candidates", 3)
    code = (
        "import sys; from transformers import AutoModelForCausalLM as M, AutoTokenizer as T\n"
        f"m, t = M.from_pretrained({str(output)!r}), T.from_pretrained({str(output)!r})\n"
        "asked = [{'role': 'user', 'content': 'hello'}]\n"
        "p = t.apply_chat_template(asked, add_generation_prompt=True, return_tensors='pt',"
        " return_dict=True)\n"
        "said = m.generate(**p, max_new_tokens=5)\n"
        "assert said.shape[1] > p['input_ids'].shape[1]\n"
        "assert not [n for n in sys.modules if n.split('.')[0] in ('textrl', 'peft')]\n"
        "print(type(m).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == "LlamaForCausalLM", done.stderr[-2000:]
    card = (output / "README.md").read_text()
    assert f"--method {method}" in card and "KL divergence from the agent" in card
    end = AutoTokenizer.from_pretrained(output).convert_tokens_to_ids("<|eot_id|>")
    assert AutoModelForCausalLM.from_pretrained(output).generation_config.eos_token_id == [end]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("whole", "--output", "lm"), "'lm' exists already"),
        (("whole", "--output", "x", "--steps", "0"), "--steps must be at least 1"),
        (("lm", "--output", "x"), "has no task.json"),
        (("nowhere/at/all", "--output", "x"), "nowhere/at/all"),
    ],
)
def test_mistakes(
    run: Run, given: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(*given)
    assert told in capsys.readouterr().err


def test_only_agents_on_language_models(
    small_run: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(small_run, "--output", "x")
    assert "distilling is for agents of the task 'text'" in capsys.readouterr().err
