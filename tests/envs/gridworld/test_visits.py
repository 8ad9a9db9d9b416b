"""State-action visits: counted by hand, drawn where they belong."""

import sys

import numpy as np
import pytest

from textrl.acting.rollout import Played
from textrl.data.episode import Episode, Step
from textrl.envs.gridworld.layout import LEFT, RIGHT, STAY, Layout
from textrl.envs.gridworld.rules import Rules
from textrl.envs.gridworld.task import GridworldTask
from textrl.envs.gridworld.visits import draw_visits, played_visits, visit_counts, visits_figure
from textrl.errors import UserError


def test_an_action_counts_where_it_was_chosen(corridor: Layout) -> None:
    cells = [np.array([3, 3, 2]), np.array([1])]
    counts = visit_counts(corridor, cells, [[RIGHT, STAY, LEFT], [LEFT]])
    expected = np.zeros((5, 5), dtype=int)
    expected[2, RIGHT] = expected[3, STAY] = expected[3, LEFT] = expected[2, LEFT] = 1
    assert (counts == expected).all()


def test_played_episodes_are_counted_by_their_tokens(corridor: Layout) -> None:
    task = GridworldTask(Rules(corridor))
    first = task.language.first_action
    steps = (Step((first + STAY,), 0.0, (4,), 2), Step((first + RIGHT,), 0.0, (5,), 3))
    episode = Episode((1, 4), steps, False, True, "policy")
    counts = played_visits(task, Played([episode] * 3, [{"cell": np.array([2, 3])}] * 3))
    assert counts[2].tolist() == [0, 3, 0, 0, 3]
    assert counts.sum() == 6


def test_shades_are_shares_of_all_steps(corridor: Layout) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    counts = np.zeros((5, 5), dtype=np.int64)
    counts[2] = [0, 6, 0, 1, 1]
    axes = figures.Figure().subplots()
    draw_visits(axes, corridor, counts)
    by_action = np.array([shapes.get_array() for shapes in axes.collections])
    assert by_action.shape == (5, 5)
    assert by_action[:, 2].tolist() == [0, 0.75, 0, 0.125, 0.125]
    assert by_action.sum() == 1


def test_a_triangle_points_where_its_action_goes(corridor: Layout) -> None:
    pytest.importorskip("matplotlib")
    counts = np.zeros((5, 5), dtype=np.int64)
    counts[2, RIGHT] = 1
    figure = visits_figure(corridor, {"one": counts})
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[..., :3].mean(axis=-1)

    def brightness(x: float, y: float) -> float:
        column, row = figure.axes[0].transData.transform((x, y))
        return float(picture[len(picture) - 1 - int(row), int(column)])

    assert brightness(2.85, 0.5) < 100
    for x, y in ((2.15, 0.6), (2.5, 0.5), (2.5, 0.85), (3.5, 0.5), (1.5, 0.5)):
        assert brightness(x, y) > 230


def test_maps_side_by_side_share_their_shades(corridor: Layout) -> None:
    pytest.importorskip("matplotlib")
    few, many = np.zeros((2, 5, 5), dtype=np.int64)
    few[2], many[2, RIGHT] = 1, 9
    figure = visits_figure(corridor, {"a": few, "b": many})
    maps = figure.axes[:2]
    assert [axes.get_title() for axes in maps] == ["a", "b"]
    assert {shapes.norm.vmax for axes in maps for shapes in axes.collections} == {1.0}
    assert figure.axes[2].get_ylabel() == "share of all steps"


def test_no_visits_at_all_can_be_drawn(corridor: Layout) -> None:
    pytest.importorskip("matplotlib")
    assert visits_figure(corridor, {"none": np.zeros((5, 5), dtype=np.int64)}).axes


def test_without_matplotlib_the_remedy_is_told(
    corridor: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UserError, match=r"pip install 'offline-textrl\[figures\]'"):
        visits_figure(corridor, {})
