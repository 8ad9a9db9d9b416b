"""The paper's figures, drawn from finished runs and their metrics."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textrl.evaluation.report import over_seeds
from textrl.recipes.reproducing.experiments import Experiment, Run, look_up
from textrl.recipes.reproducing.visits import draw_agents
from textrl.sharing.publish import saved_report
from textrl.training.metrics import METRICS_FILE

LINES = (("black", "-", "o"), ("tab:orange", "--", "s"), ("tab:blue", "-.", "^"), ("0.6", ":", "D"))
SMOOTH = 100  # steps over which a curve averages


def draw(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """The figures of one experiment; gives the files."""
    drawn = DRAWN.get(experiment.task)
    return drawn(experiment, runs, output) if drawn else []


def draw_visits(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """Figure 2: where the agents of the first seed go."""
    figures = []
    for setting in experiment.settings:
        chosen = [run for run in runs if run.setting == setting and run.seed == 0]
        figures.append(output / f"{experiment.task}-visits-{setting}.png")
        draw_agents(figures[-1], {run.method: str(run.folder) for run in chosen})
    return figures


def draw_curves(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """Figure 4: the bisimulation loss during training, minimized and only measured."""
    methods = [name for name in experiment.methods if f"{name}+bisim" in experiment.methods]
    methods += [f"{name}+bisim" for name in methods]
    if not {*methods} <= {run.method for run in runs}:  # nothing to compare yet
        return []
    figure, axes = new_figure(width=5.5)
    for method, (colour, dashes, _) in zip(methods, LINES, strict=False):
        curves = [bisimulation_curve(run) for run in runs if run.method == method]
        steps = curves[0][0]
        each = [over_seeds(values) for values in zip(*(curve[1] for curve in curves), strict=True)]
        axes.plot(steps, [x["mean"] for x in each], color=colour, linestyle=dashes, label=method)
        band = ([x["low"] for x in each], [x["high"] for x in each])
        axes.fill_between(steps, *np.maximum(band, 1e-3), color=colour, alpha=0.2, linewidth=0)
    axes.set(yscale="log", xlabel="training step", ylabel="bisimulation loss")
    axes.set_title(f"{experiment.task}: mean of {len(curves)} seeds, 95 % interval", fontsize=10)
    axes.legend(frameon=False)
    return [save(figure, output / f"{experiment.task}-bisimulation.png")]


def bisimulation_curve(run: Run) -> tuple[list[int], list[float]]:
    """Steps and the loss there, each a mean of the measurements in the steps before."""
    lines = [json.loads(line) for line in (run.folder / METRICS_FILE).read_text().splitlines()]
    groups: dict[int, list[float]] = {}
    for line in lines:
        if "bisimulation" in line:
            end = -(-line["step"] // SMOOTH) * SMOOTH
            groups.setdefault(end, []).append(line["bisimulation"])
    return list(groups), [float(np.mean(losses)) for losses in groups.values()]


def draw_hypothesis(experiment: Experiment, runs: Sequence[Run], output: Path) -> Path:
    """The paper's hypothesis: over all runs, the final bisimulation loss against the return."""
    figure, axes = new_figure()
    view, keys = next(iter(experiment.views.items()))
    for method, (colour, _, marker) in zip(experiment.methods, LINES, strict=False):
        points = [
            (bisimulation_curve(run)[1][-1], look_up(report, keys)["mean"])
            for run in runs
            if run.method == method and (report := saved_report(run.folder)) is not None
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), c=colour, marker=marker, label=method)
    axes.set(
        xscale="log", xlabel="final bisimulation loss", ylabel=f"mean score, {view or 'greedy'}"
    )
    axes.set_title(experiment.task, fontsize=10)
    # Beside the points, among which its own would look like more of them.
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return save(figure, output / f"hypothesis-{experiment.task}.png")


def new_figure(width: float = 4.2) -> tuple[Any, Any]:
    """An empty figure and its axes."""
    from matplotlib.figure import Figure  # an extra: only who draws needs it

    figure = Figure(figsize=(width, 3.6), layout="constrained")
    return figure, figure.subplots()


def save(figure: Any, path: Path) -> Path:
    """Write it as a PNG."""
    figure.savefig(path, dpi=150)
    return path


def draw_walks(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """Where the agents of the first seed go, and how often each method finds home from where."""
    from textrl.envs.vizdoom.render import draw_success, save_picture  # only who draws needs Pillow

    ways, spots = (output / f"{experiment.task}-{name}.png" for name in ("ways", "spots"))
    chosen = {run.method: str(run.folder) for run in runs if run.seed == 0}
    draw_agents(ways, chosen, sample=True)
    maps = []
    for method in experiment.methods:
        found: dict[int, tuple[int, int]] = {}
        for run in runs:
            report = saved_report(run.folder) if run.method == method else None
            if not report:
                continue
            for view in ("base", "hard"):
                for spot, (n, of) in look_up(report, experiment.views[view])["by_spot"].items():
                    before = found.get(int(spot), (0, 0))
                    found[int(spot)] = (before[0] + n, before[1] + of)
        maps.append(draw_success(found, method, width=640))
    rows = [np.concatenate(maps[i : i + 2], axis=1) for i in range(0, len(maps), 2)]
    save_picture(spots, np.concatenate(rows))
    return [ways, spots]


DRAWN: dict[str, Callable[[Experiment, Sequence[Run], Path], list[Path]]] = {
    "gridworld": draw_visits,
    "vizdoom": draw_walks,
    "wordle": draw_curves,
}
