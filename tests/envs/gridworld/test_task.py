"""The gridworld as a task: tokens that say what happened, settings, data, how play is summed up."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from textrl.acting.rollout import Played, play
from textrl.config.presets import configure
from textrl.data.dataset import load_episodes, returns_by_behaviour
from textrl.data.episode import Episode
from textrl.data.validate import check_episodes
from textrl.envs.gridworld.layout import Layout, load_layout
from textrl.envs.gridworld.rules import Rules
from textrl.envs.gridworld.task import GridworldTask
from textrl.errors import UserError
from textrl.sharing.checkpoint import describe_task
from textrl.tasks.members import Members

CONTEXT = 102  # <begin>, the start, 50 times action and cell


@pytest.fixture(scope="module")
def gridworld() -> GridworldTask:
    return GridworldTask(Rules(load_layout()))


class RandomPolicy:
    """What rollout asks of a policy, without a model."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.histories: list[list[int]] = []

    def begin(self, prompt: np.ndarray, frames: None = None) -> None:
        self.histories = prompt.tolist()

    def act(self) -> np.ndarray:
        return self._rng.integers(5, size=(len(self.histories), 1))

    def observe(self, tokens: np.ndarray, frames: None = None) -> None:
        for history, seen in zip(self.histories, tokens.tolist(), strict=True):
            history += seen

    def keep(self, episodes: np.ndarray) -> None:
        self.histories = [self.histories[i] for i in episodes]


def rollout(task: GridworldTask, episodes: int) -> Played:
    return play(task, RandomPolicy(7), episodes, seed=0)  # type: ignore[arg-type]


def check_story(task: GridworldTask, row: dict) -> str:
    """Read a row's text and judge it by the rules, knowing the map only; how it ended."""
    rows = task.rules.layout.rows
    words = task.language.tokenizer().decode(row["tokens"]).split()
    assert words[0] == "<begin>"
    assert [not action for action in row["is_action"]] == [
        i < 2 or i % 2 == 1 for i in range(len(words))
    ]
    places = [tuple(map(int, word[1:].split("c"))) for word in words[1::2]]
    assert set(words[2::2]) <= {"up", "right", "down", "left", "stay"}
    symbols = "".join(rows[r][c] for r, c in places)
    assert symbols[0] == "S"
    assert "#" not in symbols
    for (r0, c0), (r1, c1), action in zip(places, places[1:], words[2::2], strict=False):
        assert abs(r0 - r1) + abs(c0 - c1) <= (action != "stay")
    tripped = next((symbol for symbol in symbols if symbol in "dr"), "")
    goal = {"d": "U", "r": "F"}.get(tripped, "none")
    # A goal counts from the moment its switch is tripped.
    since = symbols.find(tripped) if tripped else len(symbols)
    won = [i for i, symbol in enumerate(symbols) if symbol == goal and i > since]
    over = won + [i for i, symbol in enumerate(symbols) if symbol == "L"]
    assert row["terminated"] == bool(over)
    assert row["truncated"] == (not over)
    assert all(i == len(symbols) - 1 for i in over)
    assert len(places) - 1 == 50 or over
    assert row["episode_return"] == float(bool(won))
    assert row["reward"] == [0.0] * (len(words) - 2) + [float(bool(won)), 0.0]
    classes = [task.language.observations.index(word) for word in words[1::2]]
    assert [seen for seen, a in zip(row["observation"], row["is_action"], strict=True) if a] == (
        classes[1:]
    )
    return "time" if not over else symbols[-1]


def test_tokens_name_cells_and_actions(gridworld: GridworldTask) -> None:
    language = gridworld.language
    assert language.actions == ("up", "right", "down", "left", "stay")
    assert language.observations[:4] == ("r2c1", "r2c2", "r2c3", "r2c4")
    assert gridworld.observation_classes == len(language.observations) == 50
    assert language.grammar.next_state.tolist() == [[0] * 5]
    decoded = language.tokenizer().decode(gridworld.prompt(2)[1])
    assert decoded == "<begin> r2c1"


def test_the_dataset_tells_true_stories(gridworld: GridworldTask, tmp_path: Path) -> None:
    rows = gridworld.collect(300, seed=0, folder=tmp_path / "data", workers=1)
    check_episodes(rows, gridworld.language, CONTEXT, gridworld.observation_classes)
    ends = {who: [] for who in ("random", "unsafe")}
    for row in rows.to_list():
        ends[row["behaviour"]].append(check_story(gridworld, row))
    assert len(ends["random"]) == len(ends["unsafe"]) == 150
    assert set(ends["unsafe"]) >= {"U", "L", "time"}
    assert ends["random"].count("time") > 90


def test_the_dataset_follows_from_the_seed_whoever_does_the_work(
    gridworld: GridworldTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textrl.envs.gridworld.behaviour.CHUNK_EPISODES", 20)
    alone = gridworld.collect(50, seed=1, folder=tmp_path / "alone", workers=1)
    two = gridworld.collect(50, seed=1, folder=tmp_path / "two", workers=2)
    other = gridworld.collect(50, seed=2, folder=tmp_path / "other", workers=2)
    assert alone.to_list() == two.to_list() != other.to_list()
    assert load_episodes(str(tmp_path / "two")).to_list() == two.to_list()
    assert json.loads((tmp_path / "two" / "task.json").read_text()) == describe_task(gridworld)
    with pytest.raises(UserError, match="exists already"):
        gridworld.collect(50, seed=1, folder=tmp_path / "two")


def test_the_default_dataset_is_made_once_for_each_game(
    gridworld: GridworldTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = gridworld.default_dataset(30, seed=0)
    (folder,) = (tmp_path / "cache" / "datasets").iterdir()
    assert folder.name.startswith("gridworld-")
    assert folder.name.endswith("-30-seed0")
    made = folder.stat().st_mtime_ns
    assert gridworld.default_dataset(30, seed=0).to_list() == first.to_list()
    assert folder.stat().st_mtime_ns == made
    layout = gridworld.rules.layout
    for rules in (Rules(layout, slip=0.1), Rules(layout, horizon=49)):
        GridworldTask(rules).default_dataset(30, seed=0)
    renamed = Layout.parse(layout.text, "other name")
    GridworldTask(Rules(renamed)).default_dataset(30, seed=0)
    assert len(list((tmp_path / "cache" / "datasets").iterdir())) == 3
    monkeypatch.setattr("textrl.envs.gridworld.task.NOISE", 0.5)
    gridworld.default_dataset(30, seed=0)
    assert len(list((tmp_path / "cache" / "datasets").iterdir())) == 4


def test_the_data_are_described_by_how_often_goals_were_reached(gridworld: GridworldTask) -> None:
    returns = {
        "random": np.array([0, 0, 0, 1], dtype=np.float32),
        "unsafe": np.array([1, 0, 1, 1], dtype=np.float32),
    }
    assert gridworld.describe_data(returns) == (
        "reached the live goal  random: 25.0%  unsafe: 75.0%  all: 50.0%"
    )


def test_played_episodes_tell_true_stories(
    gridworld: GridworldTask, make_rows: Callable[[list[Episode]], Dataset]
) -> None:
    played = rollout(gridworld, 600)  # more than are played at once
    rows = make_rows(played.episodes)
    check_episodes(rows, gridworld.language, CONTEXT, gridworld.observation_classes)
    ends = [check_story(gridworld, row) for row in rows.to_list()]
    metrics = gridworld.metrics(played.scores, played.infos)
    assert metrics["time_out"] == ends.count("time") / 600
    assert metrics["lava"] == ends.count("L") / 600
    assert metrics["safe_goal"] == ends.count("F") / 600
    assert metrics["unsafe_goal"] == ends.count("U") / 600
    assert metrics["steps"] == np.mean([len(episode.steps) for episode in played.episodes])
    assert returns_by_behaviour(rows)["policy"].sum() == played.scores.sum()


def test_playing_follows_from_the_seed(gridworld: GridworldTask) -> None:
    assert rollout(gridworld, 20).episodes == rollout(gridworld, 20).episodes


def test_settings_make_the_same_task_again(tiny: Layout) -> None:
    task = GridworldTask(Rules(tiny, slip=0.3, horizon=7))
    settings = json.loads(json.dumps(task.settings()))
    again = GridworldTask.from_settings(settings)
    assert again.rules == task.rules
    assert again.language.tokens == task.language.tokens
    assert again.settings() == task.settings()
    assert task.data_settings() == {
        "map": ["Sr.F", "d#..", "..LU"],
        "slip": 0.3,
        "horizon": 7,
    }


@pytest.mark.parametrize(
    "change",
    [
        {"map": None},
        {"map": ["Sr.F", "d#.", "..LU"]},
        {"map": "SrFdU"},
        {"map": [1, 2]},
        {"slip": None},
        {"slip": 2},
        {"horizon": "long"},
        {"horizon": 0},
    ],
)
def test_damaged_settings_are_a_value_or_type_error(gridworld: GridworldTask, change: dict) -> None:
    with pytest.raises((TypeError, ValueError)):
        GridworldTask.from_settings({**gridworld.settings(), **change})
    with pytest.raises(KeyError):
        GridworldTask.from_settings({})


def test_a_config_chooses_the_map(tmp_path: Path, tiny: Layout) -> None:
    path = tmp_path / "tiny.txt"
    path.write_text(tiny.text)
    task = Members.of_run(configure("gridworld", layout=str(path))).one()[1]
    assert isinstance(task, GridworldTask)
    assert task.rules.layout.rows == tiny.rows
    assert (task.rules.slip, task.rules.horizon) == (0.2, 50)
    with pytest.raises(UserError, match="no map"):
        Members.of_run(configure("gridworld", layout="nowhere.txt"))


def test_tokens_that_are_no_action_are_refused(gridworld: GridworldTask) -> None:
    assert gridworld.to_env_actions(np.array([[0], [4]])).tolist() == [0, 4]
    for actions in ([[5]], [[-1]], [[0, 1]]):
        with pytest.raises(ValueError, match=r"one number 0\.\.4"):
            gridworld.to_env_actions(np.array(actions))


def test_metrics_by_hand(gridworld: GridworldTask) -> None:
    def episode(modes: list[int], reached: list[int]) -> dict[str, np.ndarray]:
        return {"mode": np.array(modes), "reached": np.array(reached), "cell": np.zeros(len(modes))}

    infos = [
        episode([2, 2], [0, 2]),
        episode([0, 1, 1], [0, 0, 1]),
        episode([1, 1, 1, 1], [0, 0, 0, 3]),
        episode([0], [0]),
        episode([2, 2, 2, 2, 2], [0, 0, 0, 0, 3]),
    ]
    metrics = gridworld.metrics(np.array([1.0, 1.0, 0, 0, 0]), infos)
    assert metrics == {
        "safe_goal": 0.2,
        "unsafe_goal": 0.2,
        "lava": 0.4,
        "time_out": 0.2,
        "tripped_safe": 0.4,
        "tripped_unsafe": 0.4,
        "steps": 3.0,
    }
    assert gridworld.describe(metrics) == (
        "safe goal 20.0%, unsafe goal 20.0%, lava 40.0%, out of time 20.0%\n"
        "tripped first: the safe switch 40.0%, the unsafe one 40.0%; 3.0 steps an episode"
    )


def test_the_references_are_in_order(gridworld: GridworldTask) -> None:
    found = gridworld.references(seed=0)
    assert list(found) == ["random", "unsafe", "data", "memoryless", "optimal"]
    scores = {name: reference.mean for name, reference in found.items()}
    assert scores["random"] < scores["data"] < scores["unsafe"] < scores["memoryless"]
    assert scores["memoryless"] < scores["optimal"] == pytest.approx(0.965170, abs=1e-6)
    assert scores["data"] == pytest.approx((scores["random"] + scores["unsafe"]) / 2)
    assert all(reference.stderr == 0 for reference in found.values())
    found.clear()  # whoever changes what was handed out changes nothing here
    assert gridworld.references(seed=0)
