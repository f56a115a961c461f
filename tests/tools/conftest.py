"""Worlds: a store, its clock, and who speaks to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.memory.world import Caller, World

MEMORY = Path("/dev/shm")  # noqa: S108 - each test makes a directory of its own there


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for stores: in memory where the machine can, for nothing that is shown here is about durability."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="engram-tests-", dir=MEMORY) as made:
        yield Path(made)


@pytest.fixture
def world(directory: Path) -> Iterator[World]:
    made = World(directory / "store")
    yield made
    made.close()


@pytest.fixture
def agent(world: World) -> Caller:
    """An agent whose assertions are accepted and who never waits."""
    return world.caller()
