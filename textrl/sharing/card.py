"""The README.md of a checkpoint on the Hub, for a stranger who finds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from textrl.algorithms.algorithm import Algorithm
from textrl.config.hub_names import is_hub_name
from textrl.config.registry import ALGORITHMS, find
from textrl.config.train import NEW_BACKBONES, TrainConfig
from textrl.evaluation.offline import MEANINGS
from textrl.evaluation.report import NORMAL_95
from textrl.tasks.members import Members
from textrl.tasks.task import AnyTask, LoggedTask, Task

Report = Mapping[str, Any]
"""What evaluation.json holds of one task."""

UNPUBLISHED = "path/to/this/folder"
"""What a card calls a checkpoint that is not on the Hub: where it lies is its owner's business."""
NOT_YET = "Not evaluated yet: `textrl evaluate` does it.\n"
USAGE = """\
    textrl evaluate NAME    # scores beside those of reference players
    textrl play NAME        # play against it, where its task has two players

```python
from textrl import Decoding, Policy, load_agent, play

model, task = load_agent(AGENT)
policy = Policy(model, task.language, Decoding.of(model, sample=False), seed=0)
played = play(task, policy, episodes=20, seed=0)
print(played.scores.mean())
```
"""
LOGGED_USAGE = """\
    textrl evaluate NAME --data FILE    # what it says of other conversations
    textrl play NAME                    # talk with it

```python
from textrl import judge, load_agent

model, task = load_agent(AGENT)
print(judge(task.with_data("FILE"), model).describe(task))
```
"""
LIMITS = """\
- It plays with the settings in `task.json` and understands no other tokens.
- This is one run with one seed. Intervals are over episodes, not over training runs.
- Its scores are of the simulated task, with the decoding that the table names.
"""
LOGGED_LIMITS = """\
- The figures tell how well it predicts logged episodes and their returns. Nobody has played it:
  they do not tell what its own turns would earn.
- This is one run with one seed.
"""


@dataclass(frozen=True)
class Words:
    """What a card says of agents of one kind of task."""

    title: str
    usage: str
    limits: str


@singledispatch
def words_for(task: AnyTask) -> Words:
    """What the card says of how to use such an agent, and of what it is not."""
    raise NotImplementedError


@words_for.register
def _(task: Task) -> Words:
    return Words("Load and play it", USAGE, LIMITS)


@words_for.register
def _(task: LoggedTask) -> Words:
    return Words("Load it", LOGGED_USAGE, LOGGED_LIMITS)


@singledispatch
def results_of(task: AnyTask, report: Report) -> str:
    """How the agent does in a task, as a table."""
    raise NotImplementedError


@singledispatch
def index_of(task: AnyTask, report: Report) -> list[EvalResult]:
    """The same for the card's model-index, by which the Hub shows and compares results."""
    raise NotImplementedError


def model_card(
    run: TrainConfig,
    members: Members,
    steps: int,
    name: str = UNPUBLISHED,
    report: Report | None = None,
    figures: Sequence[str] = (),
) -> str:
    """What it plays, how it was trained and how well it does, how to use it, where it ends.

    steps: how many of run.max_steps it has been trained. name: its name on the Hub.
    """
    reports = _by_task(members, report) if report else {}
    words = words_for(next(iter(members.tasks.values())))
    steps_of = f"{steps:,} of {run.max_steps:,}" if steps < run.max_steps else f"{steps:,}"
    pictures = "".join(f"![{Path(figure).stem}]({figure})\n\n" for figure in figures)
    return f"""---
{_metadata(run, members, name, reports).to_yaml()}
---

# {members.name}: {run.algorithms}

{members.summary()}

This agent learned offline, from logged episodes alone, by {_algorithm(run)}, with textrl:
{_backbone(run)} reads the history as tokens,
and heads on it choose the next action token.

## Results

{_results(members, reports) if reports else NOT_YET}
{pictures}
## {words.title}

With textrl installed (`pip install offline-textrl`):

{words.usage.replace("AGENT", _agent(name, members)).replace("NAME", name)}
`TextRLModel.from_pretrained("{name}")` (from `textrl`) gives the bare network, and
`AutoTokenizer.from_pretrained("{name}")` its tokens.

## Training

Trained for {steps_of} steps (preset `{run.preset}`, seed {run.seed}), each of
{_each_step(run)}.
`training.yaml` has every setting, `metrics.jsonl` the curves.

## Limits

- It learned from episodes that others played: in situations far from those, its values are guesses.
{words.limits}"""


def _metadata(
    run: TrainConfig, members: Members, name: str, reports: Mapping[str, Report]
) -> ModelCardData:
    """What the Hub reads."""
    public = [member.data for member in run.members.values() if _is_public(member.data)]
    is_lm_public = run.backbone not in NEW_BACKBONES and _is_public(run.backbone)
    shown = "-".join(members.tasks) if name == UNPUBLISHED else name.rsplit("/", 1)[-1]
    indexed = [
        each for of, report in reports.items() for each in index_of(members.tasks[of], report)
    ]
    return ModelCardData(
        library_name="textrl",
        pipeline_tag="reinforcement-learning",
        tags=[
            *("textrl", "offline-rl", *members.tasks),
            *dict.fromkeys(find(ALGORITHMS, each.algo).name for each in run.members.values()),
            *(["lora"] if run.lora_rank else []),
        ],
        datasets=public or None,
        base_model=run.backbone if is_lm_public else None,
        model_name=shown if reports else None,
        eval_results=indexed or None,
    )


def _backbone(run: TrainConfig) -> str:
    if run.backbone in NEW_BACKBONES:
        return f"a {run.backbone} backbone of {run.layers} layers x {run.width}"
    told = f"the language model `{_shown(run.backbone)}`"
    if run.lora_rank:
        told += (
            " (not part of these files, which are the heads and a LoRA adapter of rank"
            f" {run.lora_rank})"
        )
    return told


def _algorithm(run: TrainConfig) -> str:
    """In words; of tasks that differ in it, who has which."""
    found: dict[str, Algorithm] = {
        name: find(ALGORITHMS, member.algo) for name, member in run.members.items()
    }
    titles = {name: each.title for name, each in found.items()}
    told = ", ".join(f"{title} for {name}" for name, title in titles.items())
    if len({*titles.values()}) == 1:
        told = next(iter(titles.values()))
    if run.bisimulation.weight:
        told += f" with a bisimulation loss (weight {run.bisimulation.weight:g})"
    if run.representation.asks:
        told += " on an encoder trained by hindsight queries"
    elif run.representation.checkpoint:
        told += f" on the encoder of {run.representation.checkpoint}"
    return told


def _by_task(members: Members, report: Report) -> dict[str, Report]:
    """Each task's part of the report."""
    if len(members.tasks) == 1:
        return {members.name: report}
    return {name: report["tasks"][name] for name in members.tasks}


def _agent(name: str, members: Members) -> str:
    """What load_agent is called with."""
    return f'"{name}"' + (f', "{next(iter(members.tasks))}"' if len(members.tasks) > 1 else "")


def _each_step(run: TrainConfig) -> str:
    """Which episodes of which data a step learns from."""
    told = []
    for name, member in run.sized_members.items():
        data = (
            f"the dataset `{_shown(member.data)}`"
            if member.data
            else f"{member.episodes:,} episodes that the task makes itself"
        )
        whose = f" of {name}" if len(run.members) > 1 else ""
        told.append(f"{member.batch_size} episodes{whose} from {data}")
    return "\nand ".join(told)


def _results(members: Members, reports: Mapping[str, Report]) -> str:
    """How the agent does in each task."""
    return "\n".join(
        (f"### {name}\n\n" if len(reports) > 1 else "") + results_of(members.tasks[name], report)
        for name, report in reports.items()
    )


@results_of.register
def _(task: Task, report: Report) -> str:
    """The agent's scores and the references', best first, and how the episodes went."""
    entries = [
        (
            f"**this agent, {name}**",
            each["mean"],
            each["interval_95"],
            f"{each['episodes']:,} episodes",
        )
        for name, each in report["decodings"].items()
    ]
    for name, mean in report["references"].items():
        margin = NORMAL_95 * report["references_stderr"][name]
        entries.append(
            (name, mean, (mean - margin, mean + margin) if margin else None, "reference")
        )
    lines = ["| player | mean score | 95 % interval | |", "| --- | ---: | ---: | --- |"]
    for player, mean, interval, note in sorted(entries, key=lambda entry: -entry[1]):
        lines.append(f"| {player} | {mean:.3f} | {_interval(interval, note)} | {note} |")
    went = [
        f"    {name}: " + task.describe(each).replace("\n", "\n    ")
        for name, each in report["decodings"].items()
    ]
    note = f"It acted with beta {report['beta']:g}; episodes from seed {report['seed']}."
    return "\n".join([*lines, "", note, "", *went, ""])


@results_of.register
def _(task: LoggedTask, report: Report) -> str:
    """What the agent said of held-out episodes."""
    lines = ["| figure | value | |", "| --- | ---: | --- |"]
    lines += [f"| {name} | {v:.4g} | {MEANINGS[name]} |" for name, v in report["figures"].items()]
    note = (
        f"By {report['episodes']:,} of {report['held_out']:,} held-out episodes,"
        f" {report['action_tokens']:,} action tokens."
    )
    return "\n".join([*lines, "", note, ""])


@index_of.register
def _(task: LoggedTask, report: Report) -> list[EvalResult]:
    return [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="offline reinforcement learning",
            dataset_type=task.name,
            dataset_name="held-out episodes",
            metric_type=name,
            metric_value=value,
            metric_args={"episodes": report["episodes"]},
        )
        for name, value in report["figures"].items()
    ]


@index_of.register
def _(task: Task, report: Report) -> list[EvalResult]:
    return [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="reinforcement learning",
            dataset_type=task.name,
            dataset_name=task.name,
            metric_type="mean_reward",
            metric_name=f"mean episode return, {name}",
            metric_value=each["mean"],
            metric_args={
                "interval_95": each["interval_95"],
                "episodes": each["episodes"],
                "beta": report["beta"],
                "references": dict(report["references"]),
            },
        )
        for name, each in report["decodings"].items()
    ]


def _is_public(name: str) -> bool:
    """Whether the name is the Hub's, not a folder's or a file's."""
    return is_hub_name(name) and not Path(name).exists()


def _shown(name: str) -> str:
    """A name on the Hub as it is; of a path here, the last part alone."""
    return name if _is_public(name) else Path(name).name


def _interval(interval: Sequence[float | None] | None, note: str) -> str:
    if interval is None or interval[0] is None:
        return "exact" if note == "reference" else ""
    return f"{interval[0]:.3f} to {interval[1]:.3f}"
