"""Where a run's settings come from: command line over preset over defaults."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from textrl.config import (
    COMBINED,
    CONFIG_FILE,
    FIELDS,
    FREE_ON_RESUME,
    KINDS,
    NEW_BACKBONES,
    TrainConfig,
    checked,
)
from textrl.errors import UserError, unknown
from textrl.hub import is_hub_name
from textrl.parser import Parser, make_parser

METAVARS = {int: "N", float: "X", str: "TEXT"}


def parse_config(
    argv: Sequence[str] | None, presets: Path, description: str, example: str
) -> TrainConfig:
    """The config that a command line asks for, on top of presets/<task>/<preset>.yaml.

    argv: the arguments after the program's name; None takes the process's own.
    """
    # The preset comes first, so that --help shows the values that this very command would use.
    chosen = first_look(argv)
    begun = output_folder(chosen.output, chosen.task) / CONFIG_FILE
    is_resumed = chosen.resume and begun.is_file()
    base = load_config(begun) if is_resumed else read_preset(presets, chosen.task, chosen.preset)

    parser = make_parser(description, example)
    for name, each in FIELDS.items():
        if "section" in each.metadata:
            section = parser.add_argument_group(each.metadata["section"])
        add_flag(section, name, getattr(base, name))
    given = vars(parser.parse_args(argv))
    config = TrainConfig(**{name: checked(name, flag(name), given[name]) for name in FIELDS})
    check_backbone(config.backbone)
    if is_resumed:
        refuse_changes(config, base, begun.parent)
    return config


def first_look(argv: Sequence[str] | None) -> argparse.Namespace:
    """What a command line says of task, preset, output and resume, on which the rest depends."""
    choice = Parser(add_help=False, allow_abbrev=False)
    for name in ("task", "preset", "output"):
        choice.add_argument(flag(name), default=FIELDS[name].default)
    choice.add_argument("--resume", action="store_true")
    return choice.parse_known_args(argv)[0]


def refuse_changes(
    config: TrainConfig,
    begun: TrainConfig,
    folder: Path,
    names: Iterable[str] = (),
    owner: str = "",
) -> None:
    """Refuse to go on with the run in a folder with other settings than it was begun with.

    names: which settings (none = all); owner: whose they are, if a single task's of several.
    """
    for name in names or FIELDS:
        ours, theirs = getattr(config, name), getattr(begun, name)
        if name not in FREE_ON_RESUME and ours != theirs:
            raise UserError(
                f"cannot resume with {flag(name, owner)} {ours}: the run in {folder} has {theirs};"
                " leave the flag out, or start anew with another --output"
            )


def check_backbone(name: str) -> None:
    """Refuse a name that is no new backbone's and cannot be a language model's."""
    if name not in NEW_BACKBONES and not Path(name).is_dir() and not is_hub_name(name):
        raise UserError(
            f"{unknown('backbone', name, NEW_BACKBONES)}, nor is there a folder of that name, nor"
            " can it be a USER/NAME on the Hub"
        )


def output_folder(output: str, task: str) -> Path:
    """Where a run writes."""
    return Path(output or f"runs/{task.replace(',', '-')}")


def read_preset(presets: Path, task: str, preset: str) -> TrainConfig:
    """The config of presets/<task>/<preset>.yaml; an unknown name's error lists the known ones."""
    if task not in (tasks := known_tasks(presets)):
        raise unknown("task", task, tasks)
    of_task = {file.stem: file for file in sorted((presets / task).glob("*.yaml"))}
    if preset not in of_task:
        raise unknown("preset", preset, of_task)
    values = read_values(of_task[preset])
    for name in ("task", "preset"):
        if name in values:
            raise UserError(f"{of_task[preset]}: {name} belongs on the command line: remove it")
    return TrainConfig(**values, task=task, preset=preset)


def known_tasks(presets: Path) -> set[str]:
    """The tasks that have presets."""
    # Every task has the preset that is the default; a folder without it holds other settings.
    files = presets.glob(f"*/{FIELDS['preset'].default}.yaml")
    return {file.parent.name for file in files} - {COMBINED}


def load_config(path: Path) -> TrainConfig:
    """The config in a YAML file, such as a run's training.yaml; absent keys take their defaults."""
    return TrainConfig(**read_values(path))


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every setting as YAML that load_config reads back to an equal config."""
    text = yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def read_values(path: Path) -> dict[str, Any]:
    """The checked settings in a YAML file."""
    content = read_yaml(path)
    for key in content:
        if key not in FIELDS:
            raise UserError(f"{path}: {unknown('key', str(key), FIELDS)}")
    return {name: checked(name, f"{path}: {name}", value) for name, value in content.items()}


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """The keys and values of a YAML file."""
    try:
        content = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    if content is None:  # nothing but comments
        return {}
    if not isinstance(content, Mapping):
        raise UserError(f"{path} must hold lines of 'key: value', not {content!r}")
    return content


def flag(name: str, owner: str = "") -> str:
    """The command line's name of a field; owner: the task that it is about, of several."""
    return "--" + (f"{owner}." if owner else "") + name.replace("_", "-")


def add_flag(section: Any, name: str, default: object, owner: str = "") -> None:
    """Add a field's flag to a section of the parser. Values stay text here: checked reads them."""
    kind, help = KINDS[name], FIELDS[name].metadata["help"]
    shown = flag(name, owner)
    if kind is bool:
        section.add_argument(
            shown, default=default, help=help, action=argparse.BooleanOptionalAction
        )
    elif get_origin(kind) is Literal:
        section.add_argument(shown, default=default, help=help, choices=get_args(kind))
    else:
        section.add_argument(shown, default=default, help=help, metavar=METAVARS[kind])
