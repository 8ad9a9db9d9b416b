"""The learned model of the environment that the bisimulation loss asks: reward and what follows."""

import torch
from torch import Tensor, nn


class WorldModel(nn.Module):
    """Predicts, from a representation and an action token, the reward and what is observed next.

    Discrete observations: logits of their classes. Otherwise (classes = 0): a Gaussian over the
    next history's representation, its means followed by the logarithms of its deviations, which lie
    between -2 and 2.
    """

    def __init__(self, width: int, actions: int, classes: int) -> None:
        """actions: how many there are, or the size of the embeddings that stand for them."""
        super().__init__()
        self.classes = classes
        self.of_history = nn.Linear(width, 2 * width)
        self.of_action = nn.Linear(actions, 2 * width, bias=False)
        self.last = nn.Linear(2 * width, 1 + (classes or 2 * width))

    def forward(
        self, representation: Tensor, actions: Tensor, embeddings: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """representation (n, width), actions (n,) -> reward (n,), dynamics (n, classes or 2 width).

        As a hidden layer over the representation beside the action's one-hot vector would do it, or
        beside its embedding, where embeddings (actions, size) are given.
        """
        if embeddings is None:
            of_action = self.of_action.weight.t()[actions]
        else:
            of_action = self.of_action(embeddings[actions].to(representation.dtype))
        read = self.last(torch.relu(self.of_history(representation) + of_action))
        reward, dynamics = read[:, 0], read[:, 1:]
        if not self.classes:
            # Where nothing is random the likelihood has no bound: the deviations need one.
            mean, log_deviation = dynamics.chunk(2, dim=-1)
            dynamics = torch.cat([mean, 2 * torch.tanh(log_deviation)], dim=-1)
        return reward, dynamics
