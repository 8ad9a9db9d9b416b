"""Judge a checkpoint: load -> play -> compare -> report."""

import argparse
from pathlib import Path
from typing import Any

import transformers

from envs.tasks import load_agent, task_of_checkpoint
from textrl.checkpoint import checkpoint_folder, describe_task, load_model, weights_digest
from textrl.combined import CombinedTask, judge_games, one_of
from textrl.config import make_parser
from textrl.errors import UserError, run_recipe
from textrl.evaluation import Result, judge, play_both
from textrl.report import paired_difference, write_json
from textrl.task import Task

EXAMPLE = "python recipes/evaluate.py runs/wordle --beta 8 --json evaluation.json"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play a trained agent, greedily and by sampling, beside reference players.", EXAMPLE
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument("--task", help="which one, of an agent of several (default: each of them)")
    parser.add_argument("--episodes", type=int, help="how many (default: a complete evaluation)")
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument("--seed", type=int, default=0, help="start of every random number")
    parser.add_argument("--against", help="another checkpoint of the same task to compare with")
    parser.add_argument("--json", metavar="FILE", help="write everything to this file too")
    options = parser.parse_args()
    if options.episodes is not None and options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}")
    transformers.utils.logging.disable_progress_bar()

    report = judged(options)
    report["weights"] = weights_digest(checkpoint_folder(options.checkpoint))
    if options.json:
        write_json(Path(options.json), report)


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """Judge the agent as the command line says, print how it did, and give it for programs."""
    model, saved = load_model(options.checkpoint)
    task = task_of_checkpoint(saved)
    if isinstance(task, CombinedTask) and options.task is None:
        if options.beta is not None or options.against:
            raise UserError("--beta and --against are about one task: say which with --task")
        games = judge_games(task, model, options.episodes, options.seed)
        print(f"{options.checkpoint}: {task.name}\n\n{games.describe(task)}")
        return {"task": task.name, "checkpoint": options.checkpoint, **games.to_json()}

    if isinstance(task, CombinedTask):
        model, task = one_of(model, task, options.task)
    if options.task not in (None, task.name):
        raise UserError(f"{options.checkpoint!r} plays {task.name}, not {options.task}")
    episodes = options.episodes or task.full_evaluation()
    judgement = judge(task, model, episodes, options.beta, options.seed)
    beta = judgement.results[0].decoding.beta
    print(f"{options.checkpoint}: {task.name}, {episodes} episodes, beta {beta:g}")
    print(judgement.describe(task))
    report = {"task": task.name, "checkpoint": options.checkpoint, **judgement.to_json()}
    if options.against:
        results = judgement.results
        report["against"] = compare(options.against, task, results, episodes, options.seed)
    return report


def compare(
    other: str, task: Task, results: list[Result], episodes: int, seed: int
) -> dict[str, Any]:
    """How much better this agent is than another, each at its own beta, episode by episode."""
    model, theirs = load_agent(other, task.name)
    if describe_task(theirs) != describe_task(task):
        raise UserError(f"{other!r} plays another task or word list: the two cannot be compared")
    found = {}
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
