"""A policy over whole actions, read token by token."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from textrl.model.config import TextRLConfig
from textrl.model.heads import two_layer_head

BIAS_RATE = 10.0
"""How much faster than other weights an action's own bias learns: it has one, and few examples."""
LEAST = 1e-8
"""A token that no action makes likely has this share; its logarithm must be finite."""
PAIRS_AT_ONCE = 4_000_000
"""Histories times actions that are compared in one piece, to bound memory where many are played."""


@dataclass(frozen=True)
class Begun:
    """How much of an action has been said at each state: (states,) each."""

    said: Tensor
    """Tokens of it, 0 at its beginning."""
    code: Tensor
    """These tokens as digits of a number, the first one the highest; those to come are 0."""


class ActionPolicy(nn.Module):
    """Scores all actions at once; a token's chance is that of all actions that can still follow.

    An action's score is the sum of what the history says for each of its tokens and of the kinds of
    these (in Wordle: for each letter at its place, and for each letter wherever it is), and a bias
    of its own. So a history need not be told, token by token, how many actions lie behind each one:
    exp(score) is added up over the list. logits[token] = log sum exp(score) over the actions that
    begin with what has been said and go on with this token.
    """

    spellings: Tensor

    def __init__(self, width: int, actions: int, length: int, kinds: list[int]) -> None:
        """actions: how many there are, each of so many tokens; kinds: of each token, any numbers.

        The actions themselves are part of the weights: see spell.
        """
        super().__init__()
        self.kinds = kinds
        self.tokens, self.length = len(kinds), length
        self.scores = two_layer_head(width, self.tokens + max(kinds) + 1)
        self.bias = nn.Parameter(torch.zeros(actions))
        self.register_buffer("spellings", torch.zeros(actions, length, dtype=torch.int16))

    def spell(self, spellings: Tensor) -> None:
        """Take these actions, (actions, length) tokens in ascending order."""
        self.spellings.copy_(spellings)

    @cached_property
    def _places(self) -> Tensor:
        """(length,) what each token counts in a code."""
        powers = [(self.tokens + 1) ** place for place in reversed(range(self.length))]
        return torch.tensor(powers, device=self.spellings.device)

    @cached_property
    def _codes(self) -> Tensor:
        return (self.spellings.long() + 1) @ self._places

    @cached_property
    def _columns(self) -> Tensor:
        """(actions, 2 length) which scores add up to an action's; a kind counts once.

        A kind that occurs again points at the column after the last, which is 0.
        """
        tokens = self.spellings.long()
        kinds = torch.tensor(self.kinds, device=tokens.device)[tokens]
        again = torch.stack(
            [
                (kinds[:, :place] == kinds[:, place : place + 1]).any(1)
                for place in range(self.length)
            ],
            dim=1,
        )
        none = self.tokens + max(self.kinds) + 1
        return torch.cat([tokens, torch.where(again, none, self.tokens + kinds)], dim=1)

    @cached_property
    def _features(self) -> Tensor:
        """(actions, scores) the same as a matrix of zeros and ones."""
        count = self.tokens + max(self.kinds) + 2
        return nn.functional.one_hot(self._columns, count).sum(1)[:, :-1].float()

    @cached_property
    def _first(self) -> tuple[Tensor, Tensor]:
        """The tokens with which actions begin, and (actions, these) which one each begins with."""
        tokens, which = self.spellings[:, 0].long().unique(return_inverse=True)
        return tokens, nn.functional.one_hot(which, len(tokens)).float()

    def begun(self, spoken: Tensor) -> Begun:
        """Where all rows have said so much: spoken (rows, tokens of the action so far)."""
        said = spoken.shape[1]
        code = (spoken + 1) @ self._places[:said]
        return Begun(torch.full_like(code, said), code)

    def begun_at(self, tokens: Tensor, positions: Tensor, first_action: int) -> Begun:
        """Of histories that end at these positions (batch, states) of the tokens (batch, time)."""
        place = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        other = torch.where(tokens < first_action, place, -1).cummax(dim=1).values
        said = (place - other).gather(1, positions) % self.length
        code = torch.zeros_like(said)
        for back in range(self.length - 1):
            token = tokens.gather(1, (positions - back).clamp_min(0)) - first_action
            digit = self._places[(said - 1 - back).clamp_min(0)]
            code = code + torch.where(back < said, (token + 1) * digit, 0)
        return Begun(said.flatten(), code.flatten())

    def forward(self, phi: Tensor, begun: Begun) -> Tensor:
        """phi (..., width) -> logits of the next token (..., tokens); begun: of each of these."""
        scores = self.scores(phi).float().flatten(0, -2)
        mass = scores.new_zeros(len(scores), self.tokens)
        (at_start,) = torch.nonzero(begun.said == 0, as_tuple=True)
        (within,) = torch.nonzero(begun.said, as_tuple=True)
        if len(at_start):
            mass = mass.index_copy(0, at_start, self._first_mass(scores[at_start]))
        for part, first, counts in self._ranges(within, begun):
            going_on = self._next_mass(scores[part], begun.said[part], first, counts)
            mass = mass.index_copy(0, part, going_on)
        logits: Tensor = mass.clamp_min(LEAST).log().view(*phi.shape[:-1], -1)
        return logits

    def _first_mass(self, scores: Tensor) -> Tensor:
        """(states, tokens) of each first token, the likeliest action having 1."""
        # Where an episode begins, all histories are one: it is enough to score that once.
        is_other = (scores != scores[:1]).any(dim=1)
        (others,) = torch.nonzero(is_other, as_tuple=True)
        distinct = torch.cat([scores[:1], scores[others]])
        energies = torch.addmm(self.bias * BIAS_RATE, distinct, self._features.T)
        odds = (energies - energies.detach().amax(1, keepdim=True)).exp()
        tokens, begins = self._first
        mass = scores.new_zeros(len(distinct), self.tokens).index_copy(1, tokens, odds @ begins)
        return mass[torch.where(is_other, is_other.cumsum(0), 0)]

    def _ranges(self, within: Tensor, begun: Begun) -> list[tuple[Tensor, Tensor, Tensor]]:
        """States within an action: which, their first action that can follow, and how many can."""
        if not len(within):
            return []
        code = begun.code[within]
        first = torch.searchsorted(self._codes, code)
        end = torch.searchsorted(self._codes, code + self._places[begun.said[within] - 1])
        counts = end - first
        piece = counts.cumsum(0) // PAIRS_AT_ONCE
        sizes = torch.unique_consecutive(piece, return_counts=True)[1].tolist()
        parts = (each.split(sizes) for each in (within, first, counts))
        return list(zip(*parts, strict=True))

    def _next_mass(self, scores: Tensor, said: Tensor, first: Tensor, counts: Tensor) -> Tensor:
        """(states, tokens) of each next token, the likeliest action having 1."""
        states = torch.arange(len(scores), device=scores.device)
        state = states.repeat_interleave(counts)
        before = counts.cumsum(0) - counts
        action = torch.arange(len(state), device=state.device) + (first - before)[state]
        padded = nn.functional.pad(scores, (0, 1))
        columns = self._columns[action] + state[:, None] * padded.shape[1]
        energies = padded.flatten()[columns].sum(1) + (self.bias * BIAS_RATE)[action]
        with torch.no_grad():
            most = energies.new_full((len(scores),), -torch.inf)
            most = most.scatter_reduce(0, state, energies, "amax")
        token = self.spellings[action, said[state]].long()
        mass = scores.new_zeros(scores.shape[0] * self.tokens)
        mass = mass.index_add(0, state * self.tokens + token, (energies - most[state]).exp())
        return mass.view(-1, self.tokens)


def policy_head(config: TextRLConfig) -> nn.Module:
    """A new backbone's: over tokens, or over whole actions."""
    if not config.whole_actions:
        return two_layer_head(config.width, config.action_tokens)
    actions, length = config.whole_actions
    return ActionPolicy(config.width, actions, length, config.token_kinds)
