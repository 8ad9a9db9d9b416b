"""Where a policy goes and what it does there: state-action visits, counted and drawn.

A cell is drawn as four triangles, one for each direction chosen there, around a square for staying;
the darker, the larger the share of all steps that it had.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from textrl.acting.rollout import Played
from textrl.envs.gridworld.layout import ACTIONS, FLOOR, LAVA, WALL, Layout
from textrl.envs.gridworld.task import GridworldTask
from textrl.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

Counts = NDArray[np.int64]
"""(cells, actions): how often an action was chosen in a cell."""

COLOURS = "Blues"
GAMMA = 0.5
"""Shades follow the square root: a few steps in many stay visible."""


def played_visits(task: GridworldTask, played: Played) -> Counts:
    """The visits of episodes that a policy played."""
    first = task.language.first_action
    actions = [[step.action[0] - first for step in each.steps] for each in played.episodes]
    return visit_counts(task.rules.layout, [info["cell"] for info in played.infos], actions)


def visit_counts(
    layout: Layout, cells: Sequence[NDArray[np.generic]], actions: Sequence[Sequence[int]]
) -> Counts:
    """How often each action was chosen in each cell.

    cells, actions: by episode, the cell after each step and the action of that step.
    """
    counts = np.zeros((layout.cells, len(ACTIONS)), dtype=np.int64)
    for after, chosen in zip(cells, actions, strict=True):
        before = np.array([layout.start, *after[:-1].tolist()])
        np.add.at(counts, (before, np.asarray(chosen)), 1)
    return counts


def draw_visits(
    axes: "Axes", layout: Layout, counts: Counts, darkest: float | None = None
) -> "ScalarMappable":
    """Draw the map and the visits; what is returned can have a colour bar.

    darkest: the share of all steps that gets the darkest shade (None: the largest there is); give
    the same to maps that are to be compared.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import PowerNorm

    shares = counts / max(1, counts.sum())
    cells = np.flatnonzero(~layout.holds(WALL) & ~layout.holds(LAVA))
    corner = np.stack([cells % layout.width, cells // layout.width], axis=1)[:, None]
    norm = PowerNorm(GAMMA, vmin=0, vmax=darkest or shares.max() or 1)
    # One collection for all shapes would draw a cell's square below its neighbours' triangles.
    for number, outline in enumerate(_shapes()):
        shapes = PolyCollection(list(corner + outline), cmap=COLOURS, norm=norm, linewidths=0)
        shapes.set_array(shares[cells, number])
        axes.add_collection(shapes)
    _draw_ground(axes, layout)
    axes.set(xlim=(0, layout.width), ylim=(layout.height, 0), aspect="equal", xticks=[], yticks=[])
    return shapes


def visits_figure(layout: Layout, visits: Mapping[str, Counts]) -> "Figure":
    """Maps side by side, title -> counts, all in the same shades."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'offline-textrl[figures]'") from None

    figure = Figure(figsize=(3.3 * len(visits) + 0.7, 4.0), layout="constrained", dpi=150)
    grid: Any = figure.subplots(1, len(visits), squeeze=False)
    darkest = max(float((each / max(1, each.sum())).max()) for each in visits.values())
    for axes, (title, counts) in zip(grid[0], visits.items(), strict=True):
        shades = draw_visits(axes, layout, counts, darkest)
        axes.set_title(title)
    figure.colorbar(shades, ax=grid[0].tolist(), label="share of all steps", shrink=0.8)
    return figure


def _shapes() -> list[NDArray[np.float64]]:
    """By action, the polygon in the unit square that stands for it; y points down."""
    middle, side = (0.5, 0.5), 0.13
    corners = [(0, 0), (1, 0), (1, 1), (0, 1)]
    triangles = [[corners[i], corners[(i + 1) % 4], middle] for i in range(4)]
    low, high = 0.5 - side, 0.5 + side
    square = [(low, low), (high, low), (high, high), (low, high)]
    return [np.array(shape, dtype=np.float64) for shape in (*triangles, square)]


def _draw_ground(axes: "Axes", layout: Layout) -> None:
    """Walls, lava and lines, and the letters of the map on what they stand for."""
    from matplotlib.patches import Rectangle

    styles: dict[str, dict[str, Any]] = {
        WALL: {"facecolor": "0.35", "edgecolor": "0.35"},
        LAVA: {"facecolor": "#f4b183", "edgecolor": "#b03a1a", "hatch": "xxxx"},
        FLOOR: {"facecolor": "none", "edgecolor": "0.75"},
    }
    for row, line in enumerate(layout.rows):
        for column, symbol in enumerate(line):
            style = styles.get(symbol, styles[FLOOR])
            axes.add_patch(Rectangle((column, row), 1, 1, linewidth=0.5, **style))
            if symbol not in styles:
                axes.text(
                    column + 0.06,
                    row + 0.08,
                    symbol,
                    ha="left",
                    va="top",
                    fontsize=8,
                    weight="bold",
                    bbox={"boxstyle": "circle,pad=0.12", "facecolor": "white", "linewidth": 0.6},
                )
