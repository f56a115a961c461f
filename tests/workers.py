"""The processes that a rig starts and waits for: none of them outlives it, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).resolve().parents[1]
Worker = subprocess.Popen[bytes]

_PR_SET_PDEATHSIG: Final = 1  # Linux's prctl


def end_with_parent() -> None:
    """Have the system end this process with the one that started it, as a kill of that one needs; a fork asks anew."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def _signals_put_off() -> Iterator[None]:
    """Have TERM and Ctrl-C that come within the block raise what they raise after it.

    Functions that Python runs around a fork swallow what is raised in them, and with it the wish to end.
    """
    came: list[int] = []
    kept = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for each in came:
            signal.raise_signal(each)


def start(
    workers: list[Worker], command: list[str], *, out: IO[bytes], errors: IO[bytes], environment: dict[str, str]
) -> None:
    """Start a worker in the project's folder and put it among ``workers``, whenever a signal comes.

    It ends with this process, even where that is killed at this moment. To be called in the main thread.
    """
    parent = os.getpid()

    def begin() -> None:
        end_with_parent()
        if os.getppid() != parent:
            os._exit(1)

    with _signals_put_off():
        workers.append(
            subprocess.Popen(
                command, stdout=out, stderr=errors, cwd=ROOT, env=environment, preexec_fn=begin,  # noqa: PLW1509 - no threads
            )
        )  # fmt: skip


@contextmanager
def none_left(workers: list[Worker]) -> Iterator[None]:
    """Kill whichever of these still runs when the block is left, before anybody removes the place where it works."""
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
