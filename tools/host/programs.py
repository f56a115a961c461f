"""Running a program that the host file names: no shell, a short environment, bounded in time and in what it prints."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

ENVIRONMENT: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_MESSAGES", "TMPDIR")
"""What such a program may know of the environment; the root key may stand in the rest."""

_CHUNK_BYTES = 65_536


class ProgramFailed(Exception):
    """There is no answer of the program. The text is the kind of failure, never a word of what it printed."""


def answer_of(
    words: Sequence[str], said: bytes, environ: Mapping[str, str], *, seconds: float, max_bytes: int
) -> bytes:
    """Run a program and return what it prints.

    Args:
        words: the program and its arguments.
        said: its standard input; under 64 KiB, so that writing it never waits.
        environ: of which it gets the names of ``ENVIRONMENT``.
        seconds: for all of it. What runs longer is ended, with all that it started and that is still of its process
            group; what left the group (setsid), or runs on quietly after the program ended in time, is not reached.
        max_bytes: of its standard output; what prints more is ended too. Its standard error goes nowhere.

    Raises:
        ProgramFailed: it cannot be started, prints too much, is too slow, or ends with another code than 0.
    """
    ends = time.monotonic() + seconds
    try:
        process = subprocess.Popen(  # noqa: S603 - the host file names the program; no shell sees it
            list(words),
            env={name: environ[name] for name in ENVIRONMENT if name in environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a group of its own, to be ended whole
        )
    except (OSError, ValueError) as error:
        raise ProgramFailed(f"it does not start: {type(error).__name__}") from None
    try:
        printed = _exchanged(process, said, ends, max_bytes)
        code = process.wait(max(ends - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise ProgramFailed("the time is over") from None
    finally:
        _end(process)
    if code != 0:
        raise ProgramFailed(f"exit code {code}")
    return printed


def _exchanged(process: subprocess.Popen[bytes], said: bytes, ends: float, max_bytes: int) -> bytes:
    """Write what is said, and return what is printed until the program closes its output."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # it may decide without listening
        process.stdin.write(said)
        process.stdin.flush()
    with suppress(BrokenPipeError):
        process.stdin.close()
    printed, output, waiting = bytearray(), process.stdout.fileno(), select.poll()
    waiting.register(output, select.POLLIN)
    while True:
        if not waiting.poll(max(ends - time.monotonic(), 0) * 1000):
            raise ProgramFailed("the time is over")
        chunk = os.read(output, _CHUNK_BYTES)
        if not chunk:
            return bytes(printed)
        printed += chunk
        if len(printed) > max_bytes:
            raise ProgramFailed(f"it prints over {max_bytes} bytes")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, with its group; its number is not another's, for nobody has waited for it yet."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
