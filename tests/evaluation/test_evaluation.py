"""Judging: both decodings, the references, and the same of the task's variants."""

from collections.abc import Callable

import pytest

from tests.frame_task import FrameTask
from textrl.acting.decoding import Decoding
from textrl.evaluation.play import evaluate, judge_play
from textrl.model.network import TextRLModel

MakeModel = Callable[..., TextRLModel]


@pytest.fixture
def model(corridor: FrameTask, make_model: MakeModel) -> TextRLModel:
    shape = {"frame_shape": corridor.frame_shape, "patches": 4, "window": 4}
    return make_model(corridor.language, **shape)


def test_variants_are_judged_as_tasks_of_their_own(model: TextRLModel) -> None:
    task, patient = FrameTask(has_variant=True), FrameTask(spare=9)
    judgement = judge_play(task, model, episodes=6, beta=1.0, seed=3)
    told, alone = (
        judgement.to_json(),
        judge_play(patient, model, episodes=6, beta=1.0, seed=3).to_json(),
    )
    assert set(told["variants"]) == {"patient"}
    variant = told["variants"]["patient"]
    for timed in (variant, alone):
        assert timed.pop("games_per_second") > 0
    assert variant == alone
    assert variant["references"] == {"optimal": 9.5}
    assert told["references"] == {"optimal": 0.5}
    # Who has more time makes more moves.
    assert variant["decodings"]["sampled"]["moves"] > told["decodings"]["sampled"]["moves"]
    greedy = evaluate(task, model, Decoding(1.0, sample=False), 6, seed=3)
    assert (told["mean"], told["episodes"]) == (greedy.estimate.mean, 6)
    assert told["decodings"]["sampled"]["episodes"] == 12


def test_variants_are_told_to_people(model: TextRLModel) -> None:
    task = FrameTask(has_variant=True)
    judgement = judge_play(task, model, episodes=6, seed=3)
    told = judgement.describe(task)
    own, variant = told.split("\n\npatient:\n")
    assert "0.500" in own and "9.500" not in own
    assert "9.500" in variant
    assert variant == judgement.variants["patient"].describe(FrameTask(spare=9))
    moves = [each.metrics["moves"] for each in judgement.results]
    assert f"greedy: {moves[0]} moves" in own and f"sampled: {moves[1]} moves" in own


def test_a_task_without_variants_has_none(model: TextRLModel, corridor: FrameTask) -> None:
    judgement = judge_play(corridor, model, episodes=2, seed=3)
    assert judgement.variants == {}
    assert "variants" not in judgement.to_json()
    assert "patient" not in judgement.describe(corridor)
