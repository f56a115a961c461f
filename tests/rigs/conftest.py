"""The rigs' store, their size, and their figures."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.rigs.lineclient import LineServer
from tests.rigs.place import LONG, Place

MEMORY = Path("/dev/shm")  # noqa: S108 - each rig makes a directory of its own there
_T = TypeVar("_T")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A store of its own: on disk in the long form, where a flush takes its time, else in memory."""
    if LONG or not os.access(MEMORY, os.W_OK):
        made = Place(tmp_path)
        yield made
        made.close()
        return
    with tempfile.TemporaryDirectory(prefix="engram-rigs-", dir=MEMORY) as directory:
        made = Place(Path(directory))
        yield made
        made.close()


@pytest.fixture
def sized() -> Callable[[_T, _T], _T]:
    """Choose between the size of the short form and of the long one."""
    return lambda short, long: long if LONG else short


@pytest.fixture
def servers(place: Place) -> Iterator[Callable[[int], list[LineServer]]]:
    """Start servers over the store; they are closed at the end, and must then end by themselves."""
    started: list[LineServer] = []

    def start(count: int) -> list[LineServer]:
        fresh = [LineServer(place) for _ in range(count)]
        started.extend(fresh)
        return [server.handshake() for server in fresh]

    yield start
    codes = [server.close() for server in started if server.process.poll() is None]
    assert not any(codes), codes


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Callable[..., None]:
    """Print figures, in the long form."""

    def tell(**figures: object) -> None:
        if LONG:
            line = ", ".join(f"{name} {value}" for name, value in figures.items())
            with capsys.disabled():
                print(f"\n{request.node.name}: {line}")  # noqa: T201 - what the long form is run for

    return tell
