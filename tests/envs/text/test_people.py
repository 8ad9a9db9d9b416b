"""What is measured of people's conversations: by hand, on few of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from textrl.config.presets import configure
from textrl.data.conversation import read_conversation
from textrl.data.dataset import Rows
from textrl.errors import UserError
from textrl.evaluation.offline import FULL_EVALUATION
from textrl.model.build import new_model
from textrl.recipes.reproducing.experiments import Run
from textrl.recipes.reproducing.offline_summary import people_parts
from textrl.recipes.reproducing.ope import spearman, summed_up
from textrl.recipes.reproducing.people import (
    Where,
    error_of_the_training_mean,
    rank_correlations,
    regression,
    shown_flags,
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
    assert set(found) == {"v", "regression", "conversations"} and np.isnan(found["v"]["6"])
    there = (~np.isnan(values)).sum(axis=0)
    assert found["conversations"] == {
        str(k): there[k] if k < len(there) else 0 for k in range(1, 7)
    }


def test_a_constant_that_training_could_know(
    talks: Callable[..., list[dict[str, Any]]],
    write_lines: Callable[[list[dict[str, Any]]], Path],
    gpt2: Path,
) -> None:
    settings = {"data": str(write_lines(talks(20))), "backbone": str(gpt2), "context": 128}
    run = configure("text", algo="ilql", discount=1.0, held_out=0.5, **settings)
    task = Members.of_run(run).one()[1]

    def returns_of(rows: Rows) -> NDArray[np.float64]:
        found = []
        for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
            following = np.cumsum(rows.reward[start:end][::-1].astype(np.float64))[::-1]
            found.append(following[rows.is_action[start:end]])
        return np.concatenate(found)

    learned, held_out = returns_of(task.learned(100)), returns_of(task.held_out(100)[0])
    figures = {"return_spread": held_out.std(), "mean_return_to_go": held_out.mean()}
    error = np.sqrt(np.mean((held_out - learned.mean()) ** 2))
    assert error > held_out.std() + 1e-3  # the two means differ
    assert error_of_the_training_mean(task, figures) == pytest.approx(error, rel=1e-5)


def test_flags_without_the_places_of_this_machine() -> None:
    run = Run("", "bc", 0, Path("x"), ("--data", "/home/me/casino.jsonl", "--algo", "bc"))
    assert shown_flags(run) == "--data casino.jsonl --algo bc"


def test_a_study_is_told_with_its_estimates() -> None:
    over_two = {"mean": 3.25, "low": 3.0, "high": 3.5, "seeds": 2}
    estimate = {"doubly_robust": {"mean": 1.5, "interval_95": [1.25, 1.75]}}
    seed = {
        "offline": {
            "groups": 40,
            "data": {"mean": 1.0, "interval_95": [0.5, 1.5]},
            "policies": {"the agent": estimate},
            "differences": {"the agent - the data": {"verdict": "not told apart"}},
        }
    }
    found = {
        "rank_correlation_after_turns": {who: {"1": over_two} for who in ("v", "regression")},
        "conversations_after_turns": {"1": 39},
        "seeds": [seed, seed],
        "minutes_per_run": {"bc": 1.0, "ilql": 2.0},
        "made": "today",
        **dict.fromkeys(("q_error", "v_error"), over_two),
        **dict.fromkeys(("error_of_the_training_mean", "error_of_the_held_out_mean"), 3.3),
    }
    told, foreseen, _, estimated, verdicts = people_parts("casino", found)
    assert "Held out: 40 groups" in told and "Q 3.250 (3.000 to 3.500)" in told
    assert foreseen[1] == ["1", "39", "3.25 (3.00 to 3.50)", "3.25 (3.00 to 3.50)"]
    assert estimated[1] == ["the data, as logged", *["1.00 (0.50 to 1.50)"] * 2]
    assert estimated[2] == ["the agent", *["1.50 (1.25 to 1.75)"] * 2]
    assert "- the agent - the data, seed 1: not told apart" in verdicts


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
