"""Judge a checkpoint: load -> play -> compare -> report."""

import argparse
from pathlib import Path
from typing import Any

import transformers

from envs.tasks import load_agent, load_checkpoint
from envs.text.task import TextTask
from textrl.checkpoint import checkpoint_folder, describe_task, weights_digest
from textrl.combined import CombinedTask, judge_games, one_of
from textrl.errors import UserError, run_recipe
from textrl.evaluation import Judgement, Result, judge_anyhow, play_both
from textrl.model import TextRLModel
from textrl.offline import OfflineJudgement, judge_offline
from textrl.parser import make_parser
from textrl.report import paired_difference, write_json
from textrl.task import AnyTask, LoggedTask, Task

EXAMPLE = "python recipes/evaluate.py runs/wordle --beta 8 --json evaluation.json"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play a trained agent, greedily and by sampling, beside reference players; one that learned"
        " from logged conversations is judged by some that it has not seen.",
        EXAMPLE,
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--task", help="which one, of an agent of several (default: each of them)")
    parser.add_argument("--episodes", type=int, help="how many (default: a complete evaluation)")
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument(
        "--candidates",
        type=int,
        metavar="N",
        help="whole actions compared before one is chosen; 1: token by token (default: as trained)",
    )
    parser.add_argument("--seed", type=int, default=0, help="start of every random number")
    parser.add_argument("--against", help="another checkpoint of the same task to compare with")
    parser.add_argument(
        "--data",
        help="text: conversations to judge by, all of them (default: those that were held out)",
    )
    parser.add_argument(
        "--base", help="where an adapter's language model is, if not where it was in training"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything to this file too")
    options = parser.parse_args()
    for name in ("episodes", "candidates"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}")
    transformers.utils.logging.disable_progress_bar()

    report = judged(options)
    report["weights"] = weights_digest(checkpoint_folder(options.checkpoint))
    if options.json:
        write_json(Path(options.json), report)


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """Judge the agent as the command line says, print how it did, and give it for programs."""
    model, task = load_checkpoint(options.checkpoint, options.base)
    if options.data and not isinstance(task, TextTask):
        raise UserError(f"--data is for agents of the task text: this one plays {task.name}")
    if isinstance(task, CombinedTask) and options.task is None:
        for name in ("beta", "candidates", "against"):
            if getattr(options, name) is not None:
                raise UserError(f"--{name} is about one task: say which with --task")
        games = judge_games(task, model, options.episodes, options.seed)
        print(f"{options.checkpoint}: {task.name}\n\n{games.describe(task)}")
        return {"task": task.name, "checkpoint": options.checkpoint, **games.to_json()}

    if isinstance(task, CombinedTask):
        model, task = one_of(model, task, options.task)
    if options.task not in (None, task.name):
        raise UserError(f"{options.checkpoint!r} plays {task.name}, not {options.task}")
    if options.data:
        task = task.with_data(options.data)
    judgement = judge_anyhow(
        task, model, options.episodes, options.beta, options.seed, options.candidates
    )
    beta = model.config.beta if options.beta is None else options.beta
    print(f"{options.checkpoint}: {task.name}, beta {beta:g}")
    print(judgement.describe(task))
    report = {"task": task.name, "checkpoint": options.checkpoint, **judgement.to_json()}
    if options.against:
        report["against"] = compare(options.against, task, judgement, options.seed)
    return report


def compare(
    other: str, task: AnyTask, judgement: Judgement | OfflineJudgement, seed: int
) -> dict[str, Any]:
    """How much better this agent is than another, each at its own beta."""
    model, theirs = load_agent(other, task.name)
    if isinstance(task, LoggedTask) and isinstance(judgement, OfflineJudgement):
        return compare_offline(other, model, task, judgement)
    if describe_task(theirs) != describe_task(task):
        raise UserError(f"{other!r} plays another task or word list: the two cannot be compared")
    return compare_play(other, model, task, judgement.results, seed)


def compare_offline(
    other: str, model: TextRLModel, task: LoggedTask, ours: OfflineJudgement
) -> dict[str, Any]:
    """The same held-out episodes, seen by the other model."""
    if len(task.language.actions) != model.config.action_tokens:
        raise UserError(f"{other!r} has other tokens: the two cannot be compared")
    theirs = judge_offline(task, model, ours.episodes)
    print(f"\n{other}\n{theirs.describe(task)}")
    return {"checkpoint": other, **theirs.to_json()}


def compare_play(
    other: str, model: TextRLModel, task: Task, results: list[Result], seed: int
) -> dict[str, Any]:
    """Episode by episode."""
    found, episodes = {}, len(results[0].scores)
    print(f"\nbetter than {other} by")
    played = play_both(task, model, episodes, None, seed)
    for ours, other_result in zip(results, played, strict=True):
        difference = paired_difference(ours.scores, other_result.scores, episodes)
        low, high = difference.interval
        print(f"  {ours.decoding.name}: {difference.mean:+.3f} (95%: {low:+.3f} to {high:+.3f})")
        found[ours.decoding.name] = {"difference": difference.mean, "interval_95": [low, high]}
    return {"checkpoint": other, **found}


if __name__ == "__main__":
    run_recipe(main)
