"""Scores -> numbers with intervals, tables for people, JSON for programs."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textrl.tasks.task import Reference

NORMAL_95 = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error."""

    mean: float
    stderr: float
    count: int

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> "Estimate":
        """Of independent values; one value alone has no standard error (nan)."""
        count = len(values)
        spread = float(np.std(values, ddof=1)) / count**0.5 if count > 1 else float("nan")
        return cls(float(np.mean(values)), spread, count)

    @property
    def interval(self) -> tuple[float, float]:
        """95%, normal approximation."""
        return self.mean - NORMAL_95 * self.stderr, self.mean + NORMAL_95 * self.stderr


def paired_difference(
    ours: NDArray[np.floating], theirs: NDArray[np.floating], episodes: int
) -> Estimate:
    """How much better ours are, pairing rounds of the same `episodes` episodes.

    Several rounds of one episode are averaged first: they are not independent of each other.
    """
    difference = (ours - theirs).reshape(-1, episodes).mean(axis=0)
    return Estimate.of(difference)


# Student's t: the 97.5% quantile by degrees of freedom, from 1 on; beyond the end nearly normal.
STUDENT_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179),
    *(2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064),
)


def over_seeds(means: Sequence[float]) -> dict[str, Any]:
    """The mean of one figure per seed with its 95% interval by Student's t; one seed has none."""
    estimate = Estimate.of(np.array(means))
    freedom = len(means) - 1
    wide = STUDENT_95[freedom - 1] if 0 < freedom <= len(STUDENT_95) else NORMAL_95
    half = wide * estimate.stderr
    return {
        "mean": estimate.mean,
        "low": estimate.mean - half,
        "high": estimate.mean + half,
        "seeds": len(means),
    }


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [list(header), ["-" * len(name) for name in header], *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def score_table(
    scores: Mapping[str, Estimate], references: Mapping[str, Reference], optimum: str = "optimal"
) -> str:
    """The agent's scores and the references', best last, each with its distance to the optimum."""
    best = references[optimum].mean if optimum in references else None
    entries = [
        (name, e.mean, f"{NORMAL_95 * e.stderr:.3f}", f"{e.count:,} episodes")
        for name, e in scores.items()
    ]
    entries += [
        (name, r.mean, f"{NORMAL_95 * r.stderr:.3f}" if r.stderr else "exact", r.how)
        for name, r in references.items()
    ]
    rows = []
    for name, mean, spread, how in sorted(entries, key=lambda entry: entry[1]):
        regret = [] if best is None else [f"{best - mean:.3f}"]
        rows.append([name, f"{mean:.3f}", spread, *regret, how])
    regret = [] if best is None else ["regret"]
    return table(["player", "mean score", "95% +/-", *regret, "measured by"], rows)


def dataset_table(returns: Mapping[str, NDArray[np.floating]], of: str = "behaviour") -> str:
    """How many episodes there are of each kind (who played, how they began), and how they went."""
    everyone = np.concatenate(list(returns.values()))
    rows = [
        [name, f"{len(r):,}", f"{len(r) / len(everyone):.1%}", f"{r.mean():.3f}"]
        for name, r in [*returns.items(), ("all", everyone)]
    ]
    return table([of, "episodes", "share", "mean return"], rows)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file at once, never half of one; a number that is none becomes null."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")
    os.replace(partial, path)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
