"""What is measured of people's conversations: by hand, on few of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from textrl.config.presets import configure
from textrl.data.conversation import read_conversation
from textrl.errors import UserError
from textrl.evaluation.offline import FULL_EVALUATION
from textrl.model.build import new_model
from textrl.recipes.reproducing.ope import spearman, summed_up
from textrl.recipes.reproducing.people import (
    Where,
    rank_correlations,
    regression,
    study_people,
    turn_values,
)
from textrl.tasks.members import Members


def talk(system: str, turns: int) -> Any:
    said = [{"role": "user", "content": "so?"}, {"role": "assistant", "content": "no"}]
    return read_conversation({"messages": [{"role": "system", "content": system}, *said * turns]})


def test_ranks() -> None:
    assert spearman(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3])) == pytest.approx(1)
    # Ranks 1, 2.5, 2.5 and 3, 1, 2: covariance -0.75, variances 1.5 and 2.
    tied = spearman(np.array([0.0, 5.0, 5.0]), np.array([3.0, 1.0, 2.0]))
    assert tied == pytest.approx(-1.5 / (1.5 * 2) ** 0.5)


def test_the_regression_knows_what_was_told_and_how_long_it_took() -> None:
    fit = [talk(system, turns) for system in ("food", "water") for turns in (1, 2, 4)]
    returns = np.array([10.0 * (i < 3) + 2 * t for i, t in enumerate((1, 2, 4, 1, 2, 4))])
    guessed = regression(fit, [talk("food", 3), talk("water", 3)], returns.astype(np.float32))
    np.testing.assert_allclose(guessed, [16, 6], rtol=1e-5)


def test_values_before_each_turn(
    talks: Callable[..., list[dict[str, Any]]],
    write_lines: Callable[[list[dict[str, Any]]], Path],
    gpt2: Path,
) -> None:
    path = write_lines(talks(20))
    settings = {"data": str(path), "backbone": str(gpt2), "context": 128, "held_out": 0.5}
    run = configure("text", algo="ilql", batch_size=4, **settings)
    members = Members.of_run(run)
    task, model = members.one()[1], new_model(members, run)
    torch.nn.init.normal_(model.v[-1].weight)
    values = turn_values(task, model)
    rows, _ = task.held_out(FULL_EVALUATION)
    for row, (start, end) in enumerate(zip(rows.offsets[:-1], rows.offsets[1:], strict=True)):
        is_action = rows.is_action[start:end]
        begins = np.flatnonzero(is_action & ~np.append(False, is_action[:-1]))
        tokens = torch.from_numpy(rows.tokens[start:end].astype(np.int64))[None]
        with torch.no_grad():
            said = model(tokens, torch.from_numpy(begins - 1)[None]).v[0]
        found = values[row][~np.isnan(values[row])]
        np.testing.assert_allclose(found, said.numpy(), atol=1e-5)
    found = rank_correlations(task, model)
    assert set(found) == {"v", "regression"} and np.isnan(found["v"]["6"])


def test_data_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="say where it is with --conversations"):
        study_people("casino", Where(tmp_path, "lm", tmp_path, tmp_path), 1, 1, False)


def test_estimates_are_summed_up() -> None:
    def policy(played: float, guess: float, likelihood: float | None, far: bool) -> dict[str, Any]:
        each = {"mean": guess, "interval_95": [guess - 0.1, guess + 0.1]}
        names = ("doubly_robust", "fitted_q", "weighted_importance_sampling")
        estimates = dict.fromkeys(names, each)
        known = {"played": played, "played_stderr": 0.0, "likelihood": likelihood, "too_far": far}
        return {**known, **estimates}

    policies = [(1.0, 1.05, -2.0, False), (2.0, 3.0, -1.0, True), (3.0, 2.95, None, False)]
    found = summed_up([policy(*each) for each in policies])
    assert found["policies"] == 3
    assert found["rank_correlation"] == pytest.approx(0.5)
    assert found["coverage_95"] == pytest.approx(2 / 3)
    assert found["mean_error"] == pytest.approx((0.05 + 1 + 0.05) / 3)
    assert found["selection_regret"] == 1.0  # the second has the highest estimate
    assert found["likelihood_regret"] == 1.0
    told = found["estimators"]["doubly_robust"]["told"]
    assert told["policies"] == 2 and told["coverage_95"] == 1
    assert told["mean_error"] == pytest.approx(0.05)
