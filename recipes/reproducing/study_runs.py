"""The runs of a study: many in one process, and one line left of each."""

import contextlib
import json
import multiprocessing
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock

from textrl.acting.decoding import Decoding
from textrl.config.command_line import parse_config
from textrl.config.train import TrainConfig
from textrl.data.collect import collect, end_with_parent
from textrl.data.episode import Episode
from textrl.data.progress import progress_bar
from textrl.envs.gridworld.behaviour import CHUNK_EPISODES, chunk_sizes, walk_chunk
from textrl.envs.gridworld.task import GridworldTask
from textrl.errors import UserError
from textrl.evaluation.play import evaluate
from textrl.model.network import TextRLModel
from textrl.recipes.reproducing.given import give_summary
from textrl.recipes.reproducing.studies import SUMMARY_STEPS, Play, StudyRun
from textrl.recipes.reproducing.study_record import add
from textrl.sharing.checkpoint import load_agent
from textrl.tasks.members import Members
from textrl.tasks.task import Task
from textrl.training.metrics import METRICS_FILE
from textrl.training.run import train


def train_runs(runs: Sequence[StudyRun], jobs: int, record: Path) -> None:
    """Train the runs, several at once, in this order; each is in the record when it is done."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, end_with_parent) as pool:
        try:
            done = pool.map(partial(train_one, record=record), runs)
            for _ in progress_bar(iterable=done, total=len(runs), unit="run"):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def train_one(run: StudyRun, record: Path) -> None:
    """Train, judge, write down. What an interrupted run has saved is gone on with."""
    run.folder.mkdir(parents=True, exist_ok=True)
    log = run.folder.with_name(f"{run.folder.name}.log")
    began = time.perf_counter()
    to_stdout, to_stderr = contextlib.redirect_stdout, contextlib.redirect_stderr
    with log.open("w") as file, to_stdout(file), to_stderr(file):
        try:
            found = judge_trained(run)
        except UserError as error:
            raise UserError(f"{run.folder} failed, see {log}: {error}") from None
    seconds = round(time.perf_counter() - began, 1)
    add(record, run, {"made": time.strftime("%Y-%m-%d"), "seconds": seconds, **found})
    shutil.rmtree(run.folder)
    log.unlink()


def judge_trained(run: StudyRun) -> dict[str, Any]:
    """Train a run; gives its return, and the greedy one on the way."""
    data = data_of(run)
    flags = [*run.flags, "--data", str(data), "--threads", "1"]
    if run.summary:
        summary = run.folder / "summary"
        if not summary.is_dir():
            # Its own schedule: --max-steps comes last.
            config = parse_config([*flags, "--max-steps", str(SUMMARY_STEPS)], "", "")
            unfinished = run.folder / "summary.partial"  # what a killed run has left is replaced
            give_summary(run.summary, config, SUMMARY_STEPS, unfinished)
            unfinished.rename(summary)
        flags += ["--represent", str(summary)]
    output = run.folder / "run"
    began = time.perf_counter()
    train(parse_config([*flags, "--output", str(output), "--resume"], "", ""))
    trained = time.perf_counter() - began
    lines = [json.loads(line) for line in (output / METRICS_FILE).read_text().splitlines()]
    model, task = load_agent(str(output))
    variants = {
        name: played(each, model, run.play, run.seed) for name, each in task.variants().items()
    }
    return {
        **played(task, model, run.play, run.seed),
        "episodes": run.play.episodes,
        "curve": {str(line["step"]): line["greedy"] for line in lines if "greedy" in line},
        "seconds_of_training": round(trained, 1),
        **({"variants": variants} if variants else {}),
    }


def played(task: Task, model: TextRLModel, play: Play, seed: int) -> dict[str, Any]:
    """How an agent plays."""
    result = evaluate(task, model, Decoding.of(model, play.sample), play.episodes, seed)
    return {"mean": result.estimate.mean, "stderr": result.estimate.stderr, **result.metrics}


def data_of(run: StudyRun) -> Path:
    """The data of a run, made first if need be: fewer episodes are the first of more."""
    config = parse_config(run.flags, "", "")
    folder = run.base / "data" / f"{run.episodes}-{run.size}-seed{run.data_seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            make_data(config, run.episodes, run.data_seed, folder)
    return folder


def make_data(config: TrainConfig, episodes: int, seed: int, folder: Path) -> None:
    """As the task collects them but for where it cuts: fewer episodes are the first of more."""
    _, task = Members.of_run(config).one()
    if not isinstance(task, GridworldTask):
        task.collect(episodes, seed, folder, workers=1)
        return
    sizes = chunk_sizes(episodes)
    make = partial(first_walks, task, sizes, seed)
    origin = {"episodes": episodes, "seed": seed, "nested": True}
    collect(make, len(sizes), folder, task, origin, workers=1)


def first_walks(task: GridworldTask, sizes: list[int], seed: int, chunk: int) -> Iterator[Episode]:
    """The first episodes of a whole chunk."""
    walks = walk_chunk(task.rules, chunk, CHUNK_EPISODES, seed)
    return islice(task.episodes(walks), sizes[chunk])
