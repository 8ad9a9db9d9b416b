"""What tasks and algorithms there are: those that installed packages declare, and those named.

A package declares what it brings as entry points of the groups below; ours does the same. Anything
else is named on the command line as module:OBJECT. Such a name runs code, so that it is followed
only where the user gave it, never where a file says so.
"""

import re
import sys
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from textrl.errors import UserError, unknown

NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
TASKS, ALGORITHMS = "textrl.tasks", "textrl.algorithms"
_named: dict[tuple[str, str], Any] = {}
"""What the user has named as module:OBJECT so far, by that and by its own name."""


@lru_cache
def _declared(group: str) -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=group)}


def known(group: str) -> list[str]:
    """The names of what is installed and of what the user has named."""
    own = {name for of, name in _named if of == group and ":" not in name}
    return sorted({*_declared(group), *own})


def find(group: str, name: str) -> Any:
    """The task or algorithm of this name."""
    if (group, name) in _named:
        return _named[group, name]
    what = group.rpartition(".")[2].removesuffix("s")
    if ":" in name:
        raise UserError(f"the {what} {name!r} is code: name it with --{_flag_of(group)} to run it")
    if name not in _declared(group):
        raise unknown(what, name, known(group))
    try:
        return _declared(group)[name].load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"the {what} {name!r} cannot be loaded: {error}") from error


def follow(group: str, name: str) -> Any:
    """The same, where the user gave the name: module:OBJECT is imported, from here as well."""
    if ":" not in name or (group, name) in _named:
        return find(group, name)
    module, _, attribute = name.partition(":")
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"--{_flag_of(group)} {name} cannot be imported: {error}") from error
    finally:
        sys.path.remove(here)
    own = getattr(found, "name", None)
    if type(own) is not str or not NAME.fullmatch(own) or not hasattr(found, "options"):
        raise UserError(
            f"--{_flag_of(group)} {name} is none: it needs a name (letters, digits, - _) and"
            " options"
        )
    _named[group, name] = _named[group, own] = found
    return found


def _flag_of(group: str) -> str:
    return {TASKS: "task", ALGORITHMS: "algo"}[group]
