"""What a user can get wrong, told in one line."""

import difflib
import reprlib
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

LISTED_NAMES = 12
LONGEST_REASON = 400
"""Characters of a library's error; some quote all of a file."""


class UserError(Exception):
    """A mistake the user can mend: the message says what, which value, and the remedy."""


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 100
_SHORT.maxlevel = 3


def brief(value: object) -> str:
    """A value for an error, in a length that a line has room for, whatever it is."""
    return _SHORT.repr(value)


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is none of the known ones, with the nearest suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:100], names, n=1, cutoff=0.5)
    hint = f": did you mean {near[0]!r}?" if near else ""
    listed = f" ({what}s: {', '.join(names)})" if len(names) <= LISTED_NAMES else ""
    return UserError(f"unknown {what} {brief(name)}{hint}{listed}")


def first_line(error: BaseException) -> str:
    """What an error of a library says, from the innermost cause, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    told = lines[0] if len(lines[0]) <= LONGEST_REASON else f"{lines[0][:LONGEST_REASON]}..."
    return f"{type(error).__name__}: {told}"


def fail(message: str) -> NoReturn:
    """End the program as a user's mistake does: one line on standard error, exit code 2."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)


def run_recipe(main: Callable[[], None]) -> None:
    """Run a recipe's main; errors that a user or a disk causes end in one line and exit code 2."""
    try:
        main()
    except UserError as error:
        fail(str(error))
    except OSError as error:  # a full or read-only disk, a missing file, a missing permission
        where = f": {error.filename}" if error.filename else ""
        fail(f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        raise SystemExit(130) from None
