"""The paper's figures, drawn from finished runs and their metrics."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from textrl.evaluation.report import over_seeds
from textrl.recipes.reproducing.experiments import Experiment, Run, look_up
from textrl.recipes.reproducing.runs import has_agent, report_of
from textrl.recipes.reproducing.visits import draw_agents

LINES = (("black", "-", "o"), ("tab:orange", "--", "s"), ("tab:blue", "-.", "^"), ("0.6", ":", "D"))


def draw(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """The figures of one experiment; gives the files."""
    drawn = DRAWN.get(experiment.task)
    return drawn(experiment, runs, output) if drawn else []


def draw_visits(experiment: Experiment, runs: Sequence[Run], output: Path) -> list[Path]:
    """Figure 2: where the agents of the first seed go, of settings whose agents are all there."""
    figures = []
    for setting in experiment.settings:
        chosen = [run for run in runs if run.setting == setting and run.seed == 0]
        if not all(map(has_agent, chosen)):
            continue
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
        curves = [
            np.array(report_of(run)["bisimulation_curve"]).T for run in runs if run.method == method
        ]
        steps = curves[0][0]
        each = [over_seeds(list(values)) for values in zip(*(y for _, y in curves), strict=True)]
        axes.plot(steps, [x["mean"] for x in each], color=colour, linestyle=dashes, label=method)
        band = ([x["low"] for x in each], [x["high"] for x in each])
        axes.fill_between(steps, *np.maximum(band, 1e-3), color=colour, alpha=0.2, linewidth=0)
    axes.set(yscale="log", xlabel="training step", ylabel="bisimulation loss")
    axes.set_title(f"{experiment.task}: mean of {len(curves)} seeds, 95 % interval", fontsize=10)
    axes.legend(frameon=False)
    return [save(figure, output / f"{experiment.task}-bisimulation.png")]


def draw_hypothesis(experiment: Experiment, runs: Sequence[Run], output: Path) -> Path:
    """The paper's hypothesis: over all runs, the final bisimulation loss against the return."""
    figure, axes = new_figure()
    view, keys = next(iter(experiment.views.items()))
    for method, (colour, _, marker) in zip(experiment.methods, LINES, strict=False):
        points = [
            (report["bisimulation_curve"][-1][1], look_up(report, keys)["mean"])
            for run in runs
            if run.method == method and (report := report_of(run))["bisimulation_curve"]
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
    chosen = [run for run in runs if run.seed == 0]
    if all(map(has_agent, chosen)):
        draw_agents(ways, {run.method: str(run.folder) for run in chosen}, sample=True)
    maps = []
    for method in experiment.methods:
        found: dict[int, tuple[int, int]] = {}
        for run in runs:
            if run.method != method:
                continue
            report = report_of(run)
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
