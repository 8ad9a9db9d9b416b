"""Check the paper's theory on small POMDPs: measure -> over seeds -> JSON -> figures."""

import argparse
import itertools
import json
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import transformers

from textrl.data.progress import progress_bar
from textrl.errors import UserError
from textrl.evaluation.report import write_json
from textrl.recipes.reproducing.experiments import THEORY_PARTS
from textrl.sharing.checkpoint import load_agent
from textrl.tasks.members import expect
from textrl.tasks.task import Task
from textrl.theory import figures, study
from textrl.theory.agent import agent_clusters, history_representations
from textrl.theory.families import BETS, FAMILIES
from textrl.theory.hindsight import compare_merges
from textrl.theory.together import (
    EPSILONS,
    SCALES,
    SIZES,
    Job,
    agent_table,
    put_clusters,
    put_curves,
    put_lemma,
    put_tests,
    summary_table,
)

SHORTEST = 2
RANDOM_LONGEST = 4  # random POMDPs have no classes that would keep the linear programs few
LEMMA_LONGEST = 6
AGENT_SHARES = (0.1, 0.2, 0.5, 1.0, 2.0)


def measure_theory(options: argparse.Namespace) -> None:
    """Measure what the command line of recipes/theory.py asks for; write numbers and figures."""
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
        parts = [options.only] if options.only else list(THEORY_PARTS)
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
            found = list(
                progress_bar(iterable=pool.map(run_job, work), total=len(work), unit="job")
            )
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    of_part = {
        part: {
            job[1:]: result for job, (result, _) in zip(work, found, strict=True) if job[0] == part
        }
        for part in parts
    }
    puts = {
        "suboptimality": put_curves,
        "clusters": put_clusters,
        "lemma": put_lemma,
        "tests": put_tests,
    }
    cpu = {
        part: sum(s for job, (_, s) in zip(work, found, strict=True) if job[0] == part)
        for part in parts
    }
    return {
        part: {
            "made": {
                "date": time.strftime("%Y-%m-%d"),
                "by": f"textrl theory --only {part} --seeds {seeds} --max-horizon {longest}",
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
    elif part == "tests":
        result = compare_merges(family, horizon)
    else:
        result = (
            study.lemma_checks(family, horizon, EPSILONS, seed),
            study.pair_checks(family, horizon, seed),
        )
    return result, time.process_time() - began


def plan(part: str, seeds: int, longest: int) -> list[Job]:
    """(family, horizon, seed) of every job of a part."""
    if part == "suboptimality":
        horizons = range(SHORTEST, longest + 1)
        return list(itertools.product(FAMILIES, horizons, range(seeds)))
    if part == "tests":
        return list(itertools.product((*FAMILIES, *BETS), range(SHORTEST, longest + 1), [0]))
    # Metrics of the families know no chance; random POMDPs are drawn.
    end = longest if part == "clusters" else min(longest, LEMMA_LONGEST)
    fixed = itertools.product(FAMILIES, range(SHORTEST, end + 1), [0])
    drawn_horizons = range(SHORTEST, min(longest, RANDOM_LONGEST) + 1)
    drawn = itertools.product([study.RANDOM], drawn_horizons, range(seeds))
    return [*fixed, *drawn]


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
    return {part: found[part] for part in THEORY_PARTS if part in found}


def measure_agent(name: str, count: int, draws: int) -> dict[str, Any]:
    """Clusters of a trained agent's representations of histories of its task's data."""
    model, loaded = load_agent(name)
    task = expect(loaded, Task, "the theory's --agent")
    rows = task.default_dataset(1000, 1)
    points, histories = history_representations(model, rows, task.language, count)
    sizes = [size for size in (10, 30, 100, 300, 1000, 3000, 10_000) if size < len(points)]
    sizes.append(len(points))
    found = agent_clusters(points, histories, AGENT_SHARES, sizes, draws)
    return {"agent": name, "task": task.name, "steps": model.config.steps, **found}
