"""Judge a checkpoint: load -> play -> compare -> report."""

import argparse
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.config.registry import TASKS, follow
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl evaluate runs/wordle --beta 8 --json evaluation.json"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play a trained agent, greedily and by sampling, beside reference players; one that learned"
        " from logged conversations is judged by some that it has not seen.",
        EXAMPLE,
    )
    parser.add_argument("checkpoint", help="folder or Hub id of the agent")
    parser.add_argument(
        "--task",
        help="which one, of an agent of several (default: each of them), or module:CLASS of a task"
        " of your own",
    )
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
    report = judged(options)
    if options.json:
        from textrl.evaluation.report import write_json

        write_json(Path(options.json), report)


def judged(options: argparse.Namespace) -> dict[str, Any]:
    """Judge the agent as the command line says, print how it did, and give it for programs."""
    import transformers

    from textrl.evaluation.judge import How, check_comparable, compare, judge, judge_run
    from textrl.model.build import model_of_member
    from textrl.sharing.checkpoint import (
        checkpoint_folder,
        load_agent,
        load_checkpoint,
        weights_digest,
    )

    transformers.utils.logging.disable_progress_bar()
    name = follow(TASKS, options.task).name if options.task else None
    model, members = load_checkpoint(options.checkpoint, options.base)
    how = How(options.episodes, options.beta, options.seed, options.candidates)
    common = {
        "checkpoint": options.checkpoint,
        "weights": weights_digest(checkpoint_folder(options.checkpoint)),
    }
    if name is None and len(members.tasks) > 1:
        for each in ("beta", "candidates", "against", "data"):
            if getattr(options, each) is not None:
                raise UserError(f"--{each} is about one task: say which with --task")
        judgement = judge_run(members, model, how)
        print(f"{options.checkpoint}: {members.name}\n\n{judgement.describe(members)}")
        return {"task": members.name, **common, **judgement.to_json()}

    if name not in (None, *members.tasks):
        raise UserError(f"{options.checkpoint!r} plays {members.name}, not {name}")
    number, task = members.one(name)
    model = model_of_member(model, number)
    if options.data:
        task = task.with_data(options.data)
    if options.against:
        other, theirs = load_agent(options.against, task.name)
        check_comparable(task, options.against, theirs, other)
    judgement = judge(task, model, how)
    beta = model.config.beta if options.beta is None else options.beta
    print(f"{options.checkpoint}: {task.name}, beta {beta:g}")
    print(judgement.describe(task))
    report = {"task": task.name, **common, **judgement.to_json()}
    if options.against:
        told, difference = compare(task, judgement, options.against, other, how)
        print(f"\n{told}")
        report["against"] = {"checkpoint": options.against, **difference}
    return report


if __name__ == "__main__":
    run_recipe(main)
