"""The command line of a training run: its flags follow from the task and the algorithm chosen."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from textrl.config.options import Option, flag, make_group, options_of
from textrl.config.parser import Parser, make_parser
from textrl.config.presets import (
    PRESETS,
    SHARED,
    Settings,
    build,
    load_config,
    option_anywhere,
    own_options,
    preset_files,
    read_preset,
    settings_of,
    task_names,
    whose,
)
from textrl.config.registry import ALGORITHMS, TASKS, find, follow, known
from textrl.config.train import CONFIG_FILE, DATA, LEARNING, SECTIONS, MemberConfig, TrainConfig
from textrl.errors import UserError

T = TypeVar("T")
METAVARS = {int: "N", float: "X", str: "TEXT"}
MAY_GROW = "max_steps"
"""What a resumed run may have more of."""


def parse_config(
    argv: Sequence[str] | None,
    description: str,
    example: str,
    presets: Path = PRESETS,
    task: str = "",
) -> TrainConfig:
    """The config that a command line asks for, on top of its preset or of the run it resumes.

    argv: the arguments after the program's name; None takes the process's own. task: which one,
    unless they or the resumed run say so.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    chosen = first_look(words)
    for part in chosen.task.split(",") if chosen.task else ():
        follow(TASKS, part.strip())
    chosen.task = chosen.task or task_begun(chosen) or task
    names = task_names(chosen.task)
    begun = Path(chosen.output or f"runs/{'-'.join(names)}") / CONFIG_FILE
    is_resumed = chosen.resume and begun.is_file()
    # The preset comes first, so that --help shows the values that this very command would use.
    for name in names:
        if algo := chosen_algo(words, names, name):
            follow(ALGORITHMS, algo)
    base = (
        resumed(begun, names, chosen.task)
        if is_resumed
        else read_preset(presets, names, chosen.preset)
    )
    base.shared |= {"task": chosen.task}
    for name in names:
        base.own[name]["algo"] = (
            chosen_algo(words, names, name) or base.own[name].get("algo") or MemberConfig.algo
        )
    refuse_foreign(words, names, base)
    parser = make_parser(description, example, "%(prog)s [options]")
    add_flags(parser, base, presets)
    given = vars(parser.parse_args(words))
    config = build(checked_all(base, given))
    if is_resumed:
        refuse_changes(config, load_config(begun), begun.parent)
    return config


def first_look(words: Sequence[str]) -> argparse.Namespace:
    """What a command line says of task, preset, output and resume, on which the rest depends."""
    choice = Parser(add_help=False, allow_abbrev=False)
    for name in ("task", "preset", "output"):
        choice.add_argument(flag(name), default=SHARED[name].default)
    choice.add_argument("--resume", action="store_true")
    return choice.parse_known_args(words)[0]


def task_begun(chosen: argparse.Namespace) -> str:
    """The task of the run to go on with, where the command line names its folder; "" = none."""
    begun = Path(chosen.output) / CONFIG_FILE
    if not chosen.resume or not chosen.output or not begun.is_file():
        return ""
    return load_config(begun).task


def chosen_algo(words: Sequence[str], names: Sequence[str], name: str) -> str | None:
    """The algorithm that the command line chooses for a task, on which its options depend."""
    choice = Parser(add_help=False, allow_abbrev=False)
    choice.add_argument(flag("algo", name if len(names) > 1 else ""), dest="algo")
    algo: str | None = choice.parse_known_args(words)[0].algo
    return algo


def resumed(begun: Path, names: Sequence[str], task: str) -> Settings:
    """The settings of the run to go on with."""
    base = load_config(begun)
    if list(base.members) != list(names):
        raise UserError(
            f"cannot resume with --task {task}: the run in {begun.parent} has {base.task}"
        )
    return settings_of(base)


def refuse_foreign(words: Sequence[str], names: Sequence[str], base: Settings) -> None:
    """Refuse an option that another task or algorithm has, and one that needs its task's name."""
    for word in words:
        if not word.startswith("--"):
            continue
        shown = word.split("=")[0]
        owner, _, name = shown.removeprefix("--").removeprefix("no-").rpartition(".")
        name = name.replace("-", "_")
        if name in SHARED or name in ("help", ""):
            continue
        if len(names) > 1 and not owner and any(option_anywhere(name, each) for each in names):
            ways = " or ".join(flag(name, each) for each in names if option_anywhere(name, each))
            raise UserError(f"{shown} is set per task in a run of several: use {ways}")
        task = owner or names[0]
        if task not in names:
            continue
        algo = base.own[task]["algo"]
        if name not in own_options(task, algo) and (owners := whose(name)):
            raise UserError(f"{shown} is for {owners}, not for {task} with {algo}: leave it out")


def add_flags(parser: Parser, base: Settings, presets: Path) -> None:
    """Every option that this run has, in its section, with the value that it would have."""
    names = list(base.own)
    is_one = len(names) == 1
    titles = [*SECTIONS, *([] if is_one else [f"{name}'s own" for name in names])]
    if is_one:
        titles.insert(titles.index(DATA) + 1, names[0])
        titles.insert(titles.index(LEARNING) + 1, base.own[names[0]]["algo"])
    sections = {title: parser.add_argument_group(title) for title in titles}
    helps = listings(names, presets)
    for name, option in SHARED.items():
        default = base.shared.get(name, option.default)
        add_flag(sections[option.section], option, default, "", helps)
    for owner in names:
        algo = base.own[owner]["algo"]
        for name, option in own_options(owner, algo).items():
            default = base.own[owner].get(name, option.default)
            own = algo if name in find(ALGORITHMS, algo).options.__dataclass_fields__ else owner
            title = option.section or own
            section = sections[title if is_one else f"{owner}'s own"]
            add_flag(section, option, default, "" if is_one else owner, helps)


def listings(names: Sequence[str], presets: Path) -> dict[str, str]:
    """What --help adds where there is something to choose from."""
    files = [{*preset_files(presets, name)} for name in names]
    return {
        "task": f" ({', '.join(known(TASKS))})",
        "algo": f" ({', '.join(known(ALGORITHMS))}, or module:OBJECT of your own)",
        "preset": f" ({', '.join(sorted(set.intersection(*files)))})",
    }


def add_flag(
    section: Any, option: Option, default: object, owner: str, helps: Mapping[str, str]
) -> None:
    """Add an option's flag to a section. Values stay text here: checked_all reads them."""
    shown, help = flag(option.name, owner), option.help + helps.get(option.name, "")
    if option.kind is bool:
        action = argparse.BooleanOptionalAction
        section.add_argument(shown, default=default, help=help, action=action)
    elif option.choices:
        section.add_argument(shown, default=default, help=help, choices=option.choices)
    else:
        metavar = METAVARS[option.kind]
        section.add_argument(shown, default=default, help=help, metavar=metavar)


def add_group(section: Any, group: type, options: Mapping[str, Any] | None = None) -> None:
    """Add the flags of a group of options; options: defaults other than the group's own."""
    for name, option in options_of(group).items():
        add_flag(section, option, (options or {}).get(name, option.default), "", {})


def read_group(given: argparse.Namespace, group: type[T]) -> T:
    """The group as a command line gave it."""
    values = {
        name: option.checked(getattr(given, name), flag(name))
        for name, option in options_of(group).items()
    }
    return make_group(group, values)


def checked_all(base: Settings, given: Mapping[str, Any]) -> Settings:
    """What the command line gave, checked."""
    found = Settings(
        {name: option.checked(given[name], flag(name)) for name, option in SHARED.items()}
    )
    for owner, values in base.own.items():
        prefix = owner if len(base.own) > 1 else ""
        found.own[owner] = {
            name: option.checked(given[f"{prefix}.{name}" if prefix else name], flag(name, prefix))
            for name, option in own_options(owner, values["algo"]).items()
        }
    return found


def refuse_changes(config: TrainConfig, begun: TrainConfig, folder: Path) -> None:
    """Refuse to go on with the run in a folder with other settings than it was begun with."""
    ours, theirs = settings_of(config), settings_of(begun)
    several = len(ours.own) > 1
    pairs = [("", SHARED, ours.shared, theirs.shared)]
    for owner, values in ours.own.items():
        options = own_options(owner, values["algo"])
        pairs.append((owner if several else "", options, values, theirs.own[owner]))
    for owner, options, new, old in pairs:
        for name, option in options.items():
            is_more = name == MAY_GROW and new[name] > old[name]
            if not option.is_free and not is_more and new[name] != old.get(name):
                raise UserError(
                    f"cannot resume with {flag(name, owner)} {new[name]}: the run in {folder} has"
                    f" {old.get(name)}; leave the flag out, or start anew with another --output"
                )
