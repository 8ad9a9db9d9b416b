"""Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal before each step.

PyTorch has this optimizer too, but iterates in bfloat16, which a CPU without bfloat16 units only
emulates: there it made a training step four times as slow. This one iterates in float32.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

# The quintic iteration's coefficients: fast growth of small singular values, not exact convergence.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalized(matrices: Tensor) -> Tensor:
    """U V^T, roughly, of each matrix U S V^T in (matrices, rows, columns)."""
    first, third, fifth = NEWTON_SCHULZ
    is_tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(
            x, torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth), x, beta=first
        )
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """For the hidden matrices of a network; embeddings, outputs, norms and biases go to AdamW."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step, with Nesterov momentum."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            # Matrices of one shape go through the iteration together: fewer, larger products.
            for (rows, columns), parameters in by_shape.items():
                ahead = torch.stack([self._momentum(p, group["momentum"]) for p in parameters])
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for parameter, direction in zip(parameters, orthogonalized(ahead), strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(direction, alpha=-rate)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        average: Tensor = state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(average, momentum)
