"""A reader written from the design page alone reads what the product wrote, and notices what it did not write."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest
from cryptography.exceptions import InvalidTag

from journal.clock import instant
from journal.digests import payload_digest, record_digest, record_id_of
from journal.events import Draft, EventType
from journal.frames import leaf_hash
from journal.lifecycle import Operation, State
from journal.store.lmdb import tables
from journal.store.port import Part
from tests import independent_reader as reader
from tests.journal.stores import ACTOR, OTHER, ROOT, SCOPE, capture, make, move, opened, text_of

GOLDEN = json.loads((Path(__file__).parent / "vectors" / "golden.json").read_text(encoding="utf-8"))
AUTHORIZATION = {"receipt_digest": "sha256:" + "b" * 64, "nonce": "c" * 64}


def capture_golden(journal):
    """Capture the contract's golden payload and accept it; return the record's id."""
    event_id = journal.random_event_id(SCOPE)
    candidate_id = reader.candidate_id(event_id)
    key = journal.take_key(SCOPE)
    content = {
        "payload": GOLDEN["payload"],
        "evidence": {},
        "trust": GOLDEN["record_without_ids"]["trust"],
        "authorization": AUTHORIZATION,
    }
    draft = Draft(
        type=EventType.CAPTURE, event_id=event_id, actor=ACTOR, subject=candidate_id, to_state=State.PENDING,
        key_id=key.key_id, slot=key.slot, slot_generation=key.generation,
        content=journal.seal_content(SCOPE, event_id, candidate_id, key, content),
    )  # fmt: skip
    (event,) = journal.commit(SCOPE, lambda _: [draft])
    record = {
        **GOLDEN["payload"],
        "payload_digest": payload_digest(GOLDEN["payload"]),
        "recorded_at": instant(event.header.recorded_at),
        "recorded_cursor": str(event.header.cursor),
        "authorization_receipt_digest": AUTHORIZATION["receipt_digest"],
        "trust": content["trust"],
    }
    record_id = record_id_of(record_digest(record))
    accept_id = journal.random_event_id(SCOPE)
    accept = Draft(
        type=EventType.ACCEPT, event_id=accept_id, actor=ACTOR, subject=candidate_id, record_id=record_id,
        from_state=State.PENDING, to_state=State.ACCEPTED_CURRENT,
        ledger=journal.seal_ledger(SCOPE, accept_id, candidate_id, {"decision": "accept"}),
    )  # fmt: skip
    journal.commit(SCOPE, lambda _: [accept])
    return record_id


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store with a bit of everything, and what the product says of it."""
    path = make(tmp_path_factory.mktemp("reader") / "store")
    with opened(path) as journal:
        record_id = capture_golden(journal)
        kept, _ = capture(journal, "key-0000000000000001", "무엇을 정했는지")
        gone, _ = capture(journal, "key-0000000000000002", "what was forgotten")
        pending, _ = capture(journal, "key-0000000000000003", "what waits", OTHER)
        move(journal, Operation.WITHDRAW, gone)
        journal.finish_destructions(SCOPE)
        journal.rotate_keys(SCOPE, ACTOR)
        product = {scope: journal.store.read(scope, 0, 100) for scope in (SCOPE, OTHER)}
        parts = {
            (scope, event.header.cursor, part): journal.store.body(scope, event.header.cursor, part)
            for scope, events in product.items()
            for event in events
            for part in Part
        }
        texts = {kept: text_of(journal, kept), pending: text_of(journal, pending, OTHER)}
        keys = {scope: journal.keyring.identity_key(scope) for scope in (SCOPE, OTHER)}
    return path, product, parts, texts, keys, record_id, gone


@pytest.fixture(scope="module")
def read(written):
    """The same store as the reader sees it."""
    return {(scope.tenant, scope.workspace): scope for scope in reader.read_store(written[0], ROOT)}


def scope_of(read, scope):
    return read[scope.tenant_id, scope.workspace_id]


def test_it_imports_nothing_of_the_product():
    code = (
        "import sys; sys.path.insert(0, 'tests'); import independent_reader;"
        "print([name for name in sys.modules if name.split('.')[0] in ('journal', 'projections', 'replay', 'tools')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("scope", [SCOPE, OTHER], ids=["one", "other"])
def test_it_reads_the_same_frames_in_the_same_chain(written, read, scope):
    found, product = scope_of(read, scope), written[1][scope]
    assert [event["frame"] for event in found.events] == [event.frame for event in product]
    assert found.leaves == [leaf_hash(event.frame) for event in product]
    for mine, theirs in zip(found.events, product, strict=True):
        header = theirs.header
        for name in (
            "type",
            "cursor",
            "event_id",
            "subject",
            "record_id",
            "related",
            "from_state",
            "to_state",
            "key_id",
        ):
            assert mine[name] == getattr(header, name)
        assert mine["actor"] == [header.actor.principal, header.actor.agent_id, header.actor.session]
        assert tuple(mine["guards"]) == header.guards


def test_it_opens_what_lives_and_not_what_was_forgotten(written, read):
    path, _, _, texts, _, _, gone = written
    found = {
        event["subject"]: event["content"]
        for scope in read.values()
        for event in scope.events
        if event["type"] == reader.CAPTURE
    }
    for candidate_id, text in texts.items():
        assert found[candidate_id]["payload"]["components"][0]["text"] == text
    assert found[gone] is reader.ERASED
    assert b"what was forgotten" not in b"".join(one.read_bytes() for one in path.rglob("*") if one.is_file())


def test_it_derives_the_same_keys_and_identities(written, read):
    for scope, key in written[4].items():
        assert scope_of(read, scope).keys["identity"] == key
    identity = [SCOPE.tenant_id, SCOPE.workspace_id, ACTOR.principal, "key-0000000000000001"]
    event_ids = [event["event_id"] for event in scope_of(read, SCOPE).events]
    assert reader.keyed(written[4][SCOPE], "event-id", identity) in event_ids


def test_it_derives_the_same_record(written, read):
    record_id = written[5]
    record = scope_of(read, SCOPE).records[record_id]
    assert record["payload_digest"] == GOLDEN["payload_digest"]
    assert record["record_id"] == record_id


def test_it_derives_the_golden_vector():
    assert reader.digest("graphify-memory/payload/v2", GOLDEN["payload"]) == GOLDEN["payload_digest"]
    found = reader.digest("graphify-memory/record/v2", GOLDEN["record_without_ids"])
    assert found == GOLDEN["record_digest"]
    assert reader.record_id(found) == GOLDEN["record_id"]


def test_it_needs_the_root_key(written):
    with pytest.raises(InvalidTag):
        reader.read_store(written[0], bytes(32))


@pytest.mark.parametrize("table", ["events", "content", "ledger", "outcome", "subject", "slot"])
def test_it_notices_a_changed_byte(written, tmp_path, table):
    path = tmp_path / "store"
    shutil.copytree(written[0], path)
    with (
        lmdb.open(str(path / "journal"), max_dbs=tables.MAX_DBS, map_size=tables.MAP_SIZE_BYTES) as env,
        env.begin(write=True) as txn,
    ):
        database = env.open_db(table.encode(), txn=txn)
        with txn.cursor(database) as cursor:
            assert cursor.first()
            key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[len(value) // 2] ^= 1
        txn.put(key, bytes(value), db=database)
    with pytest.raises(reader.Broken):
        reader.read_store(path, ROOT)


def test_it_runs_from_the_command_line(written, tmp_path):
    (tmp_path / "root.key").write_bytes(base64.b64encode(ROOT))
    done = subprocess.run(
        [sys.executable, reader.__file__, str(written[0]), str(tmp_path / "root.key")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(done.stdout.splitlines()) == sorted(
        [
            f"{SCOPE.tenant_id} {SCOPE.workspace_id}: {len(written[1][SCOPE])} events, 1 records, 1 erased",
            f"{OTHER.tenant_id} {OTHER.workspace_id}: 1 events, 0 records, 0 erased",
        ]
    )
