"""An opponent that has learned nothing, on twelve words: enough to play against."""

from collections.abc import Callable

import pytest
import torch

from textrl.acting.decoding import Decoding
from textrl.envs.wordle.play.opponent import Opponent
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.model.network import TextRLConfig, TextRLModel


def model_of(task: WordleTask, heads: tuple[str, ...] = ("policy", "q", "v")) -> TextRLModel:
    torch.manual_seed(0)
    language = task.language
    config = TextRLConfig(
        vocabulary=len(language.tokens),
        first_action=language.first_action,
        action_tokens=len(language.actions),
        layers=1,
        width=16,
        attention_heads=2,
        heads=heads,
    )
    return TextRLModel(config).train(False)


@pytest.fixture(scope="session")
def make_opponent(words: WordList) -> Callable[..., Opponent]:
    def make(heads: tuple[str, ...] = ("policy", "q", "v"), constrain: bool = True) -> Opponent:
        task = WordleTask(words, constrain)
        return Opponent("agents/novice", model_of(task, heads), task, Decoding(1.0, sample=False))

    return make


@pytest.fixture(scope="session")
def opponent(make_opponent: Callable[..., Opponent]) -> Opponent:
    return make_opponent()
