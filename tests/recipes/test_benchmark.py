"""The benchmark: what it compares is what it says; nothing is timed here."""

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from textrl.data.batches import Batch, collate, similar_groups
from textrl.data.dataset import Rows, episodes_to_table
from textrl.data.episode import Episode
from textrl.data.language import Language
from textrl.errors import UserError
from textrl.recipes import benchmark
from textrl.recipes.measuring import steps
from textrl.recipes.measuring.growth import step_seconds
from textrl.recipes.measuring.profile import BETWEEN, profile_step
from textrl.recipes.measuring.steps import passes_of
from textrl.recipes.measuring.until import time_to


@pytest.fixture
def batch(language: Language, random_episodes: Callable[..., list[Episode]]) -> Batch:
    rows = Rows.from_table(episodes_to_table(random_episodes(40)))
    whole = collate(rows, np.argsort(rows.lengths, kind="stable"), language)
    return replace(whole, groups=similar_groups(whole.state_positions))


def test_the_language_model_reads_every_token_in_few_padded_passes(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textrl.data.batches.PASS_TOKENS", 8)
    passes = passes_of(batch)
    assert 1 < len(passes) < 10 and sum(map(len, passes)) == len(batch.tokens)
    first = 0
    for part in passes:
        rows = slice(first, first + len(part))
        assert torch.equal(part, batch.tokens[rows, : part.shape[1]])
        assert part.shape[1] == 1 + batch.state_positions[rows].max()
        first += len(part)


def test_a_profile_has_all_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "EPISODES", 200)
    monkeypatch.setattr(steps, "STEPS_PER_ROUND", 1)
    found = profile_step("wordle", "quick", "gpt2", compares=True)
    assert sum(each.share for each in found) == pytest.approx(1.0)
    by_name = {each.name: each for each in found}
    assert by_name["aten::mm"].calls > 10 and by_name["aten::mm"].gigaflops
    assert 0 < by_name[BETWEEN].share < 1
    torch.use_deterministic_algorithms(False)


def test_sizes_can_be_measured_one_by_one() -> None:
    assert step_seconds(width=16, layers=1, context=8, vocabulary=20) > 0


def test_training_ends_at_the_score() -> None:
    found = time_to("tmaze", "quick", "gpt2", score=-1.0, every=2, seed=0, threads=1)
    assert found["steps"] == 2 and found["score"] >= found["until_score"] == -1.0
    assert found["minutes"] > 0 and found["threads"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "-1"], "--threads -1"),
        (["--until", "-2", "--every", "0"], "--every 0"),
        (["--bisim"], "--bisim is for --profile"),
    ],
)
def test_what_means_nothing_is_refused(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", *arguments])
    with pytest.raises(UserError, match=message):
        benchmark.main()
