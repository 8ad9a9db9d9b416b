"""results/README.md: the tables, what agrees with the paper, and where the rest is discussed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from textrl.config.presets import COMBINED
from textrl.recipes.reproducing.all_tasks import PAGE, TASKS, TITLE, TOGETHER, together_rows
from textrl.recipes.reproducing.experiments import EXPERIMENTS, OPE, PEOPLE, Experiment
from textrl.recipes.reproducing.offline_summary import (
    estimates_introduction,
    estimates_rows,
    people_parts,
)
from textrl.recipes.reproducing.studies import STUDIES, Study
from textrl.recipes.reproducing.study_results import study_rows

SMALLEST_GAP = 0.005
"""Means of the paper that differ by less are called equal."""


def write_summary(output: Path) -> Path:
    """Write the page from the JSON files that are there."""
    found = {
        name: json.loads((output / f"{name}.json").read_text())
        for name in EXPERIMENTS
        if (output / f"{name}.json").is_file()
    }
    parts = [INTRODUCTION.strip()]
    parts += [section(EXPERIMENTS[name], results, output) for name, results in found.items()]
    if (output / f"{COMBINED}.json").is_file():
        parts.append(together_section(json.loads((output / f"{COMBINED}.json").read_text())))
    for name, study in STUDIES.items():
        if (output / f"{name}.json").is_file():
            parts.append(study_section(study, json.loads((output / f"{name}.json").read_text())))
    parts += offline_parts(output)
    if points := sorted(output.glob("hypothesis-*.png")):
        figures = [f"![{figure.stem}]({figure.name})" for figure in points]
        parts += [HYPOTHESIS.strip(), *figures]
    if (output / "theory.json").is_file():
        parts.append(THEORY.strip())
    page = output / "README.md"
    page.write_text("\n\n".join(parts) + "\n")
    return page


def offline_parts(output: Path) -> list[str]:
    """What was estimated, not played."""
    parts = []
    if (output / f"{OPE}.json").is_file():
        results = json.loads((output / f"{OPE}.json").read_text())
        parts += [estimates_introduction(results), as_markdown(estimates_rows(results))]
        parts += [f"![{OPE}]({OPE}.png)"]
    for name in PEOPLE:
        if (output / f"{name}.json").is_file():
            found = people_parts(name, json.loads((output / f"{name}.json").read_text()))
            parts += [part if isinstance(part, str) else as_markdown(part) for part in found]
    return parts


def section(experiment: Experiment, results: Mapping[str, Any], output: Path) -> str:
    """One experiment: how it was run, its table, its figures, what it says about the paper."""
    name = experiment.task
    cells = {method: next(iter(each.values())) for method, each in results["methods"].items()}
    first = next(iter(cells.values()))
    seeds = f"{first['seeds']} seeds of each method"
    if len({cell["seeds"] for cell in cells.values()}) > 1:
        seeds = "seeds of " + ", ".join(f"{name}: {cell['seeds']}" for name, cell in cells.items())
    minutes = results.get("minutes_per_run", {})
    took = ", ".join(f"{method} {each:.0f}" for method, each in minutes.items())
    together = f"; all of them: {results['minutes']:.0f}" if "minutes" in results else ""
    machine = results.get("machine", {})
    lines = [
        f"## {experiment.title} ({experiment.table})",
        f"`textrl reproduce --scale {results['scale']} --only {name}`"
        f" made these on {results['made']}, on {machine.get('cores')} CPU cores"
        f" (torch {machine.get('torch')}): {seeds},"
        f" {first['episodes']} episodes each. Minutes of one run: {took}{together}.",
        markdown_table(experiment, results),
        *[f"![{figure.stem}]({figure.name})" for figure in sorted(output.glob(f"{name}-*.png"))],
        *["\n".join(agreement(experiment, results))] * bool(experiment.published),
        *[REMARKS[name].strip()] * (results["scale"] == "quick"),
        f"Discussed in [{experiment.page}](../{experiment.page}).",
    ]
    return "\n\n".join(lines)


def study_section(study: Study, results: Mapping[str, Any]) -> str:
    """A study: how much of it there is, its table and its figure."""
    lines = [
        f"## {study.title} (not in the paper)",
        f"`textrl reproduce --only {study.name}` made these on {results['made']}:"
        f" {results['runs']['done']} of {results['runs']['planned']} runs of the plan, which"
        f" `runs/{study.name}.jsonl` has one by one; the command goes on from there. Greedy return"
        " over 1,000 episodes at the end of training, ± half of the 95 % interval over seeds,"
        " [the best evaluation on the way], (seeds).",
        as_markdown(study_rows(study, results)),
        f"![{study.name}]({study.name}.png)",
        f"Discussed in [{study.page}](../{study.page}).",
    ]
    return "\n\n".join(lines)


def markdown_table(experiment: Experiment, results: Mapping[str, Any]) -> str:
    """The table, with the differences in italics."""
    rows = table_rows(experiment, results)
    for row in rows:
        if row[0] in results["differences"]:
            row[0] = f"*{row[0]}*"
    return as_markdown(rows)


def as_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Header and rows as a table whose first column is of words."""
    header, *others = rows
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *others]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def together_section(results: Mapping[str, Any]) -> str:
    """The agent of all tasks: how it was run, and its table."""
    minutes, machine = results["minutes_per_run"], results["machine"]
    took = ", ".join(f"{name} {each:.0f}" for name, each in minutes.items())
    seeds = results["tasks"][TASKS[0]]["sampled"][TOGETHER]["seeds"]
    lines = [
        f"## {TITLE} (not in the paper)",
        f"`textrl reproduce --scale {results['scale']} --only {COMBINED}` made these on"
        f" {results['made']}, on {machine['cores']} CPU cores (torch {machine['torch']}): the"
        f" presets as they are, {seeds} seed{'s' * (seeds > 1)}. Minutes of one run: {took}; all"
        f" of them: {results['minutes']:.0f}.",
        as_markdown(together_rows(results)),
        *[REMARKS[COMBINED].strip()] * (results["scale"] == "quick"),
        f"Discussed in [{PAGE}](../{PAGE}).",
    ]
    return "\n\n".join(lines)


def table_rows(experiment: Experiment, results: Mapping[str, Any]) -> list[list[str]]:
    """Header and rows: means with 95 % intervals over seeds, beside the paper's where there are
    such; the differences; then the reference players."""
    columns, references = list(experiment.columns), results["references"]
    rows = [["method", *[part for column in columns for part in (column, "paper")]]]
    for method, cells in results["methods"].items():
        shown = [(interval(cells[column]), paper(cells[column])) for column in columns]
        rows.append([method, *[part for pair in shown for part in pair]])
    for name, cells in results["differences"].items():
        shown = [(interval(cells[column], "+"), "") for column in columns]
        rows.append([name, *[part for pair in shown for part in pair]])
    for name in dict.fromkeys(name for column in columns for name in references[column]):
        shown = [(f"{references[column][name]:.3f}", "") for column in columns]
        rows.append([name, *[part for pair in shown for part in pair]])
    return rows if experiment.published else [[row[0], *row[1::2]] for row in rows]


def interval(cell: Mapping[str, float], sign: str = "") -> str:
    """A mean and its interval."""
    if cell["seeds"] == 1:
        return f"{cell['mean']:{sign}.3f}"
    return f"{cell['mean']:{sign}.3f} ({cell['low']:{sign}.3f} to {cell['high']:{sign}.3f})"


def paper(cell: Mapping[str, float]) -> str:
    """The paper's figure."""
    return "" if cell.get("published") is None else f"{cell['published']:.2f}"


def agreement(experiment: Experiment, results: Mapping[str, Any]) -> list[str]:
    """For each difference that the paper has too: whether ours has its sign, and how surely."""
    lines = []
    for ours, theirs in experiment.differences:
        for column in experiment.columns:
            published = [experiment.paper(column, method) for method in (ours, theirs)]
            if None in published or f"{ours} - {theirs}" not in results["differences"]:
                continue
            theirs_differ = published[0] - published[1]  # type: ignore[operator]
            cell = results["differences"][f"{ours} - {theirs}"][column]
            where = f" ({column})" if column else ""
            lines.append(
                f"- {ours} against {theirs}{where}: {verdict(theirs_differ, cell)}."
                f" The paper {theirs_differ:+.2f}, here {interval(cell, '+')}."
            )
    return lines


def verdict(published: float, cell: Mapping[str, float]) -> str:
    """In words: does the interval of our difference lie on the paper's side of zero?"""
    if cell["seeds"] == 1 or cell["low"] <= 0 <= cell["high"]:
        return "not told apart here"
    is_same = (cell["mean"] > 0) == (published > 0)
    return "agrees" if is_same and abs(published) > SMALLEST_GAP else "**the other way round**"


INTRODUCTION = """
# Results

The tables and figures of *Offline RL with Observation Histories: Analyzing and Improving Sample
Complexity*, remade. Cells are means with 95 % intervals over seeds (Student's t); lines in italics
are differences, seed by seed. The JSON file of each experiment has every seed's figure, the
standard error over episodes and how the episodes went; `runs/` has reports of single runs,
with the flags that made them, and the studies' records, from which they go on. The scale is
`quick`: networks and datasets that two CPU cores carry, not the paper's. "Agrees" means that our
interval lies on the side of zero where the paper's difference is; it says nothing of its size.
"""

HYPOTHESIS = """
## The hypothesis: a lower bisimulation loss goes with a higher return

Every point is one run: its bisimulation loss at the end of training against its score.
"""

THEORY = """
## Theory

`textrl theory` made `theory.json` and its figures, which
[docs/theory.md](../docs/theory.md) discusses.
"""

REMARKS = {
    "gridworld": """
Plain CQL is near the optimum here, so that the loss has nothing to add. The map is ours: the
paper's is a picture that its source does not contain. On a map where random walks hardly ever reach
the safe goal, and with targets that look one step ahead, CQL fails as it does in the paper (0.17).
The loss did not help there either: it compares rewards and next cells, and so cannot tell which
goal is live until a goal is one step away.
""",
    "vizdoom": """
In the base task the methods come in the paper's order, as far as three seeds that scatter this much
can tell. The hard task is hardly ever solved: we think because only 37 of the 600 episodes begin
there, and because so far from home it matters little to the return what a single action is. The
bisimulation loss has a tenth of the paper's weight: at the paper's it flattens the small network's
representations.
""",
    "wordle": """
When both sample, values are worth more than half a guess over imitation, as in the paper. When both
are greedy there is less to gain: what the simulated crowd does most often is nearly optimal, and
greedy imitation plays that. The bisimulation loss falls by a factor of a thousand when it is
minimized; that the agents play better for it could not be shown.
""",
    "wordle-full": """
2,190 answers and 11,280 guesses. Imitation alone has to learn far more here than on 236 words.
""",
    "twenty": """
Values tell good questions from bad ones: they are worth more than three questions to an agent that
samples, and most of a question to a greedy one, which is then a third of a question from the best
possible player. With targets that look further ahead and fewer steps (`twenty-2000-steps.json`)
greedy play was worse than imitation.
""",
    COMBINED: """
Each task keeps its own algorithm; what they share is one network and its steps. When it samples,
the agent of all tasks keeps most of what each agent of one task gains over imitation. In greedy
Wordle there is next to no gain to keep, and greedy ViZDoom has 25 episodes. One seed, and the mix
of the tasks was chosen after a run of the same seed (`combined-equal-mix.json`).
""",
}
"""What we think of the results at the quick scale; the pages in docs/ say more."""
