"""The state that a run resumes from: weights, what the optimizers remember, where it stands.

Only safetensors and JSON: nothing here is ever unpickled.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from textrl.data.files import flush, scratch_folder
from textrl.errors import UserError, first_line
from textrl.model.network import TextRLModel

Optimizers = Sequence[torch.optim.Optimizer]
Tensors = dict[str, Tensor]
STATE_NAMES = "step-" + "[0-9]" * 8
WEIGHTS_FILE, MEMORY_FILE = "model.safetensors", "optimizer.safetensors"


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
            flush(path)
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
