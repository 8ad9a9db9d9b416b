"""The command textrl: its subcommands are the recipes."""

import sys
from collections.abc import Sequence
from importlib import import_module

from textrl.config.presets import PRESETS, preset_files
from textrl.config.registry import ALGORITHMS, TASKS, find, known
from textrl.errors import run_recipe, unknown

COMMANDS = {
    "train": "train an agent from logged episodes",
    "evaluate": "judge an agent, beside reference players or another agent",
    "play": "play Wordle against an agent, or talk with one",
    "view": "look at data, agents and curves on a local page",
    "plot": "draw the curves of runs",
    "collect": "make a dataset, or convert or check one of conversations",
    "push": "publish an agent or a dataset on the Hugging Face Hub",
    "merge": "merge a LoRA adapter into its language model",
    "distill": "make an agent a plain language model, which any server runs",
    "reproduce": "remake the paper's tables and figures",
    "theory": "measure the paper's theory on small problems",
    "benchmark": "measure speed on this machine",
    "visits": "draw where agents go",
    "film": "record an agent in the maze",
    "train-a2c": "train an A2C player to collect the maze's data",
}
USAGE = """\
usage: textrl COMMAND [options]

Offline reinforcement learning from observation histories, with language models.

commands (textrl COMMAND --help tells their options):
{commands}

tasks, with their presets (textrl train --task NAME --preset NAME):
{tasks}

algorithms (--algo NAME):
{algorithms}

examples:
  textrl train --task gridworld
  textrl evaluate runs/gridworld
  accelerate launch -m textrl.recipes.train --task wordle   # over several processes"""


def usage() -> str:
    """What textrl --help prints."""
    tasks, algorithms = [], []
    for name in known(TASKS):
        presets = ", ".join(preset_files(PRESETS, name))
        tasks.append(f"  {name:<13} {find(TASKS, name).title} ({presets})")
    for name in known(ALGORITHMS):
        algorithms.append(f"  {name:<13} {find(ALGORITHMS, name).title}")
    commands = [f"  {name:<13} {what}" for name, what in COMMANDS.items()]
    return USAGE.format(
        commands="\n".join(commands), tasks="\n".join(tasks), algorithms="\n".join(algorithms)
    )


def run(argv: Sequence[str]) -> None:
    """Run the recipe that the first word names."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if argv[0] == "--version":
        from textrl import __version__

        print(f"textrl {__version__}")
        return
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    recipe = import_module(f"textrl.recipes.{argv[0].replace('-', '_')}")
    # Recipes read the command line as if they had been started themselves.
    sys.argv = [f"textrl {argv[0]}", *argv[1:]]
    recipe.main()


def main() -> None:
    """The console command."""
    run_recipe(lambda: run(sys.argv[1:]))


if __name__ == "__main__":
    main()
