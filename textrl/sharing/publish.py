"""What of a run's or a dataset's folder goes to the Hub, with a card that tells of it."""

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset
from datasets import load_from_disk as load_folder

from textrl.config.presets import load_config
from textrl.config.train import CONFIG_FILE
from textrl.data.dataset import returns_by_behaviour
from textrl.data.files import scratch_folder
from textrl.data.task_file import TASK_FILE
from textrl.errors import UserError
from textrl.evaluation.judge import RunJudgement, judge_run
from textrl.evaluation.report import write_json
from textrl.model.network import TextRLModel
from textrl.sharing.card import UNPUBLISHED, model_card
from textrl.sharing.checkpoint import CARD_FILE, TOKENIZER_FILES, WEIGHTS_FILE, weights_digest
from textrl.sharing.dataset_card import dataset_card
from textrl.sharing.hub import open_repo, push
from textrl.tasks.members import Members
from textrl.tasks.task import Task

EVALUATION_FILE = "evaluation.json"
COLLECTION_FILE = "collection.json"
"""In a dataset's folder: how its episodes were made."""

# The training state and its optimizers lie in state/, which no pattern reaches.
FIGURES = ("*.png", "figures/*.png")
CHECKPOINT_FILES = (
    *("config.json", WEIGHTS_FILE, *TOKENIZER_FILES, TASK_FILE),
    *(CARD_FILE, CONFIG_FILE, "metrics.jsonl", EVALUATION_FILE, *FIGURES),
)
DATASET_FILES = (CARD_FILE, TASK_FILE, COLLECTION_FILE, "data/train-*.parquet")
ROWS_PER_FILE = 500_000


def open_checkpoint_repo(repo: str, private: bool) -> None:
    """Make sure that a checkpoint can be pushed to the repository."""
    open_repo(repo, "model", private, marks=(TASK_FILE, CONFIG_FILE))


def open_dataset_repo(repo: str, private: bool) -> None:
    """Make sure that a dataset can be pushed to the repository."""
    open_repo(repo, "dataset", private, marks=(TASK_FILE,))


def write_card(folder: Path, members: Members, steps: int, name: str = UNPUBLISHED) -> None:
    """Write a checkpoint's card anew, with what is known of it by now."""
    run, report = load_config(folder / CONFIG_FILE), saved_report(folder)
    figures = [p.relative_to(folder).as_posix() for f in FIGURES for p in sorted(folder.glob(f))]
    partial = folder / f".{CARD_FILE}.partial"
    partial.write_text(model_card(run, members, steps, name, report, figures))
    partial.replace(folder / CARD_FILE)


def push_checkpoint(folder: Path, repo: str, members: Members, steps: int) -> str:
    """Write the card anew and push what others need of the folder; give the repo's address."""
    write_card(folder, members, steps, repo)
    without = () if saved_report(folder) else (EVALUATION_FILE,)
    message = f"{members.name}, {steps:,} steps"
    return push(folder, repo, "model", CHECKPOINT_FILES, message, without)


def evaluate_checkpoint(folder: Path, members: Members, model: TextRLModel) -> RunJudgement:
    """Judge by as many episodes as a complete evaluation takes.

    The report stays in the folder, in its card too. A report of these very weights that is there
    already stays as it is.
    """
    judgement = judge_run(members, model)
    if saved_report(folder) is None:
        report = {"task": members.name, **judgement.to_json(), "weights": weights_digest(folder)}
        write_json(folder / EVALUATION_FILE, report)
    write_card(folder, members, model.config.steps)
    return judgement


def saved_report(folder: Path) -> dict[str, Any] | None:
    """The report in the folder, if there is one and it is of these very weights."""
    try:
        report = json.loads((folder / EVALUATION_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return None
    is_ours = isinstance(report, dict) and report.get("weights") == weights_digest(folder)
    return report if is_ours else None


def push_dataset(folder: Path, repo: str, task: Task) -> str:
    """Push the rows of a dataset folder as Parquet, with a card; give the repo's address."""
    rows = load_folder(str(folder))
    if not isinstance(rows, Dataset):
        raise UserError(f"{str(folder)!r} holds several datasets: give the folder of one")
    files = -(-len(rows) // ROWS_PER_FILE)
    with scratch_folder(folder.with_name(f"{folder.name}.hub")) as scratch:
        (scratch / "data").mkdir()
        for number in range(files):
            part = rows.shard(files, number, contiguous=True)
            part.to_parquet(scratch / "data" / f"train-{number:05d}-of-{files:05d}.parquet")
        how = ""
        for name in (TASK_FILE, COLLECTION_FILE):
            if (folder / name).is_file():
                (scratch / name).write_bytes((folder / name).read_bytes())
        if (folder / COLLECTION_FILE).is_file():
            how = str(json.loads((folder / COLLECTION_FILE).read_text())["how"])
        card = dataset_card(task, returns_by_behaviour(rows), repo, how)
        (scratch / CARD_FILE).write_text(card)
        return push(scratch, repo, "dataset", DATASET_FILES, f"{len(rows):,} episodes")


def publish_checkpoint(folder: Path, repo: str, members: Members, steps: int) -> str:
    """Push an agent; a failure says how to go on."""
    with going_on(folder, repo):
        return push_checkpoint(folder, repo, members, steps)


def publish_dataset(folder: Path, repo: str, task: Task) -> str:
    """Push episodes; a failure says how to go on."""
    with going_on(folder, repo):
        return push_dataset(folder, repo, task)


@contextlib.contextmanager
def going_on(folder: Path, repo: str) -> Iterator[None]:
    """Add to a user's error how to go on after it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{error}; {how_to_go_on(folder, repo)}") from error


def how_to_go_on(folder: Path, repo: str) -> str:
    """What to tell a user whose push failed."""
    command = f"textrl push {shlex.quote(str(folder))} {repo}"
    return f"everything is saved in {folder}, and `{command}` continues where this stopped"
