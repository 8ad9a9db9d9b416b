"""Draw where agents of the gridworld go: load -> play -> count -> figure."""

from collections.abc import Mapping
from pathlib import Path

import transformers

from envs.gridworld.layout import Layout
from envs.gridworld.task import GridworldTask
from envs.gridworld.visits import Counts, played_visits, visits_figure
from envs.tasks import task_of_checkpoint
from textrl.checkpoint import load_model
from textrl.config import make_parser
from textrl.errors import UserError, run_recipe
from textrl.policy import Decoding, Policy
from textrl.report import Estimate
from textrl.rollout import play

EXAMPLE = "python recipes/visits.py runs/filtered-bc runs/cql runs/bisim --output visits.png"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Draw the state-action visits of gridworld agents on the map, side by side.", EXAMPLE
    )
    parser.add_argument("checkpoints", nargs="+", help="folders or Hub ids of the agents")
    parser.add_argument("--titles", nargs="+", help="one for each (default: the folders' names)")
    parser.add_argument("--output", default="visits.png", metavar="FILE", help="the figure")
    parser.add_argument("--episodes", type=int, default=1000, metavar="N", help="to play by each")
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
    if options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}")
    if Path(options.output).suffix not in (".png", ".pdf", ".svg"):
        raise UserError(f"--output must end in .png, .pdf or .svg, not {options.output!r}")
    transformers.utils.logging.disable_progress_bar()

    agents = dict(zip(titles, options.checkpoints, strict=True))
    draw_agents(Path(options.output), agents, options.episodes, options.sample, options.seed)
    print(f"-> {options.output}")


def draw_agents(
    figure: Path,
    agents: Mapping[str, str],
    episodes: int = 1000,
    sample: bool = False,
    seed: int = 0,
) -> None:
    """Play each agent (title -> checkpoint) and draw all on one figure."""
    visits: dict[str, Counts] = {}
    maps: dict[tuple[str, ...], Layout] = {}
    for title, name in agents.items():
        model, saved = load_model(name)
        task = task_of_checkpoint(saved)
        if not isinstance(task, GridworldTask):
            raise UserError(f"{name!r} plays {task.name}, which has no map to draw on")
        layout = task.rules.layout
        maps[layout.rows] = layout
        if len(maps) > 1:
            raise UserError(f"{name!r} knows another map than the agents before it")
        policy = Policy(model, task.language, Decoding(model.config.beta, sample), seed)
        played = play(task, policy, episodes, seed)
        score = Estimate.of(played.scores)
        visits[f"{title}\nmean return {score.mean:.2f}"] = played_visits(task, played)
        low, high = score.interval
        print(f"{title}: mean return {score.mean:.3f} (95%: {low:.3f} to {high:.3f})")
    visits_figure(layout, visits).savefig(figure, dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    run_recipe(main)
