"""Meet a trained agent: play Wordle against it, or talk with it, here or on a web page."""

import argparse
import json
from typing import Any

from textrl.config.command_line import add_group, read_group
from textrl.config.options import flag, options_of
from textrl.config.parser import Parser, make_parser
from textrl.config.registry import TASKS, find, follow, known
from textrl.errors import UserError, run_recipe

EXAMPLE = """textrl play
  textrl play runs/wordle --web
  textrl play runs/text --values
  textrl play runs/text --prompts prompts.txt --batch-size 16 > answers.jsonl"""
DEFAULT = "wordle"
"""The task of the agent that is there without a checkpoint."""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Play Wordle against a trained agent, or talk with one that learned from conversations.",
        EXAMPLE,
    )
    parser.add_argument(
        "checkpoint",
        nargs="?",
        help="folder or Hub id (default: the Wordle agent that comes with textrl)",
    )
    parser.add_argument(
        "--beta", type=float, help="weight of Q - V against log pi (default: as trained)"
    )
    parser.add_argument(
        "--sample", action="store_true", help="sample tokens by their probabilities"
    )
    parser.add_argument(
        "--seed", type=int, help="seed, to get the same hidden words or samples again"
    )
    parser.add_argument("--task", help="module:CLASS, for an agent of a task of your own")
    playable = {}
    for name in known(TASKS):
        if (activity := find(TASKS, name).playing) is not None:
            add_group(parser.add_argument_group(name), activity.options)
            playable[name] = activity
    options = parser.parse_args()

    name = task_of(options) or DEFAULT
    if name not in playable:
        raise UserError(
            f"{options.checkpoint!r} has learned {name!r}, which cannot be played against:"
            f" {' and '.join(playable)} can be played"
        )
    for other, activity in playable.items():
        if other != name:
            refuse_foreign(parser, options, activity.options, name)
    of_task = read_group(options, playable[name].options)
    import transformers  # takes a second, which --help does not have

    transformers.utils.logging.disable_progress_bar()
    playable[name].load()(options, of_task)


def task_of(options: argparse.Namespace) -> str:
    """What the checkpoint says that it has learned, before anything large is loaded.

    Nothing where there is no checkpoint: whoever loads it will say so.
    """
    from textrl.data.task_file import TASK_FILE
    from textrl.sharing.checkpoint import checkpoint_folder

    if options.checkpoint is None:
        if options.task and follow(TASKS, options.task).name != DEFAULT:
            raise UserError(
                f"--task {options.task}: no such agent comes with textrl: name a folder or a Hub id"
            )
        return DEFAULT
    if options.task:
        return str(follow(TASKS, options.task).name)
    try:
        folder = checkpoint_folder(options.checkpoint)
    except UserError:
        return ""
    try:
        name = str(json.loads((folder / TASK_FILE).read_text())["task"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{options.checkpoint!r} does not say in {TASK_FILE} what it plays"
        ) from error
    return "wordle" if "wordle" in name.split(",") else name


def refuse_foreign(
    parser: Parser, options: argparse.Namespace, group: type[Any], task: str
) -> None:
    """Refuse options that an agent of this task knows nothing of."""
    for name in options_of(group):
        if getattr(options, name) != parser.get_default(name):
            raise UserError(f"{flag(name)} is not for agents of the task {task!r}: leave it out")


if __name__ == "__main__":
    run_recipe(main)
