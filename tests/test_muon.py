"""The optimizer against PyTorch's and against what it promises."""

import pytest
import torch
from torch import nn

from textrl.muon import Muon, orthogonalized


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 12), (2, 12, 4)])
def test_singular_values_come_near_one(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalized(matrices))
    assert values.min() > 0.3 and values.max() < 1.3
    # The directions stay: U^T X V is diagonal.
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.mT @ orthogonalized(matrices) @ vh.mT
    off_diagonal = turned - torch.diag_embed(torch.diagonal(turned, dim1=1, dim2=2))
    assert off_diagonal.abs().max() < 1e-4


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
