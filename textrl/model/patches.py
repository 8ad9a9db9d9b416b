"""Frames -> tokens: a small CNN whose map is cut into patches."""

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from textrl.errors import UserError

KERNELS, STRIDES = (8, 3, 3), (4, 2, 1)
"""As in the paper; with these kernels 80 x 80 pixels become maps of 7 x 7, as there."""
SCALE = 64.0
"""Bytes become numbers from -1 to 3; those of a dim room, such as ViZDoom's, lie around 0."""


@dataclass(frozen=True)
class Patches:
    """Frames of some episodes of a batch that an encoder has seen already; compare data.Frames."""

    embedded: Tensor  # (frames, patches, width)
    episode: Tensor  # (frames,): whose it is, as its place in the batch
    position: Tensor  # (frames,): of its first token

    @classmethod
    def of_columns(cls, columns: Sequence[tuple[int, Tensor]]) -> "Patches":
        """Frames that all episodes have at the same places: (position, (episodes, ...)) of each."""
        position, embedded = zip(*columns, strict=True)
        count = len(embedded[0])
        device = embedded[0].device
        return cls(
            torch.cat(embedded),
            torch.arange(count, device=device).repeat(len(embedded)),
            torch.tensor(position, device=device).repeat_interleave(count),
        )


def blockwise(convolution: nn.Module, pixels: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The first convolution over (frames, height, width) of bytes, as one over blocks of pixels.

    A kernel of 8 that moves by 4 sees 2 x 2 blocks of 4 x 4 pixels: the same sums as a convolution
    with 16 channels, for which there are kernels twice as fast as for a single channel.
    What it sees are pixels / SCALE - 1; that is done to the kernel, of which there is less.
    dtype: of the pixels on their way in; bytes are exact in any.
    """
    weight, bias = kernel_of(convolution)
    block, across = STRIDES[0], KERNELS[0] // STRIDES[0]
    height, width = (length // block for length in pixels.shape[1:])
    pixels = pixels[:, : height * block, : width * block]
    blocks = pixels.reshape(-1, height, block, width, block).permute(0, 1, 3, 2, 4)
    # The channels stay last in memory, which is what makes it fast.
    channels = blocks.reshape(-1, height, width, block * block).permute(0, 3, 1, 2)
    kernel = (weight / SCALE).view(-1, across, block, across, block).permute(0, 2, 4, 1, 3)
    kernel = channels_last(kernel.reshape(-1, block * block, across, across))
    shifted = bias - weight.sum(dim=(1, 2, 3))
    return nn.functional.conv2d(channels.to(dtype or weight.dtype), kernel, shifted)


def kernel_of(convolution: nn.Module) -> tuple[Tensor, Tensor]:
    """Its weight and bias."""
    weight, bias = convolution.weight, convolution.bias
    assert isinstance(weight, Tensor) and isinstance(bias, Tensor)
    return weight, bias


def channels_last(weights: Tensor) -> Tensor:
    """The same in the order in memory that the fast kernels want."""
    return weights.contiguous(memory_format=torch.channels_last)


class PatchEncoder(nn.Module):
    """A frame -> its tokens' embeddings: the paper's convolutions, their map cut into patches."""

    def __init__(
        self,
        shape: tuple[int, ...],
        patches: int,
        width: int,
        filters: tuple[int, ...] = (32, 64, 32),
        precision: str = "float32",
    ) -> None:
        """patches: how many tokens a frame becomes, a square number; width: of an embedding.

        filters: of each convolution, the paper's unless told otherwise; precision: of computing.
        """
        super().__init__()
        sizes = zip((1, *filters[:-1]), filters, KERNELS, STRIDES, strict=True)
        self.dtype = getattr(torch, precision)
        self.convolutions = nn.ModuleList(nn.Conv2d(*size) for size in sizes)
        map_size = shape
        for kernel, stride in zip(KERNELS, STRIDES, strict=True):
            map_size = tuple((length - kernel) // stride + 1 for length in map_size)
        if min(map_size) < 1:
            raise UserError(f"frames of {shape} pixels are too small for the convolutions")
        self.across = math.isqrt(patches)  # patches in a row, and rows of patches
        if self.across**2 != patches or self.across > min(map_size):
            raise UserError(
                f"--patches must be a square number up to {min(map_size) ** 2}, not {patches}"
            )
        # A map that does not divide evenly gets an empty margin.
        self.patch = tuple(-(-length // self.across) for length in map_size)
        self.margin = tuple(
            size * self.across - length for size, length in zip(self.patch, map_size, strict=True)
        )
        self.project = nn.Linear(filters[-1] * math.prod(self.patch), width)
        self.place = nn.Embedding(patches, width)

    def forward(self, pixels: Tensor) -> Tensor:
        """(frames, height, width) of uint8 -> (frames, patches, width)."""
        first, *others = self.convolutions
        is_half = self.dtype != torch.float32
        with torch.autocast(pixels.device.type, self.dtype, enabled=is_half):
            seen = blockwise(first, pixels, self.dtype if is_half else None).relu_()
            for convolution, stride in zip(others, STRIDES[1:], strict=True):
                weight, bias = kernel_of(convolution)
                seen = nn.functional.conv2d(seen, channels_last(weight), bias, stride).relu_()
            (below, right), (high, wide) = self.margin, self.patch
            seen = nn.functional.pad(seen, (0, right, 0, below))
            cut = seen.reshape(*seen.shape[:2], self.across, high, self.across, wide)
            # (frames, filters, rows, high, columns, wide) -> one vector for each row and column
            vectors = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
            embedded: Tensor = self.project(vectors)
        return embedded.to(self.place.weight.dtype) + self.place.weight


CLEARLY_FASTER = 1.15
"""bfloat16 rounds more; it has to be worth it."""


@functools.cache
def chosen_precision(wanted: str) -> str:
    """What convolutions compute in; auto: bfloat16 where it is clearly faster, by a measurement.

    Some processors have instructions for it and others emulate it, at a fraction of the speed.
    """
    if wanted != "auto":
        return wanted
    if torch.accelerator.is_available():  # there, accelerate's --mixed_precision decides for all
        return "float32"
    seconds = {name: _seconds_of(name) for name in ("float32", "bfloat16")}
    is_faster = seconds["float32"] > CLEARLY_FASTER * seconds["bfloat16"]
    return "bfloat16" if is_faster else "float32"


def _seconds_of(precision: str, frames: int = 256, rounds: int = 5) -> float:
    """The fastest of some passes there and back over frames as ViZDoom has them."""
    state = torch.get_rng_state()
    encoder = PatchEncoder((80, 80), 1, 64, precision=precision)
    torch.set_rng_state(state)  # a measurement must not change what is learned
    pixels = torch.zeros(frames, 80, 80, dtype=torch.uint8)
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        encoder(pixels).sum().backward()
        taken.append(time.perf_counter() - begun)
    return min(taken)
