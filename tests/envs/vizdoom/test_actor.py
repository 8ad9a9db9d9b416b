"""A policy of A2C without its trainer: what it sees, how it draws, what is loaded and what not."""

import hashlib
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from textrl.data.frames import encode_frame
from textrl.envs.vizdoom.actor import Actor, Network, load_actor, make_players, save_actor
from textrl.envs.vizdoom.behaviour import walk
from textrl.envs.vizdoom.engine import Engine
from textrl.envs.vizdoom.task import VizdoomTask
from textrl.errors import UserError
from textrl.recipes import collect, train_a2c

TRAINED = {"steps": 1200, "success": 0.25, "episodes": 16}


def random_network(seed: int = 0) -> Network:
    torch.manual_seed(seed)
    return Network().requires_grad_(False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    save_actor(tmp_path / "run" / "step-00001200", random_network(), TRAINED)
    return tmp_path / "run" / "step-00001200"


@pytest.fixture
def actor(checkpoint: Path) -> Actor:
    return load_actor(checkpoint)


def test_a_checkpoint_loads_as_it_was_saved(checkpoint: Path) -> None:
    actor = load_actor(checkpoint)
    frames = torch.randint(0, 256, (3, 4, 80, 80), dtype=torch.uint8)
    assert (actor.network(frames) == random_network()(frames)).all()
    assert (actor.steps, actor.success, actor.episodes) == (1200, 0.25, 16)
    weights = (checkpoint / "actor.safetensors").read_bytes()
    assert actor.digest == hashlib.sha256(weights).hexdigest()
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == ["step-00001200"]


def test_a_player_sees_the_last_four_frames_the_newest_last() -> None:
    seen = []

    def network(frames: torch.Tensor) -> torch.Tensor:
        seen.append(frames[:, :, 5, 7].tolist())
        return torch.zeros(2, 3)

    act = make_players(network, 2, np.random.default_rng(0))
    for number in range(1, 6):
        act(np.stack([np.full((80, 80), number), np.full((80, 80), 10 * number)]).astype(np.uint8))
    assert seen[0] == [[0, 0, 0, 1], [0, 0, 0, 10]]
    assert seen[2] == [[0, 1, 2, 3], [0, 10, 20, 30]]
    assert seen[4] == [[2, 3, 4, 5], [20, 30, 40, 50]]


def test_actions_are_drawn_as_the_logits_say() -> None:
    shares = torch.tensor([0.7, 0.1, 0.2])
    act = make_players(lambda frames: shares.log().repeat(100, 1), 100, np.random.default_rng(0))
    frames = np.zeros((100, 80, 80), dtype=np.uint8)
    actions = np.concatenate([act(frames) for _ in range(100)])
    # Of 10,000 draws a share is off by 0.0046 at most, in two thirds of the cases.
    assert np.bincount(actions, minlength=3) / 10_000 == pytest.approx(shares.tolist(), abs=0.02)


def test_a_watcher_is_shown_each_frame_before_it_acts(engine: Engine) -> None:
    shown = []

    def forward(frame: np.ndarray) -> int:
        shown.append(encode_frame(frame))
        return 2

    walked = walk(engine, "anyone", np.random.default_rng(0), make_watcher=lambda rng: forward)
    assert walked.player == "anyone"
    assert set(walked.actions) == {2}
    assert tuple(shown) == walked.frames[:-1]


def test_an_actor_plays_its_half_of_a_dataset(actor: Actor, tmp_path: Path, engine: Engine) -> None:
    task = VizdoomTask()
    rows = task.collect(2, seed=3, folder=tmp_path / "data", workers=1, actor=actor)
    assert [row["behaviour"] for row in rows] == ["random", "a2c"]
    again = walk(engine, "a2c", np.random.default_rng([3, 0, 1]), make_watcher=actor.watcher)
    assert rows[1]["tokens"][2::2] == [3 + action for action in again.actions]
    assert len(set(again.actions)) == 3
    # Whoever plays, it is the same random numbers that decide where an episode begins.
    medium = walk(engine, "medium", np.random.default_rng([3, 0, 1]), keep_frames=False)
    assert (medium.places[0] == again.places[0]).all()


def test_episodes_of_other_weights_are_of_another_origin(actor: Actor, tmp_path: Path) -> None:
    save_actor(tmp_path / "other", random_network(1), TRAINED)
    other = load_actor(tmp_path / "other")
    origins = [VizdoomTask()._origin(4, 0, each) for each in (None, actor, other)]
    assert "medium" in origins[0] and "medium" not in origins[1]
    assert all(origins.count(origin) == 1 for origin in origins)


def test_a_run_is_no_checkpoint_but_has_some(checkpoint: Path) -> None:
    with pytest.raises(UserError, match=r"not an A2C checkpoint.*: choose .*step-00001200"):
        load_actor(checkpoint.parent)
    with pytest.raises(UserError, match=r"train_a2c\.py makes them"):
        load_actor(checkpoint / "nowhere")


@pytest.mark.parametrize("note", ["{", "[]", "{}", '{"game": {}, "trained": {"steps": "many"}}'])
def test_a_damaged_note_is_told(checkpoint: Path, note: str) -> None:
    (checkpoint / "actor.json").write_text(note)
    with pytest.raises(UserError, match="cannot load an A2C checkpoint"):
        load_actor(checkpoint)


def test_weights_for_another_game_are_refused(checkpoint: Path) -> None:
    note = json.loads((checkpoint / "actor.json").read_text())
    note["game"]["frame_skip"] = 2
    (checkpoint / "actor.json").write_text(json.dumps(note))
    with pytest.raises(UserError, match="plays another game"):
        load_actor(checkpoint)


@pytest.mark.parametrize("change", ["shape", "dtype", "name", "missing"])
def test_weights_of_another_network_are_refused(checkpoint: Path, change: str) -> None:
    weights = dict(random_network().state_dict())
    bias = weights.pop("action.bias")
    if change != "missing":
        name = "value.bias" if change == "name" else "action.bias"
        made = {"shape": torch.zeros(4), "dtype": bias.double(), "name": bias}
        weights[name] = made[change]
    save_file(weights, checkpoint / "actor.safetensors")
    with pytest.raises(UserError, match="another network's weights"):
        load_actor(checkpoint)


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self.path, "boom")


def test_pickles_are_not_opened(checkpoint: Path, tmp_path: Path) -> None:
    torch.save({"weights": Bomb(tmp_path / "boom")}, checkpoint / "actor.safetensors")
    with pytest.raises(UserError, match="cannot load an A2C checkpoint"):
        load_actor(checkpoint)
    (checkpoint / "actor.safetensors").write_bytes(pickle.dumps(Bomb(tmp_path / "boom")))
    with pytest.raises(UserError, match="cannot load an A2C checkpoint"):
        load_actor(checkpoint)
    assert not (tmp_path / "boom").exists()


def run(monkeypatch: pytest.MonkeyPatch, main: object, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["recipe", *map(str, arguments)])
    main()  # type: ignore[operator]


def test_collecting_tells_how_good_the_policy_was(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    output = tmp_path / "data"
    arguments = ["--task", "vizdoom", "--a2c", checkpoint, "--episodes", 2, "--workers", 1]
    run(monkeypatch, collect.main, *arguments, "--output", output)
    how = json.loads((output / "collection.json").read_text())["how"]
    assert "learned for 1,200 steps and found the armor in 25.0% of 16 episodes" in how
    assert "a2c: " in capsys.readouterr().out

    with pytest.raises(UserError, match="choose --task vizdoom"):
        run(monkeypatch, collect.main, "--task", "wordle", "--a2c", checkpoint, "--output", "x")
    arguments[3] = tmp_path / "none"
    with pytest.raises(UserError, match="not an A2C checkpoint"):
        run(monkeypatch, collect.main, *arguments, "--output", tmp_path / "more")
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("--steps", "0", "--steps must be at least 1, not 0"),
        ("--evaluate-every", "0", "--evaluate-every must be at least 1, not 0"),
        ("--seed", "-1", "--seed must be at least 0, not -1"),
        ("--seed", "4294967296", "--seed must be at most 4294967295"),
        ("--until", "60", "--until must be above 0 and at most 1, not 60"),
        ("--until", "nan", "--until must be above 0 and at most 1, not nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str, value: str, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        run(monkeypatch, train_a2c.main, "--output", tmp_path / "run", flag, value)
    assert not (tmp_path / "run").exists()


def test_training_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    monkeypatch.delitem(sys.modules, "textrl.envs.vizdoom.a2c", raising=False)
    with pytest.raises(UserError, match=r"pip install 'offline-textrl\[a2c\]'"):
        run(monkeypatch, train_a2c.main, "--output", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="exists already"):
        run(monkeypatch, train_a2c.main, "--output", tmp_path)
