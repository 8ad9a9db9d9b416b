"""The training loop: one for every task and algorithm, over whatever accelerate drives."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelerate import Accelerator
from tqdm import tqdm

from textrl.config.train import TrainConfig
from textrl.data.batches import Batches
from textrl.data.prefetch import Prefetch
from textrl.data.progress import progress_bar
from textrl.hindsight.survey import Survey
from textrl.model.network import TextRLModel
from textrl.training.interruption import Interruption
from textrl.training.learner import Learner, Loss
from textrl.training.metrics import METRICS_FILE, MetricsLog
from textrl.training.state import TrainingState, save_state

# What the progress bar has room for; the metrics file has everything.
SHOWN = (
    *("total", "policy", "q", "v", "conservative", "mean_q", "bisimulation", "query_reward"),
    "tokens_per_second",
)
COLLAPSED = 0.01
"""A spread of the representations below this share of their norm: they have become one point."""


@dataclass(frozen=True)
class Hooks:
    """What the loop asks for besides training.

    evaluate: plays the model, gives scores (higher is better; the first decides what is best).
    export: writes the model as a checkpoint folder for people. publish: called after each save but
    the last, when the folder is as others may see it.
    """

    evaluate: Callable[[TextRLModel], dict[str, float]]
    export: Callable[[TextRLModel, Path], None]
    publish: Callable[[], None] = lambda: None


def train_loop(
    run: TrainConfig,
    accelerator: Accelerator,
    model: TextRLModel,
    loss: Loss,
    batches: Batches,
    hooks: Hooks,
    output: Path,
    surveys: Sequence[Survey] = (),
) -> TrainingState:
    """Train the model and leave it in `output`; goes on from output/state if there is one.

    surveys: of each task's data, where the run asks queries about them.
    A first Ctrl-C saves and then raises KeyboardInterrupt; a second one does not wait for that.
    """
    learner = Learner(run, accelerator, model, loss, surveys)
    state = learner.restore(output / "state") or TrainingState(0, -math.inf, 0.0, 0)
    log = MetricsLog(output / METRICS_FILE, accelerator, resumed=state)
    ahead = Prefetch(batches, run.max_steps, batches.ahead)
    is_quiet = not accelerator.is_main_process
    bar = progress_bar(initial=state.step, total=run.max_steps, unit="step", disable=is_quiet)
    watch = Watchman(state.seconds)
    with contextlib.closing(log), ahead as upcoming, bar, Interruption(accelerator) as interruption:
        for step in range(state.step, run.max_steps):
            with watch.waiting():
                parts = upcoming.step(step)
            norm = learner.step(step, parts, log)
            bar.update()
            done = model.config.steps = step + 1
            is_last = done == run.max_steps or interruption.is_wanted()
            if is_last or done % run.log_every == 0:
                means = log.write(
                    done,
                    watch.seconds,
                    learning_rate=learner.learning_rate,
                    gradient_norm=norm,
                    waiting_for_data=watch.share_of_waiting(),
                )
                show(bar, means, learner)
            evaluates = done == run.max_steps or done % run.evaluate_every == 0
            saves = is_last or done % run.save_every == 0
            whole = learner.whole_model() if evaluates or saves else None
            best_score = state.best_score
            if evaluates:
                if whole is not None:
                    best_score = judge_now(whole, done, best_score, watch, log, bar, hooks, output)
                accelerator.wait_for_everyone()
            state = TrainingState(done, best_score, watch.seconds, log.bytes)
            if saves:
                memory = learner.memory(keep=whole is not None)
                if whole is not None:
                    # In this order: where the last step's state is, its model is as well.
                    hooks.export(whole, output)
                    save_state(output / "state", whole.saved_state(), memory, state)
                    if not is_last:
                        hooks.publish()
                accelerator.wait_for_everyone()
            if is_last and done < run.max_steps:
                raise KeyboardInterrupt
    return state


def judge_now(
    model: TextRLModel,
    step: int,
    best_score: float,
    watch: "Watchman",
    log: MetricsLog,
    bar: tqdm,
    hooks: Hooks,
    output: Path,
) -> float:
    """Evaluate, keep the model if it is the best so far, and give the best score so far."""
    scores = hooks.evaluate(model)
    log.note(step, watch.seconds, scores)
    bar.write(f"step {step}: " + ", ".join(f"{name} {x:.3f}" for name, x in scores.items()))
    score = next(iter(scores.values()))
    if score > best_score:
        hooks.export(model, output / "best")
    return max(score, best_score)


def show(bar: tqdm, means: dict[str, float], learner: Learner) -> None:
    """What the bar has room for, and a warning, once, where the representations collapse."""
    room = [name for name in SHOWN if name in means]
    room += [name for name in means if name.endswith("/total")]  # of each task
    bar.set_postfix({name: f"{means[name]:.4g}" for name in room}, refresh=False)
    if has_collapsed(means) and not learner.has_warned:
        learner.has_warned = True
        bar.write(
            "warning: the representations have collapsed (embedding_spread in"
            f" {METRICS_FILE}): lower --bisim, or try --bisim-inverse 1"
        )


def has_collapsed(means: dict[str, float]) -> bool:
    """Whether representations (of a task) have become nearly one point, if these metrics tell."""
    spreads = [name for name in means if name.endswith("embedding_spread")]
    return any(
        means[name] <= COLLAPSED * means[name.replace("_spread", "_norm")] for name in spreads
    )


class Watchman:
    """How long a run takes, and how much of that it waits for data."""

    def __init__(self, seconds: float) -> None:
        """seconds: of training before."""
        self._began = time.perf_counter() - seconds
        self._waited, self._asked = 0.0, time.perf_counter()

    @property
    def seconds(self) -> float:
        """Of training so far, earlier parts of the run included."""
        return time.perf_counter() - self._began

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """What is done in here counts as waiting."""
        began = time.perf_counter()
        yield
        self._waited += time.perf_counter() - began

    def share_of_waiting(self) -> float:
        """Since this was asked last."""
        now = time.perf_counter()
        share = self._waited / (now - self._asked)
        self._waited, self._asked = 0.0, now
        return share
