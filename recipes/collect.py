"""Make a dataset: parse -> task -> play or read games -> write -> summary. Or convert, check."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from textrl.config.command_line import add_group, read_group
from textrl.config.options import flag, options_of
from textrl.config.parser import Parser, make_parser
from textrl.config.presets import PRESETS, configure, preset_files
from textrl.config.registry import TASKS, find, follow, known
from textrl.errors import UserError, run_recipe

EXAMPLE = """textrl collect --task wordle --episodes 1000000 --output data/wordle-1m
  textrl collect --from sharegpt chats.json --output talks.jsonl
  textrl collect --check talks.jsonl --backbone openai-community/gpt2"""
FORMAT_NAMES = ("sharegpt", "openai", "prompt-completion", "preference", "casino")
"""As in textrl/envs/text/formats.py, which --help need not load."""


def main() -> None:
    """Parse the command line and run."""
    parser = make_parser(
        "Make a dataset of episodes to train on, or convert or check logged conversations.", EXAMPLE
    )
    add_conversations(parser)
    parser.add_argument(
        "--task", help=f"task whose episodes to make ({', '.join(known(TASKS))}, or module:CLASS)"
    )
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="number of episodes (default: as in the quick preset)",
    )
    parser.add_argument(
        "--output", metavar="DIR", help="the new dataset's folder; with --from, a .jsonl file"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of all random numbers"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes (default: one per core)"
    )
    parser.add_argument(
        "--push-to-hub",
        default="",
        metavar="USER/NAME",
        help="publish the dataset on the Hugging Face Hub",
    )
    parser.add_argument(
        "--private", action="store_true", help="make the repository visible only to you"
    )
    add_tasks_own(parser)
    options = parser.parse_args()
    for name, least in (("episodes", 1), ("workers", 1), ("seed", 0), ("context", 2)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name} must be at least {least}, not {value}")
    if options.check:
        check(options)
        return
    if options.source:
        convert(options)
        return
    for name in ("task", "output"):
        if not getattr(options, name):
            raise UserError(f"--{name} is missing (see --help)")
    collect(options)


def add_conversations(parser: Parser) -> None:
    """What is done with conversations that exist already."""
    section = parser.add_argument_group("conversations for --task text")
    section.add_argument(
        "--from",
        nargs=2,
        dest="source",
        metavar=("FORMAT", "FILE"),
        help="convert a file or Hub id to the rows of docs/text.md, in --output; formats:"
        f" {', '.join(FORMAT_NAMES)}",
    )
    section.add_argument(
        "--reward-column", default="reward", metavar="NAME", help="from: column with a row's reward"
    )
    section.add_argument(
        "--tool-calls",
        default="text",
        choices=("text", "refuse"),
        help="from: whether tool calls are kept as text, or make a row bad",
    )
    section.add_argument(
        "--check",
        metavar="FILE",
        help="check logged conversations: what is wrong, and what tokens they become",
    )
    section.add_argument(
        "--backbone",
        metavar="MODEL",
        help="check: the language model (folder or Hub id) whose tokenizer is used",
    )
    section.add_argument(
        "--context", type=int, default=512, metavar="N", help="check: the longest history in tokens"
    )
    section.add_argument(
        "--on-bad-rows",
        default="refuse",
        choices=("refuse", "skip"),
        help="from, check: whether bad rows are an error",
    )


def add_tasks_own(parser: Parser) -> None:
    """The options of the task that is collected or, where none is named yet, of every task."""
    choice = Parser(add_help=False, allow_abbrev=False)
    choice.add_argument("--task")
    chosen = choice.parse_known_args(sys.argv[1:])[0].task
    names = [follow(TASKS, chosen).name] if chosen else known(TASKS)
    refuse_foreign(sys.argv[1:], names)
    for name in names:
        entry = find(TASKS, name)
        if not entry.is_learned_alone:  # it has no episodes of its own
            section = parser.add_argument_group(name)
            add_group(section, entry.options)
            add_group(section, entry.collect_options)


def refuse_foreign(words: Sequence[str], names: Sequence[str]) -> None:
    """Refuse what only making another task's data asks for, and say whose it is."""
    ours = {option for name in names for option in options_of(find(TASKS, name).collect_options)}
    given = {word.split("=")[0] for word in words}
    for name in known(TASKS):
        for option in options_of(find(TASKS, name).collect_options):
            if option not in ours and flag(option) in given:
                raise UserError(f"{flag(option)} is for {name}: choose --task {name}")


def convert(options: argparse.Namespace) -> None:
    """Write conversations of another format in ours."""
    if not options.output:
        raise UserError("--output is missing: the .jsonl file to write (see --help)")
    from textrl.envs.text.convert import convert_file

    name, file = options.source
    convert_file(
        name,
        file,
        output=Path(options.output),
        reward=options.reward_column,
        keeps_calls=options.tool_calls == "text",
        skips_bad=options.on_bad_rows == "skip",
    )


def check(options: argparse.Namespace) -> None:
    """Look through a file of conversations."""
    import transformers

    from textrl.envs.text.check import check_conversations
    from textrl.envs.text.task import load_language
    from textrl.model.language_model import lm_folder

    transformers.utils.logging.disable_progress_bar()
    language = load_language(lm_folder(options.backbone)) if options.backbone else None
    skips_bad = options.on_bad_rows == "skip"
    check_conversations(options.check, language, options.context, skips_bad)


def collect(options: argparse.Namespace) -> None:
    """Make the dataset, say what is in it, and publish it if that is wanted."""
    from textrl.data.collect import refuse_existing
    from textrl.data.dataset import returns_by, returns_by_behaviour
    from textrl.evaluation.report import dataset_table, write_json
    from textrl.sharing.publish import COLLECTION_FILE, open_dataset_repo, publish_dataset
    from textrl.tasks.entry import task_class
    from textrl.tasks.members import expect
    from textrl.tasks.task import Task

    entry = find(TASKS, options.task)
    if entry.is_learned_alone:
        raise UserError(f"--task {entry.name} has nobody to play it: its episodes are your own")
    of_task = read_group(options, entry.options)
    of_collecting = read_group(options, entry.collect_options)
    preset = "quick" if "quick" in preset_files(PRESETS, entry.name) else None
    run = configure(options.task, preset)
    member = replace(run.members[entry.name], task_options=of_task)
    task = expect(task_class(entry.name).from_config(member, run), Task, "collecting")
    folder = Path(options.output)
    refuse_existing(folder)
    task.check_collecting(of_collecting)
    if options.push_to_hub:
        open_dataset_repo(options.push_to_hub, options.private)
    episodes = options.episodes or member.episodes
    rows, how = task.collect_as(of_collecting, episodes, options.seed, folder, options.workers)

    write_json(folder / COLLECTION_FILE, {"how": how})
    returns = returns_by_behaviour(rows)
    print(dataset_table(returns))
    print(task.describe_data(returns))
    if "start" in rows.features:
        print(dataset_table(returns_by(rows, "start"), "start"))
    print(f"{len(rows):,} episodes in {folder}: textrl train --task {options.task} --data {folder}")
    if options.push_to_hub:
        print(f"published as {publish_dataset(folder, options.push_to_hub, task)}")


if __name__ == "__main__":
    run_recipe(main)
