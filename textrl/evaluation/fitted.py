"""Fitted Q evaluation: what a policy's actions are worth, learned from what others did."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

ROUNDS = 12
"""How often targets are computed anew and fitted."""
AT_ONCE = 2048  # action tokens per step
ROOM = 2**23  # numbers that the head may say at once
LEARNING_RATE = 2e-3
START_ROUNDS = 10
"""Passes over the data for the values of who was logged, from which each policy's fit sets out."""
DECAY = 0.1  # of its weights
LOW = 0.01  # quantile of the returns that stands for what nobody has tried


@dataclass(frozen=True)
class Tokens:
    """Logged action tokens, (episodes, tokens) each; what a policy would do is in `Choices`."""

    features: Tensor
    """(episodes, tokens, width): what is known before each."""
    actions: Tensor
    rewards: Tensor
    is_action: Tensor
    ends_action: Tensor


@dataclass(frozen=True)
class Choices:
    """A policy's choices where the data were.

    tokens, chances: (episodes, tokens, n): all action tokens with their chances (tokens None), or
    some that were drawn, each as good as the others. ratio: (episodes, tokens), how much likelier
    the logged token is than under what was logged. shown: (episodes, tokens, n), the chance of each
    in the data as a share of the policy's. low: (episodes, tokens), what things are worth from
    there on where they go badly.

    A token's chance counts up to `trust` times what it is in the data; the rest is worth `low`.
    What is said of tokens that nobody said is a guess, and a policy that was made to choose by
    guesses chooses those that are too high.
    """

    chances: Tensor
    ratio: Tensor
    tokens: Tensor | None = None
    shown: Tensor | None = None
    low: Tensor | None = None
    trust: float = 1.0

    def expected(self, q: Tensor) -> Tensor:
        """(episodes, tokens, all) -> (episodes, tokens): the mean over what the policy would do."""
        of_tokens = q if self.tokens is None else q.gather(-1, self.tokens)
        if self.shown is None or self.low is None:
            return (self.chances * of_tokens).sum(-1)
        supported = self.chances * (self.trust * self.shown).clamp(max=1.0)
        return (supported * of_tokens).sum(-1) + (1 - supported.sum(-1)) * self.low

    def at(self, rows: Tensor) -> "Choices":
        """Of some episodes."""
        parts = {
            name: value[rows]
            for name in ("chances", "ratio", "tokens", "shown", "low")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **parts)


class FittedQ(nn.Module):
    """Q of every action token at given features, in units that start at the returns' mean."""

    def __init__(self, width: int, actions: int, center: float, scale: float, hidden: int) -> None:
        super().__init__()
        self.center, self.scale, self.outputs = center, scale, actions
        last = nn.Linear(hidden or width, actions)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        layers = [nn.LayerNorm(width), nn.Linear(width, hidden), nn.ReLU()] if hidden else []
        self.layers = nn.Sequential(*layers, last)

    def forward(self, features: Tensor) -> Tensor:
        """(..., width) -> (..., actions)."""
        said: Tensor = self.layers(features)
        return self.center + self.scale * said


def retrace_targets(
    rewards: Tensor, q: Tensor, v: Tensor, ratio: Tensor, is_action: Tensor
) -> Tensor:
    """Targets of Q(s_k, a_k) (Munos et al. 2016), all (episodes, tokens).

    G_k = r_k + V_k+1 + min(1, ratio_k+1) (G_k+1 - Q_k+1): as far as the policy would have done the
    same, what really followed counts; from there on, the values.
    """
    episodes, tokens = rewards.shape
    targets = torch.zeros_like(rewards)
    following = rewards.new_zeros(episodes)
    for k in reversed(range(tokens)):
        targets[:, k] = torch.where(is_action[:, k], rewards[:, k] + following, 0.0)
        trust = ratio[:, k].clamp(max=1.0)
        now = v[:, k] + trust * (targets[:, k] - q[:, k])
        following = torch.where(is_action[:, k], now, following)
    return targets


def fit_q(
    data: Tokens,
    choices: Choices,
    actions: int,
    seed: int = 0,
    counts: Tensor | None = None,
    hidden: int | None = None,
    rounds: int = ROUNDS,
    learning_rate: float = LEARNING_RATE,
    start: FittedQ | None = None,
) -> FittedQ:
    """Fit Q of the policy whose choices these are; hidden: 0 is linear in the features.

    counts: (episodes,) how often each counts, as in a bootstrap sample. start: what the fit sets
    out from, such as the values of who was logged; targets look one decision ahead where the policy
    does something else, so that from nothing it would take as many rounds as an episode has tokens.
    """
    torch.manual_seed(seed)
    head = new_head(data, actions, hidden) if start is None else copy.deepcopy(start)
    optimizer = torch.optim.AdamW(head.parameters(), lr=learning_rate)
    random = torch.Generator().manual_seed(seed)
    features, taken = data.features[data.is_action], data.actions[data.is_action]
    often = None if counts is None else counts[:, None].expand_as(data.rewards)[data.is_action]
    for number in range(rounds):
        for group in optimizer.param_groups:  # down to a tenth
            group["lr"] = learning_rate * (1 - 0.9 * number / rounds)
        q, v = values_of(head, data, choices)
        targets = retrace_targets(data.rewards, q, v, choices.ratio, data.is_action)[data.is_action]
        one_pass(head, optimizer, features, taken, targets, often, random)
    return head


def new_head(data: Tokens, outputs: int, hidden: int | None = None) -> FittedQ:
    """A head that says the returns' mean, whatever it is asked."""
    returns = returns_of(data)[data.is_action]
    width = data.features.shape[-1]
    center, scale = float(returns.mean()), float(returns.std(unbiased=False)) or 1.0
    return FittedQ(width, outputs, center, scale, 2 * width if hidden is None else hidden)


def returns_of(data: Tokens) -> Tensor:
    """(episodes, tokens): what each token's reward and all later ones come to."""
    return data.rewards.flip(1).cumsum(1).flip(1)


def floor_of(data: Tokens) -> Tensor:
    """(tokens,): what little was still earned from an episode's k-th action token on."""
    returns = returns_of(data)
    floors = returns.new_zeros(returns.shape[1])
    for k in range(returns.shape[1]):
        if (is_there := data.is_action[:, k]).any():
            floors[k] = returns[is_there, k].quantile(LOW)
    return floors


def fit_returns(data: Tokens, actions: int, seed: int = 0, counts: Tensor | None = None) -> FittedQ:
    """Regress the returns that followed on each logged token: the values of who was logged."""
    torch.manual_seed(seed)
    head = new_head(data, actions)
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE, weight_decay=DECAY)
    random = torch.Generator().manual_seed(seed)
    features, taken = data.features[data.is_action], data.actions[data.is_action]
    returns = returns_of(data)[data.is_action]
    often = None if counts is None else counts[:, None].expand_as(data.rewards)[data.is_action]
    for number in range(START_ROUNDS):
        for group in optimizer.param_groups:  # down to a tenth
            group["lr"] = LEARNING_RATE * (1 - 0.9 * number / START_ROUNDS)
        one_pass(head, optimizer, features, taken, returns, often, random)
    return head


def one_pass(
    head: FittedQ,
    optimizer: torch.optim.Optimizer,
    features: Tensor,
    taken: Tensor,
    targets: Tensor,
    often: Tensor | None,
    random: torch.Generator,
) -> None:
    """Fit Q of the tokens taken to their targets, once through all; often: their weights."""
    size = max(1, min(AT_ONCE, ROOM // head.outputs))
    for part in torch.randperm(len(targets), generator=random).split(size):
        said = head(features[part]).gather(-1, taken[part, None])[:, 0]
        errors = ((said - targets[part]) / head.scale).square()
        loss = (errors if often is None else often[part] * errors).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def values_of(head: FittedQ, data: Tokens, choices: Choices) -> tuple[Tensor, Tensor]:
    """Q of the logged tokens and V before them under the policy, (episodes, tokens) each."""
    q, v = torch.zeros_like(data.rewards), torch.zeros_like(data.rewards)
    for rows in some_rows(data, head.outputs):
        said = head(data.features[rows])
        q[rows] = said.gather(-1, data.actions[rows, :, None])[..., 0]
        v[rows] = choices.at(rows).expected(said)
    return q, v


def some_rows(data: Tokens, actions: int) -> Iterator[Tensor]:
    """All episodes, as many at once as there is room for."""
    size = max(1, ROOM // (actions * data.rewards.shape[1]))
    yield from torch.arange(len(data.rewards)).split(size)


def fit_behaviour(data: Tokens, actions: int, legal: Tensor | None, seed: int = 0) -> FittedQ:
    """A policy that imitates the logged actions, where no agent at hand has one."""
    torch.manual_seed(seed)
    width = data.features.shape[-1]
    head = FittedQ(width, actions, 0.0, 1.0, 2 * width)
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARNING_RATE)
    random = torch.Generator().manual_seed(seed)
    features, taken = data.features[data.is_action], data.actions[data.is_action]
    allowed = None if legal is None else legal[data.is_action]
    for _ in range(ROUNDS // 3):
        order = torch.randperm(len(taken), generator=random)
        for part in order.split(max(1, min(AT_ONCE, ROOM // actions))):
            logits = head(features[part])
            if allowed is not None:
                logits = logits.masked_fill(~allowed[part], -torch.inf)
            loss = nn.functional.cross_entropy(logits, taken[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return head


def per_decision(values: Tensor, data: Tokens, how: str) -> NDArray[np.float64]:
    """(episodes, tokens) -> (episodes, decisions) by each action's tokens.

    how: sum, or the one at its first or last token. An action that was cut in its middle is one.
    """
    ends = data.ends_action & data.is_action
    before = (ends.cumsum(1) - ends.long()).masked_fill(~data.is_action, -1)
    decisions = int(before.max()) + 1
    out = values.new_zeros((len(values), decisions + 1), dtype=torch.float64)
    place = torch.where(data.is_action, before, decisions)
    if how == "sum":
        out.scatter_add_(1, place, torch.where(data.is_action, values, 0.0).double())
    else:
        tokens = values.shape[1]
        order = range(tokens) if how == "last" else reversed(range(tokens))
        rows = torch.arange(len(values))
        for k in order:
            out[rows, place[:, k]] = values[:, k].double()
    return out[:, :decisions].numpy()
