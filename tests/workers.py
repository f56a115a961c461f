"""The processes that a rig starts and waits for: none of them outlives it, however it ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # Linux's prctl


def end_with_parent() -> None:
    """Have the system end this process with the one that started it, as a kill of that one needs; a fork asks anew."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def none_left(workers: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Kill whichever of these still runs when the block is left, before anybody removes the place where it works."""
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.wait()
