"""A model that acts: many episodes at once, each history in a KV cache, legal tokens only."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from textrl.language import Language
from textrl.model import TextRLModel, action_scores


@dataclass(frozen=True)
class Decoding:
    """How tokens are chosen: by the model's scores (see action_scores), the best or a sample."""

    beta: float
    sample: bool

    @property
    def name(self) -> str:
        """How reports call it."""
        return "sampled" if self.sample else "greedy"


class Policy:
    """Plays a batch of episodes in step: begin, then act and observe in turn."""

    def __init__(
        self, model: TextRLModel, language: Language, decoding: Decoding, seed: int
    ) -> None:
        self._model, self._language, self._decoding = model, language, decoding
        self._legal = torch.from_numpy(language.grammar.legal).to(model.device)
        self._random = torch.Generator(device=model.device).manual_seed(seed)
        self._cache: Any
        self._unread: Tensor  # tokens of the history that the model has not read yet

    def begin(self, prompt: NDArray[np.int64]) -> None:
        """Forget everything; the new episodes start with these tokens, (episodes, tokens)."""
        self._cache = self._model.new_cache()
        self._unread = torch.from_numpy(prompt).to(self._model.device)

    @torch.inference_mode()
    def act(self) -> NDArray[np.int64]:
        """One action for each episode, as action numbers (episodes, tokens per action)."""
        next_state = self._language.grammar.next_state
        states = np.zeros(len(self._unread), dtype=np.int64)
        chosen: list[NDArray[np.int64]] = []
        while not chosen or states.any():
            output = self._model(self._unread, past_key_values=self._cache)
            legal = self._legal[torch.from_numpy(states)]
            scores = action_scores(output, legal[:, None], self._decoding.beta)[:, 0]
            if self._decoding.sample:
                token = torch.multinomial(scores.softmax(dim=-1), 1, generator=self._random)
            else:
                token = scores.argmax(dim=-1, keepdim=True)
            self._unread = token + self._language.first_action
            chosen.append(token[:, 0].cpu().numpy())
            states = next_state[states, chosen[-1]].astype(np.int64)
        return np.stack(chosen, axis=1)

    def observe(self, tokens: NDArray[np.int64]) -> None:
        """Append what the environment answered, (episodes, tokens)."""
        seen = torch.from_numpy(tokens).to(self._model.device)
        self._unread = torch.cat([self._unread, seen], dim=1)

    def keep(self, episodes: NDArray[np.int64]) -> None:
        """Go on with these episodes only, given by their place in the batch."""
        index = torch.from_numpy(episodes).to(self._model.device)
        self._cache.batch_select_indices(index)
        self._unread = self._unread[index]
