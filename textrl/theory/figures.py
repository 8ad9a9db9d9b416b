"""The theory's measurements as figures. Line styles and markers tell as much as colours do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textrl.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Json = Mapping[str, Any]
LOOKS: dict[str, dict[str, Any]] = {
    "histories": {"color": "#b03a1a", "linestyle": "-", "marker": "o", "markersize": 4},
    "every-action": {"color": "#1f5fa8", "linestyle": "--", "marker": "s", "markersize": 4},
    # Larger and hollow: where both kinds of summaries are the same, both can be seen.
    "on-policy": {
        "color": "0.4",
        "linestyle": ":",
        "marker": "^",
        "markersize": 9,
        "fillstyle": "none",
    },
}
NAMES = {
    "histories": "histories",
    "every-action": "summaries, every-action metric",
    "on-policy": "summaries, on-policy metric",
}
READINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "every-action": (
        "optimum of the summaries, every-action metric",
        {"edgecolors": "#1f5fa8", "facecolors": "none", "marker": "s", "s": 12},
    ),
    "on-policy": (
        "averages over the optimal policy (appendix)",
        {"edgecolors": "0.4", "facecolors": "none", "marker": "^", "s": 22},
    ),
    "on-policy, optimum": (
        "optimum of the summaries, on-policy metric",
        {"color": "#b03a1a", "marker": "x", "s": 18},
    ),
}
STYLES = [("-", "o"), ("--", "s"), ("-.", "^"), (":", "D"), ((0, (1, 4)), "v"), ("-", "x")]


def new_figure(rows: int, columns: int, **sharing: Any) -> "tuple[Figure, Any]":
    """A figure and its grid of axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("figures need matplotlib: pip install 'offline-textrl[figures]'") from None
    figure = Figure(figsize=(4.0 * columns, 3.2 * rows + 0.5), layout="constrained", dpi=150)
    return figure, figure.subplots(rows, columns, squeeze=False, **sharing)


def suboptimality_figure(study: Json, horizons: Sequence[int], scale: float) -> "Figure":
    """Suboptimality against episodes: a row for each family, a column for each horizon."""
    families = list(dict.fromkeys(curve["family"] for curve in study["curves"]))
    figure, grid = new_figure(len(families), len(horizons), sharex=True, sharey=True)
    for curve in study["curves"]:
        if curve["horizon"] not in horizons or curve["scale"] != scale:
            continue
        row, column = families.index(curve["family"]), horizons.index(curve["horizon"])
        axes = grid[row][column]
        look = LOOKS[curve["states"]]
        axes.plot(study["sizes"], curve["mean"], label=curve["states"], **look)
        axes.fill_between(
            study["sizes"], curve["low"], curve["high"], color=look["color"], alpha=0.2, linewidth=0
        )
        title = f"{curve['family']}, horizon {curve['horizon']}"
        axes.set(xscale="log", ylim=(-0.03, None), title=title)
    _outer_labels(grid, "episodes N", "suboptimality J* - J")
    _legend_below(figure, grid[0][0], NAMES)
    return figure


def needed_figure(study: Json) -> "Figure":
    """Episodes needed against the horizon, on a log axis: a panel for each family and scale."""
    families = list(dict.fromkeys(each["family"] for each in study["needed"]))
    scales = list(dict.fromkeys(each["scale"] for each in study["needed"]))
    figure, grid = new_figure(len(scales), len(families), sharex=True, sharey=True)
    for row, scale in enumerate(scales):
        for column, family in enumerate(families):
            axes = grid[row][column]
            for states, look in LOOKS.items():
                points = [
                    each
                    for each in study["needed"]
                    if (each["family"], each["scale"], each["states"]) == (family, scale, states)
                    and each["episodes"] is not None
                ]
                if not points:
                    continue
                middle = [each["episodes"] for each in points]
                spread = [
                    [m - each["low"] for m, each in zip(middle, points, strict=True)],
                    [each["high"] - m for m, each in zip(middle, points, strict=True)],
                ]
                horizons = [each["horizon"] for each in points]
                axes.errorbar(horizons, middle, spread, capsize=3, label=states, **look)
            axes.set(yscale="log", title=f"{family}, bonus x {scale:.3g}")
    _outer_labels(grid, "horizon H", f"episodes for J* - J <= {study['target']:g}")
    _legend_below(figure, grid[0][0], NAMES)
    return figure


def clusters_figure(study: Json) -> "Figure":
    """States left at each epsilon against the horizon: a row for each metric, families beside."""
    families = list(dict.fromkeys(each["family"] for each in study["counts"]))
    metrics = ["every-action", "on-policy"]
    figure, grid = new_figure(len(metrics), len(families), sharex="col", sharey=True)
    for row, metric in enumerate(metrics):
        for column, family in enumerate(families):
            axes = grid[row][column]
            points = [each for each in study["counts"] if each["family"] == family]
            horizons = [each["horizon"] for each in points]
            whole = [each["histories"]["mean"][0] for each in points]
            axes.plot(horizons, whole, color="black", linewidth=2, marker="*", label="histories")
            for number, epsilon in enumerate(study["epsilons"]):
                style, marker = STYLES[number]
                left = [each[metric]["mean"][number] for each in points]
                axes.plot(
                    *(horizons, left),
                    linestyle=style,
                    marker=marker,
                    markersize=4,
                    label=f"clusters, $\\epsilon$ = {epsilon:g}",
                )
            axes.set(yscale="log", title=f"{family}, {metric} metric", xticks=horizons)
    _outer_labels(grid, "horizon H", "states in all steps")
    _legend_below(figure, grid[0][0], {})
    return figure


def lemma_figure(study: Json) -> "Figure":
    """Differences of values against what bounds them; the line is the bound."""
    figure, grid = new_figure(1, 2)
    left, right = grid[0]
    for metric in ("every-action", "on-policy"):
        _, look = READINGS[metric]
        gaps, apart = zip(*study["pairs"][metric]["shown"], strict=True)
        left.scatter(apart, gaps, label=f"{metric} metric", linewidths=0.6, **look)
    left.set(xlabel="distance d of two histories", ylabel="difference of their values V*")
    for reading, (name, look) in READINGS.items():
        points = study["readings"][reading]["points"]
        bounds, gaps = zip(*[(p["bound"], p["difference"]) for p in points], strict=True)
        right.scatter(bounds, gaps, label=name, linewidths=0.8, **look)
    right.set(
        xlabel="bound of lemma 1: horizon x cluster diameter",
        ylabel="largest |V*(history) - V*(its summary)|",
    )
    for axes in (left, right):
        end = axes.get_xlim()[1]
        axes.plot([0, end], [0, end], color="black", linewidth=1, label="bound")
        axes.set(ylim=(-0.03, axes.get_ylim()[1] * 1.2))  # room for the legend
        axes.legend(fontsize=7, loc="upper left")
    return figure


def agent_figure(study: Json) -> "Figure":
    """Clusters of an agent's representations against the histories that they stand for."""
    figure, grid = new_figure(1, 1)
    axes = grid[0][0]
    sizes = study["histories"]
    axes.plot(sizes, sizes, color="black", linewidth=2, label="distinct histories")
    for number, each in enumerate(study["clusters"]):
        style, marker = STYLES[number]
        label = f"$\\epsilon$ = {each['epsilon_of_spread']:g} x spread"
        axes.plot(sizes, each["mean"], linestyle=style, marker=marker, markersize=4, label=label)
    axes.plot(sizes, study["last_tokens"], color="0.6", linewidth=2, label="distinct last tokens")
    axes.set(xscale="log", yscale="log", xlabel="distinct histories", ylabel="clusters")
    _legend_below(figure, axes, {})
    return figure


def _outer_labels(grid: Any, below: str, beside: str) -> None:
    for axes in grid[-1]:
        axes.set_xlabel(below)
    for row in grid:
        row[0].set_ylabel(beside)


def _legend_below(figure: "Figure", axes: "Axes", names: Mapping[str, str]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        [names.get(label, label) for label in labels],
        loc="outside lower center",
        ncols=min(3, len(labels)),
        fontsize=8,
    )
