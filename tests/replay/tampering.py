"""A closed store with a story, changed behind the engine's back: rows edited, or the whole chain forged anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from journal import layout
from journal.events import Header
from journal.frames import GENESIS, decode_frame, encode_frame, frame_hash
from journal.log import Journal
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.lmdb.view import read_record
from projections.serving import make_projections
from replay.audit import AuditReport, audit
from tests.tools.memory.world import ROOT_KEY, SCOPE, World


class Tables:
    """The tables of a closed store, in one write transaction."""

    def __init__(self, txn: Any, handles: dict[bytes, Any], scope: Scope) -> None:
        self.txn = txn
        self.handles = handles
        self.scope = scope

    def key(self, cursor: int) -> bytes:
        return tables.event_key(self.scope.tag, cursor)

    def get(self, table: bytes, cursor: int) -> bytes:
        found = self.txn.get(self.key(cursor), db=self.handles[table])
        assert found is not None
        return bytes(found)

    def put(self, table: bytes, cursor: int, value: bytes) -> None:
        self.txn.put(self.key(cursor), value, db=self.handles[table])

    def delete(self, table: bytes, cursor: int) -> None:
        assert self.txn.delete(self.key(cursor), db=self.handles[table])

    def rows(self, table: bytes) -> dict[bytes, bytes]:
        """Return the scope's rows of an index table, keys without the tag."""
        return dict(tables.prefix_rows(self.txn, self.handles[table], self.scope.tag))

    def put_row(self, table: bytes, key: bytes, value: bytes | None) -> None:
        if value is None:
            assert self.txn.delete(self.scope.tag + key, db=self.handles[table])
        else:
            self.txn.put(self.scope.tag + key, value, db=self.handles[table])

    def headers(self) -> list[Header]:
        frames = self.rows(tables.EVENTS)
        return [decode_frame(frames[key]) for key in sorted(frames)]

    def forge(self, headers: list[Header]) -> None:
        """Write a whole new chain that holds in itself, and a commit record that names its end."""
        prev = GENESIS
        for key in self.rows(tables.EVENTS):
            self.put_row(tables.EVENTS, key, None)
        for header in headers:
            frame = encode_frame(msgspec.structs.replace(header, prev=prev))
            self.put(tables.EVENTS, header.cursor, frame)
            prev = frame_hash(frame)
        record = self.record()
        record.cursor, record.hash = headers[-1].cursor, prev
        record.recorded_at = headers[-1].recorded_at
        self.put_record(record)

    def record(self) -> tables.CommitRecord:
        raw = self.txn.get(self.scope.tag, db=self.handles[tables.HEADS])
        return read_record(bytes(raw), self.scope)

    def put_record(self, record: tables.CommitRecord) -> None:
        self.txn.put(self.scope.tag, tables.encode_record(record), db=self.handles[tables.HEADS])


@contextmanager
def tampered(store: Path, scope: Scope) -> Iterator[Tables]:
    """Yield the tables of a closed store for writing."""
    env = lmdb.open(str(store / layout.JOURNAL), max_dbs=tables.MAX_DBS, map_size=1 << 30, lib_version=0)
    try:
        handles = {name: env.open_db(name, create=False) for name in tables.NAMES}
        with env.begin(write=True) as txn:
            yield Tables(txn, handles, scope)
    finally:
        env.close()


def changed(headers: list[Header], cursor: int, **fields: Any) -> list[Header]:
    """Return headers with fields of one of them replaced."""
    return [msgspec.structs.replace(each, **fields) if each.cursor == cursor else each for each in headers]


# --- a story ----------------------------------------------------------------------------------------

KEPT, GONE, WAITING = "Words that are kept.", "Words that go away.", "Words that wait."

# Cursors of the store that ``told`` makes.
CAPTURE, ACCEPT, CAPTURE_GONE, ACCEPT_GONE, WAIT = 1, 2, 3, 4, 5
REQUESTED, APPROVED, TOMBSTONE = 6, 7, 8


def told(world: World) -> World:
    """Close a store with a kept record, a forgotten one and a pending candidate."""
    agent = world.caller()
    agent.remember(KEPT)
    gone = agent.remember(GONE)
    agent.capture(WAITING)
    agent.forget(gone)
    kinds = [kind for kind, _ in agent.events()][:TOMBSTONE]
    assert kinds == [
        "capture", "accept", "capture", "accept", "capture", "confirmation_requested", "confirmation_approved",
        "tombstone",
    ]  # fmt: skip
    world.close()
    return world


def audited(world: World, **how: Any) -> AuditReport:
    """Audit a closed store; the report never holds a word of content."""
    journal = Journal.open(world.path, ROOT_KEY, clock=world.clock, readonly=True)
    try:
        report = audit(journal, world.path / layout.PROJECTIONS, make_projections, **how)
    finally:
        journal.close()
    text = json.dumps(report.as_json(), ensure_ascii=False)
    assert not any(words in text for words in (KEPT, GONE, WAITING, "Words"))
    return report


def findings(world: World) -> list[tuple[str, int | None]]:
    """Return (code, cursor) of every finding, of all scopes."""
    report = audited(world)
    assert report.ok is False
    return [(finding.code, finding.cursor) for scope in report.scopes for finding in scope.findings]


def change(world: World, how: Callable[[Tables], None], scope: Scope = SCOPE) -> None:
    """Let ``how`` change a closed store."""
    with tampered(world.path, scope) as opened:
        how(opened)


def forge(world: World, cursor: int, **fields: Any) -> None:
    """Replace fields of an event, and forge the chain anew."""
    change(world, lambda opened: opened.forge(changed(opened.headers(), cursor, **fields)))
