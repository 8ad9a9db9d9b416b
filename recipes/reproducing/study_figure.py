"""A study's figure: return along its axis, with bands, every run, and who is exact."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from textrl.recipes.reproducing.figures import save
from textrl.recipes.reproducing.studies import GIVEN, Study
from textrl.recipes.reproducing.study_results import named

Cells = Mapping[str, Mapping[str, Any]]
LOOKS = {
    "cql": ("black", "CQL"),
    "cql+bisim": ("tab:orange", "CQL + the paper's loss"),
    "hindsight": ("tab:blue", "hindsight queries, then CQL"),
    "exact-metric": ("tab:green", "told the exact metric"),
    "exact-one-step": ("tab:red", "told the exact one-step metric"),
    "classifier": ("tab:purple", "told the hidden part"),
}
"""Colour and name of methods that several studies have; others have any."""
BASELINE = "cql"
"""Whose best stopping point is shown besides."""
FEWEST = 4
"""Seeds that a band takes: the interval over fewer is as wide as the figure."""


def draw_study(study: Study, results: Mapping[str, Any], output: Path) -> Path:
    """A panel for each backbone. Dashed: what is told the hidden states."""
    from matplotlib.figure import Figure  # an extra: only who draws needs it

    backbones = list(dict.fromkeys(name for of in results["methods"].values() for name in of))
    shown_in = [(each, variant) for variant in ("", *results["variants"]) for each in backbones]
    figure = Figure(figsize=(5.6 * len(shown_in) + 2.6, 4.4), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(shown_in), sharey=True))
    for axes, (backbone, variant) in zip(panels, shown_in, strict=True):
        found = results[named("methods", variant)]
        drawn = {method: of[backbone] for method, of in found.items() if backbone in of}
        if not variant:
            draw_references(axes, results)
        for method, cells in drawn.items():
            draw_line(axes, method, cells)
        finish(axes, named(backbone, variant), drawn)
        axes.set_xlabel(study.axis)
    panels[0].set_ylabel("sampled return" if study.play.sample else "greedy return")
    figure.suptitle(study.title, fontsize=12)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)
    return save(figure, output / f"{study.name}.png")


def finish(axes: Any, title: str, drawn: Mapping[str, Cells]) -> None:
    """What a panel shows, over how many seeds, and its axes."""
    every = [cell for cells in drawn.values() for cell in cells.values()]
    seeds = sorted({cell["seeds"] for cell in every})
    many = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    axes.set_title(f"{title}, {many} seed{'s' * (seeds[-1] > 1)} per point", fontsize=10)
    axes.set(xscale="log", ylim=(min(0.0, *(cell["mean"] for cell in every)), 1.02))
    sizes = sorted({int(size) for cells in drawn.values() for size in cells})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)


def draw_line(axes: Any, method: str, cells: Cells) -> None:
    """One method's means, the band of their intervals where there are some, and every run."""
    sizes = sorted(cells, key=int)
    x = [int(size) for size in sizes]
    colour, label = LOOKS.get(method, (None, method))
    means = [cells[size]["mean"] for size in sizes]
    style = "--" if method in GIVEN else "-"
    (line,) = axes.plot(x, means, style, color=colour, marker="o", ms=4, lw=1.8, label=label)
    colour = line.get_color()
    for size, at in zip(sizes, x, strict=True):
        runs = list(cells[size]["by_seed"].values())
        axes.plot([at] * len(runs), runs, ".", color=colour, ms=3, alpha=0.5)
    if method == BASELINE:
        best = [cells[size]["best"] for size in sizes]
        axes.plot(x, best, "-", color=colour, lw=0.8, alpha=0.6, label=f"{label}, stopped at best")
    if method not in GIVEN and all(cells[size]["seeds"] >= FEWEST for size in sizes):
        least = min(0.0, *means)
        band = [[np.clip(cells[size][end], least, 1) for size in sizes] for end in ("low", "high")]
        axes.fill_between(x, *band, color=colour, alpha=0.15, linewidth=0)


def draw_references(axes: Any, results: Mapping[str, Any]) -> None:
    """The optimum and tabular value iteration, as thin lines."""
    if results["optimum"] is not None:
        axes.axhline(results["optimum"], color="0.5", lw=0.8, ls=":", label="optimum")
    named = {
        "tabular": ("-.", "value iteration, told the hidden part"),
        "optimal": (":", "optimum"),
        "memoryless": ((0, (1, 3)), "who forgets"),
    }
    for name, (style, label) in named.items():
        cells = results["references"].get(name, {})
        if cells:
            sizes = sorted(cells, key=int)
            means = [cells[size]["mean"] for size in sizes]
            x = [int(size) for size in sizes]
            axes.plot(x, means, ls=style, color="0.5", lw=1, label=label)
