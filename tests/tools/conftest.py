"""Worlds: a store, its clock, and who speaks to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.memory.world import Caller, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def agent(world: World) -> Caller:
    """An agent whose assertions are accepted and who never waits."""
    return world.caller()
