"""The parts of results/README.md on what was estimated, not played."""

from collections.abc import Mapping
from typing import Any

from textrl.recipes.reproducing.experiments import OPE


def estimates_rows(results: Mapping[str, Any]) -> list[list[str]]:
    """Header and rows: each task with each estimator."""
    header = ["task", "estimator", "policies", "rank correlation", "coverage of 95 %"]
    rows = [[*header, "mean error", "regret", "regret by likelihood"]]
    for task, found in results["tasks"].items():
        by_likelihood = found["likelihood_regret"]  # None where no policy has one
        for name, each in found["estimators"].items():
            rows.append(
                [
                    task,
                    name.replace("_", " "),
                    str(found["policies"]),
                    f"{each['rank_correlation']:.2f}",
                    f"{each['coverage_95']:.0%}",
                    f"{each['mean_error']:.3f}",
                    f"{each['selection_regret']:.3f}",
                    "" if by_likelihood is None else f"{by_likelihood:.3f}",
                ]
            )
    return rows


def estimates_introduction(results: Mapping[str, Any]) -> str:
    """How they were made."""
    tasks, machine = results["tasks"], results["machine"]
    took = ", ".join(f"{name} {each['minutes']:.0f}" for name, each in tasks.items())
    data = ", ".join(f"{name} {each['data']['mean']:.2f}" for name, each in tasks.items())
    return (
        "## Estimates against scores (not in the paper)\n\n"
        f"`textrl reproduce --only {OPE}` made these on {results['made']}, on {machine['cores']}"
        f" CPU cores (torch {machine['torch']}). Minutes of one core, training left out: {took}."
        " Every policy is a checkpoint of a short run at some beta or temperature, token by token;"
        " it was played, and estimated from episodes that none was trained on, which earned:"
        f" {data}. Regret is what choosing the policy of the highest estimate costs against"
        " choosing the one of the highest score; by likelihood, the checkpoint that gives the data"
        " the highest likelihood, at a mean beta; CQL has none, and so cannot be chosen that way."
    )


def people_section(name: str, results: Mapping[str, Any]) -> tuple[str, list[list[str]]]:
    """How a study of people's conversations was made, and its table."""
    ranks = results["rank_correlation_after_turns"]
    seeds, first = len(results["seeds"]), results["seeds"][0]
    constant, q_error = results["error_of_a_constant"]["mean"], results["q_error"]["mean"]
    took = ", ".join(f"{who} {each:.0f}" for who, each in results["minutes_per_run"].items())
    verdicts = [
        f"- {pair}, seed {number}: {each['verdict']}"
        for number, seed in enumerate(results["seeds"])
        for pair, each in seed["offline"]["differences"].items()
    ]
    told = (
        f"## {name} (conversations of people, not in the paper)\n\n"
        f"`textrl reproduce --only {name} --seeds {seeds}` made these on {results['made']}; minutes"
        f" of one run: {took}. Held out: {first['offline']['groups']} groups. Root mean square"
        f" error of Q {q_error:.3f}, of a constant {constant:.3f}. Spearman's correlation of"
        " held-out returns with V before the next turn, and with a regression on the system"
        " message and the number of turns in all:"
    )
    rows = [["after turns", "V", "regression"]]
    rows += [[k, *(shown(ranks[who][k]) for who in ("v", "regression"))] for k in ranks["v"]]
    return told + "\n\nVerdicts:\n\n" + "\n".join(verdicts), rows


def shown(cell: Mapping[str, Any]) -> str:
    """A correlation, with its interval where there are seeds to tell."""
    if cell["mean"] is None:
        return ""
    if cell["seeds"] == 1 or cell["low"] is None:
        return f"{cell['mean']:.2f}"
    return f"{cell['mean']:.2f} ({cell['low']:.2f} to {cell['high']:.2f})"
