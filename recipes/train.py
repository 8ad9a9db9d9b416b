"""Train an agent: parse -> tasks -> data -> model -> train -> report.

The story after the command line is textrl.training.run, which Python can call as well.
"""

from textrl.config.command_line import parse_config
from textrl.errors import run_recipe

EXAMPLE = """textrl train --task wordle --algo ilql --output runs/wordle
  accelerate launch recipes/train.py --task wordle   # the same, over many processes"""


def main() -> None:
    """Parse the command line and run."""
    run = parse_config(None, "Train an agent from logged episodes.", EXAMPLE, task="wordle")
    from textrl.training.run import train  # torch takes seconds to import, which --help has not

    train(run)


if __name__ == "__main__":
    run_recipe(main)
