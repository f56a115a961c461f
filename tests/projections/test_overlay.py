"""An overlay answers every verb as LMDB would after the same writes."""

from __future__ import annotations

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.overlay import Changes, Overlay

TABLE = b"table"
_KEYS = st.sampled_from([bytes([a]) + b * c for a in b"abcd" for b in (b"", b"x") for c in (1, 2)])
_WRITES = st.lists(st.tuples(st.sampled_from("pppdo"), _KEYS, st.binary(max_size=3)), max_size=25)


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    with lmdb.open(str(tmp_path_factory.mktemp("overlay")), max_dbs=2, lib_version=0) as opened:
        yield opened


def write(txn, db, writes):
    said = []
    for verb, key, value in writes:
        if verb == "d":
            said.append(txn.delete(key, db=db))
        else:
            said.append(txn.put(key, value, overwrite=verb == "p", db=db))
    return said


def view(txn, db, probes):
    """Everything that reading can tell."""
    forward = [(bytes(key), bytes(value)) for key, value in txn.cursor(db=db).iternext()]
    backward = [(bytes(key), bytes(value)) for key, value in txn.cursor(db=db).iterprev()]
    seen = [forward, backward, [None if (got := txn.get(probe, db=db)) is None else bytes(got) for probe in probes]]
    cursor = txn.cursor(db=db)
    for probe in probes:
        seen.append((cursor.set_key(probe), bytes(cursor.key()), bytes(cursor.value())))
        at = cursor.set_range(probe)
        seen.append((at, *map(bytes, cursor.item())))
        if at:
            seen.append((cursor.next(), bytes(cursor.key())))
        if cursor.set_range(probe):
            seen.append((cursor.prev(), bytes(cursor.key())))
            cursor.set_range(probe)
            seen.append([bytes(key) for key, _ in cursor.iterprev()])
            cursor.set_range(probe)
            seen.append([bytes(key) for key, _ in cursor.iternext()])
    seen += [(cursor.first(), bytes(cursor.key())), (cursor.last(), bytes(cursor.key()))]
    return seen


@given(before=_WRITES, after=st.lists(_WRITES, max_size=3), probes=st.lists(_KEYS, min_size=1, max_size=6))
def test_an_overlay_reads_as_lmdb_does_after_the_same_writes(env, before, after, probes):
    db = env.open_db(TABLE)
    with env.begin(write=True) as txn:
        txn.drop(db, delete=False)
        write(txn, db, before)
    changes = Changes("base", 0, b"")
    with env.begin(buffers=True) as base:
        overlay = Overlay(base, {TABLE: db}, changes)
        said, seen = [], []
        for writes in after:
            said.append(write(overlay, db, writes))
            seen.append(view(overlay, db, probes))
    with env.begin(write=True) as txn:
        for writes, replies, sight in zip(after, said, seen, strict=True):
            assert write(txn, db, writes) == replies
            assert view(txn, db, probes) == sight
        txn.abort()


def test_a_copy_of_changes_grows_apart(env):
    db = env.open_db(TABLE)
    with env.begin() as base:
        changes = Changes("base", 3, b"h")
        Overlay(base, {TABLE: db}, changes).put(b"one", b"1", db=db)
        copy = changes.copy()
        Overlay(base, {TABLE: db}, copy).put(b"two", b"2", db=db)
        assert (copy.base, copy.cursor, copy.head_hash) == ("base", 3, b"h")
        assert Overlay(base, {TABLE: db}, changes).get(b"two", db=db) is None
        assert Overlay(base, {TABLE: db}, copy).get(b"one", db=db) == b"1"
