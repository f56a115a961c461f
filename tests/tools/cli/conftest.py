"""A desk with a store for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

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
