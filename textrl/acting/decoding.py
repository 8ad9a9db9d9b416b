"""How actions are chosen from what the heads say: token by token, or among whole candidates."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from textrl.losses.ops import legal_only
from textrl.losses.outputs import TextRLOutput, action_scores
from textrl.model.network import TextRLModel


@dataclass(frozen=True)
class Decoding:
    """beta weighs Q (less V) against log pi; the best is chosen, or a sample.

    candidates: 1 chooses each token by its own score (see action_scores). More compare whole
    actions: the policy names that many, the likeliest ones (a beam search) or samples, and one of
    them is chosen by log pi + beta Q or, among samples, by beta Q alone. Q is then asked where it
    knows the whole action, at its last token: at the first one it is an average over everything
    that could still follow.

    plausible: of the likeliest ones only those count whose odds are at least this share of the
    first's, as in BCQ (Fujimoto et al. 2019): Q errs most about what the data hardly ever do.
    """

    beta: float
    sample: bool
    candidates: int = 1
    plausible: float = 0.0
    acts_by: tuple[str, ...] = ()
    """Which heads count, policy or q; none named = those that are there."""
    temperature: float = 1.0
    """What scores are divided by before one is drawn."""

    @classmethod
    def of(
        cls,
        model: TextRLModel,
        sample: bool,
        beta: float | None = None,
        candidates: int | None = None,
        temperature: float | None = None,
    ) -> "Decoding":
        """As the model was trained to act, unless told otherwise."""
        config = model.config
        return cls(
            config.beta if beta is None else beta,
            sample,
            config.candidates if candidates is None else candidates,
            config.plausible,
            config.acts_by,
            config.temperature if temperature is None else temperature,
        )

    @property
    def name(self) -> str:
        """How reports call it."""
        return "sampled" if self.sample else "greedy"

    def candidates_of(self, model: TextRLModel) -> int:
        """How many it really takes: nothing names them without a policy (CQL's token by token), and
        without values the first sample is as good as any."""
        heads = self.acts_by or model.config.heads
        is_useful = "policy" in heads and not (self.sample and "q" not in heads)
        return self.candidates if is_useful else 1


@dataclass(frozen=True)
class Choice:
    """One token of every candidate: what the heads said before it, and what was chosen then.

    The rows that the heads saw are those that the tokens before had led to. After it there may be
    other rows: row i goes on from what was row `parent[i]`, with the token `token[i]`.
    """

    output: TextRLOutput
    legal: Tensor
    scores: Tensor | None  # token by token, as action_scores has them; None: nobody needs them
    token: Tensor
    parent: Tensor


class Spelling:
    """One action for each episode, spelled by as many candidates as there are."""

    def __init__(
        self,
        decoding: Decoding,
        candidates: int,
        episodes: int,
        random: torch.Generator,
        tells: bool = False,
    ) -> None:
        """tells: scores are kept token by token, even where only whole candidates are compared."""
        self._decoding, self._candidates = decoding, candidates
        self._episodes, self._random = episodes, random
        self._tells = tells or candidates == 1
        self._log_odds: Tensor | None = None  # of each candidate so far, by the policy
        self._q: Tensor | None = None  # of its last token
        self.choices: list[Choice] = []

    def extend(self, output: TextRLOutput, legal: Tensor) -> Choice:
        """Choose the next token of every candidate; output, legal: of the rows so far."""
        decoding, scores = self._decoding, None
        if self._tells:
            scores = action_scores(output, legal[:, None], decoding.beta, decoding.acts_by)[:, 0]
            scores = scores / decoding.temperature
        if self._candidates > 1:
            token, parent = self._several(output, legal)
        else:
            assert scores is not None
            token, parent = self._one(scores)
        self.choices.append(Choice(output, legal, scores, token, parent))
        return self.choices[-1]

    def _one(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        token = self._draw(scores) if self._decoding.sample else scores.argmax(dim=-1)
        return token, torch.arange(len(scores), device=scores.device)

    def _several(self, output: TextRLOutput, legal: Tensor) -> tuple[Tensor, Tensor]:
        assert output.policy is not None
        log_odds = legal_only(output.policy[:, 0], legal).log_softmax(dim=-1)
        rows, tokens = log_odds.shape
        row = torch.arange(rows, device=log_odds.device)
        if self._log_odds is not None:
            log_odds = self._log_odds[:, None] + log_odds
        if self._decoding.sample:
            parent = row if self.choices else row.repeat_interleave(self._candidates)
            token = self._draw(log_odds[parent] / self._decoding.temperature)
            self._log_odds = log_odds[parent, token]
        else:
            of_episode = log_odds.view(self._episodes, -1)
            odds, best = of_episode.topk(min(self._candidates, of_episode.shape[1]))
            # Where fewer are legal, the rest repeat the best but have no chance.
            best = torch.where(odds.isfinite(), best, best[:, :1])
            first = row.view(self._episodes, -1)[:, :1]
            parent, token = (first + best // tokens).flatten(), (best % tokens).flatten()
            self._log_odds = odds.flatten()
        if output.target_q is not None and "q" in (self._decoding.acts_by or ("q",)):
            self._q = output.target_q[:, parent, 0, token].amin(dim=0)
        return token, parent

    def _draw(self, scores: Tensor) -> Tensor:
        """(n, options) log-scores -> (n,), one of the options."""
        odds = scores.softmax(dim=-1)
        return torch.multinomial(odds, 1, generator=self._random)[:, 0]

    def choose(self) -> Tensor:
        """(episodes,): the row of each episode's candidate that is taken."""
        first = torch.arange(self._episodes, device=self.choices[-1].token.device)
        if self._candidates == 1:
            return first
        assert self._log_odds is not None
        scores = torch.zeros_like(self._log_odds)
        if self._q is not None:
            scores = self._decoding.beta * self._q
        scores, log_odds = (each.view(self._episodes, -1) for each in (scores, self._log_odds))
        if self._decoding.sample:  # they came by their odds, which must not count twice
            best = self._draw(scores)
        else:
            least = log_odds.amax(dim=1, keepdim=True) + math.log(self._decoding.plausible or 1e-30)
            best = legal_only(scores + log_odds, log_odds >= least).argmax(dim=-1)
        return first * scores.shape[1] + best

    def actions(self, chosen: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The action numbers (n, tokens) that led to the chosen rows, and the rows on the way."""
        tokens, rows = [], []
        for choice in reversed(self.choices):
            tokens.append(choice.token[chosen])
            chosen = choice.parent[chosen]
            rows.append(chosen)
        return torch.stack(tokens[::-1], dim=1), rows[::-1]
