"""Numbers with intervals, and tables that people read."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from textrl.evaluation.report import (
    Estimate,
    dataset_table,
    paired_difference,
    score_table,
    table,
    write_json,
)
from textrl.tasks.task import Reference


def test_an_estimate_by_hand() -> None:
    estimate = Estimate.of(np.array([1.0, 2.0, 3.0, 6.0]))
    # Squared distances to the mean 4 + 1 + 0 + 9 = 14, over 3, over 4 values.
    assert estimate.mean == 3.0
    assert estimate.stderr == pytest.approx(math.sqrt(14 / 3 / 4))
    assert estimate.count == 4
    low, high = estimate.interval
    assert (low + high) / 2 == pytest.approx(3.0)
    assert high - low == pytest.approx(2 * 1.96 * estimate.stderr, rel=1e-3)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, size=(2000, 100))
    intervals = [Estimate.of(row).interval for row in values]
    hits = np.mean([low <= 5.0 <= high for low, high in intervals])
    assert 0.93 < hits < 0.96


def test_one_value_has_no_error() -> None:
    estimate = Estimate.of(np.array([2.0]))
    assert (estimate.mean, estimate.count) == (2.0, 1)
    assert math.isnan(estimate.stderr)


def test_paired_differences_average_rounds_of_an_episode_first() -> None:
    # Two rounds of three episodes; the differences per episode are 1, 2 and 3.
    ours = np.array([1.0, 1.0, 5.0, 3.0, 3.0, 7.0])
    theirs = np.array([0.0, 0.0, 2.0, 2.0, 0.0, 4.0])
    difference = paired_difference(ours, theirs, episodes=3)
    assert difference.mean == 2.0
    assert difference.count == 3
    assert difference.stderr == pytest.approx(1 / math.sqrt(3))


def test_columns_are_aligned() -> None:
    text = table(["who", "score"], [["a", "-1.0"], ["someone", "-12.25"]])
    assert text.splitlines() == [
        "who       score",
        "---       -----",
        "a          -1.0",
        "someone  -12.25",
    ]


def test_scores_are_sorted_with_their_distance_to_the_optimum() -> None:
    scores = {"greedy": Estimate(-2.0, 0.1, 1236), "sampled": Estimate(-3.5, 0.2, 1236)}
    references = {
        "optimal": Reference(-1.75, 0.0, "exact tree search"),
        "random": Reference(-5.0, 0.5, "10 games"),
    }
    lines = [line.split() for line in score_table(scores, references).splitlines()]
    assert [line[0] for line in lines[2:]] == ["random", "sampled", "greedy", "optimal"]
    assert lines[2][1:] == ["-5.000", "0.980", "3.250", "10", "games"]
    assert lines[4][1:] == ["-2.000", "0.196", "0.250", "1,236", "episodes"]
    assert lines[5][1:4] == ["-1.750", "exact", "0.000"]


def test_without_an_optimum_there_is_no_regret() -> None:
    text = score_table({"greedy": Estimate(-2.0, 0.1, 10)}, {})
    assert text.splitlines()[-1].split() == ["greedy", "-2.000", "0.196", "10", "episodes"]


def test_who_played_the_data() -> None:
    returns = {"novice": np.array([-4.0, -2.0, -3.0]), "expert": np.array([-1.0])}
    lines = [line.split() for line in dataset_table(returns).splitlines()]
    assert lines[2:] == [
        ["novice", "3", "75.0%", "-3.000"],
        ["expert", "1", "25.0%", "-1.000"],
        ["all", "4", "100.0%", "-2.500"],
    ]


def test_json_is_replaced_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    write_json(path, {"mean": -2.5})
    write_json(path, {"mean": -2.0})
    assert json.loads(path.read_text()) == {"mean": -2.0}
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["report.json"]
    with pytest.raises(TypeError):
        write_json(path, {"mean": object()})
    assert json.loads(path.read_text()) == {"mean": -2.0}
