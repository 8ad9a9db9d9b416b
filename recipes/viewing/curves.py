"""The curves of runs: read, chosen, drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textrl.errors import UserError, unknown
from textrl.training.metrics import SPEED, Curves, read_curves

OF_THE_MACHINE = ("learning_rate", "gradient_norm", "waiting_for_data", SPEED)
"""Not drawn unless asked for."""
COLOURS = ("#1f5fb4", "#b0500c", "#2c7a3f", "#8b3fa0", "#5c5c61", "#a31f34")
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)))
PANEL = (3.6, 2.6)  # inches
MOST_COLUMNS = 3


def curves_of(folders: Sequence[Path]) -> dict[str, Curves]:
    """The curves of each run, by the shortest names that tell the runs apart."""
    return {title: read_curves(f) for title, f in zip(titles(folders), folders, strict=True)}


def titles(folders: Sequence[Path]) -> list[str]:
    """The folders' names; those of two parents where names are the same."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) == len(names):
        return names
    found = [f"{f.resolve().parent.name}/{f.resolve().name}" for f in folders]
    if len(set(found)) < len(found):
        raise UserError("two of the runs have the same name: give each once")
    return found


def chosen_names(runs: Mapping[str, Curves], wanted: Sequence[str]) -> list[str]:
    """The figures to draw: those wanted or, without any, all but the machine's."""
    known = list(dict.fromkeys(name for curves in runs.values() for name in curves))
    for name in wanted:
        if name not in known:
            raise unknown("metric", name, known)
    return list(wanted) or [name for name in known if name not in OF_THE_MACHINE]


def draw(runs: Mapping[str, Curves], names: Sequence[str], output: Path) -> None:
    """A panel for each figure, a line for each run."""
    from matplotlib.figure import Figure  # an extra: only who draws needs it

    columns = min(MOST_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, name in zip(panels, names, strict=False):
        for number, curves in enumerate(runs.values()):
            if name in curves:
                steps, values = curves[name]
                marker = "o" if len(steps) < 12 else None  # a line of one point would not be seen
                style = {"color": COLOURS[number % 6], "linestyle": DASHES[number % 6]}
                axes.plot(steps, values, marker=marker, markersize=3, linewidth=1.3, **style)
        axes.set_title(name, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    lines = [line_of(number) for number in range(len(runs))]
    figure.legend(lines, list(runs), loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    figure.supxlabel("training step", fontsize=9)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)


def line_of(number: int) -> Any:
    """A run's line, for the legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=COLOURS[number % 6], linestyle=DASHES[number % 6])
