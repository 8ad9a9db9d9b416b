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
from torch.distributed.tensor import DTensor, distribute_tensor

from textrl.card import model_card
from textrl.combined import RunTask
from textrl.combined_config import save_run_config
from textrl.config import CONFIG_FILE, TrainConfig
from textrl.errors import UserError, first_line
from textrl.hub import fetch
from textrl.model import LOADING_INFO, TextRLModel
from textrl.task import AnyTask, Task

Optimizers = Sequence[torch.optim.Optimizer]
Tensors = dict[str, Tensor]
STATE_NAMES = "step-" + "[0-9]" * 8
CARD_FILE, TASK_FILE, WEIGHTS_FILE = "README.md", "task.json", "model.safetensors"
MEMORY_FILE = "optimizer.safetensors"
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


def save_checkpoint(folder: Path, model: TextRLModel, task: RunTask, config: TrainConfig) -> None:
    """Write (or replace) the files by which others load this model, each at once, weights last."""
    with scratch_folder(folder / "checkpoint") as scratch:
        model.save_pretrained(scratch)
        task.language.tokenizer().save_pretrained(scratch)
        (scratch / TASK_FILE).write_text(json.dumps(describe_task(task)) + "\n")
        (scratch / CARD_FILE).write_text(model_card(config, task, model.config.steps, str(folder)))
        save_run_config(config, scratch / CONFIG_FILE)
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


def save_state(folder: Path, weights: Tensors, memory: Tensors, state: TrainingState) -> None:
    """Write folder/step-N whole or not at all, then drop the older ones.

    weights: the model's saved_state, memory: of its optimizers, both as whole tensors.
    """
    name = f"step-{state.step:08d}"
    folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder / name) as scratch:
        for tensors, file in ((weights, WEIGHTS_FILE), (memory, MEMORY_FILE)):
            save_file({key: t.contiguous() for key, t in tensors.items()}, scratch / file)
        (scratch / "state.json").write_text(json.dumps(vars(state)) + "\n")
        for path in scratch.iterdir():
            _flush(path)
        shutil.rmtree(folder / name, ignore_errors=True)
        scratch.rename(folder / name)
    for older in folder.glob(STATE_NAMES):
        if older.name < name:
            shutil.rmtree(older, ignore_errors=True)


def load_state(folder: Path, model: TextRLModel) -> TrainingState | None:
    """Put the newest complete state's weights into the model; None where there is no state yet."""
    with _newest(folder) as newest:
        if newest is None:
            return None
        model.load_saved_state(load_file(newest / WEIGHTS_FILE))
        return TrainingState(**json.loads((newest / "state.json").read_text()))


def load_memory(folder: Path, optimizers: Optimizers) -> None:
    """Put what the optimizers remembered then back into them, if there is a state.

    Their parameters may be spread over processes: each one reads the file and takes its part.
    """
    with _newest(folder) as newest:
        if newest is not None:
            _restore(optimizers, load_file(newest / MEMORY_FILE))


@contextlib.contextmanager
def _newest(folder: Path) -> Iterator[Path | None]:
    """The newest complete state, if any; what is wrong with its files is told as a user's error."""
    saved = sorted(folder.glob(STATE_NAMES))
    try:
        yield saved[-1] if saved else None
    except (SafetensorError, RuntimeError, ValueError, TypeError, LookupError) as error:
        raise UserError(
            f"the training state in {saved[-1]} cannot be used: {first_line(error)}"
        ) from error


def memory_of(optimizers: Optimizers, keep: bool = True) -> Tensors:
    """What the optimizers remember, as whole tensors: "<optimizer>.<parameter>.<name>" -> tensor.

    Where the model is spread over processes, each has to call this; keep is for those that save it.
    """
    found: Tensors = {}
    for which, optimizer in enumerate(optimizers):
        for number, memory in optimizer.state_dict()["state"].items():
            for name, tensor in memory.items():
                whole = tensor.full_tensor().cpu() if isinstance(tensor, DTensor) else tensor
                if keep:
                    found[f"{which}.{number}.{name}"] = whole
    return found


def _restore(optimizers: Optimizers, tensors: Tensors) -> None:
    for which, optimizer in enumerate(optimizers):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        state: dict[int, Tensors] = {}
        for key, tensor in tensors.items():
            owner, number, name = key.split(".", 2)
            if int(owner) == which:
                part = _part_like(parameters[int(number)], tensor)
                state.setdefault(int(number), {})[name] = part
        # The groups (learning rates and so on) follow from the config; only memory is restored.
        groups = optimizer.state_dict()["param_groups"]
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def _part_like(parameter: Tensor, tensor: Tensor) -> Tensor:
    """This process's part of a tensor, if it is spread over processes as its parameter is."""
    if not isinstance(parameter, DTensor) or tensor.ndim == 0:  # a count of steps is everyone's
        return tensor
    return distribute_tensor(
        tensor.to(parameter.device), parameter.device_mesh, parameter.placements
    )


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
