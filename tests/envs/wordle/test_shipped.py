"""The agent that ships: small, told of as it was measured, and it plays by boards and in loops."""

import json
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import textrl.envs.registration  # noqa: F401 (registers the environments)
from textrl.acting.decoding import Decoding
from textrl.envs.wordle.player import Player, load_player
from textrl.envs.wordle.shipped import SHIPPED_AGENT
from textrl.envs.wordle.words import load_words
from textrl.errors import UserError
from textrl.evaluation.play import evaluate
from textrl.model.network import TextRLModel
from textrl.sharing.checkpoint import load_agent
from textrl.sharing.publish import saved_report


@pytest.fixture(scope="module")
def player() -> Player:
    return load_player()


def play(player: Player, answer: str) -> tuple[list[str], float]:
    """A game's guesses and its score."""
    env = gymnasium.make("textrl/Wordle-v0", words="full")
    board, _ = env.reset(options={"answer": answer})
    words, score, over = [], 0.0, False
    while not over:
        words.append(player(board))
        board, reward, over, _, _ = env.step(words[-1])
        score += reward
    return words, score


def test_it_plays_whole_games(player: Player) -> None:
    words, score = play(player, "crane")
    assert words == play(player, "CRANE")[0]  # it is greedy, and keeps nothing of the last game
    assert set(words) <= set(load_words("full").guesses)
    assert -6 <= score <= 0
    assert (words[-1] == "crane") == (score > -6)


def test_a_board_says_all(player: Player) -> None:
    """The same board, reached in another game, gets the same word."""
    env = gymnasium.make("textrl/Wordle-v0", words="full")
    env.reset(options={"answer": "moist"})
    board = env.step("crane")[0]
    env.reset(options={"answer": "shift"})
    other = env.step("crane")[0]
    np.testing.assert_array_equal(board, other)
    chosen = player(board)
    player(np.full_like(board, -1))
    assert player(other) == chosen != "crane"


def test_it_is_small_and_in_half_precision() -> None:
    files = list(SHIPPED_AGENT.iterdir())
    assert sum(file.stat().st_size for file in files) < 6_000_000
    model = TextRLModel.from_pretrained(SHIPPED_AGENT)
    assert {p.dtype for p in model.parameters()} == {torch.float32}  # it computes in single
    half = {p.half().float().sub(p).abs().max().item() for p in model.parameters()}
    assert half == {0.0}


def test_its_card_tells_what_was_measured_of_these_weights() -> None:
    report = saved_report(SHIPPED_AGENT)
    assert report is not None  # of other weights it would be none
    card = (SHIPPED_AGENT / "README.md").read_text()
    for name, result in report["decodings"].items():
        assert f"| **this agent, {name}** | {result['mean']:.3f} |" in card
    assert re.search(r"With commit [0-9a-f]{7,40} of textrl:", card)
    assert json.loads((SHIPPED_AGENT / "task.json").read_text())["task"] == "wordle"


def test_it_scores_what_its_card_says() -> None:
    """Every thirtieth answer or so, within what chance allows."""
    model, task = load_agent(str(SHIPPED_AGENT), "wordle")
    report = saved_report(SHIPPED_AGENT)
    assert report is not None
    found = evaluate(task, model, Decoding.of(model, sample=False), episodes=73, seed=0)
    claimed = report["decodings"]["greedy"]["mean"]
    assert abs(found.estimate.mean - claimed) < 4 * found.estimate.stderr


def test_a_player_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing"):
        load_player(tmp_path / "nothing")
