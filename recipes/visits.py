"""Draw where agents go: load -> play -> count -> figure."""

from pathlib import Path

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EPISODES = {"gridworld": 1000, "vizdoom": 25}
EXAMPLE = "textrl visits runs/filtered-bc runs/cql runs/bisim --output visits.png"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Draw where agents go, side by side: visits of gridworld agents, paths of ViZDoom agents.",
        EXAMPLE,
    )
    parser.add_argument("checkpoints", nargs="+", help="folders or Hub ids of the agents")
    parser.add_argument(
        "--titles", nargs="+", help="one title per agent (default: the folders' names)"
    )
    parser.add_argument("--output", default="visits.png", metavar="FILE", help="the figure")
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="episodes per agent (default: 1000 in the gridworld, 25 in ViZDoom)",
    )
    parser.add_argument(
        "--task", choices=EPISODES, help="which task, for agents of several: gridworld or vizdoom"
    )
    parser.add_argument(
        "--sample", action="store_true", help="sample actions instead of taking the best ones"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of all random numbers"
    )
    options = parser.parse_args()
    titles = options.titles or [Path(name).name for name in options.checkpoints]
    if len(titles) != len(options.checkpoints):
        raise UserError(f"{len(titles)} --titles for {len(options.checkpoints)} checkpoints")
    if len(set(titles)) != len(titles):
        raise UserError("two agents have the same name: distinguish them with --titles")
    if options.episodes is not None and options.episodes < 1:
        raise UserError(f"--episodes must be at least 1, not {options.episodes}")
    if Path(options.output).suffix not in (".png", ".pdf", ".svg"):
        raise UserError(f"--output must end in .png, .pdf or .svg, not {options.output!r}")
    import transformers

    from textrl.recipes.reproducing.visits import draw_agents

    transformers.utils.logging.disable_progress_bar()
    agents = dict(zip(titles, options.checkpoints, strict=True))
    figure = Path(options.output)
    draw_agents(figure, agents, options.episodes, options.sample, options.seed, options.task)
    print(f"-> {options.output}")


if __name__ == "__main__":
    run_recipe(main)
