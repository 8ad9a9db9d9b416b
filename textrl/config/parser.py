"""The command line of a recipe: --help that helps, and errors of one line."""

import argparse
from typing import Any, NoReturn

from textrl.errors import UserError, unknown


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are UserErrors and suggest the nearest known name."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unread = self.parse_known_args(args, namespace)
        for word in unread:
            if word.startswith("-"):
                raise unknown("option", word.split("=")[0], self._option_string_actions)
        if unread:
            self.error(f"unexpected argument {unread[0]!r}")
        return parsed

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise unknown(action.dest, str(value), map(str, action.choices))


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Shows the default of every option that has one and keeps the example's line breaks."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default == "":
            return action.help
        return super()._get_help_string(action)


def make_parser(description: str, example: str, usage: str | None = None) -> Parser:
    """The parser of a recipe: --help shows the defaults and the example, errors take one line."""
    return Parser(
        usage=usage,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
