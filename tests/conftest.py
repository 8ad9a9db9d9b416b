"""What many tests share: a small language with episodes in it, a small Wordle, a small model."""

import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.hub_server import HubServer

# The Hub's client reads these once, when it is imported: no test talks to the real Hub, nor reads
# or writes the user's token and downloads.
HUB = HubServer()
HF_HOME = tempfile.TemporaryDirectory()
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HOME": HF_HOME.name, "HF_HUB_DISABLE_XET": "1"}
os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] = "0"
for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE"):
    os.environ.pop(name, None)

# ruff: noqa: E402
import datasets
import numpy as np
import pytest
import torch
from datasets import Dataset

from tests.frame_task import FrameTask
from textrl.data.dataset import write_shard
from textrl.data.episode import Episode, Step
from textrl.data.language import BEGIN_ID, ActionGrammar, Language
from textrl.envs.wordle.task import WordleTask
from textrl.envs.wordle.words import WordList
from textrl.model.network import TextRLConfig, TextRLModel

TWELVE = ("crane", "crate", "slate", "stale", "abbey", "kebab")
TWELVE += ("eerie", "geese", "speed", "moist", "plumb", "fjord")


@pytest.fixture(autouse=True)
def _own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's caches."""
    monkeypatch.setenv("TEXTRL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")
    # It would ask another server of the real Hub.
    monkeypatch.setattr(datasets.config, "USE_PARQUET_EXPORT", False)


@pytest.fixture
def hub() -> HubServer:
    """The Hub that the client in this process and in recipes talks to."""
    HUB.be_kind()
    return HUB


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Models this small gain nothing by more, and on a busy machine threads wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def language() -> Language:
    """Ids: <pad> 0, <begin> 1, hot 2, cold 3, wet 4, a 5, b 6, x 7, y 8. Actions: ax, ay, by."""
    grammar = ActionGrammar.from_spellings(np.array([[0, 2], [0, 3], [1, 3]]), actions=4)
    return Language(("hot", "cold", "wet"), ("a", "b", "x", "y"), grammar)


@pytest.fixture
def random_episodes() -> Callable[..., list[Episode]]:
    """Episodes of `language`, long and short; the last reward of each is its number."""

    def make(count: int, seed: int = 0, truncated: float = 0.5) -> list[Episode]:
        rng = np.random.default_rng(seed)
        episodes = []
        for number in range(count):
            steps = []
            for _ in range(rng.integers(1, 6)):
                action = [(5, 7), (5, 8), (6, 8)][rng.integers(3)]
                seen = rng.integers(2, 5, size=rng.integers(0, 4))
                reward, seen_class = float(rng.integers(-3, 0)), int(rng.integers(7))
                steps.append(Step(action, reward, tuple(seen.tolist()), seen_class))
            is_cut = bool(rng.random() < truncated)
            if is_cut and rng.random() < 0.5:  # in the middle of an action
                steps.append(Step((5,), float(number)))
            else:
                last = steps.pop()
                steps.append(
                    Step(last.action, float(number), last.observation, last.observation_class)
                )
            prompt = (BEGIN_ID, *rng.integers(2, 5, size=rng.integers(0, 3)).tolist())
            behaviour = ("novice", "expert")[number % 2]
            episodes.append(Episode(prompt, tuple(steps), not is_cut, is_cut, behaviour))
        return episodes

    return make


@pytest.fixture
def make_rows(tmp_path: Path) -> Callable[[list[Episode]], Dataset]:
    """Episodes as a dataset that is mapped from a file, as real ones are."""

    numbers = itertools.count()

    def make(episodes: list[Episode]) -> Dataset:
        path = tmp_path / f"shard-{next(numbers)}.arrow"
        write_shard(path, episodes)
        return Dataset.from_file(str(path))

    return make


@pytest.fixture(scope="session")
def words() -> WordList:
    return WordList("twelve", TWELVE, (*TWELVE, "trace", "least"))


@pytest.fixture(scope="session")
def wordle(words: WordList) -> WordleTask:
    return WordleTask(words)


@pytest.fixture(scope="session")
def corridor() -> FrameTask:
    return FrameTask()


@pytest.fixture
def make_model() -> Callable[..., TextRLModel]:
    """A model of 2 layers x 16 that minds its history, with targets off what they follow."""

    def make(
        language: Language, seed: int = 0, moved: bool = True, **changes: object
    ) -> TextRLModel:
        torch.manual_seed(seed)
        shape: dict[str, object] = {
            "vocabulary": len(language.tokens),
            "first_action": language.first_action,
            "action_tokens": len(language.actions),
            "layers": 2,
            "width": 16,
            "attention_heads": 2,
            "context": 64,
        }
        model = TextRLModel(TextRLConfig(**{**shape, **changes}))
        with torch.no_grad():
            for parameter in model.backbone.parameters():
                if parameter.ndim == 2 and model.config.backbone == "gpt2":
                    parameter.mul_(8)  # as new, it hardly looks back
            model.update_targets(1.0)
            for name, parameter in model.named_parameters():
                if moved and name.startswith("target_"):
                    parameter.add_(0.2 * torch.randn_like(parameter))
        return model.train(False)

    return make
