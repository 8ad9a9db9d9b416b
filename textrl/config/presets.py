"""Where a run's settings come from: command line over preset over defaults.

A run of one task has them side by side. In a run of several, each task's own carry its name: on the
command line --gridworld.expectile 0.9, and in YAML as sections:

    layers: 2
    gridworld:
      expectile: 0.9
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from textrl.config.hub_names import is_hub_name
from textrl.config.options import Option, make_group, options_of, values_of
from textrl.config.registry import ALGORITHMS, TASKS, find, known
from textrl.config.train import (
    NEW_BACKBONES,
    BisimulationConfig,
    MemberConfig,
    RepresentationConfig,
    TrainConfig,
)
from textrl.errors import UserError, brief, unknown

PRESETS = Path(__file__).parents[1] / "recipes" / "configs"
"""The presets that ship with the toolkit, a folder for each task."""
COMBINED = "combined"
"""The folder of presets for runs over several tasks."""
GROUPS = {"representation": RepresentationConfig, "bisimulation": BisimulationConfig}
"""The parts of a TrainConfig that are groups of options themselves."""
SHARED: dict[str, Option] = options_of(TrainConfig) | {
    name: each for group in GROUPS.values() for name, each in options_of(group).items()
}
"""The options that all tasks of a run have in common."""
ON_COMMAND_LINE = ("task", "preset")


@dataclass
class Settings:
    """Checked values by the names that users know: of all tasks together, and each one's own."""

    shared: dict[str, Any] = field(default_factory=dict)
    own: dict[str, dict[str, Any]] = field(default_factory=dict)


def own_options(task: str, algo: str) -> dict[str, Option]:
    """The options that a task of a run has for itself, those of its algorithm among them."""
    groups = (MemberConfig, find(TASKS, task).options, find(ALGORITHMS, algo).options)
    found: dict[str, Option] = {}
    for group in groups:
        for name, each in options_of(group).items():
            if name in found or name in SHARED:
                raise UserError(f"{group.__name__}.{name}: another option has this name: rename it")
            found[name] = each
    return found


def option_anywhere(name: str, task: str) -> Option | None:
    """An option of this name that the task has with whichever algorithm."""
    for algo in known(ALGORITHMS):
        if name in (found := own_options(task, algo)):
            return found[name]
    return None


def whose(name: str) -> str:
    """For people: which tasks or algorithms have an option of this name; "" = none."""
    owners = [
        each
        for group in (TASKS, ALGORITHMS)
        for each in known(group)
        if name in options_of(find(group, each).options)
    ]
    return " and ".join(owners)


def build(settings: Settings) -> TrainConfig:
    """The config of these settings."""
    members = {}
    for name, reference in zip(settings.own, settings.shared["task"].split(","), strict=True):
        values = settings.own[name]
        algo = values.get("algo", MemberConfig.algo)
        members[name] = make_group(
            MemberConfig,
            values,
            task=reference.strip(),
            task_options=make_group(find(TASKS, name).options, values),
            algo_options=make_group(find(ALGORITHMS, algo).options, values),
        )
    config = make_group(
        TrainConfig,
        settings.shared,
        members=members,
        **{name: make_group(group, settings.shared) for name, group in GROUPS.items()},
    )
    check_backbone(config.backbone)
    return config


def settings_of(config: TrainConfig) -> Settings:
    """The way back: every setting of a config."""
    own = {
        name: {
            **values_of(member),
            **values_of(member.task_options),
            **values_of(member.algo_options),
        }
        for name, member in config.members.items()
    }
    shared = values_of(config)
    for group in GROUPS:
        shared |= values_of(getattr(config, group))
    return Settings(shared, own)


def flat_settings(config: TrainConfig) -> dict[str, Any]:
    """Every setting by name, as trackers take them; of several tasks, own ones as <task>.<name>."""
    settings = settings_of(config)
    found = dict(settings.shared)
    for owner, values in settings.own.items():
        prefix = f"{owner}." if len(settings.own) > 1 else ""
        found |= {f"{prefix}{name}": value for name, value in values.items()}
    return found


def configure(
    task: str,
    preset: str | None = None,
    presets: Path = PRESETS,
    **settings: Any,
) -> TrainConfig:
    """A run's config from Python: configure("wordle", preset="quick", max_steps=100).

    Without a preset the rest has its defaults. Of several tasks, one's own settings are a dict
    under its name: configure("wordle,gridworld", gridworld={"beta": 2.0}).
    """
    names = task_names(task)
    base = read_preset(presets, names, preset) if preset else Settings({}, {n: {} for n in names})
    base.shared |= {"task": task, **({"preset": preset} if preset else {})}
    sections = {name: settings.pop(name) for name in names if name in settings}
    merge(base, settings, sections, "configure")
    return build(base)


def merge(
    base: Settings,
    content: Mapping[Any, Any],
    sections: Mapping[str, Mapping[Any, Any]],
    where: str,
) -> None:
    """Check the values and put them over those of `base`.

    content: of all tasks together and, where there is one task, its own as well.
    """
    names = list(base.own)
    for key, value in content.items():
        if key in SHARED:
            base.shared[key] = SHARED[key].checked(value, f"{where}: {key}")
        elif len(names) == 1:
            merge_own(base.own, names[0], {key: value}, where)
        elif any(option_anywhere(key, name) for name in names):
            raise UserError(f"{where}: {key} is set per task: move it into the section of a task")
        elif owners := whose(str(key)):
            raise UserError(f"{where}: {key} is for {owners}, which is not in this run")
        else:
            raise UserError(f"{where}: {unknown('key', str(key), [*SHARED, *names])}")
    for name, values in sections.items():
        merge_own(base.own, name, values, f"{where}: {name}")


def merge_own(
    own: dict[str, dict[str, Any]], task: str, values: Mapping[Any, Any], where: str
) -> None:
    """The same of one task's own. What only another algorithm reads is checked too, and kept."""
    for key, value in values.items():
        option = option_anywhere(key, task)
        if option is None and key in SHARED:
            raise UserError(f"{where}: {key} applies to all tasks: move it out of this section")
        if option is None and (owners := whose(str(key))):
            raise UserError(f"{where}: {key} is for {owners}, not for {task}")
        if option is None:
            every = [*SHARED, *own_options(task, MemberConfig.algo)]
            raise UserError(f"{where}: {unknown('key', str(key), every)}")
        own[task][key] = option.checked(value, f"{where}: {key}")
        if key == "algo":
            check_algorithm(own[task][key], where)


def check_algorithm(name: str, where: str) -> None:
    """Refuse a name in a file that is no algorithm's."""
    try:
        find(ALGORITHMS, name)
    except UserError as error:
        raise UserError(f"{where}: algo: {error}") from None


def task_names(task: str) -> list[str]:
    """The names of the tasks in a list with commas; refuses unknown ones and repetitions."""
    names: list[str] = []
    for part in task.split(","):
        entry = find(TASKS, part.strip())
        if entry.name in names:
            raise UserError(f"--task {task} names {entry.name!r} twice: once is enough")
        names.append(entry.name)
    if len(names) > 1:
        for name in names:
            if find(TASKS, name).is_learned_alone:
                raise UserError(
                    f"--task {task}: {name} uses the tokens of its language model and can"
                    " only be trained alone: leave it out"
                )
    return names


def preset_files(presets: Path, task: str) -> dict[str, Path]:
    """A task's presets by name: in its own folder or, where it has none, in that of its name."""
    folder = find(TASKS, task).presets or presets / task
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def read_preset(presets: Path, names: Sequence[str], preset: str) -> Settings:
    """The settings of a preset; of several tasks, presets/combined over each one's own."""
    if len(names) == 1:
        found = Settings({}, {names[0]: {}})
        merge_file(found, choose(preset_files(presets, names[0]), preset))
        return found
    found = Settings({}, {name: read_preset(presets, [name], preset).own[name] for name in names})
    combined = {file.stem: file for file in sorted((presets / COMBINED).glob("*.yaml"))}
    merge_file(found, choose(combined, preset))
    # The preset's mix may name tasks that this run leaves out.
    absent = {*known(TASKS)} - {*names}
    parts = str(found.shared.get("mix", "")).split(",")
    found.shared["mix"] = ",".join(p for p in parts if p.partition("=")[0] not in absent)
    return found


def choose(files: Mapping[str, Path], preset: str) -> Path | None:
    """The preset's file. A task that has no presets at all has its defaults for the default one."""
    if preset in files:
        return files[preset]
    if not files and preset == SHARED["preset"].default:
        return None
    raise unknown("preset", preset, files)


def merge_file(base: Settings, path: Path | None) -> None:
    """Put a preset's values over those of `base`."""
    content = read_yaml(path) if path else {}
    for name in ON_COMMAND_LINE:
        if name in content:
            raise UserError(f"{path}: {name} belongs on the command line: remove it")
    shared, sections = split_sections(content, known(TASKS), str(path))
    merge(base, shared, {n: each for n, each in sections.items() if n in base.own}, str(path))


def split_sections(
    content: Mapping[Any, Any], tasks: Iterable[str], where: str
) -> tuple[dict[Any, Any], dict[str, Mapping[Any, Any]]]:
    """A file's keys, and its sections of these tasks."""
    sections = {key: value for key, value in content.items() if key in tasks}
    for key, value in sections.items():
        if not isinstance(value, Mapping):
            raise UserError(f"{where}: {key} must hold lines of 'key: value', not {brief(value)}")
    return {key: value for key, value in content.items() if key not in sections}, sections


def load_config(path: Path) -> TrainConfig:
    """The config in a run's training.yaml; absent keys take their defaults."""
    content = read_yaml(path)
    task = SHARED["task"].checked(content.get("task", ""), f"{path}: task")
    names = task_names(task)
    settings = Settings({"task": task}, {name: {} for name in names})
    merge(settings, *split_sections(content, names, str(path)), str(path))
    return build(settings)


def save_config(config: TrainConfig, path: Path) -> None:
    """Write every setting as YAML that load_config reads back to an equal config."""
    settings = settings_of(config)
    several = len(settings.own) > 1
    content = settings.shared | (settings.own if several else next(iter(settings.own.values())))
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    partial = path.with_name(f".{path.name}.partial")
    try:  # whole or not at all: on a full disk it would be an empty file
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def read_yaml(path: Path) -> Mapping[Any, Any]:
    """The keys and values of a YAML file."""
    try:
        content = yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{path} is not valid YAML: {error}") from None
    if content is None:  # nothing but comments
        return {}
    if not isinstance(content, Mapping):
        raise UserError(f"{path} must hold lines of 'key: value', not {brief(content)}")
    return content


def check_backbone(name: str) -> None:
    """Refuse a name that is no new backbone's and cannot be a language model's."""
    if name not in NEW_BACKBONES and not Path(name).is_dir() and not is_hub_name(name):
        raise UserError(
            f"{unknown('backbone', name, NEW_BACKBONES)}, nor is there a folder of that name, nor"
            " can it be a USER/NAME on the Hub"
        )


def output_folder(config: TrainConfig) -> Path:
    """Where a run writes."""
    return Path(config.output or f"runs/{'-'.join(config.members)}")
