"""A command group whose commands are imported when they are run, and told of by a table until then.

`engram serve` answers its client within a second because it imports nothing that another command needs, and `engram
--help` imports no command at all.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click

from tools.cli import interrupts


class Utf8Text(click.types.StringParamType):
    """A word of the command line that must be text: bytes that are no UTF-8 name nothing and cannot be kept."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text.

        Raises:
            click.UsageError: it stands for bytes that are no UTF-8.
        """
        text = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:  # a byte that is no UTF-8 comes as an unpaired surrogate
            self.fail("its bytes are not UTF-8", param, ctx)
        return text


def _take_text_only(command: click.Command) -> None:
    """Have a command, and those below it, refuse bytes that are no text; the name of a file may be any bytes."""
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = Utf8Text()
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _take_text_only(below)


class LazyGroup(click.Group):
    """A group over a table of command name -> (module, one line of help). The module names its command ``command``."""

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the table's order."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now."""
        entry = self._table.get(cmd_name)
        if entry is None:
            return None
        command = importlib.import_module(entry[0]).command
        interrupts.raise_again()  # from here on there may be something to undo
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry[0]}.command is no command")
        _take_text_only(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name; an unknown one is refused with the nearest known name."""
        if args and args[0] not in self._table and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self._table, n=1)
            ctx.fail(f"no such command: {args[0]}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._table.items()])
