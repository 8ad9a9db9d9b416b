"""The optimizer against PyTorch's and against what it promises."""

import pytest
import torch
from torch import nn

from textrl.training.muon import ITERATIONS, NEWTON_SCHULZ, Muon, orthogonalized

SHAPES = [(8, 8), (4, 12), (12, 4), (8, 20), (8, 8)]


@pytest.fixture
def matrices() -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random) for shape in SHAPES]


def test_singular_values_come_near_one(matrices: list[torch.Tensor]) -> None:
    for matrix, found in zip(matrices, orthogonalized(matrices), strict=True):
        values = torch.linalg.svdvals(found)
        assert values.min() > 0.3 and values.max() < 1.3
        # The directions stay: U^T X V is diagonal.
        u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
        turned = u.mT @ found @ vh.mT
        assert (turned - torch.diag(torch.diagonal(turned))).abs().max() < 1e-4


def iterated(matrix: torch.Tensor) -> torch.Tensor:
    """The iteration as it is written down, in double precision."""
    first, third, fifth = NEWTON_SCHULZ
    x = matrix.double() / matrix.double().norm()
    for _ in range(ITERATIONS):
        x = first * x + third * (x @ x.mT) @ x + fifth * (x @ x.mT) @ (x @ x.mT) @ x
    return x


def test_is_the_iteration(matrices: list[torch.Tensor]) -> None:
    for matrix, found in zip(matrices, orthogonalized(matrices), strict=True):
        torch.testing.assert_close(found.double(), iterated(matrix), atol=2e-5, rtol=0)


def test_hardly_any_of_its_directions_may_have_a_gradient() -> None:
    random = torch.Generator().manual_seed(0)
    thin = [torch.randn(shape, generator=random) for shape in [(64, 2), (2, 128)]]
    matrix = thin[0] @ thin[1] + 1e-4 * torch.randn(64, 128, generator=random)
    (found,) = orthogonalized([matrix])
    torch.testing.assert_close(found.double(), iterated(matrix), atol=1e-4, rtol=0)


def test_steps_like_pytorchs_up_to_its_bfloat16() -> None:
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=random) for shape in [(6, 6), (6, 6), (12, 6), (6, 12)]]
    ours = [nn.Parameter(matrix.clone()) for matrix in start]
    theirs = [nn.Parameter(matrix.clone()) for matrix in start]
    optimizers = [
        Muon(ours, lr=0.1, weight_decay=0.1),
        torch.optim.Muon(theirs, lr=0.1, weight_decay=0.1),
    ]
    for _ in range(3):
        for our, their in zip(ours, theirs, strict=True):
            our.grad = torch.randn(our.shape, generator=random)
            their.grad = our.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for our, their, was in zip(ours, theirs, start, strict=True):
        assert (our - was).norm() > 0.3
        assert (our - their).abs().max() < 0.02


def test_a_parameter_without_gradient_stays() -> None:
    idle, busy = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    busy.grad = torch.eye(2)
    Muon([idle, busy], lr=0.1, weight_decay=0.5).step()
    assert torch.equal(idle, torch.ones(2, 2))
    assert not torch.equal(busy, torch.ones(2, 2))
