"""Checkpoints: the folder that people load and share, and the state that a run resumes from.

Only safetensors, JSON and text: nothing here is ever unpickled.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from textrl.card import model_card
from textrl.config import CONFIG_FILE, TrainConfig, save_config
from textrl.errors import UserError, first_line
from textrl.hub import fetch
from textrl.model import LOADING_INFO, TextRLModel
from textrl.task import AnyTask, LoggedTask, Task

Optimizers = Sequence[torch.optim.Optimizer]
STATE_NAMES = "step-" + "[0-9]" * 8
CARD_FILE, TASK_FILE, WEIGHTS_FILE = "README.md", "task.json", "model.safetensors"
TOKENIZER_FILES = (
    *("tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"),
    *("vocab.json", "vocab.txt", "merges.txt", "*.model"),
)
"""The language; which of them there are depends on its tokenizer."""
LOADED_FILES = ("config.json", TASK_FILE, WEIGHTS_FILE, *TOKENIZER_FILES)
"""What of a checkpoint on the Hub is downloaded to load it."""


@contextlib.contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """An empty folder next to `beside`, on the same disk; whatever is left in it is removed."""
    scratch = beside.with_name(f".{beside.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        yield scratch
    except Exception as error:
        # How safetensors and tokenizers tell of a full disk; Python's own OSError passes as it is.
        if isinstance(error, SafetensorError) or "os error" in str(error):
            raise UserError(f"cannot write {beside}: {first_line(error)}") from error
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def save_checkpoint(
    folder: Path, model: TextRLModel, task: Task | LoggedTask, config: TrainConfig
) -> None:
    """Write (or replace) the files by which others load this model, each at once, weights last."""
    with scratch_folder(folder / "checkpoint") as scratch:
        model.save_pretrained(scratch)
        task.language.tokenizer().save_pretrained(scratch)
        (scratch / TASK_FILE).write_text(json.dumps(describe_task(task)) + "\n")
        (scratch / CARD_FILE).write_text(model_card(config, task, model.config.steps, str(folder)))
        save_config(config, scratch / CONFIG_FILE)
        for path in sorted(scratch.iterdir(), key=lambda path: path.name == WEIGHTS_FILE):
            _flush(path)
            os.replace(path, folder / path.name)


def describe_task(task: AnyTask) -> dict[str, Any]:
    """What task.json holds: enough to make the same task again."""
    return {"task": task.name, "settings": task.settings()}


def check_same_task(folder: Path, task: Task) -> None:
    """Refuse a dataset folder that says it is of another task or, say, another word list."""
    if not (folder / TASK_FILE).is_file():
        return  # rows of unknown origin are judged by their tokens alone
    try:
        saved = json.loads((folder / TASK_FILE).read_text())
        other, settings = saved["task"], dict(saved["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{folder / TASK_FILE} is damaged: {error}") from error
    if other != task.name:
        raise UserError(
            f"{str(folder)!r} holds episodes of the task {other!r}, not of {task.name!r}"
        )
    ours = task.data_settings()
    differing = [name for name, value in ours.items() if settings.get(name) != value]
    if differing:
        name = differing[0]
        raise UserError(
            f"{str(folder)!r} was made with {name} {settings.get(name)!r},"
            f" this run has {ours[name]!r}"
        )


def checkpoint_folder(name: str) -> Path:
    """The folder of a checkpoint; one on the Hub is downloaded first, all of one commit."""
    folder = fetch(name, "model", LOADED_FILES)
    if not (folder / "config.json").is_file():
        raise UserError(f"{name!r} is no checkpoint: it has no config.json")
    return folder


def weights_digest(folder: Path) -> str:
    """By which an evaluation knows whose it is."""
    with (folder / WEIGHTS_FILE).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_model(name: str, base: str | None = None) -> tuple[TextRLModel, dict[str, Any]]:
    """The model in a checkpoint folder or Hub repo, and what its task.json says.

    base: where the language model under an adapter is, if not where it was in training.
    """
    folder = checkpoint_folder(name)
    try:
        task = json.loads((folder / TASK_FILE).read_text())
        loaded: Any = TextRLModel.from_pretrained(folder, output_loading_info=True, base=base)
    except UserError:
        raise
    except Exception as error:  # a stranger's files can break transformers in any way
        raise UserError(f"cannot load a checkpoint from {name!r}: {first_line(error)}") from error
    model, info = loaded
    for what in LOADING_INFO:
        if info[what]:
            first = sorted(map(str, info[what]))[0]
            raise UserError(
                f"the weights in {name!r} are another model's:"
                f" {what.replace('_', ' ')}, first {first}"
            )
    if not isinstance(task, dict) or not {"task", "settings"} <= task.keys():
        raise UserError(f"{TASK_FILE} in {name!r} does not name a task and its settings")
    return model.train(False), task


@dataclass(frozen=True)
class TrainingState:
    """Where a run stands. Data and random numbers follow from the seed and the step's number."""

    step: int  # steps done
    best_score: float
    seconds: float  # of training so far
    metrics_bytes: int  # length of the metrics file then; later lines belong to no checkpoint


def save_state(
    folder: Path, model: TextRLModel, optimizers: Optimizers, state: TrainingState
) -> None:
    """Write folder/step-N whole or not at all, then drop the older ones."""
    name = f"step-{state.step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder / name) as scratch:
        save_file(_contiguous(model.saved_state()), scratch / WEIGHTS_FILE)
        save_file(_memory_of(optimizers), scratch / "optimizer.safetensors")
        (scratch / "state.json").write_text(json.dumps(vars(state)) + "\n")
        for path in scratch.iterdir():
            _flush(path)
        shutil.rmtree(folder / name, ignore_errors=True)
        scratch.rename(folder / name)
    for older in folder.glob(STATE_NAMES):
        if older.name < name:
            shutil.rmtree(older, ignore_errors=True)


def load_state(folder: Path, model: TextRLModel, optimizers: Optimizers) -> TrainingState | None:
    """Put the newest complete state into model and optimizers; None where there is none yet."""
    saved = sorted(folder.glob(STATE_NAMES))
    if not saved:
        return None
    try:
        model.load_saved_state(load_file(saved[-1] / WEIGHTS_FILE))
        _restore(optimizers, load_file(saved[-1] / "optimizer.safetensors"))
        return TrainingState(**json.loads((saved[-1] / "state.json").read_text()))
    except (SafetensorError, RuntimeError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"the training state in {saved[-1]} cannot be used: {first_line(error)}"
        ) from error


def _memory_of(optimizers: Optimizers) -> dict[str, Tensor]:
    """What the optimizers remember, flat: "<optimizer>.<parameter>.<name>" -> tensor."""
    return {
        f"{which}.{number}.{name}": tensor.contiguous()
        for which, optimizer in enumerate(optimizers)
        for number, memory in optimizer.state_dict()["state"].items()
        for name, tensor in memory.items()
    }


def _restore(optimizers: Optimizers, tensors: dict[str, Tensor]) -> None:
    for which, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            owner, number, name = key.split(".", 2)
            if int(owner) == which:
                state.setdefault(int(number), {})[name] = tensor
        # The groups (learning rates and so on) follow from the config; only memory is restored.
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
