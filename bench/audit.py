"""What an audit costs, beside bare loops over the same events in the same run.

    python bench/audit.py [--events N] [--small N] [--runs N] [--store DIR]

Makes a store of N events, half of them captures, and measures, each in a process of its own: the audit of the headers
alone against a loop that scans, decodes and hashes BLAKE3 and RFC 6962; the audit of a scope against that loop, one
that checks and opens each sealed part, and one that hashes each index row; the peak of RssAnon; and the processor time
of N events over that of the small store's. Projections are left out: their comparison is a fold of the journal.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from blake3 import blake3

from journal import identity, layout, sealing
from journal.clock import SystemClock, SystemRandomness
from journal.digests import candidate_id_of
from journal.events import Actor, Draft, EventType
from journal.frames import decode_frame, frame_hash, leaf_hash
from journal.indexes import Table
from journal.keyring import Keyring
from journal.lifecycle import State
from journal.log import Journal
from journal.merkle import Tree
from journal.scope import Scope
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.port import Part, View
from replay.audit import audit_all_headers, audit_scope

ROOT_KEY = bytes(range(32))
SCOPE = Scope.of("bench", "bench")
_ACTOR = Actor("bench", "agent:bench")
_BATCH = 256
_TEXT = "The nightly build moved to 02:30 because backups end at 02:00. " * 4


def make(path: Path, events: int) -> None:
    """Make a store of so many events: candidates that are captured and accepted, in batches. Nothing is flushed."""
    layout.create(path, "bench")
    keyring = Keyring(path / layout.KEYS, ROOT_KEY, SystemRandomness())
    clock = SystemClock()
    store = LmdbStore(path / layout.JOURNAL, clock, durable=False, located=keyring.located)
    journal = Journal(store, keyring, clock, SystemRandomness(), path)
    for first in range(0, events // 2, _BATCH):
        captures = [_capture(journal, number) for number in range(first, min(first + _BATCH, events // 2))]
        accepts = [_accept(journal, draft) for draft in captures]
        for drafts in (captures, accepts):
            journal.store.commit(SCOPE, partial(_given, drafts))
    journal.close()


def _given(drafts: list[Draft], _view: View) -> list[Draft]:
    return drafts


def _capture(journal: Journal, number: int) -> Draft:
    key = journal.keyring.identity_key(SCOPE)
    event_id = identity.event_id(key, SCOPE, "bench", f"key-{number:016}")
    candidate_id = candidate_id_of(event_id)
    data_key = journal.keyring.take(SCOPE)
    payload = {"text": f"{number} {_TEXT}", "purpose_ref": "purpose:bench"}
    return Draft(
        type=EventType.CAPTURE, event_id=event_id, actor=_ACTOR, subject=candidate_id, to_state=State.PENDING,
        key_id=data_key.key_id, slot=data_key.slot, slot_generation=data_key.generation,
        intent=blake3(event_id).digest(), guards=(blake3(event_id + b"1").digest(), blake3(event_id + b"2").digest()),
        content=journal.seal_content(SCOPE, event_id, candidate_id, data_key, {"payload": payload}),
    )  # fmt: skip


def _accept(journal: Journal, capture: Draft) -> Draft:
    event_id = journal.random_event_id(SCOPE)
    assert capture.subject is not None
    return Draft(
        type=EventType.ACCEPT, event_id=event_id, actor=_ACTOR, subject=capture.subject,
        record_id="mem_" + capture.subject[-56:], from_state=State.PENDING, to_state=State.ACCEPTED_CURRENT,
        ledger=journal.seal_ledger(SCOPE, event_id, capture.subject, {"decision": "accept", "policy_id": "bench"}),
    )  # fmt: skip


# --- what is measured --------------------------------------------------------------------------------


def bare_headers(path: Path) -> None:
    """Scan the events, decode each, hash BLAKE3 along the chain and RFC 6962 over all: no more."""
    with_store = LmdbStore(path / layout.JOURNAL, SystemClock(), readonly=True)
    tree = Tree()
    prev = bytes(32)
    with with_store.environment.reading() as (txn, databases), txn.cursor(databases[tables.EVENTS]) as rows:
        for _, value in rows:
            frame = bytes(value)
            header = decode_frame(frame)
            assert header.prev == prev
            prev = frame_hash(frame)
            tree.append(leaf_hash(frame))
    tree.root()
    with_store.close()


def bare_parts(path: Path) -> None:
    """Check each sealed part against its header and open it with its key: no more."""
    journal = Journal.open(path, ROOT_KEY, readonly=True)
    store = journal.store
    assert isinstance(store, LmdbStore)
    ledger_key = journal.keyring.ledger_key(SCOPE)
    with store.environment.reading() as (txn, databases), txn.cursor(databases[tables.EVENTS]) as rows:
        content, ledger = databases[Part.CONTENT.value], databases[Part.LEDGER.value]
        slots = databases[b"slot"]
        for key, value in rows:
            header = decode_frame(bytes(value))
            if header.content_digest is not None and header.key_id is not None:
                slot = int.from_bytes(_row(txn, slots, SCOPE.tag + header.key_id), "big")
                data_key = journal.keyring.open(SCOPE, header.key_id, slot)
                assert data_key is not None
                _open(_row(txn, content, bytes(key)), header.content_digest, data_key, sealing.Purpose.BODY, header)
            if header.ledger_digest is not None:
                _open(_row(txn, ledger, bytes(key)), header.ledger_digest, ledger_key, sealing.Purpose.LEDGER, header)
    journal.close()


def _row(txn: Any, table: Any, key: bytes) -> bytes:
    return bytes(txn.get(key, db=table))


def _open(part: bytes, digest: bytes, key: bytes, purpose: sealing.Purpose, header: Any) -> None:
    assert blake3(part).digest() == digest
    aad = sealing.associated_data(purpose, SCOPE, header.event_id, header.subject)
    json.loads(sealing.unseal(key, purpose, aad, part))


def bare_indexes(path: Path) -> None:
    """Hash each row of the index tables under the sums' key: no more."""
    store = LmdbStore(path / layout.JOURNAL, SystemClock(), readonly=True)
    with store.environment.reading() as (txn, databases):
        sum_key = _row(txn, databases[tables.STORE], tables.SUM_KEY)
        for table in Table:
            total = 0
            with txn.cursor(databases[table.value]) as rows:
                for key, value in rows:
                    total += tables.row_sum(sum_key, table.value, bytes(key), bytes(value))
    store.close()


def headers(path: Path) -> None:
    """Audit the headers alone, with the keys of every table."""
    store = LmdbStore(path / layout.JOURNAL, SystemClock(), readonly=True)
    assert audit_all_headers(store).ok
    store.close()


def whole(path: Path) -> None:
    """Audit the scope: headers, sealed parts, indexes."""
    journal = Journal.open(path, ROOT_KEY, readonly=True)
    assert not audit_scope(journal, SCOPE).findings
    journal.close()


ACTS: dict[str, Callable[[Path], None]] = {
    "bare headers": bare_headers, "headers": headers, "bare parts": bare_parts,
    "bare indexes": bare_indexes, "whole": whole,
}  # fmt: skip


def _measured(name: str, path: Path, answer: Any) -> None:
    """In a process of its own: run an act; answer (seconds, processor seconds, peak RssAnon in MB)."""
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            text = Path("/proc/self/status").read_text(encoding="ascii")
            peak = max(peak, int(text.split("RssAnon:")[1].split()[0]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, usage = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    ACTS[name](path)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    done.set()
    watcher.join()
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    answer.put((seconds, cpu, peak / 1024))


def measure(name: str, path: Path, runs: int) -> tuple[float, float, float]:
    """Return the medians of seconds and processor seconds, and the greatest peak in MB."""
    context = multiprocessing.get_context("spawn")
    found = []
    for _ in range(runs):
        answer = context.Queue()
        child = context.Process(target=_measured, args=(name, path, answer))
        child.start()
        found.append(answer.get())
        child.join()
    return (
        statistics.median(each[0] for each in found),
        statistics.median(each[1] for each in found),
        max(each[2] for each in found),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", type=Path, help="a folder for the stores, which are kept there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = options.store or Path(directory)
        great, small = place / str(options.events), place / str(options.small)
        for path, events in ((great, options.events), (small, options.small)):
            if not path.exists():
                make(path, events)
        found = {name: measure(name, great, options.runs) for name in ACTS}
        less = {name: measure(name, small, options.runs) for name in ("headers", "whole")}
    for name, (seconds, cpu, peak) in found.items():
        print(
            f"{name:13} {options.events / seconds:9,.0f} events/s; {cpu:7.2f} s of CPU; RssAnon at most {peak:.0f} MB"
        )
    bare = found["bare headers"][1]
    print(f"headers alone: {bare / found['headers'][1]:.2f} of the bare loop's rate")
    primitives = bare + found["bare parts"][1] + found["bare indexes"][1]
    print(f"whole scope: {primitives / found['whole'][1]:.2f} of its primitives' rate")
    for name, (_, cpu, _) in less.items():
        print(f"{name}: {found[name][1] / cpu:.2f} x the CPU of {options.small:,} events")


if __name__ == "__main__":
    main()
