"""LoRA through peft: small trained matrices beside a frozen language model's own."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from textrl.errors import UserError, unknown

ONLINE, SLOW = "default", "target"
"""The adapter that is trained, and its slow copy: what stands for a copy of the whole backbone."""


def need_peft() -> None:
    """Refuse to go on without the package."""
    if find_spec("peft") is None:
        raise UserError("LoRA needs peft: pip install 'offline-textrl[lora]'")


def lora_settings(backbone: nn.Module, rank: int, alpha: float, targets: str) -> dict[str, Any]:
    """What a checkpoint says of its adapter.

    targets: names of linear layers with commas between them; without any, all that the backbone
    has, however its family calls them.
    """
    need_peft()
    known = {name.rsplit(".", 1)[-1] for name in linear_layers(backbone)}
    wanted = [name.strip() for name in targets.split(",")] if targets else sorted(known)
    for name in wanted:
        if name not in known:
            raise unknown("LoRA target", name, known)
    return {"rank": rank, "alpha": alpha, "targets": wanted}


def linear_layers(backbone: nn.Module) -> dict[str, nn.Module]:
    """The backbone's linear layers by name; GPT-2 has its own kind of them."""
    modules = backbone.named_modules()
    return {name: module for name, module in modules if isinstance(module, nn.Linear | Conv1D)}


def add_adapters(backbone: nn.Module, settings: Mapping[str, Any], slow: bool) -> None:
    """Freeze the backbone and put an adapter, which starts without effect, into its layers.

    slow: and another one that can follow it.
    """
    need_peft()
    from peft import LoraConfig
    from peft.functional import cast_adapter_dtype, inject_adapter_in_model

    is_transposed = any(isinstance(each, Conv1D) for each in linear_layers(backbone).values())
    config = LoraConfig(
        r=settings["rank"],
        lora_alpha=settings["alpha"],
        target_modules=list(settings["targets"]),
        fan_in_fan_out=is_transposed,
    )
    backbone.requires_grad_(False)
    for name in (ONLINE, SLOW) if slow else (ONLINE,):
        with warnings.catch_warnings(action="ignore"):  # of the second: yes, we want two
            inject_adapter_in_model(config, backbone, name)
        cast_adapter_dtype(backbone, name)  # to single precision, whatever is beside it
    _switch(backbone, ONLINE)


@contextlib.contextmanager
def slow_adapter(backbone: nn.Module) -> Iterator[None]:
    """Read with the slow adapter in here; without gradient."""
    _switch(backbone, SLOW, inference_mode=True)
    try:
        yield
    finally:
        _switch(backbone, ONLINE)


def _switch(backbone: nn.Module, adapter: str, inference_mode: bool = False) -> None:
    from peft.functional import set_adapter

    set_adapter(backbone, adapter, inference_mode=inference_mode)


def adapter_pairs(
    backbone: nn.Module,
) -> tuple[Sequence[nn.Parameter], Sequence[nn.Parameter]]:
    """The slow adapter's parameters and, in the same order, those that they follow."""
    named = dict(backbone.named_parameters())
    slow = [name for name in named if is_adapter(name) and f".{SLOW}." in name]
    followed = [name.replace(f".{SLOW}.", f".{ONLINE}.") for name in slow]
    return [named[name] for name in slow], [named[name] for name in followed]


def is_adapter(name: str) -> bool:
    """Whether a parameter of this name belongs to an adapter, not to what is frozen."""
    return ".lora_" in name


def merge_adapter(backbone: nn.Module) -> None:
    """Add the trained adapter to the weights it stands beside, and leave no trace of peft."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(backbone.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge(adapter_names=[ONLINE])
            parent, _, child = name.rpartition(".")
            setattr(backbone.get_submodule(parent), child, layer.get_base_layer())
