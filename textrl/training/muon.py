"""Muon (Jordan et al. 2024): momentum whose matrices are made orthogonal before each step.

PyTorch has this optimizer too, but iterates in bfloat16, which a CPU without bfloat16 units only
emulates: there it made a training step four times as slow. This one iterates in float32.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

# The quintic iteration's coefficients: fast growth of small singular values, not exact convergence.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalized(matrices: Sequence[Tensor]) -> list[Tensor]:
    """U V^T, roughly, of each matrix U S V^T.

    The iteration X <- (a + b A + c A^2) X with A = X X^T only ever multiplies X, from the left, by
    polynomials of the first A. So they are multiplied with each other, which are smaller than X and
    of one size for all matrices with as many rows, and with X once, at the end.
    """
    is_tall = [matrix.shape[0] > matrix.shape[1] for matrix in matrices]
    wide = [x.mT if tall else x for x, tall in zip(matrices, is_tall, strict=True)]
    wide = [x / x.norm().clamp(min=1e-7) for x in wide]
    by_rows: dict[int, list[int]] = defaultdict(list)
    for number, x in enumerate(wide):
        by_rows[len(x)].append(number)
    for numbers in by_rows.values():
        factors = orthogonalizing(torch.stack([wide[n] @ wide[n].mT for n in numbers]))
        for number, factor in zip(numbers, factors, strict=True):
            wide[number] = factor @ wide[number]
    return [x.mT if tall else x for x, tall in zip(wide, is_tall, strict=True)]


def orthogonalizing(gram: Tensor) -> Tensor:
    """What to multiply X with, of each X X^T in (matrices, rows, rows)."""
    first, third, fifth = NEWTON_SCHULZ
    product: Tensor | None = None
    for iteration in range(ITERATIONS):
        factor = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
        factor.diagonal(dim1=1, dim2=2).add_(first)
        product = factor if product is None else factor @ product
        if iteration + 1 < ITERATIONS:  # all of these commute
            gram = factor @ gram @ factor
    assert product is not None
    return product


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
            parameters = [p for p in group["params"] if p.grad is not None]
            ahead = [self._momentum(p, group["momentum"]) for p in parameters]
            for parameter, direction in zip(parameters, orthogonalized(ahead), strict=True):
                rows, columns = parameter.shape
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(direction, alpha=-rate)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        average: Tensor = state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(average, momentum)
