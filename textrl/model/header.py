"""Whether a file's weights are those of a network, found out before either takes memory.

A stranger's config.json may describe a network of any size: it is built without memory first, as
far as the header of the weights can fill it.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.nn.modules import module as hooks

T = TypeVar("T", bound=nn.Module)
Shapes = Mapping[str, tuple[int, ...]]

LARGEST_BUFFERS = 2**30
"""Bytes of what a network holds beside its weights, such as masks."""
PARTS_PER_TENSOR = 40
"""Modules and parameters built for each tensor of the header; LoRA of one layer kind needs most."""


def header_of(file: Path) -> Shapes:
    """The names and shapes of a safetensors file, whose numbers are not read."""
    with safe_open(file, "pt") as opened:  # compares the header with the file's length
        return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118


def built_on_paper(make: Callable[[], T], saved: Shapes) -> T:
    """The network without memory for its numbers; ValueError where the weights cannot fill it."""
    with few_parts(PARTS_PER_TENSOR * (len(saved) + 25)), torch.device("meta"):
        built = make()
    persistent = built.state_dict().keys()
    beside = sum(bytes_of(t) for name, t in built.named_buffers() if name not in persistent)
    if beside > LARGEST_BUFFERS:
        raise ValueError(f"it needs {beside / 2**30:,.0f} GB beside its weights")
    return built


def difference(expected: Shapes, saved: Shapes) -> str:
    """The first tensor in which two sets of weights differ; "" where there is none."""
    for what, names in (
        ("missing keys", expected.keys() - saved.keys()),
        ("unexpected keys", saved.keys() - expected.keys()),
        ("mismatched keys", {n for n, shape in expected.items() if shape != saved.get(n)}),
    ):
        if names:
            return f"{what}, first {min(names)}"
    return ""


def bytes_of(tensor: Tensor) -> int:
    """What it takes in memory."""
    return tensor.numel() * tensor.element_size()


@contextlib.contextmanager
def few_parts(most: int) -> Iterator[None]:
    """Stop building a network in here when it has more parts than this."""
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1
        if count > most:
            raise ValueError(f"its config describes more than {most:,} parts, its weights do not")

    handles = [
        hooks.register_module_module_registration_hook(counted),
        hooks.register_module_parameter_registration_hook(counted),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
