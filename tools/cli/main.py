"""The command ``engram``: its commands, and how every one of them ends.

Exit codes: 0 done, 1 findings or refused, 2 wrong use or cannot run; 130 interrupted, 141 nobody reads.
An error is one line on stderr. A stack trace is never shown: it would quote what is none of a terminal's business.
"""

from __future__ import annotations

from tools.cli import interrupts

interrupts.leave_at_once()  # before the imports that take their time

# ruff: noqa: E402
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from tools.cli.commands import COMMANDS
from tools.cli.interrupts import EXIT_INTERRUPTED
from tools.cli.lazy import LazyGroup
from tools.cli.options import config_option, json_option

EXIT_NOBODY_READS = 141


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's form
    if not wanted or ctx.resilient_parsing:
        return
    from importlib import metadata

    try:
        version = metadata.version("engram-journal")
    except metadata.PackageNotFoundError:
        version = "unknown (not installed)"
    click.echo(f"engram {version}")
    ctx.exit()


@click.group(
    cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@config_option
@json_option
def root() -> None:
    """Governed memory for AI agents: an append-only, sealed journal, served over MCP."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line to its end and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter stops nothing
    try:
        code = _invoke(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _point_nowhere()
        return EXIT_NOBODY_READS
    return code


def _invoke(words: list[str]) -> int:
    try:
        with root.make_context("engram", words) as ctx:
            root.invoke(ctx)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message(), err=True)
        return asked.exit_code
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        raise
    except BaseException as error:  # the last line of defence: whatever it is, it ends as one line
        if interrupts.is_behind(error):
            return EXIT_INTERRUPTED
        if not isinstance(error, Exception):
            raise
        from tools.cli.failures import line_of

        code, line = line_of(error)
        click.echo(line, err=True)
        return code
    return 0


def _point_nowhere() -> None:
    """Nobody reads what is printed: point it nowhere, so that the interpreter's own last flush is quiet too."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


def main() -> NoReturn:
    """Run the command line of this process."""
    if "_ENGRAM_COMPLETE" in os.environ:  # the shell asks for completions
        root.main(prog_name="engram")
    interrupts.leave_at_once()
    interrupts.send_swallowed_again()
    code = run()
    interrupts.leave_at_once()
    sys.exit(code)


interrupts.raise_again()  # whoever imports this module for something else has their own Ctrl-C back

if __name__ == "__main__":
    main()
