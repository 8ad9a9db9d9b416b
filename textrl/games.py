"""Several games in one model: which of its tokens are whose, and how each game is played."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from textrl.config import TrainConfig
from textrl.language import BEGIN, PAD, PAD_ID, ActionGrammar, word_tokenizer
from textrl.task import Task


@dataclass(frozen=True)
class Game:
    """One game of a model of several. A game knows its own token ids and action numbers alone.

    What its data, its grammar and its player say is in those; the model has others, because no two
    games share a token but padding.
    """

    name: str
    begin: int  # the model's id of its begin token
    first_observation: int  # the model's id of its first observation token
    observations: int  # how many
    first_action: int  # the model's id of its first action token
    action_offset: int  # the model's number of its first action
    actions: int  # how many
    observation_classes: int
    has_frames: bool
    window: int
    heads: tuple[str, ...]  # those that its algorithm trains and that play it
    beta: float
    candidates: int
    plausible: float

    @property
    def tokens(self) -> int:
        """How many it has, padding included."""
        return 2 + self.observations + self.actions

    @property
    def action_numbers(self) -> slice:
        """Where its actions are among the model's."""
        return slice(self.action_offset, self.action_offset + self.actions)

    def ids(self, device: torch.device | None = None) -> Tensor:
        """(tokens,): the model's id of each of its own ids."""
        special = torch.tensor([PAD_ID, self.begin], device=device)
        seen = self.first_observation + torch.arange(self.observations, device=device)
        said = self.first_action + torch.arange(self.actions, device=device)
        return torch.cat([special, seen, said])


@dataclass(frozen=True)
class GamesLanguage:
    """The tokens of several games. Ids: padding, each one's begin, observations, then actions."""

    tokens: tuple[str, ...]
    actions: tuple[str, ...]
    grammar: ActionGrammar | None = None  # each game has its own

    @property
    def first_action(self) -> int:
        """The id of the first action token."""
        return len(self.tokens) - len(self.actions)

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """The language as a transformers tokenizer."""
        return word_tokenizer(self.tokens)


def language_of(tasks: Mapping[str, Task]) -> GamesLanguage:
    """The tokens of these games together, each named as <game>/<token>."""
    begins = [f"{name}/{BEGIN}" for name in tasks]
    seen = [f"{name}/{each}" for name, task in tasks.items() for each in task.language.observations]
    said = [f"{name}/{each}" for name, task in tasks.items() for each in task.language.actions]
    return GamesLanguage((PAD, *begins, *seen, *said), tuple(said))


def lay_out(
    tasks: Mapping[str, Task],
    configs: Mapping[str, TrainConfig],
    heads: Mapping[str, tuple[str, ...]],
) -> list[Game]:
    """Where each game's tokens are in that language, and how its run wants it to be played."""
    games: list[Game] = []
    first_action = language_of(tasks).first_action
    seen, said = 1 + len(tasks), 0
    for number, (name, task) in enumerate(tasks.items()):
        observations, actions = len(task.language.observations), len(task.language.actions)
        game = Game(
            name=name,
            begin=1 + number,
            first_observation=seen,
            observations=observations,
            first_action=first_action + said,
            action_offset=said,
            actions=actions,
            observation_classes=task.observation_classes,
            has_frames=task.frame_shape is not None,
            window=configs[name].window,
            heads=heads[name],
            beta=configs[name].beta,
            candidates=configs[name].candidates,
            plausible=configs[name].plausible,
        )
        games.append(game)
        seen, said = seen + observations, said + actions
    return games


def to_json(games: list[Game]) -> list[dict[str, Any]]:
    """As a model's config.json keeps them; Game(**each) is the way back."""
    return [{**asdict(game), "heads": list(game.heads)} for game in games]
