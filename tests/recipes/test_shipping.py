"""Making an agent the one that ships."""

from pathlib import Path

import torch

from textrl.envs.wordle.shipped import ship
from textrl.sharing.checkpoint import load_agent


def test_an_agent_is_made_small_without_playing_otherwise(small_run: Path, tmp_path: Path) -> None:
    ship(small_run, "0123abc", tmp_path / "agent")
    shipped, _ = load_agent(str(tmp_path / "agent"))
    trained, task = load_agent(str(small_run))
    assert "world" in trained.config.heads and "world" not in shipped.config.heads
    history = torch.from_numpy(task.prompt(1))
    with torch.no_grad():
        torch.testing.assert_close(
            shipped(history).policy, trained(history).policy, atol=0.01, rtol=0.01
        )
    card = (tmp_path / "agent" / "README.md").read_text()
    assert "With commit 0123abc of textrl:" in card and str(small_run) not in card
