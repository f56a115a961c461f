"""A desk with a store for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projections.vector.endpoints import Endpoint, endpoint
from tests.tools.cli.desk import Desk, ready


@pytest.fixture
def bare_desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk without a store."""
    return Desk(tmp_path, capsys)


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk where a person admits candidates."""
    return ready(tmp_path, capsys)


@pytest.fixture
def open_desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk where what is asserted is accepted."""
    return ready(tmp_path, capsys, "--policy", "accept-asserted")


@pytest.fixture
def served() -> Iterator[Endpoint]:
    """An endpoint of embeddings on this machine."""
    with endpoint() as started:
        yield started
