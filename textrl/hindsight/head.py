"""What answers queries: a small network over a history's representation and the query."""

import torch
from torch import Tensor, nn

from textrl.bisimulation.dynamics import WorldModel
from textrl.hindsight.queries import CommonQueries, Queries
from textrl.hindsight.survey import REWARD_CLASSES

PLACES = 8
"""Tokens of an action that are told apart by their place in it; later ones count as the last."""


class HindsightHead(nn.Module):
    """From a representation: the answer to a query, and what comes next.

    A query is an observation's class or an action, the sum of its tokens' embeddings. An answer is
    the logits of the reward's class and, after REWARD_CLASSES of those, of the observation's.
    """

    def __init__(self, width: int, actions: int, classes: int) -> None:
        """classes: of observations, 0 = none."""
        super().__init__()
        self.actions, self.classes = actions, classes
        self.of_history = nn.Linear(width, 2 * width)
        self.of_observation = nn.Embedding(max(1, classes), 2 * width)
        self.of_action = nn.Embedding(PLACES * actions, 2 * width)
        self.last = nn.Linear(2 * width, REWARD_CLASSES + classes)
        self.next = WorldModel(width, actions, classes)

    def embed(self, queries: Queries) -> Tensor:
        """The query that each history is asked, (batch, actions, 2 width)."""
        if queries.observation is not None:
            asked: Tensor = self.of_observation(queries.observation.clamp_min(0))
            return asked
        place = queries.place.clamp_max(PLACES - 1)
        until = self.of_action(place * self.actions + queries.actions).cumsum(dim=1)
        # The sum from its action's first token: less what was before that.
        first = torch.arange(until.shape[1], device=until.device) - queries.place
        wide = (*until.shape[:2], until.shape[2])
        before = until.gather(1, (first - 1).clamp_min(0)[..., None].expand(wide))
        whole = until - torch.where(first[..., None] > 0, before, 0.0)
        chosen: Tensor = whole.gather(1, queries.step[..., None].expand(wide))
        return chosen

    def answer(self, representation: Tensor, query: Tensor) -> Tensor:
        """representation (..., width), query (..., 2 width) -> logits."""
        said: Tensor = self.last(torch.relu(self.of_history(representation) + query))
        return said

    def expect(self, representation: Tensor, tests: CommonQueries) -> Tensor:
        """The reward expected at each test, times its share: (n, width) -> (n, tests)."""
        query = self.of_observation(tests.observations)
        logits = self.answer(representation[:, None], query)[..., : len(tests.values)]
        paid: Tensor = logits.softmax(dim=-1) @ tests.values.to(logits.dtype)
        return paid * tests.shares

    def forward(self, representation: Tensor, queries: Queries) -> tuple[Tensor, Tensor, Tensor]:
        """representation (batch, actions, width) -> answers, next reward and dynamics, each so."""
        answers = self.answer(representation, self.embed(queries))
        flat = representation.flatten(0, 1)
        reward, dynamics = self.next(flat, queries.actions.flatten())
        shape = representation.shape[:2]
        return answers, reward.view(shape), dynamics.view(*shape, -1)
