"""A model that acts: many episodes at once, each history in a KV cache, legal tokens only."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.acting.decoding import Choice, Decoding, Spelling
from textrl.data.frames import Pixels
from textrl.data.language import ActionGrammar, Language
from textrl.losses.ops import legal_only
from textrl.model.network import TextRLModel
from textrl.model.patches import Patches


@dataclass(frozen=True)
class Thought:
    """What the heads said before one token was chosen. A head that is not there is None."""

    chosen: int
    """The action number of the token that was chosen."""
    tokens: tuple[int, ...]
    """Action numbers of the tokens that were likeliest to be chosen, the likeliest first."""
    chance: tuple[float, ...]
    """Of each of them: the chance that sampling would choose it."""
    policy: tuple[float, ...] | None
    """Of each of them: its probability by the policy alone, among the legal tokens."""
    q: tuple[float, ...] | None
    """Of each of them: the lower of the twin target Qs."""
    v: float | None
    """The value of the history before the token."""


@dataclass(frozen=True)
class Candidate:
    """A whole action that was compared with others. A head that is not there is None."""

    action: tuple[int, ...]
    """Its action numbers."""
    chance: float | None
    """Its probability by the policy alone, among the legal actions."""
    q: float | None
    """Q where it knows the whole action: before the last token, the lower of the twin targets."""


def thoughts_of(choice: Choice, rows: Tensor, chosen: Tensor, top: int) -> list[Thought]:
    """The thoughts of these rows before a token; the token chosen is always among `tokens`.

    rows, chosen: (episodes,). All at once, because a server thinks for many at a time.
    """
    assert choice.scores is not None
    output, legal, scores = choice.output, choice.legal[rows], choice.scores[rows]
    tokens = scores.argsort(dim=-1, descending=True, stable=True)[:, :top]
    counts = legal.sum(dim=-1).clamp(max=tokens.shape[1])
    last = torch.arange(len(rows), device=rows.device), counts - 1
    is_missing = ~(tokens == chosen[:, None]).any(dim=-1)  # a sample may be an unlikely one
    tokens[last] = torch.where(is_missing, chosen, tokens[last])

    def of_tokens(values: Tensor) -> list[tuple[float, ...]]:
        found = values.gather(-1, tokens).tolist()
        return [tuple(each[:count]) for each, count in zip(found, shown, strict=True)]

    shown = counts.tolist()
    chance = of_tokens(scores.softmax(dim=-1))
    policy: Sequence[tuple[float, ...] | None] = [None] * len(shown)
    q: Sequence[tuple[float, ...] | None] = policy
    v: Sequence[float | None] = [None] * len(shown)
    if output.policy is not None:
        policy = of_tokens(legal_only(output.policy[rows, 0], legal).softmax(dim=-1))
    if output.target_q is not None:
        q = of_tokens(output.target_q[:, rows, 0].amin(dim=0))
    if output.v is not None:
        v = output.v[rows, 0].tolist()
    named = [tuple(each[:count]) for each, count in zip(tokens.tolist(), shown, strict=True)]
    of_rows = zip(chosen.tolist(), named, chance, policy, q, v, strict=True)
    return [Thought(*each) for each in of_rows]


@dataclass(frozen=True)
class Turn:
    """What was seen, (episodes, tokens), with its frames; then the action's tokens, if chosen."""

    seen: Tensor
    frames: tuple[tuple[int, Tensor], ...] = ()  # (position in seen, (episodes, patches, width))
    said: Tensor | None = None

    def of(self, index: Tensor) -> "Turn":
        """The same turn of some of the episodes."""
        return Turn(
            self.seen[index],
            tuple((position, patches[index]) for position, patches in self.frames),
            None if self.said is None else self.said[index],
        )


@dataclass(frozen=True)
class Grammar:
    """An action grammar as tensors, beside the model."""

    legal: Tensor
    next_state: Tensor
    can_end: Tensor
    """(states,): whether a legal token completes an action there."""

    @classmethod
    def of(cls, grammar: ActionGrammar, device: torch.device) -> "Grammar":
        """On the model's device."""
        next_state = torch.from_numpy(grammar.next_state.astype(np.int64))
        legal = torch.from_numpy(grammar.legal)
        can_end = (legal & (next_state == 0)).any(dim=1)
        return cls(legal.to(device), next_state.to(device), can_end.to(device))

    @classmethod
    def side_by_side(
        cls, grammars: Sequence[ActionGrammar], device: torch.device
    ) -> tuple["Grammar", Tensor]:
        """One table of several grammars, and the state (grammars,) in which each of them begins."""
        sizes = np.array([len(grammar.next_state) for grammar in grammars])
        begins = np.cumsum(sizes) - sizes
        tables = [
            np.where(grammar.next_state > 0, grammar.next_state + begin, grammar.next_state)
            for grammar, begin in zip(grammars, begins, strict=True)
        ]  # state 0 completes an action, whosever it is
        joined = ActionGrammar(np.concatenate(tables).astype(np.int32))
        return cls.of(joined, device), torch.from_numpy(begins).to(device)


class Policy:
    """Plays a batch of episodes in step: begin, then act and observe in turn.

    A model with a window sees no more of the history than that: whenever the window is full, it is
    read anew from its middle on, so that an action costs the same however long the episode is.
    Frames are encoded once, when they are seen.

    Where the best action is chosen, episodes that have gone alike so far are one row to the model:
    all of them at first.
    """

    def __init__(
        self,
        model: TextRLModel,
        language: Language,
        decoding: Decoding,
        seed: int,
        apart: bool = False,
    ) -> None:
        """apart: each episode is a row of its own, of which everything can be told."""
        self._model, self._language, self._decoding = model, language, decoding
        self._candidates = decoding.candidates_of(model)
        self._grammar = Grammar.of(language.grammar, model.device)
        self._random = torch.Generator(device=model.device).manual_seed(seed)
        self._cache: Any
        self._apart = apart
        self._shares_rows = not (decoding.sample or model.config.window or apart)
        self._row: NDArray[np.int64]  # of each episode, among those that the model reads
        self._moves: Tensor | None = None  # which rows of the cache come next, if not the same
        self._unread: list[Turn]  # what the model has not read yet; the last has no action yet
        self._recent: deque[Turn] = deque(maxlen=model.config.window // 2)
        self._turns_read = 0
        self._last: tuple[Spelling, Tensor]  # how the last action was spelled, the rows chosen

    def begin(self, prompt: NDArray[np.int64], frames: Pixels | None = None) -> None:
        """Forget everything; the new episodes start with these tokens, (episodes, tokens).

        frames: (episodes, height, width), what a frame token in the prompt shows.
        """
        self._cache = self._model.new_cache()
        self._recent.clear()
        self._turns_read, self._moves = 0, None
        self._row = np.arange(len(prompt))
        if self._shares_rows and frames is None:
            prompt, self._row = alike(prompt)
        self._unread = [self._turn(prompt, frames)]

    @torch.inference_mode()
    def act(
        self, grammar: ActionGrammar | Sequence[ActionGrammar] | None = None
    ) -> NDArray[np.int64]:
        """One action for each episode, as action numbers (episodes, tokens per action).

        grammar: the only actions allowed this time, or those of each episode, which must be rows of
        their own (apart); without it, those of the language.
        """
        if self._turns_read == self._model.config.window > 0:
            self._cache, self._turns_read = self._model.new_cache(), len(self._recent)
            self._unread = [*self._recent, self._unread[-1]]
        if self._moves is not None:
            self._cache.batch_select_indices(self._moves)
            self._moves = None
        unread, frames = joined(self._unread)
        # The candidates' values are asked where they are complete; of one episode, all are told of.
        tells = self._apart or len(self._row) == 1
        values_last = self._candidates > 1 and not tells
        allowed, states = self._allowed(grammar, len(unread))
        spelling = Spelling(self._decoding, self._candidates, len(unread), self._random, tells)
        spoken = unread[:, :0]
        while not spelling.choices or states.any():
            only = ("policy",) if values_last and not allowed.can_end[states].any() else ()
            output = self._model(
                unread, past_key_values=self._cache, frames=frames, spoken=spoken, only=only
            )
            choice = spelling.extend(output, allowed.legal[states])
            if self._candidates > 1:
                self._cache.branch(choice.parent)
            states = allowed.next_state[states[choice.parent], choice.token]
            spoken = torch.cat([spoken[choice.parent], choice.token[:, None]], dim=1)
            unread, frames = choice.token[:, None] + self._language.first_action, None
        chosen = spelling.choose()
        if self._candidates > 1:
            self._cache.settle(chosen)
        actions, _ = spelling.actions(chosen)
        self._last = (spelling, chosen)
        said = actions + self._language.first_action
        now = replace(self._unread[-1], said=said)
        if self._recent.maxlen:
            self._recent.append(now)
        # The last token has been chosen, but not read.
        self._unread = [Turn(said[:, -1:])]
        self._turns_read += 1
        return actions.cpu().numpy()[self._row]

    def thoughts(self, top: int = 3) -> tuple[Thought, ...]:
        """What the heads said at each token of the last action; for one episode at a time."""
        if len(self._row) != 1:
            raise ValueError("thoughts are of one episode, but the last action was of several")
        return self.all_thoughts(top)[0]

    def all_thoughts(self, top: int = 3) -> list[tuple[Thought, ...]]:
        """Of each episode, if they are apart: what the heads said at each token of its action."""
        if not self._apart and len(self._row) != 1:
            raise ValueError("thoughts of several episodes need a policy that keeps them apart")
        spelling, chosen = self._last
        actions, rows = spelling.actions(chosen)
        by_token = [
            thoughts_of(choice, row, token, top)
            for choice, row, token in zip(spelling.choices, rows, actions.unbind(1), strict=True)
        ]
        return list(zip(*by_token, strict=True))

    def candidates(self) -> list[tuple[Candidate, ...]]:
        """Of each episode: the actions that were compared before its last one, without repeats."""
        spelling, chosen = self._last
        last = spelling.choices[-1]
        actions, rows = spelling.actions(torch.arange(len(last.token), device=last.token.device))
        chance: list[float | None] = [None] * len(actions)
        q = chance
        if last.output.policy is not None:
            log_odds = torch.zeros(len(actions), device=actions.device)
            for choice, row, token in zip(spelling.choices, rows, actions.unbind(1), strict=True):
                assert choice.output.policy is not None
                logits = legal_only(choice.output.policy[row, 0], choice.legal[row])
                log_odds += logits.log_softmax(dim=-1).gather(-1, token[:, None])[:, 0]
            chance = log_odds.exp().tolist()
        if last.output.target_q is not None:
            q = last.output.target_q[:, rows[-1], 0, actions[:, -1]].amin(dim=0).tolist()
        found = [
            Candidate(*each) for each in zip(map(tuple, actions.tolist()), chance, q, strict=True)
        ]
        each = len(found) // len(chosen)
        groups = [found[first : first + each] for first in range(0, len(found), each)]
        of_rows = [tuple({one.action: one for one in group}.values()) for group in groups]
        return [of_rows[row] for row in self._row]

    def _allowed(
        self, grammar: ActionGrammar | Sequence[ActionGrammar] | None, episodes: int
    ) -> tuple[Grammar, Tensor]:
        """What may be spelled, and the state in which each episode begins."""
        device = self._model.device
        if isinstance(grammar, Sequence):
            if len(grammar) != episodes:
                raise ValueError("grammars of single episodes need a policy that keeps them apart")
            return Grammar.side_by_side(grammar, device)
        begins = torch.zeros(episodes, dtype=torch.long, device=device)
        return self._grammar if grammar is None else Grammar.of(grammar, device), begins

    def observe(self, tokens: NDArray[np.int64], frames: Pixels | None = None) -> None:
        """Append what the environment answered, (episodes, tokens); frames: as in begin."""
        if self._shares_rows and frames is None:
            rows, self._row = alike(np.column_stack([self._row, tokens]))
            self._go_on_with(rows[:, 0])
            tokens = rows[:, 1:]
        self._unread.append(self._turn(tokens, frames))

    @torch.inference_mode()
    def _turn(self, tokens: NDArray[np.int64], frames: Pixels | None) -> Turn:
        device = self._model.device
        if frames is None:
            return Turn(torch.from_numpy(tokens).to(device))
        # A frame is one token to the environment, several to the model.
        is_frame = tokens[0] == self._language.frame_id
        width = np.where(is_frame, self._model.config.patches, 1)
        (position,) = (np.cumsum(width) - width)[is_frame].tolist()
        seen = torch.from_numpy(np.repeat(tokens, width, axis=1)).to(device)
        patches = self._model.frames(torch.from_numpy(frames).to(device))
        return Turn(seen, ((position, patches),))

    def keep(self, episodes: NDArray[np.int64]) -> None:
        """Go on with these episodes only, given by their place in the batch."""
        rows = self._row[episodes]
        if self._shares_rows:
            rows, self._row = np.unique(rows, return_inverse=True)
        else:
            self._row = np.arange(len(rows))
        self._go_on_with(rows)

    def _go_on_with(self, rows: NDArray[np.int64]) -> None:
        """Let these rows of the model's be the next ones; one may be there several times."""
        index = torch.from_numpy(rows).to(self._model.device)
        # The cache moves once, when it is needed.
        self._moves = index if self._moves is None else self._moves[index]
        self._unread = [turn.of(index) for turn in self._unread]
        self._recent = deque((turn.of(index) for turn in self._recent), self._recent.maxlen)


def alike(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different ones of these rows, and which of them each one is."""
    different, which = np.unique(rows, axis=0, return_inverse=True)
    return different, which.reshape(-1)  # versions of NumPy differ in its shape


def joined(turns: Sequence[Turn]) -> tuple[Tensor, Patches | None]:
    """Consecutive turns as tokens (episodes, time) and the frames among them."""
    tokens: list[Tensor] = []
    frames: list[tuple[int, Tensor]] = []
    length = 0
    for turn in turns:
        frames += [(length + position, patches) for position, patches in turn.frames]
        tokens += [turn.seen] if turn.said is None else [turn.seen, turn.said]
        length = sum(part.shape[1] for part in tokens)
    return torch.cat(tokens, dim=1), Patches.of_columns(frames) if frames else None
