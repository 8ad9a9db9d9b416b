"""What turns gradients into steps: which optimizer has which weights, and how fast they move."""

import math
from typing import Any

import torch
from torch import nn

from textrl.config.train import TrainConfig
from textrl.training.muon import Muon


def make_optimizers(model: nn.Module, run: TrainConfig) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the backbone's hidden matrices and AdamW for the rest.

    Biases, norms and embeddings are not decayed.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    matrices = {n: p for n, p in trained.items() if p.ndim >= 2 and id(p) not in embeddings}
    hidden = {}
    if run.optimizer == "muon":
        hidden = {n: p for n, p in matrices.items() if n.startswith("backbone.") and p.ndim == 2}
    groups: list[dict[str, Any]] = [
        {"params": [p for name, p in matrices.items() if name not in hidden]},
        {"params": [p for name, p in trained.items() if name not in matrices], "weight_decay": 0.0},
    ]
    rate, decay = run.learning_rate, run.weight_decay
    adamw = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.99), weight_decay=decay, fused=True)
    if not hidden:
        return [adamw]
    return [adamw, Muon(hidden.values(), lr=run.matrix_learning_rate, weight_decay=decay)]


def schedule(step: int, run: TrainConfig) -> float:
    """Share of the peak learning rate: linear warm-up, then constant or half a cosine down.

    Where the encoder is made first, once for that and once for the rest of the run.
    """
    first = run.representation.first_steps
    steps = first
    if step >= first:
        step, steps = step - first, run.max_steps - first
    warm_up = min(1.0, (step + 1) / max(1, run.warmup_steps))
    if run.schedule == "constant":
        return warm_up
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps))
    return warm_up * (run.final_learning_rate + (1 - run.final_learning_rate) * cosine)
