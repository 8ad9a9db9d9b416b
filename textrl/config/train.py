"""The settings of a training run: what there is to set, its default and its limits.

A run has members: the tasks that its agent learns, most often one. TrainConfig is what all of them
have in common, MemberConfig what each has for itself, beside the options of its task and of its
algorithm, which those declare.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from textrl.config.options import NoOptions, option
from textrl.errors import UserError, unknown

CONFIG_FILE = "training.yaml"
"""The resolved config in a run's folder."""
NEW_BACKBONES = ("gpt2", "rnn")
"""Backbones that a run makes new; any other name is a pretrained language model's."""
PACKING_BACKBONES = ("gpt2",)
"""Those of them that read histories of all lengths in one pass, with hardly any padding."""

HINDSIGHT = "hindsight"
"""What --represent and --metric call queries about later steps."""

RUN, DATA, MODEL, LEARNING = "what to run", "data", "model", "algorithm"
OPTIMIZATION, OUTPUT = "optimization", "evaluation and output"
BISIMULATION, REPRESENTATION = "bisimulation", "representation"
SECTIONS = (RUN, DATA, MODEL, LEARNING, REPRESENTATION, BISIMULATION, OPTIMIZATION, OUTPUT)
"""Of --help, in this order."""


@dataclass(frozen=True)
class MemberConfig:
    """What each task of a run has for itself."""

    task: str = ""
    """Its name, or the module:CLASS that the user gave."""
    algo: str = option("ilql", "algorithm to learn the task with", section=RUN)
    data: str = option(
        "",
        "episodes to learn from: a folder, a JSONL file or a Hub id; without"
        " it, the task generates and caches its own",
        section=DATA,
    )
    episodes: int = option(
        300_000, "size of the dataset that the task generates", section=DATA, minimum=1
    )
    context: int = option(64, "longest history in tokens", section=MODEL, minimum=2)
    window: int = option(
        0,
        "actions of an episode that the model sees at once, in training and in play; 0 is all",
        section=MODEL,
        minimum=0,
    )
    patches: int = option(
        4,
        "tasks with frames: how many tokens each becomes, a square number",
        section=MODEL,
        minimum=1,
    )
    filters: str = option(
        "32,64,32", "tasks with frames: filters of each convolution that reads them", section=MODEL
    )
    frame_precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto",
        "tasks with frames: precision of the convolutions; auto is bfloat16 if"
        " that is clearly faster on this machine",
        section=MODEL,
    )
    hide_actions: bool = option(
        False,
        "hide past actions from the model; players who repeat themselves teach"
        " an agent to copy its own last action",
        section=MODEL,
    )
    batch_size: int = option(
        64, "episodes per step, over all processes", section=OPTIMIZATION, minimum=1
    )
    shift_frames: int = option(
        0,
        "tasks with frames: in training, shift the frames of a window at random"
        " by up to this many pixels, all of them alike",
        section=OPTIMIZATION,
        minimum=0,
    )
    accumulation: int = option(
        1, "number of parts in which a step computes its batch", section=OPTIMIZATION, minimum=1
    )
    evaluate_episodes: int = option(236, "episodes per evaluation", section=OUTPUT, minimum=1)
    beta: float = option(
        4.0, "weight of Q - V against log pi when acting", section=OUTPUT, minimum=0
    )
    candidates: int = option(
        1,
        "whole actions that the policy proposes, one of which is chosen by log"
        " pi and Q; 1 acts token by token",
        section=OUTPUT,
        minimum=1,
    )
    plausible: float = option(
        0.0,
        "greedy play: least probability of a candidate, relative to the likeliest one",
        section=OUTPUT,
        minimum=0,
        maximum=1,
    )
    act_by: Literal["auto", "policy", "values", "both"] = option(
        "auto",
        "which heads choose the actions; auto is the algorithm's own choice",
        section=OUTPUT,
    )
    temperature: float = option(
        1.0,
        "temperature of sampled actions; below 1, likely ones become likelier still",
        section=OUTPUT,
        above=0,
    )
    task_options: Any = NoOptions()
    """What its task declares."""
    algo_options: Any = NoOptions()
    """What its algorithm declares."""

    def __post_init__(self) -> None:
        if self.batch_size % self.accumulation:
            raise UserError(
                f"batch_size {self.batch_size} does not divide into accumulation"
                f" {self.accumulation} equal parts: change one of them"
            )

        _ = self.filter_sizes  # refuses what is none

    @property
    def filter_sizes(self) -> tuple[int, ...]:
        """Filters of each of the three convolutions."""
        sizes = self.filters.split(",")
        if len(sizes) != 3 or not all(size.strip().isdecimal() and int(size) for size in sizes):
            raise UserError(
                f"--filters must be three numbers such as 32,64,32, not {self.filters!r}"
            )
        return tuple(int(size) for size in sizes)

    @property
    def discount(self) -> float:
        """Per action token; 1 where the algorithm has no values."""
        return float(getattr(self.algo_options, "discount", 1.0))


@dataclass(frozen=True)
class BisimulationConfig:
    """How histories are compared, beside any algorithm."""

    weight: float = option(
        0.0,
        "weight of the bisimulation loss; 0 only measures it",
        name="bisim",
        section=BISIMULATION,
        minimum=0,
    )
    metric: Literal["next", "hindsight"] = option(
        "next",
        "which rewards are compared: the next one, as in the paper, or those that hindsight expects"
        " at later observations",
        section=BISIMULATION,
    )
    distance: Literal["l2", "squared-l2", "l1"] = option(
        "l2", "distance between representations", name="bisim_distance", section=BISIMULATION
    )
    discount: float = option(
        1.0,
        "weight of the next observation relative to the reward",
        name="bisim_discount",
        section=BISIMULATION,
        minimum=0,
    )
    actions: Literal["policy", "data"] = option(
        "policy",
        "whose actions are compared: the current policy's, or those taken in the data",
        name="bisim_actions",
        section=BISIMULATION,
    )
    inverse: float = option(
        0.0,
        "weight of predicting the action between two histories, a measure against collapse",
        name="bisim_inverse",
        section=BISIMULATION,
        minimum=0,
    )
    fit: float = option(
        0.0,
        "share of the reward and dynamics models' gradient that reaches the"
        " encoder; 0 fits them separately",
        name="bisim_fit",
        section=BISIMULATION,
        minimum=0,
    )
    stride: int = option(
        1,
        "minimize the loss only every Nth step, with N times the weight, which is cheaper",
        name="bisim_stride",
        section=BISIMULATION,
        minimum=1,
    )
    every: int = option(
        20,
        "steps between measurements of the loss if its weight is 0",
        name="bisim_every",
        section=BISIMULATION,
        minimum=1,
    )

    @property
    def is_trained(self) -> bool:
        """Whether the loss, or what guards it against collapse, is minimized."""
        return self.weight > 0 or self.inverse > 0

    @property
    def asks(self) -> bool:
        """Whether hindsight says how far histories are apart."""
        return self.metric == HINDSIGHT

    @property
    def compares_every(self) -> int:
        """Steps between those at which histories of the whole batch are compared."""
        return self.stride if self.is_trained else self.every


class Stage(StrEnum):
    """What trains the encoder at a step of a run."""

    ALGORITHM = "algorithm"
    BESIDE = "beside"
    """The algorithm's loss and hindsight together."""
    ALONE = "alone"
    """Hindsight; the algorithm's heads learn from what the encoder gives them."""
    FROZEN = "frozen"
    """Nothing; the heads learn."""


@dataclass(frozen=True)
class RepresentationConfig:
    """What the heads read, and what the encoder learns it from."""

    hidden: int = option(
        0,
        "size of a hidden layer before the representation; 0 is a linear map",
        name="representation_hidden",
        section=MODEL,
        minimum=0,
    )
    bound: float = option(
        0.0,
        "largest norm of the representation; 0 is no bound",
        name="representation_bound",
        section=MODEL,
        minimum=0,
    )
    source: str = option(
        "",
        "what trains the encoder instead of the algorithm's loss: hindsight"
        " (queries about later steps, answered from each history), or a"
        " checkpoint (folder or USER/NAME on the Hub), whose encoder is reused"
        " as it is",
        name="represent",
        section=REPRESENTATION,
    )
    steps: int = option(
        400,
        "hindsight: number of first steps that train the encoder by hindsight"
        " alone; 0 trains it alongside the algorithm's loss throughout",
        name="represent_steps",
        section=REPRESENTATION,
        minimum=0,
    )
    finetune: int = option(
        0,
        "number of last steps in which the algorithm's loss trains the encoder;"
        " until then it stays as --represent made it",
        name="represent_finetune",
        section=REPRESENTATION,
        minimum=0,
    )
    query: Literal["auto", "observation", "action"] = option(
        "auto",
        "hindsight: what queries ask for: the reward at a later observation, or"
        " the reward and the observation after a later action; auto asks about"
        " observations if the data's rewards differ at the same one",
        name="represent_query",
        section=REPRESENTATION,
    )
    draw: Literal["informative", "uniform"] = option(
        "informative",
        "hindsight: how the later step is drawn: by how much the data's rewards"
        " differ at its observation, or uniformly",
        name="represent_draw",
        section=REPRESENTATION,
    )
    weight: float = option(
        5.0,
        "hindsight: weight of the queries",
        name="represent_weight",
        section=REPRESENTATION,
        minimum=0,
    )
    next: float = option(
        1.0,
        "hindsight: weight of predicting the reward and observation that come next",
        name="represent_next",
        section=REPRESENTATION,
        minimum=0,
    )

    @property
    def asks(self) -> bool:
        """Whether hindsight trains the encoder at some step."""
        return self.source == HINDSIGHT

    @property
    def checkpoint(self) -> str:
        """Whose encoder to begin with; "" = nobody's."""
        return "" if self.asks else self.source

    @property
    def first_steps(self) -> int:
        """Those that train the encoder by hindsight alone."""
        return self.steps if self.asks else 0

    def stage(self, step: int, max_steps: int) -> Stage:
        """What trains the encoder at this step, counted from 0."""
        if self.asks and self.steps == 0:
            return Stage.BESIDE
        if step < self.first_steps:
            return Stage.ALONE
        if self.source and step < max_steps - self.finetune:
            return Stage.FROZEN
        return Stage.ALGORITHM


@dataclass(frozen=True)
class TrainConfig:
    """What all members of a run share. In YAML learning_rate, as a flag --learning-rate."""

    task: str = option(
        "",
        "task to learn, or several with commas between them; module:CLASS is a task of your own",
        section=RUN,
    )
    preset: str = option(
        "quick", "named settings for the task (shown here as defaults)", section=RUN
    )
    output: str = option("", "folder for the run; without it, runs/<task>", section=RUN, free=True)
    seed: int = option(0, "seed of all random numbers", section=RUN, minimum=0, maximum=2**32 - 1)
    resume: bool = option(
        False, "continue the run in the output folder, if there is one", section=RUN, free=True
    )

    backbone: str = option(
        "gpt2",
        "model that reads the history: gpt2 or rnn, newly initialized, or a"
        " causal language model (folder or USER/NAME on the Hub)",
        section=MODEL,
    )
    layers: int = option(
        2, "layers of a new backbone; a language model has its own", section=MODEL, minimum=1
    )
    width: int = option(128, "size of the hidden states", section=MODEL, minimum=1)
    attention_heads: int = option(
        4, "attention heads; must divide the width", section=MODEL, minimum=1
    )
    cell: Literal["tanh", "gru", "lstm"] = option("gru", "rnn: type of its cells", section=MODEL)
    policy_head: Literal["tokens", "actions"] = option(
        "tokens",
        "what the policy scores: the next token, or whole actions, if the task has a list of them",
        section=MODEL,
    )
    q_head: Literal["auto", "mlp", "low-rank", "shared"] = option(
        "auto",
        "Q of each token: mlp, the same through a low rank, or shared with a language model's "
        "output embeddings; auto is shared on those, else mlp",
        section=MODEL,
    )
    q_rank: int = option(
        64, "low-rank: numbers between the hidden layer and the tokens", section=MODEL, minimum=1
    )
    lora_rank: int = option(
        0,
        "train matrices of this rank beside those of a language model, which"
        " stays frozen; 0 trains the whole model",
        section=MODEL,
        minimum=0,
    )
    lora_alpha: float = option(
        16.0, "lora: the adapter's weight is this divided by the rank", section=MODEL, above=0
    )
    lora_targets: str = option(
        "",
        "lora: names of the layers to adapt, with commas between them; without"
        " it, every linear layer",
        section=MODEL,
    )
    target_rate: float = option(
        0.005,
        "share of the online weights that moves into the targets each step",
        section=LEARNING,
        above=0,
        maximum=1,
    )
    value_gradient: float = option(
        1.0,
        "share of the Q and V heads' gradient that reaches the backbone",
        section=LEARNING,
        minimum=0,
        maximum=1,
    )
    representation: RepresentationConfig = RepresentationConfig()
    bisimulation: BisimulationConfig = BisimulationConfig()

    optimizer: Literal["adamw", "muon"] = option(
        "adamw", "optimization algorithm", section=OPTIMIZATION
    )
    learning_rate: float = option(2e-3, "peak learning rate", section=OPTIMIZATION, minimum=0)
    matrix_learning_rate: float = option(
        0.02,
        "muon: peak learning rate of the hidden matrices; the rest is adamw's",
        section=OPTIMIZATION,
        minimum=0,
    )
    warmup_steps: int = option(
        100, "steps of linear warm-up to the peak", section=OPTIMIZATION, minimum=0
    )
    schedule: Literal["cosine", "constant"] = option(
        "cosine", "learning-rate schedule after the warm-up", section=OPTIMIZATION
    )
    final_learning_rate: float = option(
        0.05,
        "cosine: final learning rate, as a share of the peak",
        section=OPTIMIZATION,
        minimum=0,
        maximum=1,
    )
    weight_decay: float = option(0.01, "decoupled weight decay", section=OPTIMIZATION, minimum=0)
    clip_norm: float = option(1.0, "largest norm of the gradient", section=OPTIMIZATION, above=0)
    mix: str = option(
        "",
        "several tasks: how much of every step each task gets relative to its"
        " preset, such as wordle=2,gridworld=0.5; without it, 1 each",
        section=OPTIMIZATION,
    )
    max_steps: int = option(
        10_000, "steps to train; more with --resume extends a run", section=OPTIMIZATION, minimum=1
    )
    threads: int = option(0, "CPU threads; 0 uses every core", section=OPTIMIZATION, minimum=0)
    deterministic: bool = option(
        True,
        "the same command gives the same weights, at any number of threads",
        section=OPTIMIZATION,
    )

    evaluate_every: int = option(1000, "steps between evaluations", section=OUTPUT, minimum=1)
    select: Literal["auto", "play", "offline", "likelihood"] = option(
        "auto",
        "what decides which model is kept in best/: play, the return estimated offline, or the"
        " likelihood of the data; auto is play if there is something to play, else likelihood",
        section=OUTPUT,
    )
    final_evaluation: bool = option(
        True,
        "play a complete evaluation at the end, beside reference players",
        section=OUTPUT,
        free=True,
    )
    save_every: int = option(
        1000, "steps between checkpoints", section=OUTPUT, minimum=1, free=True
    )
    log_every: int = option(
        20, "steps between lines of metrics", section=OUTPUT, minimum=1, free=True
    )
    tracker: Literal["none", "tensorboard", "trackio", "wandb"] = option(
        "none", "where metrics go besides the run's own JSONL", section=OUTPUT, free=True
    )
    push_to_hub: str = option(
        "",
        "USER/NAME on the Hugging Face Hub to publish the agent as, at every save and at the end",
        section=OUTPUT,
        free=True,
    )
    private: bool = option(
        False,
        "make the repository on the Hub visible only to you",
        section=OUTPUT,
        free=True,
    )
    members: Mapping[str, MemberConfig] = field(default_factory=dict)
    """By the names of their tasks, at least one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", MappingProxyType(dict(self.members)))
        for is_wrong, why in (*self._mistakes_in_encoder(), *self._mistakes()):
            if is_wrong:
                raise UserError(why)
        _ = self.proportions  # refuses a wrong mix

    def _mistakes_in_encoder(self) -> tuple[tuple[object, str], ...]:
        """What does not go with how the representation is made: whether it is so, and why."""
        is_new, encoder = self.backbone in NEW_BACKBONES, self.representation
        return (
            (
                encoder.source and not is_new,
                f"--represent {encoder.source} is for new backbones: with --backbone"
                f" {self.backbone}, which is trained already, leave it out",
            ),
            (
                self.bisimulation.asks and not is_new,
                f"--metric {self.bisimulation.metric} is for new backbones: with --backbone"
                f" {self.backbone} leave it out",
            ),
            (
                self.bisimulation.asks and not self.bisimulation.weight,
                f"--metric {self.bisimulation.metric} is of a loss that is minimized: give it a"
                " weight with --bisim",
            ),
            (
                encoder.asks and encoder.first_steps >= self.max_steps,
                f"--represent-steps {encoder.steps} leaves none of --max-steps {self.max_steps} to"
                " the algorithm: lower it, or raise --max-steps",
            ),
            (
                encoder.source
                and self.bisimulation.is_trained
                and encoder.stage(0, self.max_steps) in (Stage.ALONE, Stage.FROZEN),
                "the bisimulation loss cannot train an encoder that --represent makes: leave one of"
                " them out, or train by both throughout with --represent hindsight"
                " --represent-steps 0",
            ),
        )

    def _mistakes(self) -> tuple[tuple[object, str], ...]:
        """What else does not go together."""
        is_new = self.backbone in NEW_BACKBONES
        return (
            (
                self.optimizer == "muon" and self.backbone == "rnn",
                "muon is made for gpt2's matrices: with --backbone rnn use adamw",
            ),
            (
                self.lora_rank and is_new,
                f"--lora-rank {self.lora_rank} is for pretrained language models: with --backbone"
                f" {self.backbone} leave it out",
            ),
            (
                self.lora_rank and self.optimizer == "muon",
                "muon is made for whole matrices: with --lora-rank use adamw",
            ),
            (
                self.q_head == "shared" and is_new,
                "--q-head shared needs a language model's embeddings: with --backbone"
                f" {self.backbone} use mlp or low-rank",
            ),
            (
                self.policy_head == "actions" and (not is_new or len(self.members) > 1),
                "--policy-head actions is for one task and a new backbone: leave it out",
            ),
            (
                self.width % self.attention_heads,
                f"width {self.width} does not divide into attention_heads {self.attention_heads}"
                " equal parts: change one of them",
            ),
            (
                len(self.members) > 1 and not is_new,
                f"--backbone {self.backbone}: several tasks have tokens of their own, which no"
                f" language model speaks: choose {' or '.join(NEW_BACKBONES)}",
            ),
            (
                self.mix and len(self.members) == 1,
                f"--mix {self.mix} is for several tasks, and {self.task} is one",
            ),
        )

    @property
    def asks(self) -> bool:
        """Whether the run needs answers to queries about later steps."""
        return self.representation.asks or self.bisimulation.asks

    @property
    def proportions(self) -> dict[str, float]:
        """How much of every step each member gets against its preset."""
        found = dict.fromkeys(self.members, 1.0)
        for part in filter(None, self.mix.split(",")):
            name, _, value = part.partition("=")
            if name not in found:
                raise UserError(f"--mix {self.mix}: {unknown('task', name, found)}")
            try:
                found[name] = float(value)
            except ValueError:
                found[name] = math.nan
            if not 0 < found[name] < math.inf:
                raise UserError(f"--mix {self.mix}: {name} must be a number above 0, not {value!r}")
        return found

    @property
    def sized_members(self) -> dict[str, MemberConfig]:
        """The members with as many episodes per step as the mix asks for."""
        sized = {}
        for name, member in self.members.items():
            parts = self.proportions[name] * member.batch_size / member.accumulation
            sized[name] = replace(member, batch_size=max(1, round(parts)) * member.accumulation)
        return sized

    @property
    def algorithms(self) -> str:
        """For people: the algorithm of all members, or who has which."""
        chosen = {name: member.algo for name, member in self.members.items()}
        if len({*chosen.values()}) == 1:
            return next(iter(chosen.values()))
        return ", ".join(f"{name} {algo}" for name, algo in chosen.items())
