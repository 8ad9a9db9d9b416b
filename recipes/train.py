"""Train an agent: parse -> task -> data -> model -> train -> report."""

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import transformers
from accelerate import Accelerator, DistributedType
from accelerate.utils import DistributedDataParallelKwargs, set_seed
from datasets import Dataset
from numpy.typing import NDArray
from tqdm import tqdm

from envs.tasks import make_task
from textrl.algorithms import ALGORITHMS, heads_of, make_loss
from textrl.batches import Batches
from textrl.build import new_model
from textrl.checkpoint import (
    TASK_FILE,
    WEIGHTS_FILE,
    check_same_task,
    load_model,
    save_checkpoint,
)
from textrl.checks import check_episodes
from textrl.combined import (
    CombinedBatches,
    CombinedTask,
    RunTask,
    new_combined_model,
    quick_scores_of_games,
)
from textrl.combined_config import (
    CombinedConfig,
    algorithms_of,
    flat_settings,
    parse_run_config,
    save_run_config,
)
from textrl.config import CONFIG_FILE, NEW_BACKBONES, TrainConfig
from textrl.dataset import best_episodes, load_episodes, returns_by_behaviour
from textrl.errors import UserError, run_recipe
from textrl.evaluation import quick_scores
from textrl.hub import fetch
from textrl.model import TextRLModel
from textrl.publish import (
    evaluate_checkpoint,
    how_to_go_on,
    open_checkpoint_repo,
    push_checkpoint,
)
from textrl.settings import output_folder
from textrl.task import LoggedTask, Task
from textrl.trainer import train
from textrl.windows import make_batches

PRESETS = Path(__file__).parent / "configs"
DATA_SEED = 0  # runs of different seeds learn from the same default data
EXAMPLE = "accelerate launch recipes/train.py --task wordle --algo ilql --output runs/wordle"


def main() -> None:
    """Parse the command line and run."""
    config = parse_run_config(None, PRESETS, "Train an agent from logged episodes.", EXAMPLE)
    output = output_folder(config.output, config.task)
    transformers.utils.logging.disable_progress_bar()
    if config.tracker != "none" and find_spec(config.tracker) is None:
        name = config.tracker
        raise UserError(f"--tracker {name} needs its package: pip install 'textrl[{name}]'")
    # Most steps leave the bisimulation loss's models out where they compare no histories, if there
    # are such models; and of several tasks, each leaves out what is the others'.
    is_combined = isinstance(config, CombinedConfig)
    has_world = config.backbone in NEW_BACKBONES or config.trains_bisimulation
    leaves_out = is_combined or (has_world and config.compares_every > 1)
    accelerator = Accelerator(
        cpu=not torch.accelerator.is_available(),
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=leaves_out)],
        log_with=None if config.tracker == "none" else config.tracker,
        project_dir=str(output),
    )
    # accelerate and torchrun leave a process one thread unless told otherwise.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    torch.set_num_threads(config.threads or max(1, (cores or 1) // accelerator.num_processes))
    if accelerator.is_main_process:
        refuse_taken(output, config.resume)
        if config.push_to_hub:
            open_checkpoint_repo(config.push_to_hub, config.private)

    task = make_task(config)
    share = (accelerator.process_index, accelerator.num_processes)
    with accelerator.main_process_first():
        batches, episodes = batches_of(task, config, *share)
    if accelerator.is_main_process and isinstance(task, LoggedTask):
        print(task.describe_data())

    set_seed(config.seed)
    if is_combined:
        model = new_combined_model(task, config)
    else:
        model = new_model(task, config, *heads_of(config))
    scores = partial(quick_scores, task, config)
    if is_combined:
        scores = partial(quick_scores_of_games, task, config, data_returns(task, config))
    if accelerator.is_main_process:
        output.mkdir(parents=True, exist_ok=True)
        save_run_config(config, output / CONFIG_FILE)
    accelerator.print(describe(config, model, episodes))
    if config.tracker != "none":
        accelerator.init_trackers("textrl", config=flat_settings(config))
    state = train(
        config,
        accelerator,
        model,
        make_loss(config),
        batches,
        evaluate=scores,
        export=lambda model, folder: save_checkpoint(folder, model, task, config),
        output=output,
        publish=partial(publish_on_the_way, output, model, task, config),
    )
    accelerator.print(
        f"{state.step} steps in {state.seconds / 60:.1f} minutes -> {output / WEIGHTS_FILE}"
    )
    if not accelerator.is_main_process:
        return
    if config.final_evaluation:
        is_whole = accelerator.distributed_type != DistributedType.FSDP
        # Where the model in memory is in pieces, the other processes have left with theirs.
        trained = model if is_whole else load_model(str(output))[0].to(accelerator.device)
        print(evaluate_checkpoint(output, task, trained).describe(task))
    if config.push_to_hub:
        try:
            print(f"published as {push_checkpoint(output, config.push_to_hub, task, state.step)}")
        except UserError as error:
            raise UserError(f"{error}; {how_to_go_on(output, config.push_to_hub)}") from error


def rows_of(task: Task, config: TrainConfig) -> Dataset:
    """The episodes that a game is learned from: those that were given, or its own."""
    if not config.data:
        return task.default_dataset(config.episodes, DATA_SEED)
    rows = load_episodes(config.data)
    check_same_task(fetch(config.data, "dataset", [TASK_FILE]), task)
    return rows


def batches_of(
    task: RunTask, config: TrainConfig, process: int, processes: int
) -> tuple[Batches, int]:
    """A process's share of a task's batches, and of how many episodes they are."""
    if isinstance(task, CombinedTask):
        return combined_batches_of(task, config, process, processes)
    best_only = ALGORITHMS[config.algo].filters_episodes
    if isinstance(task, LoggedTask):
        return task.batches(config, best_only, process, processes)
    rows = rows_of(task, config)
    longest = None if config.window else config.context
    check_episodes(rows, task.language, longest, task.observation_classes)
    keep = best_episodes(rows, config.keep_top) if best_only else None
    batches = make_batches(rows, task, config, keep, process, processes)
    return batches, len(rows) if keep is None else len(keep)


def combined_batches_of(
    task: CombinedTask, config: CombinedConfig, process: int, processes: int
) -> tuple[Batches, int]:
    """The same of several tasks."""
    found = [
        batches_of(task.tasks[name], member, process, processes)
        for name, member in config.sized_members().items()
    ]
    batches, episodes = zip(*found, strict=True)
    return CombinedBatches(batches, list(config.proportions.values())), sum(episodes)


def data_returns(task: CombinedTask, config: CombinedConfig) -> dict[str, NDArray[np.float32]]:
    """The returns of each task's data, which its scores are compared with."""
    return {
        name: np.concatenate(
            list(returns_by_behaviour(rows_of(each, config.members[name])).values())
        )
        for name, each in task.tasks.items()
    }


def publish_on_the_way(
    output: Path, model: TextRLModel, task: RunTask, config: TrainConfig
) -> None:
    """Push what was just saved, if that is wanted; the run waits for it, but outlives a failure."""
    if config.push_to_hub:
        try:
            push_checkpoint(output, config.push_to_hub, task, model.config.steps)
        except UserError as error:
            tqdm.write(f"warning: {error}; training goes on", file=sys.stderr)


def refuse_taken(output: Path, resume: bool) -> None:
    """Refuse an output folder that holds another run or anything else."""
    if output.exists() and not output.is_dir():
        raise UserError(f"the output folder {str(output)!r} is a file: choose another --output")
    is_run = (output / CONFIG_FILE).is_file()
    if output.is_dir() and any(output.iterdir()) and not (resume and is_run):
        remedy = "--resume goes on with its run, or" if is_run else "empty it or"
        raise UserError(f"{str(output)!r} is not empty: {remedy} choose another --output")


def describe(config: TrainConfig, model: TextRLModel, episodes: int) -> str:
    """What is about to be trained, in one line."""
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    members = config.sized_members().values() if isinstance(config, CombinedConfig) else [config]
    return (
        f"{config.task}: {algorithms_of(config)} on {episodes:,} episodes, {config.backbone} of"
        f" {model.config.layers} layers x {model.config.width}"
        f" ({parameters / 1e6:.2f} M parameters to train),"
        f" {config.max_steps:,} steps of {sum(each.batch_size for each in members)} episodes,"
        f" {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    run_recipe(main)
