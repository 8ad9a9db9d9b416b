"""Train a policy by A2C to collect ViZDoom data with: parse -> train -> checkpoints."""

import argparse
from pathlib import Path

from textrl.config.options import flag
from textrl.config.parser import make_parser
from textrl.errors import UserError, run_recipe

EXAMPLE = "textrl train-a2c --steps 5000000 --until 0.6 --output runs/a2c"


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Train a policy of ViZDoom's My Way Home by A2C, for textrl collect --a2c.", EXAMPLE
    )
    parser.add_argument(
        "--steps", type=int, default=5_000_000, metavar="N", help="decisions to learn from"
    )
    parser.add_argument(
        "--until",
        type=float,
        default=1.0,
        metavar="SHARE",
        help="stop as soon as the armor is found in this share of an evaluation's episodes",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="new folder for checkpoints")
    parser.add_argument(
        "--envs", type=int, default=16, metavar="N", help="episodes played in parallel"
    )
    parser.add_argument(
        "--evaluate-every",
        type=int,
        default=100_000,
        metavar="N",
        help="steps between two evaluations, each of which leaves a checkpoint",
    )
    parser.add_argument(
        "--evaluate-episodes",
        type=int,
        default=100,
        metavar="N",
        help="least number of episodes in each evaluation",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of all random numbers"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core)"
    )
    options = parser.parse_args()
    refuse_mistakes(options)
    folder = Path(options.output)
    from textrl.data.collect import refuse_existing  # which --help need not wait for

    refuse_existing(folder)
    from textrl.envs.vizdoom.a2c import train_a2c  # needs what only some people install

    checkpoint = train_a2c(
        options.steps,
        options.seed,
        folder,
        options.workers,
        options.envs,
        options.evaluate_every,
        options.evaluate_episodes,
        options.until,
    )
    print(f"next: textrl collect --task vizdoom --a2c {checkpoint} --output data/vizdoom-a2c")


def refuse_mistakes(options: argparse.Namespace) -> None:
    """Numbers that nothing can be done with, before anything is trained."""
    least = {"steps": 1, "envs": 1, "evaluate_every": 1, "evaluate_episodes": 1, "workers": 1}
    for name, smallest in {**least, "seed": 0}.items():
        value = getattr(options, name)
        if value is not None and value < smallest:
            raise UserError(f"{flag(name)} must be at least {smallest}, not {value}")
    if not 0 < options.until <= 1:
        raise UserError(f"--until must be above 0 and at most 1, not {options.until}")
    if options.seed >= 2**32:
        raise UserError(f"--seed must be at most {2**32 - 1}, not {options.seed}")


if __name__ == "__main__":
    run_recipe(main)
