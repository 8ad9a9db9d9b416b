"""The verdict on conversations: against a run, against the language model that it came from."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from textrl.errors import UserError
from textrl.evaluation import ope
from textrl.recipes import evaluate, train


def test_from_training_to_the_verdict(
    talks: Callable[..., list[dict[str, Any]]],
    write_lines: Callable[[list[dict[str, Any]]], Path],
    gpt2: Path,
    llama: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ope, "TRUSTS", (5.0,))
    path = write_lines([{**row, "truncated": False} for row in talks(40)])

    def run(recipe: Any, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["recipe", *map(str, words)])
        recipe.main()
        return capsys.readouterr().out

    output, report = tmp_path / "run", tmp_path / "report.json"
    settings = ["--context", "64", "--batch-size", "4", "--max-steps", "2", "--threads", "1"]
    settings += ["--held-out", "0.4", "--no-final-evaluation", "--select", "offline"]
    files = ("--task", "text", "--data", path, "--backbone", gpt2)
    run(train, *files, "--output", output, *settings)
    line = json.loads((output / "metrics.jsonl").read_text().splitlines()[-1])
    assert "estimated_return" in line and "log_likelihood" in line

    against = ("--against", gpt2, "--betas", "0,2", "--json", report)
    told = run(evaluate, output, *against)
    assert "the data, as logged" in told
    assert f"the agent against {gpt2}: " in told
    assert "caveat: only 16 independent conversations to judge by" in told
    found = json.loads(report.read_text())["offline"]
    assert {"the agent", "its imitation alone", "the agent, beta 2"} < {*found["policies"]}
    assert found["best"] in ("the data", *found["policies"])
    low, high = found["differences"]["the agent - the data"]["interval_95"]
    assert low < high
    # The base model is its own: two steps are not far from it.
    assert found["policies"][str(gpt2)]["overlap"] > 0.5

    # Nearly greedy, it has less in common with data that are not.
    run(evaluate, output, "--temperature", "0.1", "--json", report)
    cool = json.loads(report.read_text())["offline"]["policies"]
    for name in ("the agent", "its imitation alone"):
        assert cool[name]["overlap"] < found["policies"][name]["overlap"]

    assert "as logged" not in run(evaluate, output, "--no-offline")
    with pytest.raises(UserError, match="--temperature must be above 0, not 0"):
        run(evaluate, output, "--temperature", "0")
    with pytest.raises(UserError, match="other tokens"):
        run(evaluate, output, "--against", llama)
    with pytest.raises(UserError, match="--betas must be numbers"):
        run(evaluate, output, "--betas", "0,x")
