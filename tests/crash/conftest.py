"""The recorded workload, once for all tests of this folder, in memory where there is a memory file system."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.crash.rig import Recording, record_workload
from tests.crash.trace import STRACE, record
from tests.runs import unable

IS_LONG = "ENGRAM_CRASH_IMAGES" in os.environ
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_MEMORY_MIN_BYTES = 512 << 20


@cache
def why_not() -> str | None:
    """Return why no system calls can be recorded here, None where they can."""
    if STRACE is None:
        return "strace is not installed: no crash images"
    with tempfile.TemporaryDirectory() as directory:
        try:
            record([shutil.which("true") or "true"], Path(directory) / "calls", os.environ, Path(directory))
        except AssertionError:
            return "strace may not trace here: no crash images"
    return None


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """Give a directory in memory, or on the disk where there is no room in memory."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_MIN_BYTES
    with tempfile.TemporaryDirectory(prefix="engram-crash-", dir=_MEMORY if roomy else None) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def traceable() -> None:
    """Skip where system calls cannot be recorded; under CI and in the long form that is a failure."""
    reason = why_not()
    if reason is not None:
        unable(reason, is_long=IS_LONG)


@pytest.fixture(scope="session")
def recording(memory: Path, traceable: None) -> Recording:
    """Record the workload."""
    directory = memory / "workload"
    directory.mkdir()
    return record_workload(directory)
