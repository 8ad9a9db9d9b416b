"""What all jobs of the theory say together: over seeds, as numbers and as tables for people."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.evaluation.report import over_seeds, table
from textrl.theory import figures, study
from textrl.theory.families import BETS, FAMILIES
from textrl.theory.hindsight import ways_to_merge
from textrl.theory.pevi import PROVEN

SIZES = tuple(2**k for k in range(3, 33))  # episodes
SCALES = (PROVEN, 1.0, 0.1)  # of the bonus; 1 is the paper's equation
TARGET = 0.1
"""The suboptimality for which the episodes needed are counted."""
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.4)
SHOWN_PAIRS = 10  # of each instance
Job = tuple[str, int, int]
"""Family, horizon, seed."""


def put_curves(found: Mapping[Job, Any], seeds: int) -> dict[str, Any]:
    """Curves and episodes needed, over seeds; what the theorems' bounds hang on."""
    curves, needs = [], []
    horizons = sorted({horizon for _, horizon, _ in found})
    for family, horizon, states, scale in itertools.product(
        FAMILIES, horizons, study.STATES, SCALES
    ):
        of_seeds = [found[family, horizon, seed][states, scale] for seed in range(seeds)]
        by_seed = [each.suboptimality for each in of_seeds]
        where = {"family": family, "horizon": horizon, "states": states, "scale": scale}
        points = [over_seeds(values) for values in zip(*by_seed, strict=True)]
        curve = {k: [round(p[k], 6) for p in points] for k in ("mean", "low", "high")}
        hopeful = sum(sum(each.too_hopeful) for each in of_seeds)
        curves.append({**where, **curve, "too_hopeful": hopeful, "datasets": seeds * len(SIZES)})
        needs.append({**where, **needed_over_seeds(by_seed)})
    bounds = [
        {"family": f, "horizon": h, **study.size_of(f, h)} for f in FAMILIES for h in horizons
    ]
    return {
        "sizes": list(SIZES),
        "target": TARGET,
        "seeds": seeds,
        "behaviour": "uniform actions",
        "curves": curves,
        "needed": needs,
        "growth": growth(needs, bounds),
        "bounds": bounds,
    }


def needed_over_seeds(by_seed: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Geometric mean of the episodes needed, with its interval; None if a seed never got there."""
    logs = [study.needed(SIZES, curve, TARGET) for curve in by_seed]
    reached = sum(math.isfinite(each) for each in logs)
    if reached < len(logs):
        return {"episodes": None, "low": None, "high": None, "reached": reached}
    over = over_seeds(logs)
    scaled = {k: 2 ** over[k] for k in ("low", "high")}
    return {"episodes": 2 ** over["mean"], **scaled, "reached": reached}


def growth(
    needs: Sequence[dict[str, Any]], bounds: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """How the episodes needed grow from horizon 4 on, beside C* |states| H^3 of the bounds."""
    constants = {(each["family"], each["horizon"]): each for each in bounds}
    curves: dict[tuple[str, str, float], list[tuple[int, float, float]]] = {}
    for each in needs:
        if each["episodes"] is not None and each["horizon"] >= 4:
            horizon, of = each["horizon"], constants[each["family"], each["horizon"]]
            bound = of[each["states"]]["c_star"] * of[each["states"]]["states"] * horizon**3
            key = (each["family"], each["states"], each["scale"])
            curves.setdefault(key, []).append((horizon, each["episodes"], bound))
    fitted = []
    for (family, states, scale), points in curves.items():
        if len(points) < 2:
            continue
        horizons, episodes, bound = np.array(points).T
        where = {"family": family, "states": states, "scale": scale}
        for name, values in (("episodes", episodes), ("bound", bound)):
            where[f"{name}_factor_per_step"] = math.exp(np.polyfit(horizons, np.log(values), 1)[0])
            where[f"{name}_power_of_horizon"] = float(
                np.polyfit(np.log(horizons), np.log(values), 1)[0]
            )
        fitted.append(where)
    return fitted


def put_clusters(found: Mapping[Job, Any], seeds: int) -> dict[str, Any]:
    """Clusters by family, horizon and metric, at each epsilon; random POMDPs over seeds."""
    counts = []
    for family, horizon in dict.fromkeys((f, h) for f, h, _ in sorted(found, key=order)):
        by_seed = [found[job] for job in sorted(found) if job[:2] == (family, horizon)]
        entry: dict[str, Any] = {"family": family, "horizon": horizon, "instances": len(by_seed)}
        for states in study.STATES:
            points = [over_seeds(v) for v in zip(*[each[states] for each in by_seed], strict=True)]
            entry[states] = {k: [p[k] for p in points] for k in ("mean", "low", "high")}
        counts.append(entry)
    return {"epsilons": list(EPSILONS), "counts": counts}


def order(job: Job) -> tuple[int, int, int]:
    """The families first, as they are listed, then the random POMDPs."""
    names = [*FAMILIES, *BETS, study.RANDOM]
    return names.index(job[0]), job[1], job[2]


def put_lemma(found: Mapping[Job, Any], seeds: int) -> dict[str, Any]:
    """Every instance's differences and bounds, the worst ratio, and how often a bound fails."""
    readings: dict[str, Any] = {}
    for reading in figures.READINGS:
        points = [
            {
                "family": f,
                "horizon": h,
                "seed": s,
                "epsilon": e,
                **vars(check),
                "holds": check.holds,
            }
            for (f, h, s), (checks, _) in sorted(found.items(), key=lambda item: order(item[0]))
            for e, check in zip(EPSILONS, checks[reading], strict=True)
        ]
        ratios = [c.ratio for checks, _ in found.values() for c in checks[reading]]
        readings[reading] = {
            "checked": len(points),
            "violations": sum(not each["holds"] for each in points),
            "worst_ratio": max((r for r in ratios if math.isfinite(r)), default=0.0),
            "points": points,
        }
    pairs: dict[str, Any] = {}
    for metric in study.METRICS:
        gaps = np.concatenate([each[metric][0] for _, each in found.values()])
        apart = np.concatenate([each[metric][1] for _, each in found.values()])
        shown = [
            [round(float(g), 6), round(float(d), 6)]
            for _, each in found.values()
            for g, d in evenly(np.stack(each[metric], axis=1), SHOWN_PAIRS)
        ]
        is_apart = apart > study.EXACT
        pairs[metric] = {
            "checked": len(gaps),
            "violations": int((gaps > apart + study.EXACT).sum()),
            "worst_ratio": float((gaps[is_apart] / apart[is_apart]).max()),
            "shown": shown,
        }
    return {"instances": len(found), "readings": readings, "pairs": pairs}


def put_tests(found: Mapping[Job, Any], seeds: int) -> dict[str, Any]:
    """What each way of merging histories leaves and loses, by family and horizon."""
    return {
        "behaviour": "uniform actions",
        "merged": [
            {"family": family, "horizon": horizon, **merged}
            for (family, horizon, _), merged in sorted(found.items(), key=lambda i: order(i[0]))
        ],
    }


def tests_table(part: Mapping[str, Any]) -> str:
    """Summaries and what is lost for each way of merging, at the longest horizon."""
    longest = max(each["horizon"] for each in part["merged"])
    cells = {each["family"]: each for each in part["merged"] if each["horizon"] == longest}
    count = [f"{cells[family]['histories']:,}" for family in cells]
    rows = [["none: histories", *count]]
    for way in ways_to_merge():
        of = [cells[family][way] for family in cells]
        rows.append([way, *[f"{each['summaries']}, {each['lost']:.3f}" for each in of]])
    return table([f"merged by (horizon {longest})", *cells], rows)


def evenly(rows: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """That many rows at equal steps."""
    places = np.linspace(0, len(rows) - 1, min(count, len(rows)))
    return np.asarray(rows[np.unique(places.astype(int))])


def summary_table(results: dict[str, Any]) -> str:
    """The main figures for people."""
    lines = []
    if "suboptimality" in results:
        rows = []
        horizons = sorted({each["horizon"] for each in results["suboptimality"]["needed"]})
        for each in results["suboptimality"]["needed"]:
            if each["horizon"] not in (horizons[0], horizons[len(horizons) // 2], horizons[-1]):
                continue
            count = each["episodes"]
            shown = "never" if count is None else f"{count:,.0f}"
            key = [each["family"], each["states"], f"{each['scale']:.3g}", str(each["horizon"])]
            rows.append([*key, shown])
        lines.append(f"episodes for a suboptimality of at most {TARGET}:")
        lines.append(table(["family", "states", "bonus x", "horizon", "episodes"], rows))
    if "clusters" in results:
        rows = [
            [each["family"], str(each["horizon"]), f"{each['histories']['mean'][0]:.0f}"]
            + [f"{count:.0f}" for count in each["every-action"]["mean"]]
            for each in results["clusters"]["counts"]
        ]
        lines.append("\nhistories, and clusters of the every-action metric at epsilon =")
        header = ["family", "horizon", "histories", *[f"{e:g}" for e in EPSILONS]]
        lines.append(table(header, rows))
    if "lemma" in results:
        part = results["lemma"]
        rows = [
            [name, str(each["checked"]), str(each["violations"]), f"{each['worst_ratio']:.3f}"]
            for name, each in [
                *((f"lemma 1, {name}", each) for name, each in part["readings"].items()),
                *((f"pairs, {name}", each) for name, each in part["pairs"].items()),
            ]
        ]
        lines.append("")
        lines.append(table(["bound", "checked", "violations", "worst ratio"], rows))
    if "tests" in results:
        lines.append("\nsummaries, and suboptimality that no data cure:")
        lines.append(tests_table(results["tests"]))
    return "\n".join(lines)


def agent_table(results: dict[str, Any]) -> str:
    """Clusters of all histories at each epsilon."""
    rows = [
        [f"{each['epsilon_of_spread']:g} x spread", f"{each['mean'][-1]:,.0f}"]
        for each in results["clusters"]
    ]
    rows.append(["distinct last tokens", f"{results['last_tokens'][-1]:,.0f}"])
    return table(["epsilon", f"clusters of {results['histories'][-1]:,} histories"], rows)
