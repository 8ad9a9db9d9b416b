"""Check the paper's theory on small POMDPs: measure -> over seeds -> JSON -> figures."""

import itertools
import json
import math
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from tqdm import tqdm

from envs.tasks import load_checkpoint
from textrl.combined import CombinedTask
from textrl.errors import UserError, run_recipe
from textrl.parser import make_parser
from textrl.report import over_seeds, table, write_json
from textrl.tabular import figures, study
from textrl.tabular.agent import agent_clusters, history_representations
from textrl.tabular.families import FAMILIES
from textrl.tabular.pevi import PROVEN
from textrl.task import LoggedTask

EXAMPLE = "python recipes/theory.py --seeds 20 --output results"
PARTS = ("suboptimality", "clusters", "lemma")
SIZES = tuple(2**k for k in range(3, 33))  # episodes
SCALES = (PROVEN, 1.0, 0.1)  # of the bonus; 1 is the paper's equation
TARGET = 0.1
"""The suboptimality for which the episodes needed are counted."""
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.4)
SHORTEST = 2
RANDOM_LONGEST = 4  # random POMDPs have no classes that would keep the linear programs few
LEMMA_LONGEST = 6
SHOWN_PAIRS = 10  # of each instance
AGENT_SHARES = (0.1, 0.2, 0.5, 1.0, 2.0)


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Check the paper's theorems and lemma 1 on small POMDPs.", EXAMPLE)
    parser.add_argument("--only", choices=PARTS, help="one part (default: all three)")
    parser.add_argument("--seeds", type=int, default=20, metavar="N", help="datasets of each size")
    parser.add_argument("--max-horizon", type=int, default=8, metavar="N", help="the longest one")
    parser.add_argument("--output", default="results", metavar="DIR", help="where results go")
    parser.add_argument("--json", metavar="FILE", help="the numbers (default: OUTPUT/theory.json)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at once")
    parser.add_argument(
        "--agent", metavar="CHECKPOINT", help="cluster this agent's representations instead"
    )
    parser.add_argument(
        "--histories", type=int, default=3000, metavar="N", help="of the data, with --agent"
    )
    options = parser.parse_args()
    for name in ("seeds", "jobs"):
        if getattr(options, name) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    if not SHORTEST < options.max_horizon <= 9:
        raise UserError(f"--max-horizon must be 3 to 9, not {options.max_horizon}")
    if options.histories < 10:
        raise UserError(f"--histories must be at least 10, not {options.histories}")
    if options.agent and options.only:
        raise UserError("--agent is a part of its own: leave out --only")
    for package in ("scipy", "matplotlib"):
        if find_spec(package) is None:
            raise UserError(f"the theory needs {package}: pip install 'textrl[theory]'")
    output = Path(options.output)
    name = "theory-agent" if options.agent else "theory"
    numbers = Path(options.json) if options.json else output / f"{name}.json"
    for folder in (output, numbers.parent):
        folder.mkdir(parents=True, exist_ok=True)

    if options.agent:
        transformers.utils.logging.disable_progress_bar()
        results = measure_agent(options.agent, options.histories, min(options.seeds, 5))
        drawn = {"theory-agent": figures.agent_figure(results)}
        print(agent_table(results))
    else:
        parts = [options.only] if options.only else list(PARTS)
        results = measure(parts, options.seeds, options.max_horizon, options.jobs)
        drawn = draw(results)
        print(summary_table(results))
        if options.only:
            results = {**earlier(numbers), **results}
    write_json(numbers, results)
    print(f"-> {numbers}")
    for title, figure in drawn.items():
        partial = output / f".{title}.partial.png"
        figure.savefig(partial, dpi=150, bbox_inches="tight")
        os.replace(partial, output / f"{title}.png")
        print(f"-> {output / f'{title}.png'}")


def measure(parts: Sequence[str], seeds: int, longest: int, jobs: int) -> dict[str, Any]:
    """All jobs of the parts in worker processes, put together over seeds."""
    work = [(part, *job) for part in parts for job in plan(part, seeds, longest)]
    # The longest first: no process then waits for another's last job.
    work.sort(key=lambda job: (job[0] != "suboptimality", -job[2]))
    with ProcessPoolExecutor(jobs, initializer=leave_interrupts_to_the_parent) as pool:
        try:
            found = list(tqdm(pool.map(run_job, work), total=len(work), unit="job"))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    of_part = {
        part: {
            job[1:]: result for job, (result, _) in zip(work, found, strict=True) if job[0] == part
        }
        for part in parts
    }
    puts = {"suboptimality": put_curves, "clusters": put_clusters, "lemma": put_lemma}
    cpu = {
        part: sum(s for job, (_, s) in zip(work, found, strict=True) if job[0] == part)
        for part in parts
    }
    return {
        part: {
            "made": {
                "date": time.strftime("%Y-%m-%d"),
                "by": f"recipes/theory.py --only {part} --seeds {seeds} --max-horizon {longest}",
                "how": "values, metrics and policies are exact; datasets are drawn",
                "cpu_seconds": round(cpu[part], 1),
            },
            **puts[part](of_part[part], seeds),
        }
        for part in parts
    }


def leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes; the parent alone ends the run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_job(job: tuple[Any, ...]) -> tuple[Any, float]:
    """One job's result and its CPU seconds."""
    began = time.process_time()
    part, family, horizon, seed = job
    result: Any
    if part == "suboptimality":
        result = study.learning_curves(family, horizon, seed, SIZES, SCALES)
    elif part == "clusters":
        result = study.cluster_counts(family, horizon, EPSILONS, seed)
    else:
        result = (
            study.lemma_checks(family, horizon, EPSILONS, seed),
            study.pair_checks(family, horizon, seed),
        )
    return result, time.process_time() - began


def plan(part: str, seeds: int, longest: int) -> list[tuple[str, int, int]]:
    """(family, horizon, seed) of every job of a part."""
    if part == "suboptimality":
        horizons = range(SHORTEST, longest + 1)
        return list(itertools.product(FAMILIES, horizons, range(seeds)))
    # Metrics of the families know no chance; random POMDPs are drawn.
    end = longest if part == "clusters" else min(longest, LEMMA_LONGEST)
    fixed = itertools.product(FAMILIES, range(SHORTEST, end + 1), [0])
    drawn_horizons = range(SHORTEST, min(longest, RANDOM_LONGEST) + 1)
    drawn = itertools.product([study.RANDOM], drawn_horizons, range(seeds))
    return [*fixed, *drawn]


def put_curves(found: dict[Any, Any], seeds: int) -> dict[str, Any]:
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


def put_clusters(found: dict[Any, Any], seeds: int) -> dict[str, Any]:
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


def order(job: tuple[str, int, int]) -> tuple[int, int, int]:
    """The families first, as they are listed, then the random POMDPs."""
    names = [*FAMILIES, study.RANDOM]
    return names.index(job[0]), job[1], job[2]


def put_lemma(found: dict[Any, Any], seeds: int) -> dict[str, Any]:
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


def evenly(rows: np.ndarray, count: int) -> np.ndarray:
    """That many rows at equal steps."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))]


def draw(results: dict[str, Any]) -> dict[str, Any]:
    """The figures of the parts that were measured, by name."""
    drawn: dict[str, Any] = {}
    if "suboptimality" in results:
        part = results["suboptimality"]
        horizons = [h for h in (3, 5, 7) if any(c["horizon"] == h for c in part["curves"])]
        drawn["theory-suboptimality"] = figures.suboptimality_figure(part, horizons, 1.0)
        drawn["theory-needed"] = figures.needed_figure(part)
    if "clusters" in results:
        drawn["theory-clusters"] = figures.clusters_figure(results["clusters"])
    if "lemma" in results:
        drawn["theory-lemma"] = figures.lemma_figure(results["lemma"])
    return drawn


def earlier(numbers: Path) -> dict[str, Any]:
    """The other parts of a file that is there already."""
    if not numbers.is_file():
        return {}
    try:
        found = json.loads(numbers.read_text())
    except ValueError as error:
        raise UserError(f"{numbers} is not JSON: {error}: choose another --json") from None
    return {part: found[part] for part in PARTS if part in found}


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
    return "\n".join(lines)


def measure_agent(name: str, count: int, draws: int) -> dict[str, Any]:
    """Clusters of a trained agent's representations of histories of its task's data."""
    model, task = load_checkpoint(name)
    if isinstance(task, LoggedTask | CombinedTask):
        raise UserError(f"{name!r} is of {task.name}: give an agent that plays one task")
    rows = task.default_dataset(1000, 1)
    points, histories = history_representations(model, rows, task.language, count)
    sizes = [size for size in (10, 30, 100, 300, 1000, 3000, 10_000) if size < len(points)]
    sizes.append(len(points))
    found = agent_clusters(points, histories, AGENT_SHARES, sizes, draws)
    return {"agent": name, "task": task.name, "steps": model.config.steps, **found}


def agent_table(results: dict[str, Any]) -> str:
    """Clusters of all histories at each epsilon."""
    rows = [
        [f"{each['epsilon_of_spread']:g} x spread", f"{each['mean'][-1]:,.0f}"]
        for each in results["clusters"]
    ]
    rows.append(["distinct last tokens", f"{results['last_tokens'][-1]:,.0f}"])
    return table(["epsilon", f"clusters of {results['histories'][-1]:,} histories"], rows)


if __name__ == "__main__":
    run_recipe(main)
