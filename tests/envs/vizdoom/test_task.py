"""My Way Home as a task: rows that say what happened, settings, references, how play is judged."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from textrl.config.presets import configure
from textrl.data.dataset import load_episodes
from textrl.data.task_file import describe_task
from textrl.envs.vizdoom.behaviour import LOST, medium_player, walk
from textrl.envs.vizdoom.data import chunk_sizes
from textrl.envs.vizdoom.engine import Engine
from textrl.envs.vizdoom.references import measure, references
from textrl.envs.vizdoom.task import VizdoomTask
from textrl.tasks.members import Members
from textrl.tasks.task import Reference


@pytest.fixture(scope="module")
def task() -> VizdoomTask:
    return VizdoomTask()


def test_tokens_are_frames_and_actions(task: VizdoomTask) -> None:
    assert task.language.tokens == (
        "<pad>",
        "<begin>",
        "<frame>",
        "turn_left",
        "turn_right",
        "forward",
    )
    assert task.language.frame_id == 2
    assert task.prompt(2).tolist() == [[1, 2], [1, 2]]
    assert task.to_env_actions(np.array([[2], [0]])).tolist() == [2, 0]
    assert task.observe(np.array([[2], [0]]), {}).tolist() == [[2], [2]]
    assert task.observation_class({"success": np.zeros(2)}).tolist() == [-1, -1]
    for wrong in ([[3]], [[-1]], [[0, 1]]):
        with pytest.raises(ValueError, match=r"one number 0\.\.2"):
            task.to_env_actions(np.array(wrong))


def test_a_dataset_tells_what_happened(task: VizdoomTask, tmp_path: Path, engine: Engine) -> None:
    rows = task.collect(4, seed=3, folder=tmp_path / "data", workers=2)
    assert [row["behaviour"] for row in rows] == ["random", "medium"] * 2
    assert json.loads((tmp_path / "data" / "task.json").read_text()) == describe_task(task)
    for number, row in enumerate(load_episodes(str(tmp_path / "data"))):
        again = walk(engine, row["behaviour"], np.random.default_rng([3, 0, number]))
        steps = len(again.actions)
        assert row["tokens"][:2] == [1, 2]
        assert row["tokens"][2::2] == [3 + action for action in again.actions]
        assert row["tokens"][3::2] == [2] * steps
        assert row["is_action"] == [False, False, *[True, False] * steps]
        assert row["reward"][2::2] == [pytest.approx(r) for r in again.rewards]
        assert set(row["observation"]) == {-1}
        assert row["terminated"] == again.success != row["truncated"]
        assert steps == 525 or row["terminated"]
        assert row["episode_return"] == pytest.approx(sum(again.rewards), abs=1e-6)
        assert len(row["frames"]) == steps + 1
        last = Image.open(io.BytesIO(again.frames[-1]))
        assert last.size == (80, 80)
        assert (np.asarray(row["frames"][-1]) == np.asarray(last)).all()


def test_chunks_are_even_and_not_too_many() -> None:
    assert chunk_sizes(40) == [16, 16, 8]
    assert chunk_sizes(1) == [1]
    large = chunk_sizes(31_001)
    assert len(large) <= 500
    assert sum(large) == 31_001
    assert set(large[:-1]) == {64}


def test_settings_make_the_same_task_again(task: VizdoomTask) -> None:
    assert Members.of_run(configure("vizdoom")).one()[1].settings() == task.settings()
    (name, hard), *others = task.variants().items()
    assert (name, others) == ("hard", [])
    saved = json.loads(json.dumps(describe_task(hard)))
    _, again = Members.of_saved(saved["task"], saved["settings"]).one()
    assert isinstance(again, VizdoomTask)
    assert again.hard
    assert again.variants() == {}
    assert again.data_settings() == task.data_settings()
    for change in ({"hard": "yes"}, {"horizon": 3}):
        with pytest.raises((TypeError, ValueError)):
            VizdoomTask.from_settings({**task.settings(), **change})


def test_the_medium_player_is_lost_as_often_as_it_should(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    # Facing the armor from above, whoever knows the way goes forward.
    share = np.mean([[medium_player(rng)(1040.0, -200.0, 270.0) == 2] for _ in range(4000)])
    knows, slips, lost = (1 - LOST) * 0.8, (1 - LOST) * 0.2 / 3, LOST / 3
    assert share == pytest.approx(knows + slips + lost, abs=0.03)


def test_metrics_are_of_the_last_step(task: VizdoomTask) -> None:
    def info(spot: int, steps: int, success: bool) -> dict[str, np.ndarray]:
        ends = np.zeros(steps, dtype=bool)
        ends[-1] = success
        return {"spot": np.full(steps, spot), "success": ends}

    infos = [info(3, 10, True), info(3, 525, False), info(16, 5, True)]
    metrics = task.metrics(np.array([1.0, -0.2, 1.0]), infos)
    assert metrics == {
        "success": pytest.approx(2 / 3),
        "decisions": 180.0,
        "decisions_to_armor": 7.5,
        "by_spot": {"3": [1, 2], "16": [1, 1]},
    }
    assert task.describe(metrics) == (
        "found the armor 66.7% after 8 decisions; 180 decisions an episode\n"
        "found by spot  3: 1/2  16: 1/1"
    )
    none = task.metrics(np.array([-0.2]), [info(3, 525, False)])
    assert none["decisions_to_armor"] is None
    assert "found the armor 0.0%; 525" in task.describe(none)
    returns = {"random": np.array([-0.21, 0.9]), "medium": np.array([0.8, 0.9])}
    assert (
        task.describe_data(returns) == "found the armor  random: 50.0%  medium: 100.0%  all: 75.0%"
    )


def test_references_are_measured_once(
    task: VizdoomTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measure(hard=False, episodes=2, workers=2)
    assert list(found) == ["random", "data", "medium", "navigator"]
    assert found["navigator"].mean > 0.9
    assert found["data"].mean == pytest.approx((found["random"].mean + found["medium"].mean) / 2)

    calls = []

    def pretend(hard: bool, episodes: int) -> dict[str, Reference]:
        calls.append((hard, episodes))
        return found

    monkeypatch.setattr("textrl.envs.vizdoom.references.measure", pretend)
    for hard in (False, True, False, True):
        assert references(hard) == found
    assert calls == [(False, 200), (True, 200)]
    for path in (tmp_path / "cache").glob("vizdoom-references-*"):
        path.write_text("{")
    assert task.references(seed=5) == found
    assert len(calls) == 3


def test_as_many_episodes_are_sampled_as_in_the_paper() -> None:
    for task in (VizdoomTask(), *VizdoomTask().variants().values()):
        assert task.full_evaluation() * task.sampled_rounds == 100
