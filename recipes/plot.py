"""Draw the curves of runs: metrics.jsonl -> figure."""

from importlib.util import find_spec
from pathlib import Path

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = """textrl plot runs/ilql runs/bc --output curves.png
  textrl plot runs/text --metrics log_likelihood,q_error"""
SUFFIXES = (".png", ".pdf", ".svg")


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Draw the curves of one or more runs, one panel for each metric that they logged.", EXAMPLE
    )
    parser.add_argument("runs", nargs="+", help="folders of runs")
    parser.add_argument("--output", default="curves.png", metavar="FILE", help="the figure")
    parser.add_argument(
        "--metrics",
        default="",
        metavar="NAMES",
        help="metrics to draw, with commas between them (default: scores and losses)",
    )
    options = parser.parse_args()
    output = Path(options.output)
    if output.suffix not in SUFFIXES:
        raise UserError(f"--output must end in {', '.join(SUFFIXES)}, not {options.output!r}")
    if find_spec("matplotlib") is None:
        raise UserError("figures need matplotlib: pip install 'offline-textrl[figures]'")
    from textrl.recipes.viewing.curves import chosen_names, curves_of, draw

    runs = curves_of([Path(name) for name in options.runs])
    names = chosen_names(runs, [name for name in options.metrics.split(",") if name])
    if not names:
        raise UserError("the runs have logged nothing yet")
    draw(runs, names, output)
    print(f"{len(names)} figures of {len(runs)} runs -> {output}")


if __name__ == "__main__":
    run_recipe(main)
