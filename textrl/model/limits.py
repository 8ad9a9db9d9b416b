"""What a network's config.json may say: a stranger can have written it."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from textrl.errors import brief
from textrl.model.layout import MemberLayout, ValueUnits

MOST_TASKS = 100
LONGEST_TEXT = 1_000
LARGEST_NUMBER = 2**27
LARGEST_COUNT = 10_000
"""Of layers, heads and other parts of a language model: its config makes lists of them."""
COUNTED = ("layer", "block", "depth", "expert", "head", "stage", "group")
BOUNDLESS = ("theta", "max_length")
"""Numbers of a language model's config that nothing is made as large as."""
DEEPEST = 20
HEADS = ("policy", "q", "v", "slow_v", "world", "inverse", "hindsight")
CHOICES = {
    "cell": ("tanh", "gru", "lstm"),
    "q_head": ("mlp", "low-rank", "shared"),
    "frame_precision": ("float32", "bfloat16"),
}
WITHIN: dict[str, tuple[float, float]] = {
    "vocabulary": (2, LARGEST_NUMBER),
    "tokens": (2, LARGEST_NUMBER),
    "action_tokens": (1, LARGEST_NUMBER),
    "actions": (1, LARGEST_NUMBER),
    "layers": (1, LARGEST_COUNT),
    "width": (1, LARGEST_NUMBER),
    "attention_heads": (1, LARGEST_COUNT),
    "context": (2, LARGEST_NUMBER),
    "steps": (0, 1e12),
    "q_heads": (1, LARGEST_COUNT),
    "q_rank": (1, LARGEST_NUMBER),
    "rank": (1, LARGEST_NUMBER),
    "candidates": (1, LARGEST_COUNT),
    "plausible": (0, 1),
    "temperature": (1e-6, 1e6),
    "value_center": (-1e30, 1e30),
    "center": (-1e30, 1e30),
    "value_scale": (1e-30, 1e30),
    "scale": (1e-30, 1e30),
    "embedding_norm": (1e-30, 1e30),
}
"""Of numbers by name; all others are from 0 to LARGEST_NUMBER."""
LM_LEAVES_OUT = (
    *("auto_map", "trust_remote_code", "quantization_config", "fusion_config", "per_layer_config"),
    *("transformers_weights", "_attn_implementation", "attn_implementation", "_name_or_path"),
    *("_experts_implementation", "experts_implementation", "distributed_config", "name_or_path"),
    *("num_labels", "id2label", "label2id"),
)
"""Of a language model's config: what names code, kernels or files, or only costs memory."""


A_TASK: dict[str, Any] = {
    **vars(
        MemberLayout(
            name="",
            tokens=2,
            actions=1,
            observation_classes=0,
            has_frames=False,
            window=0,
            heads=(),
            acts_by=(),
            beta=0.0,
            candidates=1,
            plausible=0.0,
        )
    ),
    "begin": 0,
}
"""Of what types a task's entries are."""


def check_settings(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse values of a config.json that no network has; defaults tell of what type each is.

    ValueError says which.
    """
    for name, value in settings.items():
        if name in CHECKS:
            if value is not None:
                CHECKS[name](value)
        elif name in ("heads", "acts_by"):
            check_names(name, value)
        elif name == "filters":
            check_numbers(name, value, 3)
        elif name in CHOICES:
            if value not in CHOICES[name]:
                raise ValueError(f"{name} is {brief(value)}, not one of {', '.join(CHOICES[name])}")
        elif name in defaults:
            check_value(name, value, defaults[name])


def check_value(name: str, value: object, default: object) -> None:
    """Refuse what is of another type than the default, or beyond what makes sense."""
    if default is None or isinstance(default, str):
        if not (value is None and default is None) and not isinstance(value, str):
            raise ValueError(f"{name} is {brief(value)}, not text")
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise ValueError(f"{name} has {len(value):,} characters: {LONGEST_TEXT:,} are allowed")
    elif isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {brief(value)}, neither true nor false")
    else:
        check_number(name, value, whole=isinstance(default, int))


def check_number(name: str, value: object, whole: bool = True) -> None:
    """Refuse what is no number, not finite or out of its range."""
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not is_finite(value):
        raise ValueError(f"{name} is {brief(value)}, not a {'whole' if whole else 'finite'} number")
    low, high = WITHIN.get(name, (0, LARGEST_NUMBER))
    if not low <= value <= high:
        raise ValueError(f"{name} is {brief(value)}, not from {low:g} to {high:g}")


def is_finite(value: float) -> bool:
    """Also of whole numbers that are too large for a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_names(name: str, value: object) -> None:
    """Refuse what is no list of heads."""
    if not isinstance(value, list | tuple) or len(value) > len(HEADS):
        raise ValueError(f"{name} is {brief(value)}, not a list of heads")
    for each in value:
        if each not in HEADS:
            raise ValueError(f"{name} has {brief(each)}, which is none of {', '.join(HEADS)}")


def check_numbers(name: str, value: object, count: int) -> None:
    """Refuse what is no list of so many whole numbers above 0."""
    if not isinstance(value, list | tuple) or len(value) != count or 0 in value:
        raise ValueError(f"{name} is {brief(value)}, not {count} whole numbers above 0")
    for each in value:
        check_number(name, each)


def check_kinds(value: object) -> None:
    """Refuse what are no kinds of action tokens."""
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= LARGEST_COUNT:
        raise ValueError(f"token_kinds is {brief(value)}, not a list of numbers")
    for each in value:
        check_number("token_kinds", each)
        if each >= len(value):
            raise ValueError(f"token_kinds has {each}, but there are only {len(value)} tokens")


def check_members(value: object) -> None:
    """Refuse what no tasks of a model are."""
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_TASKS:
        raise ValueError(f"members is {brief(value)}, not a list of tasks")
    for member in value:
        if not isinstance(member, dict) or not set(member) <= set(A_TASK):
            raise ValueError(f"members has {brief(member)}, which is no task")
        for name, of in member.items():
            if name == "units":
                if not isinstance(of, dict) or not set(of) <= {"center", "scale"}:
                    raise ValueError(f"units is {brief(of)}, not a center and a scale")
                check_settings(of, vars(ValueUnits()))
            elif name != "begin" or of is not None:
                check_settings({name: of}, A_TASK)


def check_adapter(value: object) -> None:
    """Refuse what no adapter's settings are."""
    if not isinstance(value, dict) or set(value) != {"rank", "alpha", "targets"}:
        raise ValueError(f"lora is {brief(value)}, not a rank, an alpha and targets")
    check_number("rank", value["rank"])
    check_number("alpha", value["alpha"], whole=False)
    targets = value["targets"]
    if not isinstance(targets, list) or not all(
        isinstance(each, str) and len(each) <= LONGEST_TEXT for each in targets
    ):
        raise ValueError(f"the targets of lora are {brief(targets)}, not names of layers")


def check_generation(value: object) -> None:
    """Refuse settings of `generate` that are no plain values."""
    if not isinstance(value, dict):
        raise ValueError(f"generation is {brief(value)}, not settings by name")
    for name in ("num_beams", "num_return_sequences", "top_k"):
        if value.get(name) is not None:
            check_number(name, value[name])
            if name != "top_k" and value[name] > MOST_TASKS:
                raise ValueError(
                    f"{name} is {brief(value[name])}: at most {MOST_TASKS} are allowed"
                )
    check_nested("generation", value)


def check_nested(name: str, value: object, depth: int = 0) -> None:
    """Refuse numbers that are too large, and what is too deep or too long, wherever it is."""
    if depth > DEEPEST:
        raise ValueError(f"{name} is too deep")
    if isinstance(value, Mapping | list | tuple) and len(value) > LARGEST_COUNT:
        raise ValueError(
            f"{name} has {len(value):,} entries: at most {LARGEST_COUNT:,} are allowed"
        )
    if isinstance(value, Mapping):
        for key, of in value.items():
            check_nested(str(key), of, depth + 1)
    elif isinstance(value, list | tuple):
        for of in value:
            check_nested(name, of, depth + 1)
    elif isinstance(value, int) and not any(part in name for part in BOUNDLESS):
        is_count = "size" not in name and any(part in name for part in COUNTED)
        most = LARGEST_COUNT if is_count else LARGEST_NUMBER
        if abs(value) > most:
            raise ValueError(f"{name} is {brief(value)}: at most {most:,} is allowed")


def check_lm(value: object) -> None:
    """Refuse what no language model's config is."""
    if not isinstance(value, dict) or not isinstance(value.get("model_type"), str):
        raise ValueError(f"lm is {brief(value)}, not a language model's config")
    if not isinstance(value.get("tie_word_embeddings"), bool):
        raise ValueError("lm does not say whether its embeddings are tied (tie_word_embeddings)")
    check_nested("lm", value)


def plain(value: Any) -> Any:
    """A language model's config without what names code or files, or only costs memory."""
    if isinstance(value, Mapping):
        return {name: plain(of) for name, of in value.items() if name not in LM_LEAVES_OUT}
    return [plain(of) for of in value] if isinstance(value, list | tuple) else value


CHECKS: dict[str, Callable[[object], None]] = {
    "lm": check_lm,
    "generation": check_generation,
    "lora": check_adapter,
    "members": check_members,
    "frame_shape": lambda value: check_numbers("frame_shape", value, 2),
    "whole_actions": lambda value: check_numbers("whole_actions", value, 2),
    "token_kinds": check_kinds,
}
