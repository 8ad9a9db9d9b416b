"""Studies: what a representation is worth along an axis, how much data there is or how long a cue
must be carried. Which runs there are, in order of importance.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from textrl.recipes.reproducing.experiments import RNN

FIRST_SEED = 100
"""Studies have seeds of their own: those from 0 on were seen while methods were made."""
SUMMARY_STEPS = 400
GPT2 = "--backbone gpt2"
GIVEN = ("exact-metric", "exact-one-step", "classifier", "state-classifier", "optimal-value")
"""Methods whose encoder is told the hidden states: controls, not competitors."""


@dataclass(frozen=True)
class Table:
    """Some methods with some settings, over some sizes."""

    name: str
    """What results call it: methods, or methods with how they differ from the first table."""
    methods: dict[str, str]
    """Name -> flags of textrl train. Of given summaries, those of training the heads."""
    backbones: dict[str, str]
    sizes: tuple[int, ...]
    flags: str = ""
    first_seed: int = FIRST_SEED


@dataclass(frozen=True)
class Play:
    """How a study's agents are judged: in their task and in its variants."""

    episodes: int = 1000
    sample: bool = False


@dataclass(frozen=True)
class Study:
    """Returns along an axis."""

    name: str
    task: str
    title: str
    axis: str
    tables: tuple[Table, ...]
    flags: str
    """Of all runs."""
    episodes: int = 0
    """How many there are in the data; 0: the axis says so."""
    size_flag: str = ""
    """The option of the task that the axis sets, where it is not the number of episodes."""
    data_seed: int | None = None
    """Whose data all seeds learn from; None: each has its own."""
    play: Play = Play()
    best_player: str = "optimal"
    """The reference that nobody is known to beat."""
    differences: tuple[tuple[str, str], ...] = field(
        default=(("hindsight", "cql"), ("cql+bisim", "cql"), ("exact-metric", "cql"))
    )
    seeds: int = 5
    page: str = "docs/bisimulation.md"
    """Where the results are discussed."""


@dataclass(frozen=True)
class StudyRun:
    """One training run of a study."""

    table: str
    backbone: str
    method: str
    size: int
    seed: int
    episodes: int
    base: Path
    """Where its study works."""
    flags: tuple[str, ...]
    data_seed: int
    play: Play = Play()

    @property
    def name(self) -> str:
        """What its study's record calls it."""
        return f"{self.table}/{self.backbone}/{self.method}-{self.size}-seed{self.seed}"

    @property
    def folder(self) -> Path:
        """Where it works; nothing of it is left when it is done."""
        return self.base / self.name

    @property
    def summary(self) -> str:
        """The summary that its encoder is given, if it is."""
        return self.method if self.method in GIVEN else ""


# Evaluations on the way show whether a method has settled; measuring the bisimulation loss where it
# is not minimized would only cost time.
COMMON = "--evaluate-episodes 300 --save-every 100000 --bisim-every 100000 --no-final-evaluation"
HEADS = "--max-steps 800 --evaluate-every 200"
WHOLE = "--max-steps 1200 --evaluate-every 300"
MAIN = {
    "cql": WHOLE,
    "hindsight": f"--represent hindsight {WHOLE}",
    "exact-metric": HEADS,
    # The paper's loss learns slowly: it gets longer.
    "cql+bisim": "--bisim 0.05 --max-steps 1800 --evaluate-every 450",
    "classifier": HEADS,
    "exact-one-step": HEADS,
}
FIRST = ("cql", "hindsight", "exact-metric")


def some_of(methods: dict[str, str], chosen: Collection[str]) -> dict[str, str]:
    """Some of the methods, in their order."""
    return {name: flags for name, flags in methods.items() if name in chosen}


CORE = some_of(MAIN, (*FIRST, "cql+bisim"))
PARTS = {
    "hindsight-pairs": "--bisim 0.05 --metric hindsight --max-steps 1800 --evaluate-every 450",
    "hindsight-joint": f"--represent hindsight --represent-steps 0 {WHOLE}",
    "hindsight-late": f"--represent hindsight --represent-finetune 400 {WHOLE}",
    "queries-alone": f"--represent hindsight --represent-next 0 {WHOLE}",
    "next-alone": f"--represent hindsight --represent-weight 0 {WHOLE}",
    "any-query": f"--represent hindsight --represent-draw uniform {WHOLE}",
    "ilql": f"--algo ilql {WHOLE}",
    "ilql+hindsight": f"--algo ilql --represent hindsight {WHOLE}",
}
MAZE = {
    "preset": "",
    "returns": "--value return --discount 0.99",
    "returns-far": "--value return --discount 0.999",
    "sees-actions": "--no-hide-actions",
    "one-step-advantages": "--advantage-steps 1",
    "still-frames": "--shift-frames 0",
    "window-32": "--window 32 --batch-size 24",
    "window-64": "--window 64 --batch-size 12",
    "window-256": "--window 256 --context 514 --batch-size 3",
}
"""The quick preset, and one change to it each; as many decisions in every step."""
FROZEN = "--represent hindsight --represent-steps 500"
JOINT = "--represent hindsight --represent-steps 0"
FEW = {"ilql": "", "hindsight": FROZEN, "hindsight-joint": JOINT}
"""Hindsight where the tokens of an action and what it earns are many: Wordle, Twenty Questions."""
SIZES = (100, 250, 500, 1000, 2500, 5000)
ONE_STEP = "--return-lambda 0"
STUDIES = {
    "samples": Study(
        name="samples",
        task="gridworld",
        title="Return against the number of episodes",
        axis="episodes",
        flags=COMMON,
        tables=(
            Table("methods", some_of(MAIN, FIRST), {"gpt2": GPT2}, SIZES),
            Table("methods", some_of(MAIN, {*MAIN} - {*FIRST}), {"gpt2": GPT2}, SIZES),
            Table("parts", PARTS, {"gpt2": GPT2}, (250,)),
            # Where hindsight was found to help, on other seeds: ten for the two that it is about.
            Table(
                "methods",
                some_of(MAIN, ("cql", "hindsight")),
                {"gpt2": GPT2},
                (250,),
                first_seed=FIRST_SEED + 5,
            ),
            Table(
                "controls",
                {"state-classifier": HEADS, "optimal-value": HEADS},
                {"gpt2": GPT2},
                (100, 250, 500),
            ),
            Table("methods", CORE, {"rnn": RNN}, SIZES),
            Table(
                "methods_one_step_targets",
                CORE,
                {"gpt2": GPT2, "rnn": RNN},
                SIZES,
                ONE_STEP,
            ),
        ),
    ),
    "tmaze": Study(
        name="tmaze",
        task="tmaze",
        title="Return against how long a cue must be carried",
        axis="corridor",
        flags=COMMON,
        size_flag="--corridor",
        episodes=500,
        page="docs/tmaze.md",
        tables=(
            Table("methods", MAIN, {"gpt2": GPT2}, (10, 20, 40)),
            Table("methods", MAIN, {"rnn": RNN}, (10, 20, 40)),
        ),
    ),
    **{
        f"samples-{task}": Study(
            name=f"samples-{task}",
            task=task,
            title=f"Return against the number of games: {task}",
            axis="games",
            flags="--max-steps 1500 --evaluate-every 500 --save-every 100000 --bisim-every 100000"
            f" --no-final-evaluation --evaluate-episodes {every_answer}",
            tables=(Table("methods", FEW, {"gpt2": GPT2}, (1_000, 10_000, 100_000)),),
            play=Play(every_answer),
            differences=(("hindsight", "ilql"), ("hindsight-joint", "ilql")),
            seeds=3,
        )
        for task, every_answer in (("wordle", 236), ("twenty", 80))
    },
    "maze": Study(
        name="maze",
        task="vizdoom",
        title="What matters in the maze",
        axis="episodes",
        flags="--max-steps 5000 --evaluate-every 1250 --evaluate-episodes 8 --bisim-every 100000"
        " --no-final-evaluation",
        tables=(
            Table("methods", MAZE, {"gpt2": GPT2}, (2400,)),
            Table("methods", some_of(MAZE, ("preset",)), {"gpt2": GPT2}, (600, 1200)),
        ),
        data_seed=FIRST_SEED,  # seeds differ by much; which dataset it is need not add to that
        play=Play(100, sample=True),
        best_player="navigator",
        differences=tuple((name, "preset") for name in MAZE if name != "preset"),
        seeds=3,
    ),
}


def plan_study(study: Study, seeds: int, folder: Path, methods: Sequence[str]) -> list[StudyRun]:
    """Every run: table by table, and of each the first seed of all first; methods: none = all."""
    runs = [
        StudyRun(
            table=table.name,
            backbone=backbone,
            method=method,
            size=size,
            seed=seed,
            episodes=study.episodes or size,
            base=folder / study.name,
            data_seed=seed if study.data_seed is None else study.data_seed,
            play=study.play,
            flags=(
                *("--task", study.task, "--preset", "quick", "--seed", str(seed)),
                *study.flags.split(),
                *((study.size_flag, str(size)) if study.size_flag else ()),
                *table.flags.split(),
                *of_backbone.split(),
                *of_method.split(),
            ),
        )
        for table in study.tables
        for seed in range(table.first_seed, table.first_seed + seeds)
        for backbone, of_backbone in table.backbones.items()
        for size in table.sizes
        for method, of_method in table.methods.items()
        if not methods or method in methods
    ]
    return list(dict.fromkeys(runs))  # many seeds: a later table's are among an earlier one's
