"""Publish a trained agent or a dataset: load -> evaluate -> push."""

import json
from pathlib import Path

import transformers

from envs.tasks import load_checkpoint, task_of_checkpoint
from textrl.checkpoint import TASK_FILE
from textrl.errors import UserError, run_recipe
from textrl.parser import make_parser
from textrl.publish import (
    EVALUATION_FILE,
    evaluate_checkpoint,
    how_to_go_on,
    open_checkpoint_repo,
    open_dataset_repo,
    push_checkpoint,
    push_dataset,
    saved_report,
)

EXAMPLE = "python recipes/push.py runs/wordle USER/NAME --private"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Publish a run's or a dataset's folder on the Hugging Face Hub, or update what is there.",
        EXAMPLE,
    )
    parser.add_argument("folder", help="folder of a checkpoint or of a dataset")
    parser.add_argument("repo", help="USER/NAME on the Hub")
    parser.add_argument(
        "--private", action="store_true", help="make the repository one that only you can see"
    )
    parser.add_argument(
        "--no-evaluate",
        action="store_true",
        help=f"do not play to fill the card's results if there is no {EVALUATION_FILE} yet",
    )
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    folder = Path(options.folder)
    if not folder.is_dir():
        raise UserError(f"{options.folder!r} is no folder: give that of a run or of a dataset")
    publish = publish_dataset if (folder / "dataset_info.json").is_file() else publish_checkpoint
    print(f"published as {publish(folder, options.repo, options.private, options.no_evaluate)}")


def publish_checkpoint(folder: Path, repo: str, private: bool, no_evaluate: bool) -> str:
    """Push an agent, with results in its card unless told not to play for them."""
    model, task = load_checkpoint(str(folder))
    open_checkpoint_repo(repo, private)
    if saved_report(folder) is None and not no_evaluate:
        print("evaluating first")
        evaluate_checkpoint(folder, task, model)
    try:
        return push_checkpoint(folder, repo, task, model.config.steps)
    except UserError as error:
        raise UserError(f"{error}; {how_to_go_on(folder, repo)}") from error


def publish_dataset(folder: Path, repo: str, private: bool, no_evaluate: bool) -> str:
    """Push episodes."""
    if no_evaluate:
        raise UserError("--no-evaluate is for agents, and this is a dataset: leave it out")
    if not (folder / TASK_FILE).is_file():
        raise UserError(f"{str(folder)!r} has no {TASK_FILE}: make it with recipes/collect.py")
    task = task_of_checkpoint(json.loads((folder / TASK_FILE).read_text()))
    open_dataset_repo(repo, private)
    try:
        return push_dataset(folder, repo, task)
    except UserError as error:
        raise UserError(f"{error}; {how_to_go_on(folder, repo)}") from error


if __name__ == "__main__":
    run_recipe(main)
