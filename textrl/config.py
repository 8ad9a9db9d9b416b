"""The settings of a training run: what there is to set, its default and its limits."""

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from textrl.errors import UserError, unknown

T = TypeVar("T")

COMBINED = "combined"
"""The folder of presets for runs over several tasks."""
CONFIG_FILE = "training.yaml"
"""The resolved config in a run's folder."""
FREE_ON_RESUME = (
    *("output", "resume", "save_every", "log_every", "tracker", "final_evaluation"),
    *("push_to_hub", "private", "on_bad_rows"),
)
"""Settings that a resumed run may change: none of them touches what is learned."""


NEW_BACKBONES = ("gpt2", "rnn")
"""Backbones that a run makes new; any other name is a pretrained language model's."""


def option(default: T, help: str, **limits: Any) -> T:
    """A field of the config with its help text.

    limits: minimum, maximum (inclusive) and above (exclusive) bound a number; section opens a new
    section of --help, which lasts until the next one.
    """
    return field(default=default, metadata={"help": help, **limits})


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run. In YAML learning_rate, as a flag --learning-rate."""

    task: str = option(
        "wordle",
        "which task to learn, or several at once with commas between them",
        section="what to run",
    )
    algo: Literal["bc", "filtered-bc", "cql", "ilql"] = option("ilql", "how to learn it")
    preset: str = option("quick", "named settings of the task (shown here as defaults)")
    output: str = option("", "folder for the run; without it runs/<task>")
    seed: int = option(0, "start of every random number", minimum=0, maximum=2**32 - 1)
    resume: bool = option(False, "go on with the run in the output folder, if there is one")

    data: str = option(
        "",
        "episodes to learn from: a folder, a JSONL file or a Hub id; without it the task makes and "
        "caches its own",
        section="data",
    )
    words: str = option("paper", "wordle: its words: paper (236 answers), full, or a file")
    episodes: int = option(300_000, "size of the dataset that the task makes", minimum=1)
    keep_top: float = option(
        0.25, "filtered-bc: share of the episodes kept, best returns first", above=0, maximum=1
    )
    held_out: float = option(
        0.05,
        "text: share of the conversations that are kept for evaluation, at least one",
        above=0,
        maximum=0.5,
    )
    on_bad_rows: Literal["refuse", "skip"] = option(
        "refuse", "text: what to do where a row of the data cannot be used"
    )
    constrain: bool = option(True, "wordle: let the policy spell only words of the list")
    layout: str = option("default", "gridworld: its map: default, or a file")

    backbone: str = option(
        "gpt2",
        "what reads the history: gpt2 or rnn, made new, or a causal language model: its folder or "
        "its USER/NAME on the Hub",
        section="model",
    )
    layers: int = option(2, "layers of a new backbone; a language model has its own", minimum=1)
    width: int = option(128, "size of the hidden states", minimum=1)
    attention_heads: int = option(4, "attention heads; must divide the width", minimum=1)
    context: int = option(64, "longest history in tokens", minimum=2)
    window: int = option(
        0,
        "actions of an episode that the model sees at once, in training and in play; 0 is all",
        minimum=0,
    )
    patches: int = option(
        4, "tasks with frames: how many tokens each becomes, a square number", minimum=1
    )
    cell: Literal["tanh", "gru", "lstm"] = option("gru", "rnn: what it is made of")
    representation_hidden: int = option(
        0, "size of a hidden layer before the representation; 0 is a linear map", minimum=0
    )
    representation_bound: float = option(
        0.0, "largest norm of the representation; 0 is none", minimum=0
    )
    q_head: Literal["auto", "mlp", "low-rank", "shared"] = option(
        "auto",
        "Q of each token: mlp, the same through a low rank, or shared with a language model's "
        "output embeddings; auto is shared on those, else mlp",
    )
    lora_rank: int = option(
        0,
        "train low-rank matrices of this rank beside a language model's, which stays as it is; 0 "
        "trains the whole of it",
        minimum=0,
    )
    lora_alpha: float = option(16.0, "lora: their weight is this over the rank", above=0)
    lora_targets: str = option(
        "", "lora: names of the layers, with commas between them; without it every linear layer"
    )
    q_rank: int = option(64, "low-rank: numbers between the hidden layer and the tokens", minimum=1)

    discount: float = option(
        0.99, "discount per action token", section="algorithm", minimum=0, maximum=1
    )
    expectile: float = option(
        0.8, "ilql: expectile of Q that V learns; 0.5 is the mean, 1 the best", minimum=0, maximum=1
    )
    conservatism: float = option(
        0.001, "weight of pushing down Q of actions that the data does not take", minimum=0
    )
    action_lambda: float = option(
        0.0,
        "ilql: Q targets within an action: 0 looks one token ahead, 1 to the action's end",
        minimum=0,
        maximum=1,
    )
    return_lambda: float = option(
        0.0,
        "Q targets across actions: 0 looks one action ahead, 1 to the episode's end",
        minimum=0,
        maximum=1,
    )
    whole_actions: bool = option(
        False,
        "ilql: V learns what whole actions are worth, not their single tokens",
    )
    target_rate: float = option(
        0.005,
        "share of the online weights that moves into the targets each step",
        above=0,
        maximum=1,
    )
    value_weight: float = option(1.0, "weight of the Q and V losses beside the policy's", minimum=0)
    value_gradient: float = option(
        1.0,
        "share of the Q and V heads' gradient that reaches the backbone",
        minimum=0,
        maximum=1,
    )
    bisim: float = option(
        0.0,
        "weight of the bisimulation loss; 0 measures it only",
        section="bisimulation",
        minimum=0,
    )
    bisim_distance: Literal["l2", "squared-l2", "l1"] = option(
        "l2", "distance between representations"
    )
    bisim_discount: float = option(
        1.0, "weight of what is observed next against the reward", minimum=0
    )
    bisim_actions: Literal["policy", "data"] = option(
        "policy", "whose actions are compared: the current policy's, or those taken in the data"
    )
    bisim_inverse: float = option(
        0.0, "weight of guessing the action between two histories, against collapse", minimum=0
    )
    bisim_fit: float = option(
        0.0,
        "share of the reward and dynamics models' gradient that reaches the encoder; "
        "0 fits them apart",
        minimum=0,
    )
    bisim_stride: int = option(
        1, "minimize the loss at every Nth step only, with N times the weight: cheaper", minimum=1
    )
    bisim_every: int = option(
        20, "steps between measurements of the loss where its weight is 0", minimum=1
    )

    optimizer: Literal["adamw", "muon"] = option(
        "adamw", "what turns gradients into steps", section="optimisation"
    )
    learning_rate: float = option(2e-3, "peak learning rate", minimum=0)
    matrix_learning_rate: float = option(
        0.02, "muon: peak learning rate of the hidden matrices; the rest is adamw's", minimum=0
    )
    warmup_steps: int = option(100, "steps of linear warm-up to the peak", minimum=0)
    schedule: Literal["cosine", "constant"] = option("cosine", "learning rate after the warm-up")
    final_learning_rate: float = option(
        0.05, "where cosine ends, as a share of the peak", minimum=0, maximum=1
    )
    weight_decay: float = option(0.01, "decoupled weight decay", minimum=0)
    clip_norm: float = option(1.0, "largest norm of the gradient", above=0)
    batch_size: int = option(64, "episodes per step, over all processes", minimum=1)
    accumulation: int = option(1, "parts in which a step computes its batch", minimum=1)
    mix: str = option(
        "",
        "several tasks: how much of every step each gets against its preset, such as "
        "wordle=2,gridworld=0.5; without it 1 each",
    )
    max_steps: int = option(10_000, "steps to train", minimum=1)
    threads: int = option(0, "CPU threads; 0 takes every core", minimum=0)

    evaluate_every: int = option(
        1000, "steps between evaluations", section="evaluation and output", minimum=1
    )
    evaluate_episodes: int = option(236, "episodes per evaluation", minimum=1)
    final_evaluation: bool = option(
        True, "play a complete evaluation at the end, beside reference players"
    )
    beta: float = option(4.0, "weight of Q - V against log pi when acting", minimum=0)
    candidates: int = option(
        1,
        "whole actions that the policy names before one is chosen, by log pi and Q; 1 chooses token"
        " by token",
        minimum=1,
    )
    plausible: float = option(
        0.0,
        "candidates of greedy play: the least odds, as a share of the likeliest one's",
        minimum=0,
        maximum=1,
    )
    save_every: int = option(1000, "steps between checkpoints", minimum=1)
    log_every: int = option(20, "steps between lines of metrics", minimum=1)
    tracker: Literal["none", "tensorboard", "trackio", "wandb"] = option(
        "none", "where metrics go besides the run's own JSONL"
    )
    push_to_hub: str = option(
        "",
        "USER/NAME on the Hugging Face Hub to publish the agent as, at every save and at the end",
    )
    private: bool = option(False, "make the repository on the Hub one that only you can see")

    @property
    def trains_bisimulation(self) -> bool:
        """Whether the loss, or what guards it against collapse, is minimized."""
        return self.bisim > 0 or self.bisim_inverse > 0

    @property
    def compares_every(self) -> int:
        """Steps between those at which histories of the whole batch are compared."""
        return self.bisim_stride if self.trains_bisimulation else self.bisim_every

    def __post_init__(self) -> None:
        if self.optimizer == "muon" and self.backbone == "rnn":
            raise UserError("muon is made for gpt2's matrices: with --backbone rnn use adamw")
        if self.lora_rank and self.backbone in NEW_BACKBONES:
            raise UserError(
                f"--lora-rank {self.lora_rank} is for pretrained language models: with --backbone"
                f" {self.backbone} leave it out"
            )
        if self.lora_rank and self.optimizer == "muon":
            raise UserError("muon is made for whole matrices: with --lora-rank use adamw")
        if self.q_head == "shared" and self.backbone in NEW_BACKBONES:
            raise UserError(
                f"--q-head shared needs a language model's embeddings: with --backbone"
                f" {self.backbone} use mlp or low-rank"
            )
        for whole, part in (("width", "attention_heads"), ("batch_size", "accumulation")):
            if getattr(self, whole) % getattr(self, part):
                raise UserError(
                    f"{whole} {getattr(self, whole)} does not divide into "
                    f"{part} {getattr(self, part)} equal parts: change one of them"
                )


FIELDS: dict[str, Field[Any]] = {each.name: each for each in fields(TrainConfig)}
KINDS: dict[str, Any] = get_type_hints(TrainConfig)
KIND_IN_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def checked(name: str, shown: str, value: object) -> Any:
    """The value as its field's type and within its limits; shown: what an error calls the field."""
    kind, limits = KINDS[name], FIELDS[name].metadata
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UserError(f"{shown}: {unknown(name, str(value), get_args(kind))}")
        return value
    typed = as_kind(kind, value)
    if typed is None:
        raise UserError(f"{shown} must be {KIND_IN_WORDS[kind]}, not {value!r}")
    if "minimum" in limits and typed < limits["minimum"]:
        raise UserError(f"{shown} must be at least {limits['minimum']}, not {value}")
    if "above" in limits and typed <= limits["above"]:
        raise UserError(f"{shown} must be above {limits['above']}, not {value}")
    if "maximum" in limits and typed > limits["maximum"]:
        raise UserError(f"{shown} must be at most {limits['maximum']}, not {value}")
    return typed


def as_kind(kind: type, value: object) -> Any:
    """The value as bool, int, float or str; None if it is not one.

    Numbers may be spelled out: the command line has only text, and 1e-4 in YAML is text too.
    """
    if kind in (bool, str) or isinstance(value, bool):  # a bool would pass for an int
        return value if type(value) is kind else None
    if not isinstance(value, (str, int) if kind is int else (str, int, float)):
        return None
    try:
        number = kind(value)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None
