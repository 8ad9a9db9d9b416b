"""The settings of a run over several tasks: those of all together, and each task's own.

A task's own settings come from its own preset. The preset of the run, presets/combined/<name>.yaml,
has the others, and sections by which it changes some of a task's own:

    layers: 2
    gridworld:
      expectile: 0.9

On the command line a task's own settings carry its name: --gridworld.expectile 0.9.
"""

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from textrl.config import COMBINED, CONFIG_FILE, FIELDS, NEW_BACKBONES, TrainConfig, checked
from textrl.errors import UserError, unknown
from textrl.parser import make_parser
from textrl.settings import (
    add_flag,
    first_look,
    flag,
    known_tasks,
    load_config,
    output_folder,
    parse_config,
    read_preset,
    read_yaml,
    refuse_changes,
    save_config,
)

OWN = (
    *("algo", "data", "words", "episodes", "keep_top", "constrain", "layout", "context", "window"),
    *("patches", "discount", "expectile", "conservatism", "action_lambda", "return_lambda"),
    *("whole_actions", "value_weight", "batch_size", "accumulation", "evaluate_episodes"),
    *("beta", "candidates", "plausible"),
)
"""The settings that each task has for itself."""
OF_TEXT = ("held_out", "on_bad_rows")
"""Settings of --task text alone, which cannot be one of several."""
SHARED = tuple(name for name in FIELDS if name not in (*OWN, *OF_TEXT))


@dataclass(frozen=True)
class CombinedConfig(TrainConfig):
    """Settings of a run over several tasks; `task` has their names with commas between them."""

    members: Mapping[str, TrainConfig] = field(default_factory=dict)
    """Each task's settings by name; of this config itself only the SHARED ones mean anything."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.proportions  # refuses a wrong mix
        if self.backbone not in NEW_BACKBONES:
            raise UserError(
                f"--backbone {self.backbone}: several tasks have tokens of their own, which no"
                f" language model speaks: choose {' or '.join(NEW_BACKBONES)}"
            )

    @property
    def proportions(self) -> dict[str, float]:
        """How much of every step each task gets against its preset."""
        found = dict.fromkeys(self.members, 1.0)
        for part in filter(None, self.mix.split(",")):
            name, _, value = part.partition("=")
            if name not in found:
                raise UserError(f"--mix {self.mix}: {unknown('task', name, found)}")
            try:
                found[name] = float(value)
            except ValueError:
                found[name] = math.nan
            if not 0 < found[name] < math.inf:
                raise UserError(f"--mix {self.mix}: {name} must be a number above 0, not {value!r}")
        return found

    def sized_members(self) -> dict[str, TrainConfig]:
        """The members with as many episodes per step as the mix asks for."""
        sized = {}
        for name, member in self.members.items():
            parts = self.proportions[name] * member.batch_size / member.accumulation
            batch_size = max(1, round(parts)) * member.accumulation
            sized[name] = replace(member, batch_size=batch_size)
        return sized


def task_names(task: str, known: Iterable[str]) -> list[str]:
    """The tasks of a list with commas; refuses unknown ones and repetitions."""
    names = [name.strip() for name in task.split(",")]
    for number, name in enumerate(names):
        if name not in known:
            raise unknown("task", name, known)
        if name in names[:number]:
            raise UserError(f"--task {task} names {name!r} twice: once is enough")
    return names


def parse_run_config(
    argv: Sequence[str] | None, presets: Path, description: str, example: str
) -> TrainConfig:
    """The config that a command line asks for: a task's, or that of several tasks at once.

    argv: the arguments after the program's name; None takes the process's own.
    """
    chosen = first_look(argv)
    if "," not in chosen.task:
        config = parse_config(argv, presets, description, example)
        if config.mix:
            raise UserError(f"--mix {config.mix} is for several tasks, and {config.task} is one")
        return config
    names = task_names(chosen.task, known_tasks(presets))
    for word in sys.argv[1:] if argv is None else argv:
        name = word.split("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_")
        if word.startswith("--") and name in OWN:
            ways = " or ".join(flag(name, owner) for owner in names)
            raise UserError(f"{flag(name)} is each task's own in a run of several: say {ways}")
    begun = output_folder(chosen.output, chosen.task) / CONFIG_FILE
    is_resumed = chosen.resume and begun.is_file()
    base = load_run_config(begun) if is_resumed else read_combined(presets, names, chosen.preset)
    if not isinstance(base, CombinedConfig) or list(base.members) != names:
        raise UserError(
            f"cannot resume with --task {chosen.task}: the run in {begun.parent} has {base.task}"
        )

    parser = make_parser(description, example)
    for name, each in FIELDS.items():
        if "section" in each.metadata:
            section = parser.add_argument_group(each.metadata["section"])
        if name in SHARED:
            add_flag(section, name, getattr(base, name))
    for owner in names:
        section = parser.add_argument_group(f"{owner}'s own")
        for name in OWN:
            add_flag(section, name, getattr(base.members[owner], name), owner)
    given = vars(parser.parse_args(argv))
    shared = {name: checked(name, flag(name), given[name]) for name in SHARED}
    own = {
        owner: {name: checked(name, flag(name, owner), given[f"{owner}.{name}"]) for name in OWN}
        for owner in names
    }
    config = combine({**shared, "task": base.task}, own)
    if is_resumed:
        refuse_changes(config, base, begun.parent, SHARED)
        for owner, member in config.members.items():
            refuse_changes(member, base.members[owner], begun.parent, OWN, owner)
    return config


def combine(shared: Mapping[str, Any], own: Mapping[str, Mapping[str, Any]]) -> CombinedConfig:
    """The config of these settings."""
    members = {name: TrainConfig(**{**shared, **own[name], "task": name}) for name in own}
    return CombinedConfig(**shared, members=members)


def read_combined(presets: Path, names: Sequence[str], preset: str) -> CombinedConfig:
    """The config of presets/combined/<preset>.yaml, on top of the tasks' own of the same name."""
    files = {file.stem: file for file in sorted((presets / COMBINED).glob("*.yaml"))}
    if preset not in files:
        raise unknown("preset", preset, files)
    shared, sections = read_sections(files[preset], known_tasks(presets))
    own = {}
    for name in names:
        member = read_preset(presets, name, preset)
        own[name] = {**{key: getattr(member, key) for key in OWN}, **sections.get(name, {})}
    for key in ("task", "preset"):
        if key in shared:
            raise UserError(f"{files[preset]}: {key} belongs on the command line: remove it")
    # The preset's mix may name tasks that this run leaves out.
    absent = known_tasks(presets) - {*names}
    parts = str(shared.get("mix", "")).split(",")
    shared["mix"] = ",".join(part for part in parts if part.partition("=")[0] not in absent)
    return combine({**shared, "task": ",".join(names), "preset": preset}, own)


def load_run_config(path: Path) -> TrainConfig:
    """The config that a run was begun with, of one task or of several."""
    task = read_yaml(path).get("task")
    if not isinstance(task, str) or "," not in task:
        return load_config(path)
    names = task.split(",")
    shared, sections = read_sections(path, names)
    return combine(shared, {name: sections.get(name, {}) for name in names})


def save_run_config(config: TrainConfig, path: Path) -> None:
    """Write every setting as YAML that load_run_config reads back to an equal config."""
    if not isinstance(config, CombinedConfig):
        save_config(config, path)
        return
    content: dict[str, Any] = {name: getattr(config, name) for name in SHARED}
    for owner, member in config.members.items():
        content[owner] = {name: getattr(member, name) for name in OWN}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")


def members_of(config: TrainConfig) -> Mapping[str, TrainConfig]:
    """The settings of each task of a run, by name; of one task, the run's own."""
    return config.members if isinstance(config, CombinedConfig) else {config.task: config}


def algorithms_of(config: TrainConfig) -> str:
    """For people: the algorithm of all tasks, or who has which."""
    chosen = {name: member.algo for name, member in members_of(config).items()}
    if len({*chosen.values()}) == 1:
        return next(iter(chosen.values()))
    return ", ".join(f"{name} {algo}" for name, algo in chosen.items())


def flat_settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting by name, as trackers take them; a task's own as <task>.<name>."""
    if not isinstance(config, CombinedConfig):
        return vars(config)
    found = {name: getattr(config, name) for name in SHARED}
    for owner, member in config.members.items():
        found |= {f"{owner}.{name}": getattr(member, name) for name in OWN}
    return found


def read_sections(
    path: Path, tasks: Iterable[str]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The checked settings in a YAML file: those of all tasks together, and each task's own."""
    shared: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    for key, value in read_yaml(path).items():
        if key in tasks:
            if not isinstance(value, Mapping):
                raise UserError(f"{path}: {key} must hold lines of 'key: value', not {value!r}")
            where = f"{path}: {key}"
            sections[key] = _checked_all(where, value, OWN, "is of all tasks: move it out of here")
        else:
            own = "is each task's own: move it into a section of that task's name"
            shared |= _checked_all(str(path), {key: value}, SHARED, own)
    return shared, sections


def _checked_all(
    where: str, content: Mapping[Any, Any], allowed: Sequence[str], fault: str
) -> dict[str, Any]:
    for name in content:
        if name not in FIELDS:
            raise UserError(f"{where}: {unknown('key', str(name), allowed)}")
        if name not in allowed:
            raise UserError(f"{where}: {name} {'is for --task text' if name in OF_TEXT else fault}")
    return {name: checked(name, f"{where}: {name}", value) for name, value in content.items()}
