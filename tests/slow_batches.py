"""Batches the slow way, episode by episode and token by token, and how to compare them."""

from dataclasses import MISSING, fields

import torch

from textrl.data.batches import Batch
from textrl.data.episode import Episode
from textrl.data.frames import Frames
from textrl.data.language import Language

TENSORS = [
    each.name
    for each in fields(Batch)
    if each.default is MISSING and not each.name.endswith("_count")
]
"""What every batch has of each of its episodes."""


def same(one: object, other: object) -> bool:
    """Whether two batches (or two sets of frames) are equal in every tensor and number."""
    if torch.is_tensor(one):
        return torch.equal(one, other)
    if not isinstance(one, Batch | Frames) or type(one) is not type(other):
        return one == other
    return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


def slow_collate(episodes: list[Episode], language: Language) -> dict[str, list[list[object]]]:
    """What each episode contributes, token by token and without padding."""
    columns: dict[str, list[list[object]]] = {name: [] for name in TENSORS}
    for episode in episodes:
        history = list(episode.prompt)
        mine: dict[str, list[object]] = {name: [] for name in columns}
        for step in episode.steps:
            state = 0
            for left, token in reversed(list(enumerate(reversed(step.action)))):
                number = token - language.first_action
                mine["state_positions"].append(len(history) - 1)
                mine["legal"].append(language.grammar.legal[state].tolist())
                mine["actions"].append(number)
                mine["rewards"].append(0.0 if left else step.reward)
                mine["observations"].append(-1 if left else step.observation_class)
                mine["ends_action"].append(False if left else len(step.action) == 2)
                mine["is_action"].append(True)
                mine["has_next"].append(True)
                mine["is_followed"].append(True)
                mine["return_after"].append(0.0)
                history.append(token)
                state = int(language.grammar.next_state[state, number])
            history.extend(step.observation)
        mine["has_next"][-1] = episode.truncated
        mine["is_followed"][-1] = False
        mine["left"] = [-1 if episode.truncated else 0]
        if episode.truncated:
            mine["state_positions"].append(len(history) - 1)
            mine["legal"].append(language.grammar.legal[state].tolist())
        mine["tokens"] = list(history)
        for name, values in mine.items():
            columns[name].append(values)
    return columns
