"""Values start at the data's mean return and are in its units, whatever the loss counts in."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.tiny_lms import save_chat_lm
from textrl.config.presets import configure
from textrl.config.train import TrainConfig
from textrl.model.build import model_of_member, new_model
from textrl.model.config import TextRLConfig
from textrl.model.layout import ValueUnits
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.run import train
from textrl.training.units import value_units

POINTS = (10.0, 14.0, 30.0, 18.0)


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """Forty conversations of one turn each, which earn 10, 14, 30 and 18 in turn."""
    path = tmp_path / "talks.jsonl"
    rows = []
    for number in range(40):
        asked, said = ("hello", "fine") if number % 4 == 2 else ("how much", "no")
        messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
        rows.append(json.dumps({"messages": messages, "reward": POINTS[number % 4]}))
    path.write_text("\n".join(rows))
    return path


def configured(talks: Path, tmp_path: Path, **changes: object) -> TrainConfig:
    lm = tmp_path / "lm"
    if not lm.exists():
        save_chat_lm(lm)
    settings = {"data": str(talks), "backbone": str(lm), "context": 64, "batch_size": 8}
    settings |= {"threads": 1, "max_steps": 2, "final_evaluation": False, "held_out": 0.1}
    return configure("text", **{**settings, "algo": "ilql", "discount": 1.0, **changes})


def test_measured_from_the_data(talks: Path, tmp_path: Path) -> None:
    run = configured(talks, tmp_path, reward_scale=0.0)
    members = Members.of_run(run)
    batches, _ = members.batches(run)
    returns, tokens = [], []
    for step in range(64):  # as many as are looked at
        for batch in batches.step(step):
            returns += batch.rewards.sum(1).tolist()
            tokens += batch.is_action.sum(1).tolist()
    mean = np.average(returns, weights=tokens)
    spread = np.average((np.array(returns) - mean) ** 2, weights=tokens) ** 0.5
    (units,) = value_units(members, run).values()
    assert units.center == pytest.approx(mean)
    assert units.scale == pytest.approx(spread)
    as_asked = configured(talks, tmp_path, reward_scale=3.0)
    assert value_units(members, as_asked)["text"].scale == 3
    assert not value_units(members, configured(talks, tmp_path, algo="bc"))


def test_values_start_at_the_mean(talks: Path, tmp_path: Path) -> None:
    run = configured(talks, tmp_path, reward_scale=0.0)
    members = Members.of_run(run)
    model = new_model(members, run, {"text": ValueUnits(17.0, 5.0)})
    tokens = torch.tensor([[1, 5, 6]])
    output = model(tokens, torch.tensor([[1, 2]]))
    for values in (output.q, output.target_q, output.v):
        torch.testing.assert_close(values, torch.full_like(values, 17.0))
    torch.nn.init.ones_(model.v[-1].bias)  # a head says 1: one scale more
    torch.testing.assert_close(model(tokens).v, torch.full((1, 1), 22.0))


def test_each_of_several_tasks_has_its_own(tmp_path: Path) -> None:
    run = configure("gridworld,wordle", layers=1, width=16, attention_heads=2)
    units = {"gridworld": ValueUnits(0.25, 1.0), "wordle": ValueUnits(-3.0, 2.0)}
    model = new_model(Members.of_run(run), run, units)
    tokens = torch.tensor([[1, 3, 4]])
    for number in range(len(units)):
        said = model(tokens, member=number).v
        torch.testing.assert_close(model_of_member(model, number)(tokens).v, said)
    plain = new_model(Members.of_run(run), run)
    plain.load_state_dict(model.state_dict())
    for number, unit in enumerate(units.values()):
        expected = unit.center + unit.scale * plain(tokens, member=number).v
        torch.testing.assert_close(model(tokens, member=number).v, expected)


def test_a_run_keeps_its_units(talks: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    run = configured(talks, tmp_path, reward_scale=0.0, output=str(output))
    train(run)
    saved = json.loads((output / "config.json").read_text())
    assert saved["value_center"] == pytest.approx(18, abs=2)
    members = Members.of_run(run)
    begun = TextRLConfig.from_pretrained(output)
    begun.value_center = 1.0
    assert value_units(members, run, begun)["text"].center == 1.0
    assert value_units(members, run)["text"].center == saved["value_center"]
    # A resumed run asks its folder, whatever the data would say now.
    (output / "config.json").write_text(json.dumps({**saved, "value_center": 1.0}))
    more = {"max_steps": run.max_steps + 1, "resume": True}
    train(configured(talks, tmp_path, reward_scale=0.0, output=str(output), **more))
    assert json.loads((output / "config.json").read_text())["value_center"] == 1.0


def test_the_loss_counts_in_them(talks: Path, tmp_path: Path) -> None:
    run = configured(talks, tmp_path, reward_scale=0.0, conservatism=0.0)
    members = Members.of_run(run)
    model = new_model(members, run, {"text": ValueUnits(0.0, 1.0)})
    (batch, *_) = members.batches(run)[0].step(0)
    output = model(batch.tokens, batch.state_positions)
    losses = [make_loss(run, {"text": ValueUnits(0.0, s)})(output, batch) for s in (1.0, 4.0)]
    torch.testing.assert_close(losses[1].q, losses[0].q / 16)  # type: ignore[attr-defined]
