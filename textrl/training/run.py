"""A training run from its settings to its report: tasks -> data -> model -> train -> judge."""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import torch
import transformers
from accelerate import Accelerator, DistributedType
from accelerate.utils import DistributedDataParallelKwargs, broadcast_object_list, set_seed
from filelock import FileLock, Timeout
from tqdm import tqdm
from transformers.utils import CONFIG_NAME

from textrl.config.presets import flat_settings, output_folder, save_config
from textrl.config.train import CONFIG_FILE, NEW_BACKBONES, TrainConfig
from textrl.errors import UserError
from textrl.evaluation.judge import Watch
from textrl.hindsight.survey import surveys_of
from textrl.model.build import new_model
from textrl.model.config import TextRLConfig
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import WEIGHTS_FILE, load_model, save_checkpoint
from textrl.sharing.publish import (
    evaluate_checkpoint,
    open_checkpoint_repo,
    publish_checkpoint,
    push_checkpoint,
)
from textrl.tasks.members import Members
from textrl.tasks.task import Share
from textrl.training.learner import make_loss, parameters_to_train
from textrl.training.loop import Hooks, train_loop
from textrl.training.units import value_units

LOCK_FILE = ".lock"
ENCODER = ("backbone.", "frames.", "representation.")
"""The weights between the history and what the heads read."""


def train(run: TrainConfig) -> Path:
    """Train an agent as the settings say; gives the folder that it is in. See textrl.configure."""
    output = output_folder(run)
    transformers.utils.logging.disable_progress_bar()
    check_tracker(run.tracker)
    accelerator = start(run, output)
    if accelerator.is_main_process:
        refuse_taken(output, run.resume)
        if run.push_to_hub:
            open_checkpoint_repo(run.push_to_hub, run.private)

    members = Members.of_run(run)
    share = Share(accelerator.process_index, accelerator.num_processes)
    with accelerator.main_process_first():
        batches, episodes = members.batches(run, share)
    for task in members.tasks.values():
        if accelerator.is_main_process and (told := task.before_training()):
            print(told)

    begun = TextRLConfig.from_pretrained(output) if (output / CONFIG_NAME).is_file() else None
    units = value_units(members, run, begun)
    set_seed(run.seed)
    model = new_model(members, run, units)
    agree_on_precision(model, begun)
    if run.representation.checkpoint:
        take_encoder(model, run.representation.checkpoint)
    surveys = surveys_of(members, run) if run.asks else []
    if accelerator.is_main_process:
        output.mkdir(parents=True, exist_ok=True)
        save_config(run, output / CONFIG_FILE)
    accelerator.print(describe(run, model, episodes))
    if run.tracker != "none":
        accelerator.init_trackers("textrl", config=flat_settings(run))
    hooks = Hooks(
        evaluate=Watch(members, run),
        export=lambda model, folder: save_checkpoint(folder, model, members, run),
        publish=partial(publish_on_the_way, output, model, members, run),
    )
    with claimed(output, accelerator.is_main_process):
        try:
            loss = make_loss(run, units)
            state = train_loop(run, accelerator, model, loss, batches, hooks, output, surveys)
        except KeyboardInterrupt:
            if accelerator.is_main_process and (output / WEIGHTS_FILE).is_file():
                print(
                    f"\nsaved in {output}: the same command with --resume continues",
                    file=sys.stderr,
                )
            raise
    accelerator.print(
        f"{state.step} steps in {state.seconds / 60:.1f} minutes -> {output / WEIGHTS_FILE}"
    )
    part(accelerator)
    if accelerator.is_main_process:
        is_whole = accelerator.distributed_type != DistributedType.FSDP
        # Where the model in memory is in pieces, the others have left with theirs.
        trained = model if is_whole else load_model(str(output)).to(accelerator.device)
        report(run, output, members, trained)
    return output


@contextlib.contextmanager
def claimed(output: Path, is_main: bool) -> Iterator[None]:
    """Keep a second run out of the folder: two would write over each other.

    Such as one whose parent was killed, and that goes on alone.
    """
    if not is_main:
        yield
        return
    lock = FileLock(output / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"another process is training in {str(output)!r}: wait for it, or end it first"
        ) from None
    try:
        yield
    finally:
        lock.release()


def take_encoder(model: TextRLModel, name: str) -> None:
    """Begin with the encoder of a checkpoint: what reads the history, up to the representation."""
    weights, found = model.state_dict(), load_model(name).state_dict()
    parts = [each for each in weights if each.startswith(ENCODER)]
    for part in parts:
        if part not in found or found[part].shape != weights[part].shape:
            raise UserError(
                f"--represent {name}: its encoder is of another shape or another task's, see {part}"
            )
    model.load_state_dict({**weights, **{part: found[part] for part in parts}})
    model.update_targets(rate=1.0)


def start(run: TrainConfig, output: Path) -> Accelerator:
    """What accelerate drives: this process and its peers, if it was started with some."""
    # Most steps leave the bisimulation loss's models out where they compare no histories, if there
    # are such models; and of several tasks, each leaves out what is the others'.
    has_world = run.backbone in NEW_BACKBONES or run.bisimulation.is_trained
    leaves_out = len(run.members) > 1 or (has_world and run.bisimulation.compares_every > 1)
    # While the encoder is frozen, and what answers queries afterwards.
    leaves_out = leaves_out or bool(run.representation.source) or run.asks
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=leaves_out)],
        log_with=None if run.tracker == "none" else run.tracker,
        project_dir=str(output),
    )
    # accelerate and torchrun leave a process one thread unless told otherwise.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    torch.set_num_threads(run.threads or max(1, (cores or 1) // accelerator.num_processes))
    be_deterministic(run.deterministic, accelerator.device)
    return accelerator


def agree_on_precision(model: TextRLModel, begun: TextRLConfig | None) -> None:
    """Have all processes read frames in one precision, and a resumed run in that of its beginning.

    Where it is chosen by a measurement, two of these may come out differently. begun: the network's
    shape at that beginning.
    """
    if model.config.frame_shape is not None:
        precision = (begun or model.config).frame_precision
        model.read_frames_in(broadcast_object_list([precision])[0])


def part(accelerator: Accelerator) -> None:
    """Let the processes of a run go their ways; what the main one still does, it does alone."""
    if torch.distributed.is_initialized():
        # Nobody ends the group while another may still need it; and left to the interpreter's end,
        # gloo's threads were once seen to wait for each other.
        accelerator.wait_for_everyone()
        torch.distributed.destroy_process_group()


def be_deterministic(wanted: bool, device: torch.device) -> None:
    """Have the same command give the same weights.

    With more than one thread, the backward pass of indexing by tensors adds in whatever order the
    threads come, unless torch is told otherwise. What a GPU has no such way for, it warns about.
    """
    torch.use_deterministic_algorithms(wanted, warn_only=device.type != "cpu")
    # It would also fill new memory, which costs time and only shows reads of what nobody wrote.
    # By setattr, since torch puts a property there that type checkers cannot see.
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010
    if wanted and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def check_tracker(name: str) -> None:
    """Refuse a tracker that is not installed."""
    if name != "none" and find_spec(name) is None:
        raise UserError(f"--tracker {name} needs its package: pip install 'offline-textrl[{name}]'")


def report(run: TrainConfig, output: Path, members: Members, model: TextRLModel) -> None:
    """Judge the agent and publish it, as far as that is wanted."""
    if run.final_evaluation:
        print(evaluate_checkpoint(output, members, model).describe(members))
    if run.push_to_hub:
        address = publish_checkpoint(output, run.push_to_hub, members, model.config.steps)
        print(f"published as {address}")


def publish_on_the_way(
    output: Path, model: TextRLModel, members: Members, run: TrainConfig
) -> None:
    """Push what was just saved, if that is wanted; the run waits for it, but outlives a failure."""
    if run.push_to_hub:
        try:
            push_checkpoint(output, run.push_to_hub, members, model.config.steps)
        except UserError as error:
            tqdm.write(f"warning: {error}; training continues", file=sys.stderr)


def refuse_taken(output: Path, resume: bool) -> None:
    """Refuse an output folder that holds another run or anything else."""
    if output.exists() and not output.is_dir():
        raise UserError(f"the output folder {str(output)!r} is a file: choose another --output")
    is_run = (output / CONFIG_FILE).is_file()
    if output.is_dir() and any(output.iterdir()) and not (resume and is_run):
        remedy = "--resume continues its run, or" if is_run else "empty it or"
        raise UserError(f"{str(output)!r} is not empty: {remedy} choose another --output")


def describe(run: TrainConfig, model: TextRLModel, episodes: int) -> str:
    """What is about to be trained, in one line."""
    size = sum(each.batch_size for each in run.sized_members.values())
    return (
        f"{','.join(run.members)}: {run.algorithms} on {episodes:,} episodes, {run.backbone} of"
        f" {model.config.layers} layers x {model.config.width}"
        f" ({parameters_to_train(model) / 1e6:.2f} M parameters to train),"
        f" {run.max_steps:,} steps of {size} episodes,"
        f" {torch.get_num_threads()} threads"
    )
