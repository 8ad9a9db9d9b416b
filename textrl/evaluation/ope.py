"""Off-policy evaluation: what a policy would earn, judged by episodes that others have logged.

Fitted Q evaluation learns the policy's values on features of one network, from some episodes; the
doubly robust estimate corrects them, and weighted importance sampling does without them, on other
episodes. All three are per decision, undiscounted, and of the policy as it acts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.acting.decoding import Decoding
from textrl.data.dataset import Rows
from textrl.data.language import TokenLanguage
from textrl.errors import UserError
from textrl.evaluation.behaviour import Behaviour, odds_of, said_of
from textrl.evaluation.estimators import (
    Decisions,
    Interval,
    effective_sizes,
    estimate,
    importance_terms,
    mean_of,
    overlap,
    pooled,
    robust_terms,
    usable_decisions,
)
from textrl.evaluation.fitted import (
    Choices,
    FittedQ,
    Tokens,
    fit_behaviour,
    fit_q,
    fit_returns,
    floor_of,
    per_decision,
    values_of,
)
from textrl.losses.ops import legal_only, of_actions
from textrl.model.network import TextRLModel

EXACT = 256  # action tokens, up to which every one's chance is kept
TRUSTS = (5.0, 10.0, 20.0)
"""The values are fitted once for each, on a bootstrap sample: how much likelier than in the data a
token may be before it counts as untried. Where the estimate depends on that, intervals are wide."""
DRAWN = 16  # of more than that, so many are drawn
LEAST_RATIO = 1e-6  # of what the data hardly ever do
LEAST_SHARE, LEAST_EPISODES = 0.05, 10.0
"""With less than this share of the episodes' worth of weight, or fewer, a policy does what the data
hardly ever show."""


@dataclass(frozen=True)
class Logs:
    """Episodes to fit values on, others to judge by, and which of the latter belong together."""

    fit: Rows
    judge: Rows
    groups: NDArray[np.int64]
    language: TokenLanguage
    ends_when_cut: bool
    """A time limit is part of the game: nothing is earned after it. Else, in a log, what would have
    followed is unknown, and episodes that were cut off are left out."""


@dataclass(frozen=True)
class Candidate:
    """A policy to estimate: a model and how it acts."""

    name: str
    model: TextRLModel
    decoding: Decoding


@dataclass(frozen=True)
class PolicyEstimate:
    """What a policy is estimated to earn, and how far that can be trusted."""

    fitted: Interval
    """By fitted Q evaluation alone."""
    importance: Interval
    """By weighted importance sampling alone."""
    robust: Interval
    """Doubly robust: the headline."""
    effective: float
    """How many episodes' worth the importance weights of whole episodes are."""
    usable: float
    """The share of the decisions, from the first on, where weights correct the fitted values."""
    overlap: float
    episodes: int

    @property
    def too_far(self) -> bool:
        """Whether the policy does too much that the data do not show."""
        return self.effective < max(LEAST_EPISODES, LEAST_SHARE * self.episodes)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "doubly_robust": self.robust.to_json(),
            "fitted_q": self.fitted.to_json(),
            "weighted_importance_sampling": self.importance.to_json(),
            "effective_sample_size": self.effective,
            "corrected_decisions": self.usable,
            "overlap": self.overlap,
            "too_far": self.too_far,
        }


@dataclass(frozen=True)
class Part:
    """Some rows as one network sees them: which of them, their tokens, what is legal."""

    tokens: Tokens
    kept: NDArray[np.int64]
    legal: Tensor | None


class Evaluator:
    """Logged episodes, read once; then any number of policies can be estimated."""

    def __init__(self, logs: Logs, encoder: TextRLModel, imitators: Sequence[TextRLModel]) -> None:
        """encoder: whose representation the values are fitted on. imitators: models whose policy
        may stand for who was logged; the likeliest does, or one that is fitted if there is none."""
        self._logs, self._actions = logs, len(logs.language.actions)
        self.fit, self.judge = (self._read(rows, encoder) for rows in (logs.fit, logs.judge))
        self.groups = logs.groups[self.judge.kept]
        found = [[self._policy_of(m, r) for r in (logs.fit, logs.judge)] for m in imitators]
        if found:
            best = max(range(len(found)), key=lambda number: float(found[number][0].sum()))
            self._behaviour, said = Behaviour(imitators[best]), found[best]
        else:
            head = fit_behaviour(self.fit.tokens, self._actions, self.fit.legal)
            self._behaviour = Behaviour(encoder, head)
            said = [self._imitated(head, part) for part in (self.fit, self.judge)]
        self._said = dict(zip(("fit", "judge"), said, strict=True))
        self._logged_odds: dict[str, list[Tensor]] = {}
        self._starts: dict[tuple[int, int], FittedQ] = {}
        floor = floor_of(self.fit.tokens)
        self._low = {
            which: floor_at(floor, part.tokens)
            for which, part in (("fit", self.fit), ("judge", self.judge))
        }
        earned = np.where(self.judge.tokens.is_action, self.judge.tokens.rewards, 0.0).sum(axis=1)
        self.earned = mean_of(earned.astype(np.float64), self.groups)

    def _kept(self, rows: Rows) -> NDArray[np.int64]:
        rest = np.full(len(rows.lengths), np.nan) if rows.rest is None else rows.rest
        is_known = ~rows.truncated | ~np.isnan(rest) | self._logs.ends_when_cut
        return np.flatnonzero(is_known)

    def _read(self, rows: Rows, encoder: TextRLModel) -> Part:
        kept = self._kept(rows)
        _, is_there = rows.packed_actions()
        shape = is_there.shape
        empty: dict[str, Tensor] = {
            "features": torch.zeros(*shape, encoder.config.width),
            "actions": torch.zeros(shape, dtype=torch.int64),
            "rewards": torch.zeros(shape),
            "is_action": torch.from_numpy(is_there),
            "ends_action": torch.zeros(shape, dtype=torch.bool),
        }
        has_grammar = self._logs.language.grammar is not None
        legal = torch.zeros(*shape, self._actions, dtype=torch.bool) if has_grammar else None
        for picks, batch, output in said_of(encoder, rows, self._logs.language):
            width = batch.actions.shape[1]
            found = {
                "features": output.representation,
                "actions": batch.actions,
                # What followed a turn that was cut by the context came all the same.
                "rewards": batch.rewards + batch.return_after,
                "ends_action": batch.ends_action,
            }
            for name, values in found.items():
                assert values is not None
                empty[name][picks, :width] = values[:, :width].to(empty[name].dtype).cpu()
            if legal is not None and batch.legal_actions is not None:
                legal[picks, :width] = batch.legal_actions.cpu()
        tokens = Tokens(**{name: values[kept] for name, values in empty.items()})
        return Part(tokens, kept, None if legal is None else legal[kept])

    def _policy_of(self, model: TextRLModel, rows: Rows) -> Tensor:
        """Log-likelihood of the logged tokens by the model's policy alone, (episodes, tokens)."""
        _, is_there = rows.packed_actions()
        found = torch.zeros(is_there.shape)
        for picks, batch, output in said_of(model, rows, self._logs.language):
            width = batch.actions.shape[1]
            assert output.policy is not None
            log_pi = legal_only(output.policy, batch.legal)[:, :width].log_softmax(-1)
            said = torch.where(batch.is_action, of_actions(log_pi, batch.actions), 0.0)
            found[picks, :width] = said.cpu()
        return found[self._kept(rows)]

    def likelihood(self, model: TextRLModel) -> float | None:
        """Mean log-likelihood of the logged tokens judged by; None of a model without a policy."""
        if "policy" not in model.config.heads:
            return None
        said = self._policy_of(model, self._logs.judge)
        return float(said.sum() / self.judge.tokens.is_action.sum())

    @torch.no_grad()
    def _imitated(self, head: FittedQ, part: Part) -> Tensor:
        log_pi = legal_only(head(part.tokens.features), part.legal).log_softmax(-1)
        said = of_actions(log_pi, part.tokens.actions)
        return torch.where(part.tokens.is_action, said, 0.0)

    def _odds_logged(self, which: str) -> Iterator[Tensor]:
        """The odds of who was logged, batch by batch; kept where they are few numbers."""
        if which in self._logged_odds:
            yield from self._logged_odds[which]
            return
        rows, kept = getattr(self._logs, which), []
        for _, batch, output in said_of(self._behaviour.model, rows, self._logs.language):
            odds = self._behaviour.odds(output, batch)
            if self._actions <= EXACT:
                kept.append(odds)
            yield odds
        if kept:
            self._logged_odds[which] = kept

    def _choices(self, candidate: Candidate, which: str, trust: float = TRUSTS[0]) -> Choices:
        """What a policy would do at the logged histories."""
        rows: Rows = getattr(self._logs, which)
        _, is_there = rows.packed_actions()
        is_exact = self._actions <= EXACT
        chances = torch.zeros(*is_there.shape, self._actions if is_exact else DRAWN)
        shown, log_pi = torch.zeros_like(chances), torch.zeros(is_there.shape)
        tokens = None if is_exact else torch.zeros(chances.shape, dtype=torch.int64)
        random = torch.Generator(device=candidate.model.device).manual_seed(0)
        said = said_of(candidate.model, rows, self._logs.language)
        for (picks, batch, output), logged in zip(said, self._odds_logged(which), strict=True):
            width = batch.actions.shape[1]
            odds = odds_of(output, batch, candidate.decoding)[:, :width]
            log_pi[picks, :width] = of_actions(odds, batch.actions).log().cpu()
            share = logged[:, :width].to(odds.device) / odds.clamp(min=1e-30)
            if tokens is None:
                chances[picks, :width], shown[picks, :width] = odds.cpu(), share.cpu()
                continue
            drawn = torch.multinomial(odds.flatten(0, 1), DRAWN, replacement=True, generator=random)
            drawn = drawn.view(len(picks), width, DRAWN)
            tokens[picks, :width] = drawn.cpu()
            shown[picks, :width] = share.gather(-1, drawn).cpu()
            chances[picks, :width] = 1 / DRAWN
        kept = (self.fit if which == "fit" else self.judge).kept
        return Choices(
            chances=chances[kept],
            ratio=(log_pi[kept] - self._said[which]).exp().clamp(min=LEAST_RATIO),
            tokens=None if tokens is None else tokens[kept],
            shown=shown[kept],
            low=self._low[which],
            trust=trust,
        )

    def estimate(self, candidate: Candidate, seed: int = 0) -> PolicyEstimate:
        """All estimates of one policy."""
        refuse_candidates(candidate)
        tried, judged = (self._choices(candidate, which) for which in ("fit", "judge"))
        random = torch.Generator().manual_seed(seed)
        episodes = torch.ones(len(self.fit.tokens.rewards))
        each: list[Decisions] = []
        for number, trust in enumerate(TRUSTS):
            counts = torch.poisson(episodes, random)
            if (seed, number) not in self._starts:
                start = fit_returns(self.fit.tokens, self._actions, seed + number, counts)
                self._starts[seed, number] = start
            head = fit_q(
                self.fit.tokens,
                replace(tried, trust=trust),
                self._actions,
                seed + number,
                counts,
                start=self._starts[seed, number],
            )
            each.append(decisions_of(self.judge.tokens, replace(judged, trust=trust), head))
        logged, groups = each[0], self.groups
        return PolicyEstimate(
            fitted=pooled([mean_of(seen.v[:, 0], groups) for seen in each]),
            importance=estimate(logged, groups, importance_terms),
            robust=pooled([estimate(seen, groups, robust_terms) for seen in each]),
            effective=float(effective_sizes(logged)[-1]),
            usable=usable_decisions(logged) / logged.v.shape[1],
            overlap=overlap(logged),
            episodes=len(logged.v),
        )


def refuse_candidates(candidate: Candidate) -> None:
    """The chance of a token is not known where samples of whole actions are compared by Q."""
    count = candidate.decoding.candidates_of(candidate.model)
    if count > 1:
        raise UserError(
            f"{candidate.name}: what it would earn by comparing {count} whole candidates cannot be"
            " estimated: judge it token by token with --candidates 1"
        )


def floor_at(floor: Tensor, tokens: Tokens) -> Tensor:
    """(episodes, tokens); as long as no logged episode was, it is that of the longest one's end."""
    number = torch.arange(tokens.rewards.shape[1]).clamp(max=len(floor) - 1)
    return floor[number].expand_as(tokens.rewards)


def decisions_of(tokens: Tokens, choices: Choices, head: FittedQ) -> Decisions:
    """Token by token -> decision by decision."""
    q, v = values_of(head, tokens, choices)
    exists = per_decision(torch.ones_like(tokens.rewards), tokens, "sum") > 0
    return Decisions(
        rewards=per_decision(tokens.rewards, tokens, "sum"),
        exists=exists,
        ratio=np.exp(per_decision(choices.ratio.log(), tokens, "sum")),
        q=per_decision(q, tokens, "last"),
        v=per_decision(v, tokens, "first"),
    )
