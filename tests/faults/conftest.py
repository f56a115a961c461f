"""Where faults can be injected, and the prepared stores, once for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.faults.running import prepared
from tests.faults.seccomp import watch
from tests.runs import unable

IS_LONG = "ENGRAM_FAULTS" in os.environ
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_MEMORY_MIN_BYTES = 256 << 20


@cache
def why_not() -> str | None:
    """Return why no call can be held here, None where it can."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            watch()  # from here on nothing but leaving can be done: nobody lets a call happen
            status = 0
        finally:
            os._exit(status)
    held = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return None if held else "seccomp may not notify here: no faults are injected"


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """Give a directory in memory, or on the disk where there is no room in memory."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_MIN_BYTES
    with tempfile.TemporaryDirectory(prefix="engram-faults-", dir=_MEMORY if roomy else None) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def injectable() -> None:
    """Skip where no call can be held; under CI and in the long form that is a failure."""
    reason = why_not()
    if reason is not None:
        unable(reason, is_long=IS_LONG)


@pytest.fixture(scope="session")
def steps(memory: Path, injectable: None) -> Path:
    """Give the directory in which the steps' stores and calls stand."""
    return prepared(memory / "steps")
