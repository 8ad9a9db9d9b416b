"""Options: fields of a dataclass that become flags, YAML keys, checks and lines of --help."""

import math
import operator
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from textrl.errors import UserError, brief, unknown

T = TypeVar("T")
KIND_IN_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def option(default: T, help: str, **more: Any) -> T:
    """A field of a group of options with its help text.

    more: minimum, maximum (inclusive) and above (exclusive) bound a number; section is where --help
    lists it; name is what users call it, if not as the field; free says that a resumed run may
    change it, because it does not touch what is learned.
    """
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class NoOptions:
    """The options of a task or an algorithm that has none."""


@dataclass(frozen=True)
class Option:
    """One option of a group: what may be given for it, and what --help says of it."""

    name: str
    """What users call it: in YAML learning_rate, as a flag --learning-rate."""
    field: str
    """What the group calls it."""
    kind: Any
    default: Any
    help: str
    section: str
    is_free: bool
    limits: Mapping[str, float]

    @property
    def choices(self) -> tuple[Any, ...]:
        """What may be chosen, where that is a list."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def checked(self, value: object, shown: str) -> Any:
        """The value as the option's type and within its limits; shown: what an error calls it."""
        if self.choices:
            if value not in self.choices:
                raise UserError(f"{shown}: {unknown(self.name, text_of(value), self.choices)}")
            return value
        typed = as_kind(self.kind, value)
        if typed is None:
            raise UserError(f"{shown} must be {KIND_IN_WORDS[self.kind]}, not {brief(value)}")
        for name, is_outside, words in (
            ("minimum", operator.lt, "at least"),
            ("above", operator.le, "above"),
            ("maximum", operator.gt, "at most"),
        ):
            if name in self.limits and is_outside(typed, self.limits[name]):
                raise UserError(
                    f"{shown} must be {words} {self.limits[name]}, not {text_of(value)}"
                )
        return typed


_found: dict[type, dict[str, Option]] = {}  # type checkers deny that functools.cache takes types


def options_of(group: type) -> dict[str, Option]:
    """The options of a group (a dataclass), by the names that users know them by."""
    if group not in _found:
        kinds = get_type_hints(group)
        marked = [each for each in fields(group) if "help" in each.metadata]
        options = [_option(each, kinds[each.name]) for each in marked]
        _found[group] = {each.name: each for each in options}
    return _found[group]


def _option(each: Field[Any], kind: Any) -> Option:
    about = each.metadata
    return Option(
        name=about.get("name", each.name),
        field=each.name,
        kind=kind,
        default=each.default,
        help=about["help"],
        section=about.get("section", ""),
        is_free=about.get("free", False),
        limits={name: about[name] for name in ("minimum", "above", "maximum") if name in about},
    )


def values_of(group: Any) -> dict[str, Any]:
    """The values of a group's options, by the names that users know them by."""
    return {name: getattr(group, each.field) for name, each in options_of(type(group)).items()}


def make_group(group: type[T], values: Mapping[str, Any], **others: Any) -> T:
    """A group with these checked values, by the names that users know; absent ones: defaults."""
    known = options_of(group)
    given = {known[name].field: value for name, value in values.items() if name in known}
    return group(**given, **others)


def flag(name: str, owner: str = "") -> str:
    """The command line's name of an option; owner: the task that it is about, of several."""
    return "--" + (f"{owner}." if owner else "") + name.replace("_", "-")


def text_of(value: object) -> str:
    """A value as it was written, cut short."""
    return value[:100] if isinstance(value, str) else brief(value)


def as_kind(kind: type, value: object) -> Any:
    """The value as bool, int, float or str; None if it is not one.

    Numbers may be spelled out: the command line has only text, and 1e-4 in YAML is text too.
    """
    if kind in (bool, str) or isinstance(value, bool):  # a bool would pass for an int
        return value if type(value) is kind else None
    if not isinstance(value, (str, int) if kind is int else (str, int, float)):
        return None
    try:
        number = kind(value)
        return number if math.isfinite(number) else None
    except (ValueError, OverflowError):
        return None
