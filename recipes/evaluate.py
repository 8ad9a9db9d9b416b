"""Judge a checkpoint: load -> play -> compare -> report."""

from pathlib import Path
from typing import Any

import transformers

from envs.tasks import task_of_checkpoint
from textrl.checkpoint import checkpoint_folder, describe_task, load_model, weights_digest
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
    parser.add_argument("--episodes", type=int, help="how many to play (default: each answer once)")
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
    parser.add_argument("--json", metavar="FILE", help="write everything to this file too")
    options = parser.parse_args()
    for name in ("episodes", "candidates"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}")
    transformers.utils.logging.disable_progress_bar()

    model, saved = load_model(options.checkpoint)
    task = task_of_checkpoint(saved)
    episodes = options.episodes or task.full_evaluation()
    judgement = judge(task, model, episodes, options.beta, options.seed, options.candidates)
    results = judgement.results

    print(
        f"{options.checkpoint}: {task.name}, {episodes} episodes, beta {results[0].decoding.beta:g}"
    )
    print(judgement.describe(task))
    report = {
        "task": task.name,
        "checkpoint": options.checkpoint,
        **judgement.to_json(),
        "weights": weights_digest(checkpoint_folder(options.checkpoint)),
    }
    if options.against:
        report["against"] = compare(options.against, task, results, episodes, options.seed)
    if options.json:
        write_json(Path(options.json), report)


def compare(
    other: str, task: Task, results: list[Result], episodes: int, seed: int
) -> dict[str, Any]:
    """How much better this agent is than another, each at its own beta, episode by episode."""
    model, saved = load_model(other)
    if saved != describe_task(task):
        raise UserError(f"{other!r} plays another task or word list: the two cannot be compared")
    found = {}
    print(f"\nbetter than {other} by")
    for ours, theirs in zip(results, play_both(task, model, episodes, None, seed), strict=True):
        difference = paired_difference(ours.scores, theirs.scores, episodes)
        low, high = difference.interval
        print(f"  {ours.decoding.name}: {difference.mean:+.3f} (95%: {low:+.3f} to {high:+.3f})")
        found[ours.decoding.name] = {"difference": difference.mean, "interval_95": [low, high]}
    return {"checkpoint": other, **found}


if __name__ == "__main__":
    run_recipe(main)
