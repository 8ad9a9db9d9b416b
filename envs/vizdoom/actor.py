"""The policy that A2C learns, without what trained it: the last frames -> an action.

A checkpoint is a folder of safetensors and JSON. Stable-baselines3's own are pickles, which are
never opened.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from textrl.data.files import scratch_folder
from textrl.envs.vizdoom.rules import ACTIONS, FRAME_SHAPE, FRAME_SKIP
from textrl.errors import UserError, first_line

Pixels = NDArray[np.uint8]

STACK = 4
"""Frames that it looks at: this one and those before; ahead of the first there is black."""
WIDTH = 512
WEIGHTS_FILE, NOTE_FILE = "actor.safetensors", "actor.json"
GAME = {"actions": list(ACTIONS), "frame_skip": FRAME_SKIP, "stack": STACK}
"""What weights are good for."""


class Network(nn.Module):
    """The convolutions that are customary for such games, and a head for the actions.

    As stable-baselines3's CnnPolicy without the head for values.
    """

    def __init__(self) -> None:
        super().__init__()
        sizes = ((STACK, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))
        self.convolutions = nn.ModuleList(nn.Conv2d(*size) for size in sizes)
        height, width = FRAME_SHAPE
        for *_, kernel, stride in sizes:
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        self.hidden = nn.Linear(64 * height * width, WIDTH)
        self.action = nn.Linear(WIDTH, len(ACTIONS))

    def forward(self, frames: Tensor) -> Tensor:
        """(episodes, STACK, 80, 80) of uint8, the newest last -> logits (episodes, actions)."""
        seen = frames.to(self.action.weight.dtype) / 255
        for convolution in self.convolutions:
            seen = torch.relu(convolution(seen))
        logits: Tensor = self.action(torch.relu(self.hidden(seen.flatten(1))))
        return logits


def make_players(
    network: Network, episodes: int, rng: Generator
) -> Callable[[Pixels], NDArray[np.int64]]:
    """Players of episodes side by side: each step's frames (episodes, 80, 80) -> actions drawn."""
    stack = np.zeros((episodes, STACK, *FRAME_SHAPE), dtype=np.uint8)

    @torch.inference_mode()
    def act(frames: Pixels) -> NDArray[np.int64]:
        stack[:, :-1] = stack[:, 1:].copy()
        stack[:, -1] = frames
        logits = network(torch.from_numpy(stack)).numpy()
        # The largest of logits plus Gumbel noise is a draw from their softmax.
        actions: NDArray[np.int64] = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
        return actions

    return act


@dataclass(frozen=True)
class Actor:
    """A checkpoint: after so many steps it found the armor in this share of so many episodes.

    digest: of its weights.
    """

    network: Network
    digest: str
    steps: int
    success: float
    episodes: int

    def watcher(self, rng: Generator) -> Callable[[Pixels], int]:
        """Plays one episode: frame after frame -> an action drawn."""
        act = make_players(self.network, 1, rng)
        return lambda frame: int(act(frame[None])[0])


def save_actor(folder: Path, network: Network, trained: Mapping[str, Any]) -> None:
    """Write a new checkpoint folder, whole or not at all.

    trained: steps, success and episodes, as an Actor has them, and whatever else is worth noting.
    """
    with scratch_folder(folder) as scratch:
        weights = {name: each.contiguous() for name, each in network.state_dict().items()}
        save_file(weights, scratch / WEIGHTS_FILE)
        note = {"game": GAME, "trained": dict(trained)}
        (scratch / NOTE_FILE).write_text(json.dumps(note, indent=2) + "\n")
        os.rename(scratch, folder)


def load_actor(folder: Path) -> Actor:
    """The policy in a checkpoint folder."""
    if not (folder / NOTE_FILE).is_file():
        inside = sorted(path.parent.name for path in folder.glob(f"*/{NOTE_FILE}"))
        remedy = f"choose {folder / inside[-1]}" if inside else "recipes/train_a2c.py makes them"
        raise UserError(
            f"{str(folder)!r} is not an A2C checkpoint (it has no {NOTE_FILE}): {remedy}"
        )
    try:
        note = json.loads((folder / NOTE_FILE).read_text(encoding="utf-8"))
        game, trained = note["game"], note["trained"]
        steps, success = int(trained["steps"]), float(trained["success"])
        episodes = int(trained["episodes"])
        content = (folder / WEIGHTS_FILE).read_bytes()
        weights = load(content)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, SafetensorError) as error:
        raise UserError(
            f"cannot load an A2C checkpoint from {str(folder)!r}: {first_line(error)}"
        ) from error
    if game != GAME:
        raise UserError(f"{str(folder)!r} plays another game: {game}, not {GAME}")
    network = Network()
    ours = {name: (each.shape, each.dtype) for name, each in network.state_dict().items()}
    if {name: (each.shape, each.dtype) for name, each in weights.items()} != ours:
        raise UserError(f"{WEIGHTS_FILE} in {str(folder)!r} holds another network's weights")
    network.load_state_dict(weights)
    network.requires_grad_(False)
    return Actor(network, hashlib.sha256(content).hexdigest(), steps, success, episodes)
