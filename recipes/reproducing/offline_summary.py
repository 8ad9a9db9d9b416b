"""The parts of results/README.md on what was estimated, not played."""

from collections.abc import Mapping
from typing import Any

from textrl.recipes.reproducing.experiments import OPE

Part = str | list[list[str]]


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


def people_parts(name: str, results: Mapping[str, Any]) -> list[Part]:
    """A study of people's conversations: how it was made, what values foresee, what is estimated.

    A part is a text or a table, header first.
    """
    ranks = results["rank_correlation_after_turns"]
    seeds, first = results["seeds"], results["seeds"][0]
    took = ", ".join(f"{who} {each:.0f}" for who, each in results["minutes_per_run"].items())
    told = (
        f"## {name} (conversations of people, not in the paper)\n\n"
        f"`textrl reproduce --only {name} --seeds {len(seeds)}` made these on {results['made']};"
        f" minutes of one run: {took}. Held out: {first['offline']['groups']} groups. Root mean"
        f" square error on held-out tokens of Q {shown(results['q_error'], 3)}, of V"
        f" {shown(results['v_error'], 3)}, of the training tokens' mean"
        f" {results['error_of_the_training_mean']:.3f}, of the held-out tokens' own mean, which"
        f" nobody knows before, {results['error_of_the_held_out_mean']:.3f}. Spearman's correlation"
        " of held-out returns with V before the next turn, and with a regression on the system"
        " message and the number of turns in all, where the context still holds those turns:"
    )
    foreseen = [["after turns", "conversations", "V", "regression"]]
    for k, count in results["conversations_after_turns"].items():
        foreseen.append([k, str(count), *(shown(ranks[who][k]) for who in ("v", "regression"))])
    estimated = [["estimated return", *(f"seed {number}" for number in range(len(seeds)))]]
    estimated.append(
        ["the data, as logged", *(interval(each["offline"]["data"]) for each in seeds)]
    )
    for policy in first["offline"]["policies"]:
        cells = [each["offline"]["policies"][policy] for each in seeds]
        estimated.append([policy, *(interval(each["doubly_robust"]) for each in cells)])
    verdicts = [
        f"- {pair}, seed {number}: {each['verdict']}"
        for number, seed in enumerate(seeds)
        for pair, each in seed["offline"]["differences"].items()
    ]
    means = "Doubly robust estimates with 95 % intervals over held-out groups:"
    return [told, foreseen, means, estimated, "Verdicts:\n\n" + "\n".join(verdicts)]


def interval(cell: Mapping[str, Any]) -> str:
    """An estimate with its interval."""
    low, high = cell["interval_95"]
    return f"{cell['mean']:.2f} ({low:.2f} to {high:.2f})"


def shown(cell: Mapping[str, Any], digits: int = 2) -> str:
    """A figure over seeds, with its interval where there are several."""
    if cell["mean"] is None:
        return ""
    if cell["seeds"] == 1 or cell["low"] is None:
        return f"{cell['mean']:.{digits}f}"
    return f"{cell['mean']:.{digits}f} ({cell['low']:.{digits}f} to {cell['high']:.{digits}f})"
