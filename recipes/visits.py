"""Draw where agents go: load -> play -> count -> figure."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import transformers

from envs.gridworld.task import GridworldTask
from envs.gridworld.visits import played_visits, visits_figure
from envs.tasks import load_agent
from envs.vizdoom.task import VizdoomTask
from textrl.checkpoint import describe_task
from textrl.decoding import Decoding
from textrl.errors import UserError, run_recipe
from textrl.parser import make_parser
from textrl.policy import Policy
from textrl.report import Estimate
from textrl.rollout import Played, play
from textrl.task import Task

EPISODES = {"gridworld": 1000, "vizdoom": 25}
EXAMPLE = "python recipes/visits.py runs/filtered-bc runs/cql runs/bisim --output visits.png"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Draw where agents go, side by side: visits of gridworld agents, ways of ViZDoom agents.",
        EXAMPLE,
    )
    parser.add_argument("checkpoints", nargs="+", help="folders or Hub ids of the agents")
    parser.add_argument("--titles", nargs="+", help="one for each (default: the folders' names)")
    parser.add_argument("--output", default="visits.png", metavar="FILE", help="the figure")
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="to play by each (default: 1000 in the gridworld, 25 in ViZDoom)",
    )
    parser.add_argument(
        "--task", choices=EPISODES, help="which one, of agents of several: gridworld or vizdoom"
    )
    parser.add_argument("--sample", action="store_true", help="sample actions, not the best ones")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="start of every random number"
    )
    options = parser.parse_args()
    titles = options.titles or [Path(name).name for name in options.checkpoints]
    if len(titles) != len(options.checkpoints):
        raise UserError(f"{len(titles)} --titles for {len(options.checkpoints)} checkpoints")
    if len(set(titles)) != len(titles):
        raise UserError("two agents have the same name: tell them apart by --titles")
    if options.episodes is not None and options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}")
    if Path(options.output).suffix not in (".png", ".pdf", ".svg"):
        raise UserError(f"--output must end in .png, .pdf or .svg, not {options.output!r}")
    transformers.utils.logging.disable_progress_bar()

    agents = dict(zip(titles, options.checkpoints, strict=True))
    figure = Path(options.output)
    draw_agents(figure, agents, options.episodes, options.sample, options.seed, options.task)
    print(f"-> {options.output}")


def draw_agents(
    figure: Path,
    agents: Mapping[str, str],
    episodes: int | None = None,
    sample: bool = False,
    seed: int = 0,
    game: str | None = None,
) -> None:
    """Play each agent (title -> checkpoint) and draw all on one figure.

    game: which task, of agents of several.
    """
    played: dict[str, tuple[Task, Played]] = {}
    for title, name in agents.items():
        model, task = load_agent(name, game)
        if not isinstance(task, GridworldTask | VizdoomTask):
            raise UserError(f"{name!r} plays {task.name}, which has no map to draw on")
        if any(describe_task(task) != describe_task(other) for other, _ in played.values()):
            raise UserError(f"{name!r} knows another map than the agents before it")
        policy = Policy(model, task.language, Decoding.of(model, sample), seed)
        played[title] = task, play(task, policy, episodes or EPISODES[task.name], seed)
        score = Estimate.of(played[title][1].scores)
        low, high = score.interval
        print(f"{title}: mean return {score.mean:.3f} (95%: {low:.3f} to {high:.3f})")
    if isinstance(task, GridworldTask):
        visits = {
            f"{title}\nmean return {each.scores.mean():.2f}": played_visits(task, each)
            for title, (_, each) in played.items()
        }
        visits_figure(task.rules.layout, visits).savefig(figure, dpi=150, bbox_inches="tight")
    else:
        draw_ways(figure, {title: each for title, (_, each) in played.items()})


def draw_ways(figure: Path, played: Mapping[str, Played]) -> None:
    """The ways of ViZDoom agents on maps side by side."""
    from envs.vizdoom.render import draw_paths, save_picture  # only who draws needs Pillow

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


if __name__ == "__main__":
    run_recipe(main)
