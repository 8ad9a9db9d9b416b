"""The experiments: which runs make up each table, and where a report has its cells."""

from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

_TALKS = "--group-by dialogue --held-out 0.1 --learning-rate 1e-3"
# Half of the preset's steps, looked at once: imitation still learns after them, values do not.
_TALKS += " --max-steps 100 --evaluate-every 100"
PEOPLE = {"casino": _TALKS, "persuasion": _TALKS}
"""Conversations of people, a file each, with the flags of their runs."""
OPE = "ope"  # how far off-policy estimates can be trusted
THEORY, THEORY_PARTS = "theory", ("suboptimality", "clusters", "lemma", "tests")
GREEDY, SAMPLED = ("decodings", "greedy"), ("decodings", "sampled")


@dataclass(frozen=True)
class Experiment:
    """One table: every method trained in every setting, as flags of recipes/train.py.

    A column of the table is a setting, or what one run's report says in several places.
    """

    task: str
    title: str
    table: str
    """Where it is in the paper, if it is."""
    methods: dict[str, str]
    published: dict[str, dict[str, float]]
    """The paper's figures: column -> method -> mean. A column named "" holds for all."""
    differences: tuple[tuple[str, str], ...]
    """Which methods are compared with which, seed by seed."""
    settings: dict[str, str] = field(default_factory=lambda: {"": ""})
    views: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"": GREEDY})
    """Where in a report the figures are: keys, one below the other."""
    quick: str = ""
    """Flags at the quick scale only, so that all of it takes no longer than it should."""
    quick_methods: dict[str, str] = field(default_factory=dict)
    """Methods whose flags differ at that scale."""
    seeds: int = 5
    best_player: str = "optimal"
    """The reference that nobody is known to beat."""
    page: str = ""
    """Where the results are discussed."""

    @property
    def columns(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Of the table: name -> setting and view."""
        return {
            " ".join(filter(None, (setting, view))): (setting, keys)
            for setting in self.settings
            for view, keys in self.views.items()
        }

    def paper(self, column: str, method: str) -> float | None:
        """What the paper has there."""
        return self.published.get(column, self.published.get("", {})).get(method)


@dataclass(frozen=True)
class Run:
    """One training run of an experiment."""

    setting: str
    method: str
    seed: int
    folder: Path
    flags: tuple[str, ...]
    kept: Path | None = None
    """What stays of it when its folder is gone; None: nothing, as its agent itself is needed."""


def kept_file(results: Path, *name: str) -> Path:
    """Where a run is written down: EXPERIMENT[-SETTING]-METHOD-seedN.json."""
    return results / "runs" / f"{'-'.join(filter(None, name))}.json"


SEES_ITS_ACTIONS = "--no-hide-actions --temperature 1"  # the paper's agents do
RNN = "--backbone rnn --width 128 --representation-hidden 256"  # appendix B's encoder
EXPERIMENTS = {
    "gridworld": Experiment(
        task="gridworld",
        title="Switch gridworld",
        table="Figure 2 of the paper",
        settings={"gpt2": "--backbone gpt2", "rnn": RNN},
        methods={
            "filtered-bc": "--algo filtered-bc",
            "cql": "--algo cql",
            "cql+bisim": "--algo cql --bisim 0.05",
        },
        published={"": {"filtered-bc": 0.28, "cql": 0.19, "cql+bisim": 0.68}},
        differences=(("cql+bisim", "cql"), ("cql", "filtered-bc")),
        page="docs/gridworld.md",
    ),
    "vizdoom": Experiment(
        task="vizdoom",
        title="ViZDoom My Way Home",
        table="Table 1 of the paper",
        methods={
            "bc": f"--algo bc {SEES_ITS_ACTIONS}",
            "filtered-bc": f"--algo filtered-bc {SEES_ITS_ACTIONS}",
            "cql": f"--algo cql {SEES_ITS_ACTIONS}",
            "cql+bisim": f"--algo cql --bisim 0.02 {SEES_ITS_ACTIONS}",
            "iql": "--algo iql",
            "iql+bisim": "--algo iql --bisim 0.02",
        },
        # Appendix B: the next action comes from a softmax.
        views={
            "base": SAMPLED,
            "hard": ("variants", "hard", *SAMPLED),
            "base greedy": GREEDY,
            "hard greedy": ("variants", "hard", *GREEDY),
        },
        published={
            "base": {"bc": 0.05, "filtered-bc": 0.41, "cql": 0.64, "cql+bisim": 0.71},
            "hard": {"bc": 0.01, "filtered-bc": 0.12, "cql": 0.43, "cql+bisim": 0.58},
        },
        differences=(
            *(("cql+bisim", "cql"), ("cql", "filtered-bc"), ("cql", "bc")),
            *(("iql", "cql"), ("iql+bisim", "iql")),
        ),
        # The paper's weight, 0.02, flattens the small network's representations within minutes.
        quick_methods={
            "cql+bisim": f"--algo cql --bisim 0.002 {SEES_ITS_ACTIONS}",
            "iql+bisim": "--algo iql --bisim 0.002",
        },
        # Five eighths of the preset's steps; an evaluation at the end follows anyway.
        quick="--max-steps 5000 --evaluate-every 5000 --evaluate-episodes 4",
        best_player="navigator",
        page="docs/vizdoom.md",
    ),
    "wordle": Experiment(
        task="wordle",
        title="Wordle",
        table="Table 2 of the paper",
        methods={
            "bc": "--algo bc",
            "filtered-bc": "--algo filtered-bc",
            "ilql": "--algo ilql",
            "ilql+bisim": "--algo ilql --bisim 0.02",
        },
        views={"sampled": SAMPLED, "greedy": GREEDY},
        published={"": {"bc": -2.83, "filtered-bc": -3.02, "ilql": -2.21, "ilql+bisim": -2.19}},
        differences=(("ilql+bisim", "ilql"), ("ilql", "bc"), ("ilql", "filtered-bc")),
        # What its pairs cost, once in four steps: else it takes twice as long as ILQL alone.
        quick_methods={"ilql+bisim": "--algo ilql --bisim 0.02 --bisim-stride 4"},
        quick="--max-steps 5000 --evaluate-every 5000 --bisim-every 100",
        page="docs/wordle.md",
    ),
    "wordle-full": Experiment(
        task="wordle",
        title="Wordle, the full list",
        table="not in the paper",
        # At every scale: it is one preset, of an hour a run.
        settings={"full": "--preset full"},
        methods={"bc": "--algo bc", "ilql": "--algo ilql"},
        views={"sampled": SAMPLED, "greedy": GREEDY},
        published={},
        differences=(("ilql", "bc"),),
        seeds=3,
        best_player="best_known",
        page="docs/wordle.md",
    ),
    "twenty": Experiment(
        task="twenty",
        title="Twenty Questions",
        table="not in the paper",
        methods={"bc": "--algo bc", "ilql": "--algo ilql"},
        views={"sampled": SAMPLED, "greedy": GREEDY},
        published={},
        differences=(("ilql", "bc"),),
        seeds=3,
        page="docs/twenty.md",
    ),
}


def plan(experiment: Experiment, scale: str, seeds: int, folder: Path, results: Path) -> list[Run]:
    """Every run of the experiment, the first seed of all methods first."""
    is_quick = scale == "quick"
    return [
        Run(
            setting,
            method,
            seed,
            folder / experiment.task / setting / f"{method}-seed{seed}",
            (
                *("--task", experiment.task, "--preset", scale, "--seed", str(seed)),
                *(experiment.quick if is_quick else "").split(),
                *of_setting.split(),
                *(
                    experiment.quick_methods.get(method, of_method) if is_quick else of_method
                ).split(),
            ),
            kept_file(results, experiment.task, setting, f"{method}-seed{seed}"),
        )
        for seed in range(seeds)
        for setting, of_setting in experiment.settings.items()
        for method, of_method in experiment.methods.items()
    ]


def look_up(report: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """What a report says at that place."""
    return reduce(lambda inner, key: inner[key], keys, report)
