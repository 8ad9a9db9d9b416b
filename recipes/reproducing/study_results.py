"""What came out of a study: means over seeds with intervals, and its table."""

import statistics
import time
from collections.abc import Mapping
from typing import Any

from textrl.config.command_line import parse_config
from textrl.envs.gridworld.task import GridworldTask
from textrl.evaluation.report import over_seeds
from textrl.recipes.reproducing.runs import machine
from textrl.recipes.reproducing.studies import Study, StudyRun
from textrl.recipes.reproducing.tabular import tabular_return
from textrl.tasks.members import Members

Results = Mapping[StudyRun, Mapping[str, Any]]
LAST_QUARTER = 0.75


def compare_study(study: Study, found: Results, planned: int) -> dict[str, Any]:
    """Of the runs that are done: each cell over its seeds, and differences seed by seed."""
    first = next(iter(found))
    (_, task), optimum = Members.of_run(parse_config(first.flags, "", "")).one(), None
    references = task.references(first.seed)
    if not study.size_flag:  # else each size is a game of its own
        optimum = references[study.best_player].mean
    variants = sorted({name for result in found.values() for name in result.get("variants", {})})
    return {
        "task": study.task,
        "axis": study.axis,
        "optimum": optimum,
        "runs": {"done": len(found), "planned": planned},
        "variants": variants,
        **{
            named(of, variant): cells_of(found, of, variant)
            for of in dict.fromkeys(table.name for table in study.tables)
            for variant in ("", *variants)
        },
        **{
            named("differences", variant): {
                f"{ours} - {theirs}": differences(found, ours, theirs, variant)
                for ours, theirs in study.differences
            }
            for variant in ("", *variants)
        },
        # Against who is stopped when it is best, which favours the other.
        "differences_to_best": {
            f"{ours} - {theirs}": differences(found, ours, theirs, of_theirs="best_by_seed")
            for ours, theirs in study.differences
        },
        "references": reference_cells(study, found),
        "settled": settled(found),
        "seconds_per_run": {
            f"{backbone} {method}": round(statistics.median(seconds), 1)
            for (backbone, method), seconds in grouped(
                found, lambda run: (run.backbone, run.method), "seconds"
            ).items()
        },
        "machine": machine(),
        "made": time.strftime("%Y-%m-%d"),
    }


def named(table: str, variant: str) -> str:
    """What results call a table of the task, or of one of its variants."""
    return f"{table}, {variant}" if variant else table


def grouped(found: Results, key: Any, figure: str) -> dict[Any, list[float]]:
    """A figure of all runs, by what the key says of them."""
    groups: dict[Any, list[float]] = {}
    for run, result in found.items():
        groups.setdefault(key(run), []).append(result[figure])
    return groups


def cells_of(found: Results, table: str, variant: str = "") -> dict[str, dict[str, dict[str, Any]]]:
    """Method -> backbone -> size -> its mean over seeds, in the task or in a variant of it."""
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for run in found:
        if run.table == table:
            same = {
                each.seed: result
                for each, result in found.items()
                if (each.table, each.backbone, each.method, each.size)
                == (table, run.backbone, run.method, run.size)
            }
            played = {s: r["variants"][variant] if variant else r for s, r in same.items()}
            by_seed = {seed: result["mean"] for seed, result in played.items()}
            cell = {**over_seeds(list(by_seed.values())), "by_seed": by_seed}
            if not variant:
                # Of who would know when to stop: values that learn from few episodes get worse
                # again.
                best = {seed: max(result["curve"].values()) for seed, result in same.items()}
                cell |= {"best": statistics.fmean(best.values()), "best_by_seed": best}
            cells.setdefault(run.method, {}).setdefault(run.backbone, {})[str(run.size)] = cell
    return cells


def differences(
    found: Results, ours: str, theirs: str, variant: str = "", of_theirs: str = "by_seed"
) -> dict[str, dict[str, dict[str, Any]]]:
    """Backbone -> size -> how much better a method is, over the seeds that both have."""
    cells = cells_of(found, "methods", variant)
    result: dict[str, dict[str, dict[str, Any]]] = {}
    for backbone, sizes in cells.get(ours, {}).items():
        for size, cell in sizes.items():
            other = cells.get(theirs, {}).get(backbone, {}).get(size, {of_theirs: {}})[of_theirs]
            gaps = [x - other[seed] for seed, x in cell["by_seed"].items() if seed in other]
            if gaps:
                result.setdefault(backbone, {})[size] = over_seeds(gaps)
    return result


def settled(found: Results) -> dict[str, dict[str, float]]:
    """By method: how much the return still changed over the last quarter of training.

    Over all its runs, whatever their size; "seeds" counts those runs.
    """
    changes: dict[str, list[float]] = {}
    for run, result in found.items():
        steps = sorted(map(int, result["curve"]))
        before = max(step for step in steps if step <= LAST_QUARTER * steps[-1])
        change = result["curve"][str(steps[-1])] - result["curve"][str(before)]
        changes.setdefault(f"{run.table} {run.backbone} {run.method}", []).append(change)
    return {name: over_seeds(values) for name, values in changes.items()}


def reference_cells(study: Study, found: Results) -> dict[str, dict[str, Any]]:
    """Player -> size -> score: tabular value iteration on the same data, and who is exact."""
    cells: dict[str, dict[str, Any]] = {}
    for size in sorted({run.size for run in found}):
        run = next(run for run in found if run.size == size)
        _, task = Members.of_run(parse_config(run.flags, "", "")).one()
        if not isinstance(task, GridworldTask):
            for name, each in task.references(run.seed).items():
                cells.setdefault(name, {})[str(size)] = {"mean": each.mean}
        if isinstance(task, GridworldTask):
            seeds = sorted({run.seed for run in found})
            for name, doubt in (("tabular", 0), ("tabular, pessimistic", 1)):
                scores = [tabular_return(task.rules, size, seed, doubt) for seed in seeds]
                cells.setdefault(name, {})[str(size)] = over_seeds(scores)
    return cells


def study_rows(study: Study, results: Mapping[str, Any]) -> list[list[str]]:
    """Header and rows: mean (seeds) of each cell, a line for each method and backbone."""
    sizes = sorted({size for table in study.tables for size in table.sizes})
    rows = [["method", "backbone", *map(str, sizes)]]
    tables = dict.fromkeys(table.name for table in study.tables)
    for table in [named(of, variant) for variant in ("", *results["variants"]) for of in tables]:
        for method, backbones in results[table].items():
            for backbone, cells in backbones.items():
                how = table.removeprefix("methods").replace("_", " ").strip(", ")
                name = f"{method} ({how})" if how else method
                rows.append([name, backbone, *[shown(cells.get(str(size))) for size in sizes]])
    for name, cells in results["references"].items():
        rows.append([name, "", *[shown(cells.get(str(size))) for size in sizes]])
    return rows


def shown(cell: Mapping[str, Any] | None) -> str:
    """A mean with half of its interval, [the best on the way], and over how many seeds."""
    if cell is None:
        return ""
    words = [f"{cell['mean']:.2f}"]
    if cell.get("seeds", 1) > 1:
        words.append(f"± {cell['high'] - cell['mean']:.2f}")
    if "best" in cell:
        words.append(f"[{cell['best']:.2f}]")
    if "seeds" in cell:
        words.append(f"({cell['seeds']})")
    return " ".join(words)
