"""How far off-policy estimates can be trusted: estimates against scores, where both can be had."""

import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from accelerate.utils import set_seed

from textrl.acting.decoding import Decoding
from textrl.config.presets import configure
from textrl.data.batches import read_rows
from textrl.data.files import scratch_folder
from textrl.evaluation.ope import Candidate, Evaluator, Logs
from textrl.evaluation.play import evaluate
from textrl.evaluation.report import table, write_json
from textrl.model.build import new_model
from textrl.model.network import TextRLModel
from textrl.recipes.reproducing.experiments import OPE
from textrl.recipes.reproducing.figures import new_figure, save
from textrl.recipes.reproducing.runs import machine
from textrl.tasks.members import Members
from textrl.training.learner import make_loss
from textrl.training.loop import Hooks, train_loop
from textrl.training.units import value_units

COOL = 0.5  # a temperature below that of training
OTHERS = 1_000  # added to the seed of the episodes to estimate from: none was trained on


@dataclass(frozen=True)
class Training:
    """One short run: at which steps a policy is kept of it, and how that acts."""

    steps: tuple[int, ...]
    betas: tuple[float, ...] = (1.0,)
    """When it samples."""
    greedy: tuple[float, ...] = ()
    """When it does not."""
    cool: tuple[float, ...] = ()
    """When it samples at half the temperature."""

    @property
    def decodings(self) -> list[Decoding]:
        """All of them."""
        ways = [Decoding(beta, sample=True) for beta in self.betas]
        ways += [Decoding(beta, sample=False) for beta in self.greedy]
        return ways + [Decoding(beta, sample=True, temperature=COOL) for beta in self.cool]


@dataclass(frozen=True)
class Study:
    """What is calibrated on one task."""

    settings: Mapping[str, Any]
    """Of every run, over the quick preset."""
    trainings: Mapping[str, Training]
    """By algorithm; the last one's last policy imitates the data. Values are fitted on the
    representation of whichever has some."""
    fit: int
    """Episodes that values are fitted on."""
    judge: int
    """Episodes that estimates are corrected on."""
    play: int
    """Episodes played for the truth."""
    reader: tuple[str, int] | None = None
    """Algorithm and steps of one more run, which is not judged: values are fitted on its
    representation, and its policy may stand for who was logged. Where actions are many, an imitator
    of few steps is as careless as the policies that are judged, and finds them close to the data.
    """


STUDIES = {
    "gridworld": Study(
        {"evaluate_every": 50},
        {
            "cql": Training((100, 250, 500), (3.0, 10.0, 30.0, 100.0), (100.0,)),
            "filtered-bc": Training((100, 300)),
            "bc": Training((50, 100, 300), greedy=(1.0,), cool=(0.5,)),
        },
        fit=600,
        judge=400,
        play=400,
    ),
    "twenty": Study(
        {"evaluate_every": 50, "batch_size": 16, "episodes": 20_000},
        {
            "bc": Training((100, 300), greedy=(1.0,), cool=(0.5,)),
            "ilql": Training((100, 300, 600), (0.0, 1.0, 4.0, 16.0), (4.0,), cool=(0.0,)),
        },
        fit=400,
        judge=250,
        play=160,
        reader=("ilql", 3_000),
    ),
    "wordle": Study(
        {"evaluate_every": 50, "batch_size": 32, "episodes": 40_000},
        {
            "bc": Training((100, 300), greedy=(1.0,), cool=(0.5,)),
            "ilql": Training((150, 400, 800), (0.0, 4.0, 16.0, 64.0), (64.0,), cool=(0.0,)),
        },
        fit=700,
        judge=400,
        play=236,
        reader=("ilql", 3_000),
    ),
}


def calibrate(runs: Path, output: Path, only_plan: bool, only_finished: bool) -> None:
    """Calibrate on each task that is not done yet; writes ope.json and its figure."""
    folder = runs / OPE
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.json" for name in STUDIES}
    left = [name for name, file in files.items() if not file.is_file()]
    print(f"{OPE}: {len(files) - len(left)} of {len(files)} tasks are done")
    if only_plan:
        print("\n".join(f"  {name}" for name in left))
        return
    for name in left if not only_finished else ():
        write_json(files[name], study(name, STUDIES[name], folder / name))
    if any(file.is_file() for file in files.values()):
        collect(files, output)


def collect(files: Mapping[str, Path], output: Path) -> None:
    """Write what the tasks gave as one file and one figure."""
    tasks = {name: json.loads(f.read_text()) for name, f in files.items() if f.is_file()}
    results = {"tasks": tasks, "machine": machine(), "made": time.strftime("%Y-%m-%d")}
    write_json(output / f"{OPE}.json", results)
    rows = [
        [
            name,
            str(each["policies"]),
            f"{each['rank_correlation']:.2f}",
            f"{each['coverage_95']:.0%}",
            f"{each['mean_error']:.3f}",
            f"{each['selection_regret']:.3f}",
        ]
        for name, each in tasks.items()
    ]
    header = ["task", "policies", "rank correlation", "coverage", "mean error", "regret"]
    print(table(header, rows))
    print(f"-> {draw(tasks, output / f'{OPE}.png')}")


def study(name: str, plan: Study, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Train, estimate and play; gives what results/ope.json has of a task.

    What is in the folder already is not made again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = configure(name, "quick", algo=next(iter(plan.trainings)), **plan.settings)
    task = Members.of_run(run).one()[1]
    snapshots = {
        algo: snapshots_of(name, algo, plan, each, seed, folder)
        for algo, each in plan.trainings.items()
    }
    last = {algo: found[max(found)] for algo, found in snapshots.items()}
    encoder = next(model for model in last.values() if "q" in model.config.heads)
    *_, imitator = last.values()
    if plan.reader is not None:
        algo, steps = plan.reader
        encoder = imitator = snapshots_of(name, algo, plan, Training((steps,)), seed, folder)[steps]
    evaluator = Evaluator(logs_of(task, plan, seed), encoder, [imitator])
    noted = folder / "policies.jsonl"
    lines = noted.read_text().splitlines() if noted.is_file() else []
    done = {(each["algo"], each["steps"], *each["way"]): each for each in map(json.loads, lines)}
    for algo, training in plan.trainings.items():
        for step, model in snapshots[algo].items():
            for way in training.decodings:
                key = (algo, step, way.beta, way.sample, way.temperature)
                if key in done:
                    continue
                decoding = replace(way, acts_by=model.config.acts_by)
                done[key] = {
                    **{"algo": algo, "steps": step, "way": key[2:]},
                    **compared(task, model, decoding, evaluator, plan, seed),
                }
                with noted.open("a") as file:
                    file.write(json.dumps(done[key]) + "\n")
                print(f"{name} {done[key]}", flush=True)
    policies = list(done.values())
    return {
        **summed_up(policies),
        "data": evaluator.earned.to_json(),
        "fit_episodes": plan.fit,
        "judged_by": plan.judge,
        "played": plan.play,
        "seed": seed,
        "minutes": sum(each["seconds"] for each in policies) / 60,
        "each": policies,
    }


def snapshots_of(
    name: str, algo: str, plan: Study, training: Training, seed: int, folder: Path
) -> dict[int, TextRLModel]:
    """The model at some steps of a short run, which is made unless it is in the folder."""
    places = {step: folder / f"{algo}-{step}" for step in training.steps}
    if not all(place.is_dir() for place in places.values()):
        train_snapshots(name, algo, plan, places, seed)
    return {k: TextRLModel.from_pretrained(place).train(False) for k, place in places.items()}


def train_snapshots(
    name: str, algo: str, plan: Study, places: Mapping[int, Path], seed: int
) -> None:
    """One short run, whose model is saved on the way."""
    steps = max(places)
    more = {**plan.settings, "max_steps": steps, "save_every": steps, "warmup_steps": 20}
    run = configure(name, "quick", algo=algo, seed=seed, threads=1, **more)
    members = Members.of_run(run)
    batches, _ = members.batches(run)

    def keep(model: TextRLModel) -> dict[str, float]:
        if (step := model.config.steps) in places and not places[step].is_dir():
            with scratch_folder(places[step]) as scratch:
                model.save_pretrained(scratch)
                scratch.rename(places[step])
        return {"steps": float(step)}

    with tempfile.TemporaryDirectory() as scratch:
        units = value_units(members, run)
        set_seed(seed)
        model = new_model(members, run, units)
        hooks = Hooks(evaluate=keep, export=lambda model, folder: None)
        loss = make_loss(run, units)
        train_loop(run, Accelerator(cpu=True), model, loss, batches, hooks, Path(scratch))


def logs_of(task: Any, plan: Study, seed: int) -> Logs:
    """Episodes that nothing was trained on: some to fit on, others to judge by."""
    rows = task.default_dataset(plan.fit + plan.judge, OTHERS + seed)
    fit, judge = (read_rows(rows, part) for part in np.split(np.arange(len(rows)), [plan.fit]))
    return Logs(fit, judge, np.arange(plan.judge), task.language, True)


def compared(
    task: Any, model: TextRLModel, decoding: Decoding, evaluator: Evaluator, plan: Study, seed: int
) -> dict[str, Any]:
    """A policy's score as played, and as estimated without playing."""
    began = time.process_time()
    played = evaluate(task, model, decoding, plan.play, seed).estimate
    found = evaluator.estimate(Candidate("", model, decoding))
    return {
        "played": played.mean,
        "played_stderr": played.stderr,
        "likelihood": evaluator.likelihood(model),
        **found.to_json(),
        "seconds": time.process_time() - began,
    }


def summed_up(policies: list[dict[str, Any]]) -> dict[str, Any]:
    """How well the estimates rank policies, how far they are off, what choosing by them costs."""
    truth = np.array([each["played"] for each in policies])
    noise = np.array([each["played_stderr"] for each in policies])
    near = np.array([not each["too_far"] for each in policies])
    found: dict[str, Any] = {"policies": len(policies)}
    by_estimator = {}
    for name in ("doubly_robust", "fitted_q", "weighted_importance_sampling"):
        means = np.array([each[name]["mean"] for each in policies])
        low, high = np.array([each[name]["interval_95"] for each in policies]).T
        # The played score is uncertain too: the interval is as wide as that of the difference.
        is_covered = (low - 1.96 * noise <= truth) & (truth <= high + 1.96 * noise)
        by_estimator[name] = {
            "rank_correlation": spearman(means, truth),
            "coverage_95": float(is_covered.mean()),
            "mean_error": float(np.abs(means - truth).mean()),
            "selection_regret": float(truth.max() - truth[means.argmax()]),
            # Of the policies that a verdict would speak of.
            "told": {
                "policies": int(near.sum()),
                "coverage_95": float(is_covered[near].mean()) if near.any() else None,
                "mean_error": float(np.abs(means - truth)[near].mean()) if near.any() else None,
            },
        }
    said = np.array([each["likelihood"] for each in policies], dtype=float)
    likeliest = truth[said == np.nanmax(said)] if np.isfinite(said).any() else None
    return {
        **found,
        **by_estimator["doubly_robust"],
        "estimators": by_estimator,
        "likelihood_regret": None if likeliest is None else float(truth.max() - likeliest.mean()),
        "spread_of_scores": [float(truth.min()), float(truth.max())],
    }


def spearman(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The correlation of ranks, equal values sharing theirs."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
        after = np.cumsum(counts)
        return np.asarray((after - (counts - 1) / 2)[place], dtype=float)

    return float(np.corrcoef(ranks(ours), ranks(theirs))[0, 1])


def draw(tasks: Mapping[str, Any], path: Path) -> Path:
    """Estimated against played, one panel a task."""
    figure, _ = new_figure(width=3.6 * len(tasks))
    figure.clf()
    for axes, (name, found) in zip(
        figure.subplots(1, len(tasks), squeeze=False)[0], tasks.items(), strict=True
    ):
        for algo in dict.fromkeys(each["algo"] for each in found["each"]):
            points = [each for each in found["each"] if each["algo"] == algo]
            played = [each["played"] for each in points]
            means = [each["doubly_robust"]["mean"] for each in points]
            low, high = np.array([each["doubly_robust"]["interval_95"] for each in points]).T
            spread = [np.maximum(means - low, 0), np.maximum(high - means, 0)]
            axes.errorbar(played, means, spread, fmt="o", ms=4, lw=0.8, alpha=0.7, label=algo)
        low, high = found["spread_of_scores"]
        axes.plot([low, high], [low, high], color="0.5", linestyle=":", linewidth=1)
        axes.axhline(found["data"]["mean"], color="0.8", linewidth=1, zorder=0)
        title = f"{name}: rank correlation {found['rank_correlation']:.2f}"
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="played", ylabel="estimated (doubly robust)")
        axes.legend(frameon=False, fontsize=8)
    return save(figure, path)
