"""The README.md of a checkpoint on the Hub, for a stranger who finds it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from textrl.combined import CombinedTask, RunTask
from textrl.combined_config import CombinedConfig, algorithms_of, members_of
from textrl.config import NEW_BACKBONES, TrainConfig
from textrl.hub import is_hub_name
from textrl.offline import MEANINGS
from textrl.report import NORMAL_95
from textrl.task import LoggedTask, Task

Report = Mapping[str, Any]
"""What evaluation.json holds."""

ALGORITHM_NAMES = {
    "bc": "behaviour cloning",
    "filtered-bc": "behaviour cloning on the best episodes",
    "cql": "conservative Q-learning (CQL)",
    "ilql": "implicit language Q-learning (ILQL)",
}
NOT_YET = "Not evaluated yet: `recipes/evaluate.py` does it.\n"
USAGE = """\
    python recipes/evaluate.py NAME    # scores beside those of reference players
    python recipes/play.py NAME        # play against it, where its task has two players

```python
from envs.tasks import load_agent
from textrl.decoding import Decoding
from textrl.policy import Policy
from textrl.rollout import play

model, task = load_agent(AGENT)
policy = Policy(model, task.language, Decoding.of(model, sample=False), seed=0)
played = play(task, policy, episodes=20, seed=0)
print(played.scores.mean())
```
"""
LOGGED_USAGE = """\
    python recipes/evaluate.py NAME --data FILE    # what it says of other conversations
    python recipes/play.py NAME                    # talk with it

```python
from envs.tasks import load_agent
from textrl.evaluation import judge_anyhow

model, task = load_agent(AGENT)
print(judge_anyhow(task.with_data("FILE"), model).describe(task))
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


def model_card(
    config: TrainConfig,
    task: RunTask,
    steps: int,
    name: str,
    report: Report | None = None,
    figures: Sequence[str] = (),
) -> str:
    """What it plays, how it was trained and how well it does, how to use it, where it ends.

    steps: how many of config.max_steps it has been trained. name: where it can be loaded from.
    """
    members = members_of(config)
    public = [member.data for member in members.values() if _is_public(member.data)]
    steps_of = f"{steps:,} of {config.max_steps:,}" if steps < config.max_steps else f"{steps:,}"
    algorithm = _algorithm(members)
    if config.bisim:
        algorithm += f" with a bisimulation loss (weight {config.bisim:g})"
    backbone = f"a {config.backbone} backbone of {config.layers} layers x {config.width}"
    is_lm = config.backbone not in NEW_BACKBONES
    is_lm_public = is_lm and _is_public(config.backbone)
    if is_lm:
        backbone = f"the language model `{config.backbone}`"
    if config.lora_rank:
        backbone += (
            " (not part of these files, which are the heads and a LoRA adapter of rank"
            f" {config.lora_rank})"
        )
    if isinstance(task, LoggedTask):
        results = _figures(report) if report else NOT_YET
        indexed = _eval_figures(config, report) if report else None
        title, usage, limits = "Load it", LOGGED_USAGE, LOGGED_LIMITS
    else:
        results = _results(task, report) if report else NOT_YET
        indexed = _eval_results(task, report) if report else None
        title, usage, limits = "Load and play it", USAGE, LIMITS
    pictures = "".join(f"![{Path(figure).stem}]({figure})\n\n" for figure in figures)
    metadata = ModelCardData(
        library_name="textrl",
        pipeline_tag="reinforcement-learning",
        tags=[
            *("textrl", "offline-rl", *members),
            *dict.fromkeys(member.algo for member in members.values()),
            *(["lora"] if config.lora_rank else []),
        ],
        datasets=public or None,
        base_model=config.backbone if is_lm_public else None,
        model_name=name.rsplit("/", 1)[-1] if report else None,
        eval_results=indexed,
    )
    return f"""---
{metadata.to_yaml()}
---

# {config.task}: {algorithms_of(config)}

{task.summary()}

This agent learned offline, from logged episodes alone, by {algorithm}, with textrl:
{backbone} reads the history as tokens,
and heads on it choose the next action token.

## Results

{results}
{pictures}
## {title}

With textrl installed, and from its folder:

{usage.replace("AGENT", _agent(name, members)).replace("NAME", name)}
`TextRLModel.from_pretrained("{name}")` (in `textrl.model`) gives the bare network, and
`AutoTokenizer.from_pretrained("{name}")` its tokens.

## Training

Trained for {steps_of} steps (preset `{config.preset}`, seed {config.seed}), each of
{_each_step(members, config)}.
`training.yaml` has every setting, `metrics.jsonl` the curves.

## Limits

- It learned from episodes that others played: in situations far from those, its values are guesses.
{limits}"""


def _algorithm(members: Mapping[str, TrainConfig]) -> str:
    """In words; of tasks that differ in it, who has which."""
    names = {name: ALGORITHM_NAMES[member.algo] for name, member in members.items()}
    if len({*names.values()}) == 1:
        return next(iter(names.values()))
    return ", ".join(f"{algorithm} for {name}" for name, algorithm in names.items())


def _by_task(task: Task | CombinedTask, report: Report) -> list[tuple[str, Task, Report]]:
    """Each task's name, the task, and its part of the report."""
    if not isinstance(task, CombinedTask):
        return [(task.name, task, report)]
    return [(name, each, report["tasks"][name]) for name, each in task.tasks.items()]


def _agent(name: str, members: Mapping[str, TrainConfig]) -> str:
    """What load_agent is called with."""
    return f'"{name}"' + (f', "{next(iter(members))}"' if len(members) > 1 else "")


def _each_step(members: Mapping[str, TrainConfig], config: TrainConfig) -> str:
    """Which episodes of which data a step learns from."""
    sized = config.sized_members() if isinstance(config, CombinedConfig) else members
    told = []
    for name, member in sized.items():
        data = (
            f"the dataset `{member.data}`"
            if member.data
            else f"{member.episodes:,} episodes that the task makes itself"
        )
        whose = f" of {name}" if len(members) > 1 else ""
        told.append(f"{member.batch_size} episodes{whose} from {data}")
    return "\nand ".join(told)


def _results(task: Task | CombinedTask, report: Report) -> str:
    """How the agent does in each task."""
    return "\n".join(
        (f"### {name}\n\n" if isinstance(task, CombinedTask) else "") + _scores(each, of_task)
        for name, each, of_task in _by_task(task, report)
    )


def _scores(task: Task, report: Report) -> str:
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


def _figures(report: Report) -> str:
    """What the agent said of held-out episodes."""
    lines = ["| figure | value | |", "| --- | ---: | --- |"]
    lines += [f"| {name} | {v:.4g} | {MEANINGS[name]} |" for name, v in report["figures"].items()]
    note = (
        f"By {report['episodes']:,} of {report['held_out']:,} held-out episodes,"
        f" {report['action_tokens']:,} action tokens."
    )
    return "\n".join([*lines, "", note, ""])


def _eval_figures(config: TrainConfig, report: Report) -> list[EvalResult]:
    """The same for the card's model-index."""
    return [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="offline reinforcement learning",
            dataset_type=config.task,
            dataset_name=config.data,
            metric_type=name,
            metric_value=value,
            metric_args={"episodes": report["episodes"]},
        )
        for name, value in report["figures"].items()
    ]


def _is_public(name: str) -> bool:
    """Whether the name is the Hub's, not a folder's or a file's."""
    return is_hub_name(name) and not Path(name).exists()


def _interval(interval: Sequence[float | None] | None, note: str) -> str:
    if interval is None or interval[0] is None:
        return "exact" if note == "reference" else ""
    return f"{interval[0]:.3f} to {interval[1]:.3f}"


def _eval_results(task: Task | CombinedTask, report: Report) -> list[EvalResult]:
    """For the card's model-index, by which the Hub shows and compares results."""
    return [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="reinforcement learning",
            dataset_type=of,
            dataset_name=of,
            metric_type="mean_reward",
            metric_name=f"mean episode return, {name}",
            metric_value=each["mean"],
            metric_args={
                "interval_95": each["interval_95"],
                "episodes": each["episodes"],
                "beta": of_task["beta"],
                "references": dict(of_task["references"]),
            },
        )
        for of, _, of_task in _by_task(task, report)
        for name, each in of_task["decodings"].items()
    ]
