"""Random outputs and batches for the losses, in float64, and ways to cut and stretch them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.slow_batches import TENSORS
from textrl.data.batches import Batch
from textrl.losses.outputs import TextRLOutput

GARBAGE = 1e3


@dataclass(frozen=True)
class Case:
    """What a loss takes."""

    outputs: TextRLOutput
    batch: Batch

    def pick(self, episodes: list[int]) -> "Case":
        """Only these episodes, in this order; they stay parts of the same step."""
        outputs, batch = self.outputs, self.batch
        return Case(
            TextRLOutput(
                policy=outputs.policy[episodes],
                q=outputs.q[:, episodes],
                target_q=outputs.target_q[:, episodes],
                v=outputs.v[episodes],
                slow_v=outputs.slow_v[episodes],
            ),
            replace(batch, **{name: getattr(batch, name)[episodes] for name in TENSORS}),
        )

    def padded(self, by: int) -> "Case":
        """With more padding after every episode, at which the heads say anything."""
        outputs, batch = self.outputs, self.batch

        def wider(values: Tensor, axis: int, filling: float) -> Tensor:
            shape = list(values.shape)
            shape[axis] = by
            return torch.cat([values, torch.full(shape, filling, dtype=values.dtype)], dim=axis)

        return Case(
            TextRLOutput(
                policy=wider(outputs.policy, 1, GARBAGE),
                q=wider(outputs.q, 2, GARBAGE),
                target_q=wider(outputs.target_q, 2, GARBAGE),
                v=wider(outputs.v, 1, GARBAGE),
                slow_v=wider(outputs.slow_v, 1, GARBAGE),
            ),
            replace(
                batch,
                state_positions=wider(batch.state_positions, 1, 0),
                legal=wider(batch.legal, 1, True),
                **{
                    name: wider(getattr(batch, name), 1, -1 if name == "observations" else 0)
                    for name in _PER_ACTION
                },
            ),
        )

    def gradients(self, loss: Callable[[TextRLOutput, Batch], Tensor]) -> dict[str, Tensor | None]:
        """The gradient of the loss at each output, None where nothing arrives."""
        leaves = {
            name: getattr(self.outputs, name).detach().clone().requires_grad_()
            for name in ("policy", "q", "target_q", "v", "slow_v")
        }
        loss(TextRLOutput(**leaves), self.batch).backward()
        return {name: leaf.grad for name, leaf in leaves.items()}


_PER_ACTION = (
    *("actions", "rewards", "observations", "ends_action", "is_action", "has_next"),
    *("is_followed", "return_after"),
)


@pytest.fixture
def random_case() -> Callable[..., Case]:
    """lengths: actions of each episode; truncated: which of them were cut by a time limit."""

    def make(
        seed: int,
        lengths: tuple[int, ...] = (3, 1, 5, 2),
        truncated: tuple[bool, ...] = (False, True, True, False),
        tokens: int = 4,
    ) -> Case:
        rng = np.random.default_rng(seed)
        batch, actions = len(lengths), max(lengths)
        states = actions + any(truncated)
        is_action = np.arange(actions) < np.array(lengths)[:, None]
        is_last = np.arange(actions) == np.array(lengths)[:, None] - 1
        taken = np.where(is_action, rng.integers(tokens, size=is_action.shape), 0)
        legal = rng.random((batch, states, tokens)) < 0.6
        np.put_along_axis(legal[:, :actions], taken[..., None], True, axis=2)
        legal[:, -1, 0] = True
        ends_action = is_action & (rng.random(taken.shape) < 0.4)
        return Case(
            TextRLOutput(
                policy=torch.from_numpy(rng.normal(size=(batch, states, tokens))),
                q=torch.from_numpy(rng.normal(size=(2, batch, states, tokens))),
                target_q=torch.from_numpy(rng.normal(size=(2, batch, states, tokens))),
                v=torch.from_numpy(rng.normal(size=(batch, states))),
                slow_v=torch.from_numpy(rng.normal(size=(batch, states))),
            ),
            Batch(
                tokens=torch.zeros(batch, 2 * actions, dtype=torch.int64),
                state_positions=torch.zeros(batch, states, dtype=torch.int64),
                legal=torch.from_numpy(legal),
                actions=torch.from_numpy(taken),
                rewards=torch.from_numpy(np.where(is_action, rng.normal(size=taken.shape), 0.0)),
                observations=torch.full(taken.shape, -1),
                ends_action=torch.from_numpy(ends_action),
                is_action=torch.from_numpy(is_action),
                has_next=torch.from_numpy(is_action & (~is_last | np.array(truncated)[:, None])),
                is_followed=torch.from_numpy(is_action & ~is_last),
                return_after=torch.zeros(taken.shape, dtype=torch.float64),
                left=torch.where(torch.tensor(truncated), -1, 0)[:, None],
                action_count=sum(lengths),
                completed_count=int(ends_action.sum()),
            ),
        )

    return make
