"""Remake the experiments: plan -> train what is missing -> compare -> results/."""

import argparse
import os

from textrl.config.parser import make_parser
from textrl.config.presets import COMBINED
from textrl.errors import UserError, run_recipe
from textrl.recipes.reproducing.experiments import EXPERIMENTS, OPE, PEOPLE, THEORY
from textrl.recipes.reproducing.studies import STUDIES

EXAMPLE = "textrl reproduce --only gridworld --seeds 5"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser("Remake the paper's tables and figures.", EXAMPLE)
    parser.add_argument(
        "--scale", default="quick", choices=("quick", "paper"), help="which presets to train"
    )
    parser.add_argument(
        "--only",
        choices=(*EXPERIMENTS, COMBINED, *STUDIES, THEORY, OPE, *PEOPLE),
        help=f"one experiment (default: all but {' and '.join(PEOPLE)})",
    )
    parser.add_argument(
        "--methods",
        default="",
        metavar="A,B",
        help=f"{' and '.join(STUDIES)}: only these methods (default: all)",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="runs of each method (default: 5; 3 of twenty, 1 of combined)",
    )
    parser.add_argument(
        "--conversations",
        metavar="DIR",
        help=f"{' and '.join(PEOPLE)}: folder with the file of that name",
    )
    parser.add_argument(
        "--backbone",
        metavar="MODEL",
        help=f"{' and '.join(PEOPLE)}: the language model to train",
    )
    parser.add_argument(
        "--output",
        default="results",
        metavar="DIR",
        help=f"folder for results, and for records that {' and '.join(STUDIES)} continue from",
    )
    parser.add_argument(
        "--runs", default="runs/reproduce", metavar="DIR", help="folder for the runs"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at once"
    )
    parser.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of each run (default: its share of the cores)",
    )
    parser.add_argument("--plan", action="store_true", help="show what is left to run, and stop")
    parser.add_argument(
        "--finished", action="store_true", help="train nothing: compare the runs that are done"
    )
    options = parser.parse_args()
    refuse_mistakes(options)
    from textrl.recipes.reproducing.reproduce import reproduce

    reproduce(options)


def refuse_mistakes(options: argparse.Namespace) -> None:
    """What does not go together, before anything is trained."""
    for name in ("seeds", "jobs", "threads"):
        if (getattr(options, name) or 1) < 1:
            raise UserError(f"--{name} must be at least 1, not {getattr(options, name)}")
    if options.only == COMBINED and options.scale == "paper":
        raise UserError(f"--only {options.only} --scale paper: the paper has no agent of all tasks")
    if options.only in STUDIES and options.scale == "paper":
        raise UserError(f"--only {options.only} --scale paper: studies have the quick scale only")
    if options.methods and options.only not in STUDIES:
        raise UserError(f"--methods is for --only {' or '.join(STUDIES)}: leave it out")
    if options.only == OPE and options.scale == "paper":
        raise UserError(f"--only {options.only} --scale paper: the paper estimates nothing offline")
    if options.only in PEOPLE and options.scale == "paper":
        raise UserError(f"--only {options.only} --scale paper: the paper has no such conversations")
    for name in ("conversations", "backbone"):
        if options.only in PEOPLE and not getattr(options, name):
            raise UserError(f"--only {options.only} needs --{name}: see docs/text.md")


if __name__ == "__main__":
    run_recipe(main)
