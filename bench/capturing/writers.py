"""Who writes 1 KB durably: the engine's own front, the eventsourcing library's application, bare LMDB."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import peers  # noqa: F401 - its import is what makes the peers' own folder known
from bench.commit import arguments, binding
from bench.save_message import Bare
from journal import layout
from journal.log import Journal
from journal.store.lmdb import tables
from tools.host.capabilities import CAPTURE
from tools.memory.engine import Engine
from tools.memory.service import MemoryService
from tools.server.service import CallContext

TEXT: Final = ("The nightly build moved to 02:30 because backups end at 02:00. " * 16)[:1_000]
DEADLINE_SECONDS: Final = 120.0


def _silent(_done: float, _total: float | None, _message: str | None) -> None:
    """Report no progress."""


class Engram:
    """A store, and the service that an MCP server calls: validated, authorised, guarded, sealed, durable."""

    name = "engram"

    def __init__(self, place: Path) -> None:
        if not place.exists():
            layout.create(place, "bench")
        self._engine = Engine(Journal.open(place, bytes(32)), binding())
        self._service = MemoryService(self._engine)
        self._never = threading.Event()

    def write(self, number: int) -> None:
        """Capture one record."""
        raw = arguments(f"capture-{number:016d}")
        raw["payload"]["components"][0]["text"] = TEXT
        context = CallContext(
            "bench", "bench", "2025-11-25", time.monotonic() + DEADLINE_SECONDS, self._never, _silent,
            ending=self._never,
        )  # fmt: skip
        envelope = self._service.call(CAPTURE, raw, context)
        if not envelope.ok:
            raise RuntimeError(f"refused: {envelope.error} {envelope.detail}")

    def rows(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return (table, key, value) of every row that a capture's commit put."""
        scope = self._engine.binding.scope
        cursor = self._engine.journal.store.head(scope).cursor.to_bytes(8, "big")
        found = []
        with self._engine.journal.store.environment.reading() as (txn, databases):  # type: ignore[attr-defined]
            for name in tables.NAMES:
                held = tables.prefix_rows(txn, databases[name], scope.tag)
                if name in (tables.EVENTS, *tables.PARTS):
                    held = [row for row in held if row[0] == cursor]
                found += [(name, scope.tag + key, value) for key, value in held[-1:]]
        return found

    def close(self) -> None:
        """Close the store."""
        self._engine.close()


class Sourced:
    """The eventsourcing library's application on its SQLite recorder: an aggregate of one event of 1 KB a save."""

    def __init__(self, place: Path) -> None:
        domain = importlib.import_module("eventsourcing.domain")  # by name: it is not there where types are checked
        application = importlib.import_module("eventsourcing.application")
        place.mkdir(exist_ok=True)
        environment = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(place / "events.db")}
        self._application: Any = application.Application(env=environment)
        # An aggregate whose creation is the one event that is saved.
        self._captured: Any = type("Captured", (domain.Aggregate,), {"__init__": _captured, "__module__": __name__})
        with self._application.factory.datastore.transaction(commit=False) as cursor:
            self.settings = {name: _pragma(cursor, name) for name in ("journal_mode", "synchronous")}
        if (self.settings["journal_mode"], self.settings["synchronous"]) != ("wal", 2):
            raise RuntimeError(f"the recorder is not WAL with synchronous=FULL, but {self.settings}")

    @property
    def name(self) -> str:
        """The library, and what its recorder does by itself."""
        return f"eventsourcing {_version()} (WAL, synchronous=FULL: its defaults)"

    def write(self, number: int) -> None:
        """Save one aggregate."""
        self._application.save(self._captured(text=f"{number:016d}" + TEXT[16:]))

    def close(self) -> None:
        """Close the application."""
        self._application.close()


class Batches:
    """A bare LMDB environment that puts the rows of so many captures in one durable commit, in as many tables."""

    def __init__(self, place: Path, rows: Sequence[tuple[bytes, bytes, bytes]], batch: int) -> None:
        once = Bare(place, rows, apart=True)
        self.size_bytes = once.size_bytes
        self._once = once
        self._rows = rows
        self.batch = batch

    def seconds(self, commits: int, first: int) -> float:
        """Return how long so many commits take; the bytes that they put are drawn before."""
        taken = 0.0
        for commit in range(first, first + commits):
            drawn = [
                (name, key[:16] + _tail(name, key, commit * self.batch + number), random.randbytes(len(value)))
                for number in range(self.batch)
                for name, key, value in self._rows
            ]
            began = time.perf_counter()
            self._once.put(drawn)
            taken += time.perf_counter() - began
        return taken


def _tail(name: bytes, key: bytes, number: int) -> bytes:
    grows = name in (tables.EVENTS, *tables.PARTS, b"pending")
    return number.to_bytes(8, "big") if grows else random.randbytes(len(key) - 16)


def sourced_is_here() -> bool:
    """Whether the eventsourcing library is installed."""
    return importlib.util.find_spec("eventsourcing") is not None


def _captured(self: Any, text: str) -> None:
    self.text = text


def _pragma(cursor: Any, name: str) -> Any:
    cursor.execute(f"PRAGMA {name}")
    return next(iter(cursor.fetchone()))


def _version() -> str:
    return importlib.metadata.version("eventsourcing")
