"""Measure speed as ratios within one run: training step, play, scoring."""

from pathlib import Path

from textrl.config.parser import make_parser
from textrl.errors import run_recipe

EXAMPLE = "textrl benchmark --task wordle --json benchmark.json"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure the speed of training and play, as ratios within one run.", EXAMPLE
    )
    parser.add_argument("--task", default="wordle", help="which task")
    parser.add_argument("--preset", default="quick", help="whose model size and batch to measure")
    parser.add_argument("--backbone", choices=("gpt2", "rnn"), default="gpt2", help="which one")
    parser.add_argument("--json", metavar="FILE", help="write the figures to this file too")
    options = parser.parse_args()
    from textrl.evaluation.report import table, write_json
    from textrl.recipes.measuring.speed import measure

    figures = measure(options.task, options.preset, options.backbone)
    shown = [
        [name, f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"]
        for name, value in figures.items()
    ]
    print(table(["figure", "value"], shown))
    if options.json:
        write_json(Path(options.json), figures)


if __name__ == "__main__":
    run_recipe(main)
