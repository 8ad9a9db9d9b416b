"""Publish a trained agent or a dataset: load -> evaluate -> push."""

from pathlib import Path

from textrl.config.parser import make_parser
from textrl.config.registry import ALGORITHMS, TASKS, follow
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl push runs/wordle USER/NAME --private"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Publish a run's or a dataset's folder on the Hugging Face Hub, or update what is there.",
        EXAMPLE,
    )
    parser.add_argument("folder", help="folder of a checkpoint or of a dataset")
    parser.add_argument("repo", help="USER/NAME on the Hub")
    parser.add_argument(
        "--private", action="store_true", help="make the repository visible only to you"
    )
    parser.add_argument(
        "--no-evaluate",
        action="store_true",
        help="if there is no evaluation.json yet, do not evaluate to fill in the card's results",
    )
    parser.add_argument(
        "--task", help="module:CLASS, if the agent was trained on a task of your own"
    )
    parser.add_argument(
        "--algo", help="module:OBJECT, if it was trained by an algorithm of your own"
    )
    options = parser.parse_args()
    for group, name in ((TASKS, options.task), (ALGORITHMS, options.algo)):
        if name:
            follow(group, name)
    folder = Path(options.folder)
    if not folder.is_dir():
        raise UserError(f"{options.folder!r} is not a folder: give that of a run or of a dataset")
    publish = push_dataset if (folder / "dataset_info.json").is_file() else push_agent
    print(f"published as {publish(folder, options.repo, options.private, options.no_evaluate)}")


def push_agent(folder: Path, repo: str, private: bool, no_evaluate: bool) -> str:
    """Push an agent, with results in its card unless told not to play for them."""
    import transformers

    from textrl.sharing.checkpoint import load_checkpoint
    from textrl.sharing.publish import (
        evaluate_checkpoint,
        open_checkpoint_repo,
        publish_checkpoint,
        saved_report,
    )

    transformers.utils.logging.disable_progress_bar()
    model, members = load_checkpoint(str(folder))
    open_checkpoint_repo(repo, private)
    if saved_report(folder) is None and not no_evaluate:
        print("evaluating first")
        evaluate_checkpoint(folder, members, model)
    return publish_checkpoint(folder, repo, members, model.config.steps)


def push_dataset(folder: Path, repo: str, private: bool, no_evaluate: bool) -> str:
    """Push episodes."""
    from textrl.data.task_file import TASK_FILE, read_task_file
    from textrl.sharing.publish import open_dataset_repo, publish_dataset
    from textrl.tasks.members import Members

    if no_evaluate:
        raise UserError("--no-evaluate is for agents, and this is a dataset: leave it out")
    if not (folder / TASK_FILE).is_file():
        raise UserError(f"{str(folder)!r} has no {TASK_FILE}: make it with textrl collect")
    _, task = Members.of_saved(*read_task_file(folder / TASK_FILE)).one()
    open_dataset_repo(repo, private)
    return publish_dataset(folder, repo, task)


if __name__ == "__main__":
    run_recipe(main)
