"""Conversations as a task: who is held out, what is refused; every algorithm runs and resumes."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset

from tests.hub_server import HubServer
from textrl.config.presets import configure
from textrl.config.train import TrainConfig
from textrl.data.batches import Batch, collate
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.evaluation import offline
from textrl.evaluation.offline import judge_offline
from textrl.losses.outputs import TextRLOutput
from textrl.recipes import evaluate, train
from textrl.sharing.card import model_card
from textrl.sharing.checkpoint import load_agent
from textrl.sharing.hub import open_repo, push
from textrl.sharing.publish import saved_report
from textrl.tasks.members import Members
from textrl.training import loop

MakeTalks = Callable[..., list[dict[str, Any]]]
Write = Callable[[list[dict[str, Any]]], Path]
Run = Callable[..., str]
TINY = "--context 64 --batch-size 4 --accumulation 2 --max-steps 4 --save-every 2 --log-every 1"
TINY += " --evaluate-every 100 --learning-rate 1e-3 --warmup-steps 0 --threads 1"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a recipe and give what it printed."""

    def run(recipe: Any, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["recipe", *map(str, arguments)])
        recipe.main()
        return capsys.readouterr().out

    return run


def config_of(path: Path, lm: Path, **changes: Any) -> TrainConfig:
    settings = {"algo": "bc", "data": str(path), "backbone": str(lm), "context": 64}
    return configure("text", **{**settings, "batch_size": 4, **changes})


def task_of(config: TrainConfig) -> TextTask:
    return Members.of_run(config).one()[1]


def batches_of(config: TrainConfig, task: TextTask | None = None) -> tuple[Any, int]:
    """A run's batches and how many conversations they are; task: another one than its own."""
    (member,) = config.members.values()
    return (task or task_of(config)).batches(member, config)


def last_rewards(batch: Batch) -> list[float]:
    """By which the conversations are known."""
    last = batch.is_action.sum(1, keepdim=True) - 1
    return batch.rewards.gather(1, last)[:, 0].tolist()


def test_the_same_conversations_are_always_held_out(
    talks: MakeTalks, write_lines: Write, gpt2: Path
) -> None:
    path = write_lines(talks(40))
    task = task_of(config_of(path, gpt2, held_out=0.1))
    _, returns = task.held_out(100)
    assert task.held_out_count() == len(returns) == 4
    batches, episodes = batches_of(config_of(path, gpt2), task)
    assert episodes == 36
    last_reward = {
        number for step in range(9) for part in batches.step(step) for number in last_rewards(part)
    }
    rows, _ = task.held_out(100)
    held_out = set(last_rewards(collate(rows, np.arange(4), task.language)))
    assert last_reward | held_out == set(map(float, range(40)))
    assert not last_reward & held_out
    other_seed = task_of(config_of(path, gpt2, held_out=0.1, seed=5))
    np.testing.assert_array_equal(other_seed.held_out(100)[1], returns)
    some, _ = task.held_out(2)
    assert len(some.lengths) == 2


def test_at_least_one_is_held_out(talks: MakeTalks, write_lines: Write, gpt2: Path) -> None:
    task = task_of(config_of(write_lines(talks(5)), gpt2))
    assert task.held_out_count() == 1
    lonely = task_of(config_of(write_lines(talks(1)), gpt2))
    with pytest.raises(UserError, match="it takes two"):
        lonely.held_out_count()


def test_the_best_are_kept(talks: MakeTalks, write_lines: Write, gpt2: Path) -> None:
    rows = talks(21)
    config = config_of(write_lines(rows), gpt2, algo="filtered-bc", keep_top=0.2)
    batches, episodes = batches_of(config)
    assert episodes == 4
    (batch,) = batches.step(0)
    best = sorted(sum(m.get("reward", 0.0) for m in row["messages"]) for row in rows)
    # One of 21 was held out, which may be among the best.
    assert batch.rewards.sum(1).min() >= best[-5]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"backbone": "gpt2"}, "--backbone openai-community/gpt2"),
        ({"backbone": "rnn"}, "--backbone rnn has none"),
        ({"data": ""}, "no data of its own: give --data"),
        ({"window": 3}, "leave --window out"),
    ],
)
def test_what_the_task_needs(gpt2: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        task_of(config_of(Path("x.jsonl"), gpt2, **changes))


def test_bad_rows_are_refused_or_skipped(talks: MakeTalks, write_lines: Write, gpt2: Path) -> None:
    path = write_lines(talks(6))
    path.write_text(path.read_text() + '{"messages": []}\noops\n')
    config = config_of(path, gpt2)
    with pytest.raises(UserError) as refused:
        batches_of(config)
    assert f"{path}: line 7: no message of the assistant" in str(refused.value)
    assert "1 more are bad (--on-bad-rows skip leaves such rows out" in str(refused.value)
    skips = config_of(path, gpt2, on_bad_rows="skip")
    skipping = task_of(skips)
    assert batches_of(config, skipping)[1] == 5
    assert "left out as bad: 1 no assistant turn, 1 not JSON" in skipping.before_training()
    path.write_text("oops\n")
    with pytest.raises(UserError, match="no conversation: all 1 rows are bad"):
        task_of(skips).held_out_count()


def test_values_need_rewards(write_lines: Write, gpt2: Path) -> None:
    said = [{"role": "user", "content": "so?"}, {"role": "assistant", "content": "yes"}]
    path = write_lines([{"messages": said}] * 6)
    for algo in ("filtered-bc", "cql", "ilql", "iql"):
        config = config_of(path, gpt2, algo=algo)
        with pytest.raises(UserError, match=f"which {algo} learns from"):
            batches_of(config)
    config = config_of(path, gpt2, algo="bc")
    assert batches_of(config)[1] == 5


@pytest.mark.parametrize(
    "how",
    [
        *("bc", "filtered-bc --keep-top 0.5 --bisim 0.1", "cql --bisim 0.1", "ilql --bisim 0.1"),
        "iql --bisim 0.1",
    ],
)
def test_every_algorithm_from_training_to_evaluation(
    run: Run, talks: MakeTalks, write_lines: Write, llama: Path, tmp_path: Path, how: str
) -> None:
    path, output = write_lines(talks(20)), tmp_path / "run"
    where = ["--task", "text", "--data", path, "--backbone", llama, "--output", output]
    told = run(train, *where, "--algo", *how.split(), *TINY.split())
    assert "20 conversations" in told
    assert "1 held out" in told
    report = saved_report(output)
    assert report is not None
    heads = {"bc": set(), "filtered-bc": set(), "cql": {"q"}}.get(how.split()[0], {"q", "v"})
    assert {name[0] for name in report["figures"] if name.endswith("_error")} == heads
    assert report["episodes"] == 1

    again = run(evaluate, output, "--json", tmp_path / "again.json")
    assert f"{report['figures']['log_likelihood']:.4g}" in again
    figures = json.loads((tmp_path / "again.json").read_text())["figures"]
    assert figures == pytest.approx(report["figures"], rel=1e-6)
    on_all = run(evaluate, output, "--data", path, "--against", output)
    assert on_all.count("20 of 20 conversations") == 2
    assert on_all.count("of them trained on") == 2  # all but one, and copies of it

    model, task = load_agent(str(output))
    assert isinstance(task, TextTask)
    assert model.config.action_tokens == len(task.language.tokens)
    card = model_card(config_of(path, llama), Members({"text": task}), 4, "me/agent", report)
    assert f"| perplexity | {report['figures']['perplexity']:.4g} |" in card
    assert "they do not tell what its own turns would earn" in card
    # The run's own, which its evaluation has written: with the results, without this machine.
    written = (output / "README.md").read_text()
    assert f"| perplexity | {report['figures']['perplexity']:.4g} |" in written
    assert "the dataset `talks.jsonl`" in written and f"`{llama.name}`" in written
    for part in (tmp_path, llama.parent):
        assert str(part) not in written and part.name not in written


def test_a_stopped_run_goes_on_as_if_nothing_had_happened(
    run: Run,
    talks: MakeTalks,
    write_lines: Write,
    gpt2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = write_lines(talks(20))
    where = ["--task", "text", "--data", path, "--backbone", gpt2, "--no-final-evaluation"]
    run(train, *where, *TINY.split(), "--output", tmp_path / "whole")
    save = loop.save_state

    def save_and_stop(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "save_state", save_and_stop)
    broken = [*where, *TINY.split(), "--output", tmp_path / "broken"]
    with pytest.raises(KeyboardInterrupt):
        run(train, *broken)
    monkeypatch.setattr(loop, "save_state", save)
    run(train, *broken, "--resume")
    for name in ("model.safetensors", "state/step-00000004/optimizer.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes()


def test_from_the_hub_and_back(
    hub: HubServer,
    run: Run,
    talks: MakeTalks,
    gpt2: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canwrite")
    Dataset.from_list(talks(12)).to_parquet(tmp_path / "hub" / "data" / "train-0.parquet")
    open_repo("mine/talks", "dataset", private=False, marks=())
    push(tmp_path / "hub", "mine/talks", "dataset", ["data/*.parquet"], "talks")
    where = ["--task", "text", "--data", "mine/talks", "--backbone", gpt2, "--algo", "bc"]
    told = run(
        train, *where, *TINY.split(), "--output", tmp_path / "run", "--push-to-hub", "mine/bot"
    )
    assert "mine/talks: 12 conversations" in told
    assert "tokenizer.json" in hub.model("mine/bot").files
    assert "chat_template.jinja" in hub.model("mine/bot").files
    _, task = load_agent("mine/bot")
    assert isinstance(task, TextTask)
    assert task.held_out_count() == 1
    assert "| perplexity |" in hub.model("mine/bot").files["README.md"].decode()


class Known:
    """A model of which everything is known: uniform in its policy, Q is 2, V is 1."""

    device = torch.device("cpu")
    training = False

    def __init__(self, tokens: int) -> None:
        self.tokens, self.config = tokens, SimpleNamespace(beta=1.0, acts_by=())

    def train(self, mode: bool) -> None:
        assert not mode

    def __call__(self, tokens: Any, positions: Any, frames: None) -> TextRLOutput:
        shape = (*positions.shape, self.tokens)
        return TextRLOutput(
            policy=torch.zeros(shape),
            target_q=torch.stack([torch.full(shape, 2.0), torch.full(shape, 9.0)]),
            v=torch.ones(positions.shape),
        )


def test_figures_by_hand(write_lines: Write, gpt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"role": "user", "content": "so?"}
    first, last = ({"role": "assistant", "content": "no", "reward": r} for r in (1.0, 4.0))
    ended, cut_off = {"messages": [user, first, user, last]}, {"messages": [user, last]}
    path = write_lines([ended, {**cut_off, "truncated": True, "reward": 3}])
    task = task_of(config_of(path, gpt2, algo="ilql", discount=0.5)).with_data(str(path))
    turn = len(task.language.tokenizer()(" no<|endoftext|>")["input_ids"])
    tokens = len(task.language.tokens)
    # What followed each token of the one conversation whose return is known.
    steps = 2 * turn
    returns = np.array(
        [0.5 ** (turn - 1 - k) * (k < turn) + 4 * 0.5 ** (steps - 1 - k) for k in range(steps)]
    )
    for room in (offline.ROOM, 1):  # both at once, then one after the other
        monkeypatch.setattr(offline, "ROOM", room)
        judged = judge_offline(task, Known(tokens), 10)  # type: ignore[arg-type]
        expected = {
            "log_likelihood": -math.log(tokens),
            "perplexity": tokens,
            "q_error": math.sqrt(np.mean((2 - returns) ** 2)),
            "v_error": math.sqrt(np.mean((1 - returns) ** 2)),
            "return_spread": returns.std(),
            "mean_q": 2.0,
            "mean_v": 1.0,
            "mean_return_to_go": returns.mean(),
            "data_return": (5 + 7) / 2,
        }
        accuracy = judged.figures.pop("accuracy")
        assert judged.figures == pytest.approx(expected, rel=1e-6)
        assert accuracy == pytest.approx(3 / (3 * turn))  # of equal ones the first: <|endoftext|>
        assert (judged.episodes, judged.held_out, judged.action_tokens) == (2, 2, 3 * turn)


def test_values_worse_than_a_constant_are_told() -> None:
    good = {"q_error": 3.0, "return_spread": 3.5, "v_error": 3.6}
    judged = offline.OfflineJudgement(good, episodes=9, held_out=9, action_tokens=5, seconds=1.0)
    (told,) = judged.warnings
    assert told.startswith("warning: V is worse than a constant (3.6 against 3.5)")
    assert judged.to_json()["warnings"] == [told]
