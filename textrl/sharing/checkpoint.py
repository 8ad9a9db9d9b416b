"""Checkpoints: the folder that people load and share.

Only safetensors, JSON and text: nothing here is ever unpickled.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from textrl.config.presets import save_config
from textrl.config.train import CONFIG_FILE, TrainConfig
from textrl.data.download import fetch
from textrl.data.files import flush, scratch_folder
from textrl.data.task_file import TASK_FILE, describe_task, read_task_file
from textrl.errors import UserError, first_line
from textrl.model.build import model_of_member
from textrl.model.config import TextRLConfig
from textrl.model.network import TextRLModel
from textrl.sharing.card import model_card
from textrl.tasks.members import Members

CARD_FILE, WEIGHTS_FILE = "README.md", "model.safetensors"
TOKENIZER_FILES = (
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.json", "vocab.txt", "merges.txt", "*.model"),
)
"""The language; which of them there are depends on its tokenizer."""
LOADED_FILES = ("config.json", TASK_FILE, WEIGHTS_FILE, *TOKENIZER_FILES)
"""What of a checkpoint on the Hub is downloaded to load it."""


LARGEST_TEXT = 256_000_000
"""Bytes of a file beside the weights; the largest tokenizers have 35 million."""


def save_checkpoint(folder: Path, model: TextRLModel, members: Members, run: TrainConfig) -> None:
    """Write (or replace) the files by which others load this model, each at once, weights last."""
    with scratch_folder(folder / "checkpoint") as scratch:
        model.save_pretrained(scratch)
        members.language.tokenizer().save_pretrained(scratch)
        (scratch / TASK_FILE).write_text(json.dumps(describe_task(members)) + "\n")
        (scratch / CARD_FILE).write_text(model_card(run, members, model.config.steps))
        save_config(run, scratch / CONFIG_FILE)
        mode = (scratch / CARD_FILE).stat().st_mode
        for path in sorted(scratch.iterdir(), key=lambda path: path.name == WEIGHTS_FILE):
            path.chmod(mode)  # safetensors lets nobody but the owner read its file
            flush(path)
            os.replace(path, folder / path.name)


def checkpoint_folder(name: str) -> Path:
    """The folder of a checkpoint; one on the Hub is downloaded first, all of one commit."""
    folder = fetch(name, "model", LOADED_FILES)
    if not (folder / "config.json").is_file():
        raise UserError(f"{name!r} is not a checkpoint: it has no config.json")
    for path in (path for pattern in LOADED_FILES for path in folder.glob(pattern)):
        if path.name != WEIGHTS_FILE and path.stat().st_size > LARGEST_TEXT:
            raise UserError(f"{path} is damaged: it has more than {LARGEST_TEXT:,} bytes")
    return folder


def weights_digest(folder: Path) -> str:
    """By which an evaluation knows whose it is."""
    with (folder / WEIGHTS_FILE).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_model(name: str, base: str | None = None) -> TextRLModel:
    """The model in a checkpoint folder or Hub repo.

    base: where the language model under an adapter is, if not where it was in training.
    """
    folder = checkpoint_folder(name)
    try:
        model: TextRLModel = TextRLModel.from_pretrained(folder, base=base)
    except UserError:
        raise
    except Exception as error:  # a stranger's files can break transformers in any way
        raise UserError(f"cannot load a checkpoint from {name!r}: {first_line(error)}") from error
    model.train(False)
    return model


def load_checkpoint(name: str, base: str | None = None) -> tuple[TextRLModel, Members]:
    """The model in a checkpoint folder or Hub repo, and the tasks it was trained for."""
    folder = checkpoint_folder(name)
    task, settings = read_task_file(folder / TASK_FILE)
    model = load_model(name, base)
    members = Members.of_saved(task, settings, folder)
    if (fault := mismatch(model.config, members)) is not None:
        raise UserError(
            f"the weights in {name!r} belong to another task than its {TASK_FILE}: {fault}"
        )
    return model, members


def mismatch(shape: TextRLConfig, members: Members) -> str | None:
    """In what a network's shape does not fit its tasks."""
    language = members.language
    pairs: dict[str, tuple[Any, Any]] = {
        "tokens": (shape.vocabulary, len(language.tokens)),
        "actions": (shape.action_tokens, len(language.actions)),
        "first action": (shape.first_action, language.first_action),
        "tasks": (len(shape.layouts), len(members.tasks)),
        "frames": (shape.frame_shape, members.frame_shape),
    }
    for layout, task in zip(shape.layouts, members.tasks.values(), strict=False):
        pairs |= {
            f"tokens of {task.name}": (layout.tokens, len(task.language.tokens)),
            f"actions of {task.name}": (layout.actions, len(task.language.actions)),
        }
    for what, (has, needs) in pairs.items():
        if has != needs:
            return f"{what}: {has} and {needs}"
    return None


def load_agent(
    name: str, task: str | None = None, base: str | None = None
) -> tuple[TextRLModel, Any]:
    """The same of one task: the model and a Task or LoggedTask; task: which, of several.

    name: a folder or a Hub id. base: where the language model under an adapter is, if not where it
    was in training.
    """
    model, members = load_checkpoint(name, base)
    number, chosen = members.one(task)
    return model_of_member(model, number), chosen
