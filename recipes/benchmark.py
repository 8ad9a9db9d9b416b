"""Measure speed as ratios within one run: training step, play, scoring."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl benchmark --task wordle --json benchmark.json"
SHOWN = 30
"""Operators of a profile that are printed; the file has all."""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Measure the speed of training and play, as ratios within one run.", EXAMPLE
    )
    parser.add_argument("--task", default="wordle", help="task to measure")
    parser.add_argument(
        "--preset", default="quick", help="preset whose model size and batch to measure"
    )
    parser.add_argument(
        "--backbone", choices=("gpt2", "rnn"), default="gpt2", help="backbone to measure"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=0,
        help="CPU threads; 0 uses every core. One thread is timed by its own CPU"
        " time, so that other work on the machine counts little",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--profile", action="store_true", help="profile a training step by operator instead"
    )
    what.add_argument(
        "--until",
        type=float,
        metavar="SCORE",
        help="train until greedy play reaches this score instead",
    )
    what.add_argument(
        "--growth",
        action="store_true",
        help="measure the cost of a step as each size grows instead",
    )
    parser.add_argument("--bisim", action="store_true", help="profile: with the bisimulation loss")
    parser.add_argument("--every", type=int, default=250, help="until: steps between evaluations")
    parser.add_argument("--seed", type=int, default=0, help="until: seed of the run")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file too")
    options = parser.parse_args()
    refuse_nonsense(options)
    from textrl.evaluation.report import table, write_json

    set_threads(options.threads)
    figures, header, shown = measured(options)
    print(table(header, shown))
    if options.json:
        write_json(Path(options.json), figures)


def refuse_nonsense(options: argparse.Namespace) -> None:
    """Refuse numbers that mean nothing, and options that nothing would read."""
    for name, least in (("threads", 0), ("every", 1), ("seed", 0)):
        if getattr(options, name) < least:
            value = getattr(options, name)
            raise UserError(f"--{name} {value}: give a whole number from {least} on")
    if options.bisim and not options.profile:
        raise UserError("--bisim is for --profile: the other figures have that loss anyway")


def set_threads(threads: int) -> None:
    """0: as many as there are cores."""
    import torch

    torch.set_num_threads(threads or torch.get_num_threads())


def measured(options: argparse.Namespace) -> tuple[Any, list[str], list[list[str]]]:
    """What was asked for: for a file, and as a table."""
    size = (options.task, options.preset, options.backbone)
    if options.profile:
        from textrl.recipes.measuring.profile import profile_step

        operators = profile_step(*size, options.bisim)
        rows = [
            [
                each.name,
                f"{each.calls:,.1f}",
                f"{each.milliseconds:.2f}",
                f"{each.share:.1%}",
                f"{each.gigaflops:.0f}" if each.gigaflops else "",
            ]
            for each in operators[:SHOWN]
        ]
        header = ["operator", "calls a step", "ms a step", "share", "GFLOP/s"]
        return [asdict(each) for each in operators], header, rows
    if options.growth:
        from textrl.recipes.measuring.growth import growth

        found = growth()
        rows = [[each.what, f"{each.size:,}", f"{each.value:.4g}", each.unit] for each in found]
        return [asdict(each) for each in found], ["what grows", "to", "figure", "unit"], rows
    if options.until is not None:
        from textrl.recipes.measuring.until import time_to

        figures = time_to(*size, options.until, options.every, options.seed, options.threads)
    else:
        from textrl.recipes.measuring.speed import measure

        figures = measure(*size)
    rows = [
        [name, f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"]
        for name, value in figures.items()
    ]
    return figures, ["figure", "value"], rows


if __name__ == "__main__":
    run_recipe(main)
