"""Studies: exact summaries by hand and against brute force, nested data, cells over seeds."""

from pathlib import Path

import numpy as np
import pytest
import torch

from textrl.envs.gridworld.behaviour import walk_chunk
from textrl.envs.gridworld.layout import SAFE_LIVE, UNSAFE_LIVE
from textrl.envs.gridworld.rules import make_rules
from textrl.envs.gridworld.solve import optimal_plan
from textrl.envs.gridworld.task import GridworldTask
from textrl.envs.tmaze.rules import Rules
from textrl.envs.tmaze.task import TMazeTask
from textrl.recipes.reproducing.exact import (
    every_action_metric,
    hidden_of,
    one_step_metric,
    optimal_values,
)
from textrl.recipes.reproducing.given import head_teacher, metric_teacher, partners
from textrl.recipes.reproducing.studies import GIVEN, STUDIES, plan_study
from textrl.recipes.reproducing.study_figure import LOOKS
from textrl.recipes.reproducing.study_results import compare_study, study_rows
from textrl.recipes.reproducing.study_runs import first_walks
from textrl.recipes.reproducing.summary import study_section
from textrl.recipes.reproducing.tabular import tabular_return

TASK = GridworldTask(make_rules())


def test_the_one_step_metric_does_not_see_the_live_goal_and_the_recursive_one_does() -> None:
    hidden = hidden_of(TASK)
    recursive, one_step = every_action_metric(hidden.dynamics), one_step_metric(hidden.dynamics)
    for metric in (recursive, one_step):
        assert np.allclose(metric, metric.T) and np.allclose(np.diag(metric), 0)
    cells = TASK.rules.layout.cells
    over = hidden.dynamics.seen == cells
    blind = total = 0
    for cell in TASK.rules.layout.open_cells.tolist():
        a, b = (mode * cells + cell for mode in (UNSAFE_LIVE, SAFE_LIVE))
        if not over[a] and not over[b]:
            total += 1
            blind += one_step[a, b] < 1e-9
            assert recursive[a, b] > 0.1
    assert blind / total > 0.8 and blind < total


def test_values_differ_by_no_more_than_the_metric_of_the_same_discount() -> None:
    known = hidden_of(TASK).dynamics
    values, metric = optimal_values(known, 0.95), every_action_metric(known, 0.95)
    assert (np.abs(values[:, None] - values[None]) <= metric + 1e-4).all()
    assert optimal_values(known, 1.0)[TASK.rules.start] >= optimal_plan(TASK.rules).score


def test_hidden_states_are_those_of_the_walks() -> None:
    walks = walk_chunk(TASK.rules, 0, 20, 3)
    classes = TASK._class_of_cell[np.maximum(walks.cells, 0)]
    states = hidden_of(TASK).states_of(classes, np.zeros_like(classes))
    for e, length in enumerate((walks.actions >= 0).sum(axis=1).tolist()):
        mode = 0
        for t in range(length + 1):
            cell = int(walks.cells[e, t])
            mode = int(TASK.rules.layout.next_mode[mode, cell])
            assert states[e, t] == mode * TASK.rules.layout.cells + cell


def test_the_tmaze_is_exact_by_hand() -> None:
    hidden = hidden_of(TMazeTask(Rules(1)))  # outside, cue, noise, junction
    classes = np.array([[-1, 1, 1, 3, 6], [-1, 0, 4, 6, 6]])
    actions = np.array([[0, 1, 0, 0, 2], [0, 0, 0, 0, 1]])
    states = hidden.states_of(classes, actions)
    assert states.tolist() == [[0, 4, 4, 5, 6], [0, 1, 2, 3, 3]]
    values = optimal_values(hidden.dynamics, 0.9)
    assert values.tolist() == pytest.approx([0.9**3, 0.81, 0.9, 1, 0.81, 0.9, 1, 0])
    # With the other cue: all of a reward, after as many steps as there are left to the junction.
    recursive, one_step = every_action_metric(hidden.dynamics), one_step_metric(hidden.dynamics)
    assert recursive[3, 6] == 1 and recursive[2, 5] == pytest.approx(0.95)
    assert one_step[2, 5] == 0 and one_step[3, 6] == 1


def test_partners_have_the_same_key() -> None:
    keys = np.array([3, 1, 3, 3, 2, 1, 3])
    found = partners(keys, np.random.default_rng(0))
    assert (keys[found] == keys).all() and sorted(found) == list(range(7))
    assert [i for i in range(7) if found[i] == i] == [4]  # the only one of its kind


def test_teachers_by_hand() -> None:
    hidden = hidden_of(TMazeTask(Rules(1)))
    metric = np.abs(np.arange(8.0)[:, None] - np.arange(8.0)[None])
    phi = 5.0 * torch.tensor([[0.0], [2.0], [5.0]])  # as far apart as 5 times the metric says
    teach = metric_teacher(metric, hidden, seed=0)
    assert float(teach(phi, np.array([0, 2, 5]))) == pytest.approx(0)
    assert float(teach(2 * phi, np.array([0, 2, 5]))) > 1
    told = head_teacher(torch.nn.Identity(), torch.tensor([1.0, 2.0]))
    assert float(told(torch.tensor([[0.5], [4.0]]), np.array([1, 0]))) == (1.5**2 + 3**2) / 2


def test_fewer_episodes_are_the_first_of_more() -> None:
    few, many = (list(first_walks(TASK, [size], 5, 0)) for size in (3, 40))
    assert few == many[:3] and len(many) == 40
    assert tabular_return(TASK.rules, 100, 5) <= tabular_return(TASK.rules, 5000, 5) + 0.02
    assert 0.9 < tabular_return(TASK.rules, 5000, 5) < optimal_plan(TASK.rules).score


def test_luck_of_rarely_tried_actions_costs_more_than_doubt_does() -> None:
    """Seeds that no study has."""
    for seed in (200, 201, 202):
        plain, doubtful = (tabular_return(TASK.rules, 2500, seed, doubt) for doubt in (0, 1))
        assert plain - 0.004 < doubtful < optimal_plan(TASK.rules).score
        assert doubtful == pytest.approx(0.962, abs=0.001)
    assert min(tabular_return(TASK.rules, 2500, seed) for seed in (200, 201, 202)) < 0.955


def test_the_grid_is_fixed_and_its_cells_are_over_seeds(tmp_path: Path) -> None:
    study = STUDIES["samples"]
    runs = plan_study(study, 5, tmp_path, ())
    assert len({run.folder for run in runs}) == len(runs)
    tens = [run for run in runs if run.seed > 104]
    assert {run.seed for run in runs if run not in tens} == {100, 101, 102, 103, 104}
    assert {(run.method, run.size) for run in tens} == {("cql", 250), ("hindsight", 250)}
    assert len(tens) == 10 and {run.seed for run in tens} == {105, 106, 107, 108, 109}
    more = plan_study(study, 7, tmp_path, ())
    assert len({run.name for run in more}) == len(more)
    names = {run.method for run in runs if run.table == "methods"}
    assert names >= {
        "cql",
        "cql+bisim",
        "hindsight",
        "exact-metric",
        "exact-one-step",
        "classifier",
    }
    assert [run.method for run in runs if run.summary] and {*GIVEN} >= {
        run.summary for run in runs if run.summary
    }
    assert {run.method for run in plan_study(study, 1, tmp_path, ["cql"])} == {"cql"}
    found = {}
    for run in runs:
        if (run.table, run.backbone, run.size) == ("methods", "gpt2", 250) and run.seed < 103:
            mean = 0.1 * (run.seed - 100) + (0.5 if run.method == "hindsight" else 0.0)
            curve = {"300": 0.0, "600": 0.1, "900": 0.2, "1200": 0.25}
            found[run] = {"mean": mean, "curve": curve, "seconds": 9.0}
    results = compare_study(study, found, len(runs))
    cell = results["methods"]["cql"]["gpt2"]["250"]
    assert (cell["mean"], cell["seeds"], cell["best"]) == (pytest.approx(0.1), 3, 0.25)
    gain = results["differences"]["hindsight - cql"]["gpt2"]["250"]
    assert gain["mean"] == pytest.approx(0.5) and gain["low"] == pytest.approx(0.5)
    late = results["differences_to_best"]["hindsight - cql"]["gpt2"]["250"]
    assert late["mean"] == pytest.approx(0.6 - 0.25)
    assert {run.method for run in runs if run.table == "methods"} <= {*LOOKS}
    assert results["settled"]["methods gpt2 cql"]["mean"] == pytest.approx(0.05)
    assert results["optimum"] == pytest.approx(0.965, abs=1e-3)
    assert results["runs"] == {"done": 18, "planned": len(runs)}
    rows = {row[0]: row for row in study_rows(study, results)}
    assert rows["cql"][3] == "0.10 ± 0.25 [0.25] (3)" and "tabular" in rows
    page = study_section(study, results)
    assert (
        f"18 of {len(runs)} runs" in page and "| cql | gpt2 |  | 0.10 ± 0.25 [0.25] (3) |" in page
    )
