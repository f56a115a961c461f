"""The template, once for all tests of this folder, in memory where there is a memory file system."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.corruption.rig import ROOT
from tests.corruption.template import Template

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
_MEMORY_MIN_BYTES = 256 << 20


@pytest.fixture(scope="session")
def template() -> Iterator[Template]:
    """Make the store that is damaged, in a process of its own."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_MIN_BYTES
    with tempfile.TemporaryDirectory(prefix="engram-corruption-", dir=_MEMORY if roomy else None) as directory:
        place = Path(directory) / "template"
        done = subprocess.run(
            [sys.executable, "-m", "tests.corruption.template", str(place)], cwd=ROOT, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2_000:]
        yield Template.load(place)
