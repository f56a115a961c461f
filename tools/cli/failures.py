"""How an exception ends a command: its exit code, and the one line that a person reads."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb

import click

from journal.errors import (
    AlreadyTerminal,
    AuthorizationExpired,
    AuthorizationRevoked,
    BackupInvalid,
    DigestConflict,
    EngramError,
    GateFailed,
    IllegalTransition,
    InvalidDigest,
    NotFound,
    PolicyStale,
    RestoreRefused,
    Unauthorized,
)
from tools.cli.invocation import typed
from tools.cli.terminal import one_line
from tools.host.exceptions import HostFileError, UntrustedContext

REFUSED = 1
CANNOT_RUN = 2

_REFUSALS = (
    AlreadyTerminal,
    AuthorizationExpired,
    AuthorizationRevoked,
    DigestConflict,
    GateFailed,
    IllegalTransition,
    InvalidDigest,
    NotFound,
    BackupInvalid,
    PolicyStale,
    RestoreRefused,
    Unauthorized,
)
"""What the store answered with a no, as against what kept it from answering."""


class Refused(click.ClickException):
    """A command that says no, in words of its own; exit code 1."""

    exit_code = REFUSED


class CannotRun(click.ClickException):
    """A command that cannot run as things stand, in words of its own; exit code 2."""

    exit_code = CANNOT_RUN


def line_of(error: Exception) -> tuple[int, str]:
    """Return the exit code and the line for an exception."""
    code, text = _told(error)
    return code, one_line(f"engram: {typed(text)}")


def _told(error: Exception) -> tuple[int, str]:
    match error:
        case click.UsageError():
            command = "engram" if error.ctx is None else error.ctx.command_path
            told = error.exit_code, f"{error.format_message().rstrip('.')} (see {command} --help)"
        case click.ClickException():
            told = error.exit_code, error.format_message()
        case HostFileError():
            told = error.exit_code, str(error)
        case UntrustedContext():
            told = REFUSED, "the host file does not bind this purpose"
        case EngramError():
            # The detail is for the operator, who sits here. It never holds content, keys or secrets.
            code = REFUSED if isinstance(error, _REFUSALS) else CANNOT_RUN
            told = code, f"{error.detail or error.message()} [{error.code}]"
        case OSError(strerror=str()):
            where = f"{error.filename}: " if isinstance(error.filename, str | Path) else ""
            told = CANNOT_RUN, f"{where}{error.strerror}"
        case _:
            # A fault of ours. Its text may quote content, so that only its kind and its place are told.
            frames = extract_tb(error.__traceback__)
            place = f" at {'/'.join(Path(frames[-1].filename).parts[-3:])}:{frames[-1].lineno}" if frames else ""
            told = CANNOT_RUN, f"a fault in engram itself: {type(error).__name__}{place}"
    return told
