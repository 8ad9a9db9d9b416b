"""Figures of where agents go: load -> play -> count -> draw."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from textrl.acting.decoding import Decoding
from textrl.acting.policy import Policy
from textrl.acting.rollout import Played, play
from textrl.data.task_file import describe_task
from textrl.envs.gridworld.visits import played_visits, visits_figure
from textrl.errors import UserError
from textrl.evaluation.report import Estimate
from textrl.recipes.visits import EPISODES
from textrl.sharing.checkpoint import load_agent


def draw_agents(
    figure: Path,
    agents: Mapping[str, str],
    episodes: int | None = None,
    sample: bool = False,
    seed: int = 0,
    chosen: str | None = None,
) -> None:
    """Play each agent (title -> checkpoint) and draw all on one figure.

    chosen: which task, of agents of several.
    """
    played: dict[str, tuple[Any, Played]] = {}
    for title, name in agents.items():
        model, task = load_agent(name, chosen)
        if task.name not in DRAWN:
            raise UserError(f"{name!r} plays {task.name}, which has no map to draw on")
        if any(describe_task(task) != describe_task(other) for other, _ in played.values()):
            raise UserError(f"{name!r} knows another map than the agents before it")
        policy = Policy(model, task.language, Decoding.of(model, sample), seed)
        played[title] = task, play(task, policy, episodes or EPISODES[task.name], seed)
        score = Estimate.of(played[title][1].scores)
        low, high = score.interval
        print(f"{title}: mean return {score.mean:.3f} (95%: {low:.3f} to {high:.3f})")
    DRAWN[task.name](figure, task, {title: each for title, (_, each) in played.items()})


def draw_visits(figure: Path, task: Any, played: Mapping[str, Played]) -> None:
    """How often gridworld agents are in each cell, on maps side by side."""
    visits = {
        f"{title}\nmean return {each.scores.mean():.2f}": played_visits(task, each)
        for title, each in played.items()
    }
    visits_figure(task.rules.layout, visits).savefig(figure, dpi=150, bbox_inches="tight")


def draw_ways(figure: Path, task: Any, played: Mapping[str, Played]) -> None:
    """The ways of ViZDoom agents on maps side by side."""
    from textrl.envs.vizdoom.render import draw_paths, save_picture  # only who draws needs Pillow

    maps = [
        draw_paths(
            [list(zip(info["x"].tolist(), info["y"].tolist(), strict=True)) for info in each.infos],
            [bool(info["success"][-1]) for info in each.infos],
            title,
            width=640,
        )
        for title, each in played.items()
    ]
    rows = [np.concatenate(maps[i : i + 2], axis=1) for i in range(0, len(maps), 2)]
    if len(maps) % 2 and len(maps) > 1:  # the last one stands alone: the other half stays empty
        rows[-1] = np.concatenate([maps[-1], np.full_like(maps[-1], maps[-1][0, 0])], axis=1)
    save_picture(figure, np.concatenate(rows))


DRAWN = {"gridworld": draw_visits, "vizdoom": draw_ways}
