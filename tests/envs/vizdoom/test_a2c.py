"""Training by A2C, where stable-baselines3 is installed: some dozen steps, and what is kept."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.policies import ActorCriticCnnPolicy
from stable_baselines3.common.vec_env import VecFrameStack

from textrl.envs.vizdoom import a2c
from textrl.envs.vizdoom.a2c import AutoResetEnvs, export, success_share, train_a2c
from textrl.envs.vizdoom.actor import STACK, Network, load_actor, make_players
from textrl.envs.vizdoom.vector import MyWayHomeVectorEnv


def test_what_is_exported_acts_as_what_was_trained() -> None:
    torch.manual_seed(0)
    frames = spaces.Box(0, 255, (4, 80, 80), np.uint8)
    policy = ActorCriticCnnPolicy(frames, spaces.Discrete(3), lambda _: 1e-3)
    with torch.no_grad():
        policy.action_net.weight.mul_(100)  # as new, all actions are much alike
    seen = torch.randint(0, 256, (5, 4, 80, 80), dtype=torch.uint8)
    theirs = policy.get_distribution(seen).distribution.probs
    ours = export(policy.state_dict())(seen).softmax(-1)
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)
    assert theirs.std(0).max() > 0.01


class ThreeEpisodes:
    """Of which the first was just found, the second cut off, the third goes on."""

    num_envs, render_mode = 3, None
    single_action_space = spaces.Discrete(3)

    def __init__(self) -> None:
        self.resets: list[dict[str, object]] = []

    def reset(self, seed=None, options=None):
        self.resets.append({"seed": seed, **(options or {})})
        return np.full((3, 80, 80), 9, dtype=np.uint8), {}

    def step(self, actions):
        frames = np.full((3, 80, 80), 5, dtype=np.uint8)
        terminated, truncated = np.array([True, False, False]), np.array([False, True, False])
        return frames, np.array([0.9996, -0.0004, -0.0004]), terminated, truncated, {}


def test_an_episode_that_ends_is_followed_by_a_new_one() -> None:
    game = ThreeEpisodes()
    envs = AutoResetEnvs(game)
    envs.seed(7)
    assert envs.reset().shape == (3, 1, 80, 80)
    envs.reset()
    frames, rewards, is_over, infos = envs.step(np.array([0, 1, 2]))
    assert rewards.tolist() == [0.9996, -0.0004, -0.0004]
    assert is_over.tolist() == [True, True, False]
    assert (frames == 9).all()
    assert [reset["seed"] for reset in game.resets] == [7, None, None]
    assert game.resets[2]["reset_mask"].tolist() == [True, True, False]
    found, cut, going = infos
    assert (found["is_success"], found["TimeLimit.truncated"]) == (True, False)
    assert (cut["is_success"], cut["TimeLimit.truncated"]) == (False, True)
    assert going == {}
    for info in (found, cut):
        assert info["terminal_observation"].shape == (1, 80, 80)
        assert (info["terminal_observation"] == 5).all()


class Counting(ThreeEpisodes):
    """Frames are numbered and nothing ever ends."""

    number = 9

    def step(self, actions):
        self.number += 1
        never = np.zeros(3, dtype=bool)
        return np.full((3, 80, 80), self.number, dtype=np.uint8), np.zeros(3), never, never, {}


def test_frames_are_stacked_for_playing_as_they_were_for_learning() -> None:
    seen = []

    def network(frames: torch.Tensor) -> torch.Tensor:
        seen.append(frames.numpy().copy())
        return torch.zeros(3, 3)

    act = make_players(network, 3, np.random.default_rng(0))
    learned_from = VecFrameStack(AutoResetEnvs(Counting()), STACK, channels_order="first")
    stack = learned_from.reset()
    for _ in range(6):
        actions = act(stack[:, -1])
        assert (seen[-1] == stack).all()
        stack, *_ = learned_from.step(actions)
    assert stack[0, :, 0, 0].tolist() == [12, 13, 14, 15]


def test_training_leaves_checkpoints_and_is_repeatable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.1, 0.2, 0.1, 0.7])
    monkeypatch.setattr(a2c, "success_share", lambda *_: (next(shares), 8))
    last = train_a2c(80, 5, tmp_path / "a", workers=1, envs=2, evaluate_every=40, until=0.6)
    assert last == tmp_path / "a" / "step-00000080"
    first, second = (load_actor(tmp_path / "a" / f"step-{n:08d}") for n in (40, 80))
    assert (second.steps, second.success, second.episodes) == (80, 0.2, 8)
    assert first.digest != second.digest
    curve = (tmp_path / "a" / "curve.jsonl").read_text().splitlines()
    assert [json.loads(line)["success"] for line in curve] == [0.1, 0.2]

    # Stopped by its success, and with other workers.
    last = train_a2c(800, 5, tmp_path / "b", workers=2, envs=2, evaluate_every=40, until=0.6)
    assert load_actor(last).digest == second.digest


def test_an_evaluation_does_not_decide_what_is_learned_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    game = MyWayHomeVectorEnv(2, workers=1)
    monkeypatch.setattr("textrl.envs.vizdoom.vector.HORIZON", 6)
    try:
        torch.manual_seed(0)
        network = Network().requires_grad_(False)
        game.reset(seed=0)
        assert success_share(network, game, 3, seed=0) == (0.0, 4)
        _, infos = game.reset()
        assert success_share(network, game, 3, seed=0) == (0.0, 4)
        _, later = game.reset()
    finally:
        game.close()
    assert set(infos["episode_seed"].tolist()).isdisjoint(later["episode_seed"].tolist())


def test_success_is_counted_over_all_rounds() -> None:
    class Game(SimpleNamespace):
        """The first of two episodes is found at once, the second is cut off later."""

        def reset(self, options):
            self.step_number = 0
            return np.zeros((2, 80, 80), dtype=np.uint8), {}

        def step(self, actions):
            self.step_number += 1
            frames, terminated = np.zeros((2, 80, 80), dtype=np.uint8), np.array([True, False])
            return frames, None, terminated, np.array([False, self.step_number == 3]), {}

    assert success_share(Network().requires_grad_(False), Game(num_envs=2), 5, 0) == (0.5, 6)
