"""Agents from what people said to each other: what values foresee, what agents would earn."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from textrl.acting.decoding import Decoding
from textrl.data.conversation import AGENT, Conversation
from textrl.envs.text.task import TextTask
from textrl.errors import UserError
from textrl.evaluation.behaviour import said_of
from textrl.evaluation.offline import FULL_EVALUATION, judge_offline, small_batches
from textrl.evaluation.report import over_seeds, write_json
from textrl.evaluation.verdict import logs_of, reach_verdict
from textrl.losses.ops import returns_to_go
from textrl.model.build import lm_as_agent
from textrl.model.network import TextRLModel
from textrl.recipes.reproducing.experiments import PEOPLE, Run
from textrl.recipes.reproducing.ope import spearman
from textrl.recipes.reproducing.runs import is_done, machine, minutes_of, train_all
from textrl.sharing.checkpoint import load_agent, weights_digest

TURNS = (1, 2, 3, 4, 5, 6)
METHODS = ("bc", "ilql")
FIT = 400
"""Conversations that the estimates' values are fitted on: it is most of what judging costs."""


@dataclass(frozen=True)
class Where:
    """The files of a study."""

    conversations: Path
    backbone: str
    runs: Path
    output: Path


def study_people(
    name: str, where: Where, seeds: int, jobs: int, only_plan: bool, threads: int | None = None
) -> None:
    """Train what is missing on one dataset, judge it, and write results/NAME.json."""
    data = where.conversations / f"{name}.jsonl"
    if not data.is_file():
        raise UserError(f"--only {name} needs {data}: say where it is with --conversations")
    runs = plan_people(name, data, where, seeds)
    left = [run for run in runs if not is_done(run)]
    print(f"{name}: {len(runs) - len(left)} of {len(runs)} runs are done")
    if only_plan:
        return
    if left:
        train_all(left, jobs, threads)
    found = [judged_once(name, runs, seed, where) for seed in range(seeds)]
    ranks = {
        who: {
            str(k): over_seeds([each["rank_correlation"][who][str(k)] for each in found])
            for k in TURNS
        }
        for who in ("v", "regression")
    }
    results = {
        "flags": shown_flags(runs[-1]),
        "rank_correlation_after_turns": ranks,
        "conversations_after_turns": found[0]["rank_correlation"]["conversations"],
        "q_error": over_seeds([each["figures"]["q_error"] for each in found]),
        "v_error": over_seeds([each["figures"]["v_error"] for each in found]),
        "error_of_the_held_out_mean": found[0]["figures"]["return_spread"],
        "error_of_the_training_mean": found[0]["error_of_the_training_mean"],
        "minutes_per_run": {
            method: float(np.mean([minutes_of(run) for run in runs if run.method == method]))
            for method in METHODS
        },
        "seeds": found,
        "machine": machine(),
        "made": time.strftime("%Y-%m-%d"),
    }
    write_json(where.output / f"{name}.json", results)
    print(f"-> {where.output / f'{name}.json'}")


def plan_people(name: str, data: Path, where: Where, seeds: int) -> list[Run]:
    """Imitation and values, the first seed of both first."""
    flags = [*("--task", "text", "--preset", "quick", "--data", str(data.resolve()))]
    flags += ["--backbone", where.backbone, *PEOPLE[name].split()]
    return [
        Run(
            "",
            method,
            seed,
            where.runs / name / f"{method}-seed{seed}",
            (*flags, "--algo", method, "--seed", str(seed)),
        )
        for seed in range(seeds)
        for method in METHODS
    ]


def shown_flags(run: Run) -> str:
    """The flags of a run without the places of this machine: files go by their names."""
    return " ".join(Path(each).name if Path(each).is_absolute() else each for each in run.flags)


def judged_once(name: str, runs: Sequence[Run], seed: int, where: Where) -> dict[str, Any]:
    """What one seed's agents foresee and would earn; kept beside them, as it takes minutes."""
    folders = {run.method: str(run.folder) for run in runs if run.seed == seed}
    weights = {method: weights_digest(Path(folder)) for method, folder in folders.items()}
    file = where.runs / name / f"judged-seed{seed}.json"
    kept: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    if kept.get("weights") != weights:
        kept = {**judged(folders, seed, where.backbone), "weights": weights}
        write_json(file, kept)
    return kept


def judged(folders: Mapping[str, str], seed: int, backbone: str) -> dict[str, Any]:
    """What one seed's agents foresee and would earn."""
    agent, task = load_agent(folders["ilql"])
    imitator, _ = load_agent(folders["bc"])
    rivals = {"bc": imitator, "base LM": lm_as_agent(backbone, agent.config.context)}
    outlook = judge_offline(task, agent)
    doubts = [each.removeprefix("warning: ") for each in outlook.warnings]
    decoding = Decoding.of(agent, sample=True)
    verdict = reach_verdict(logs_of(task, None, FIT), agent, rivals, decoding, doubts)
    print(f"seed {seed}\n{verdict.describe()}", flush=True)
    return {
        "figures": outlook.figures,
        "warnings": outlook.warnings,
        "error_of_the_training_mean": error_of_the_training_mean(task, outlook.figures),
        "offline": verdict.to_json(),
        "rank_correlation": rank_correlations(task, agent),
    }


def error_of_the_training_mean(task: TextTask, figures: Mapping[str, float]) -> float:
    """Root mean square error on the held-out tokens of the constant that training could know.

    `return_spread` is that of the held-out tokens' own mean, which nobody knows before.
    """
    rows = task.learned(len(task.index))
    found = [
        returns_to_go(batch, task.discount)[batch.is_action]
        for _, batch in small_batches(rows, task.language)
    ]
    off = float(torch.cat(found).double().mean()) - figures["mean_return_to_go"]
    return math.hypot(figures["return_spread"], off)


def rank_correlations(task: TextTask, model: TextRLModel) -> dict[str, dict[str, float]]:
    """Spearman's of held-out returns with V before turn k + 1 and with a regression.

    The regression sees the system message, which states the priorities, and how many turns there
    will be, which V does not know yet. A history that the context has cut counts only from where
    it begins: after few turns, there are few conversations.
    """
    _, earned = task.held_out(FULL_EVALUATION)
    values = turn_values(task, model)
    train, held_out = task._split
    fit, test = (list(task.index.read(each)) for each in (train, held_out))
    guessed = regression(fit, test, task.index.returns()[train])
    found: dict[str, dict[str, float]] = {"v": {}, "regression": {}, "conversations": {}}
    for k in TURNS:
        said = values[:, k] if k < values.shape[1] else np.full(len(earned), np.nan)
        is_there = ~np.isnan(said)
        found["conversations"][str(k)] = int(is_there.sum())
        for name, each in (("v", said), ("regression", guessed)):
            enough = is_there.sum() > 2
            found[name][str(k)] = spearman(each[is_there], earned[is_there]) if enough else np.nan
    return found


def turn_values(task: TextTask, model: TextRLModel) -> NDArray[np.float64]:
    """V before each of the agent's turns in the held-out conversations, nan where there is none.

    A conversation that lost its beginning is counted from its end: its last turns are known.
    """
    rows, _ = task.held_out(FULL_EVALUATION)
    _, held_out = task._split
    turns = [count_turns(each) for each in task.index.read(held_out)]
    values = np.full((len(rows.lengths), max(turns) + 1), np.nan)
    for picks, batch, output in said_of(model, rows, task.language):
        assert output.v is not None
        first = torch.nn.functional.pad(batch.ends_action, (1, 0), value=True)[:, :-1]
        for row, pick in enumerate(picks.tolist()):
            at = (first[row] & batch.is_action[row]).nonzero()[:, 0]
            said = output.v[row, at].cpu().numpy()
            missing = max(0, turns[pick] - len(said))
            values[pick, missing : missing + len(said)] = said[: turns[pick]]
    return values


def count_turns(talk: Conversation) -> int:
    """Of the agent, as far as they are learned: not one at the very beginning."""
    return sum(message.role == AGENT for message in talk.messages[1:])


def regression(
    fit: Sequence[Conversation], test: Sequence[Conversation], returns: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Least squares on the system message and the number of turns."""
    systems = sorted({system_of(each) for each in fit})

    def features(talks: Sequence[Conversation]) -> NDArray[np.float64]:
        stated = [[float(system_of(each) == system) for system in systems] for each in talks]
        turns = [[float(count_turns(each))] for each in talks]
        return np.concatenate([np.array(stated), np.array(turns)], axis=1)

    weights, *_ = np.linalg.lstsq(features(fit), returns.astype(np.float64), rcond=None)
    return np.asarray(features(test) @ weights)


def system_of(talk: Conversation) -> str:
    """What the side was told."""
    return talk.messages[0].content if talk.messages[0].role == "system" else ""
