"""The content digest: derived again from its own description, and sensitive to every part."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from blake3 import blake3

from journal.events import EventType
from journal.lifecycle import Operation
from projections.lexical.documents import Weigher, record_document
from projections.lexical.keyed import TokenKey
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.question import Question
from projections.lexical.tables import (
    DEAD,
    DEAD_COUNTS,
    DICTIONARIES,
    DOCUMENTS,
    FORWARD,
    ORDINALS,
    POSTINGS,
    SEQUENCE,
    STATE,
    SUBJECTS,
    IndexTables,
)
from tests.projections.lexical.indexes import KEY, Index, Journal, payload_of, record_digest, small_limits


@pytest.fixture
def journal():
    journal = Journal()
    for text in ("알림을 보냈다", "cache deploy", "the cache", "서버 배포 cache", "..."):
        journal.add(text)
    journal.capture("pending cache")
    journal.move(journal.capture("withdrawn cache"), Operation.WITHDRAW)
    journal.move(list(journal.states)[1], Operation.TOMBSTONE)
    journal.move(list(journal.states)[2], Operation.DISPUTE)
    return journal


@pytest.fixture
def index(tmp_path):
    with small_limits():
        index = Index(tmp_path)
        yield index
        index.close()


def derived(journal):
    """Return the digest from the journal's final states, as ``contents`` describes it."""
    weigher = Weigher(TokenKey(KEY), RECORD_FIELDS)
    open_subjects = sorted(
        blake3(subject.encode()).digest()[:16] + struct.pack("<Q", journal.cursor(subject))
        for subject, state in journal.states.items()
        if state.label not in ("rejected", "withdrawn", "tombstoned")
    )
    documents, postings = [], []
    for subject in sorted(journal.current(), key=journal.cursor):
        document = record_document(journal.payloads[subject])
        weighed = weigher.weigh(document)
        cursor = struct.pack("<Q", journal.cursor(subject))
        place = weigher.standing(document, journal.cursor(subject))
        entry = weighed.tokens + weighed.impacts
        row = cursor + record_digest(subject) + place.group + struct.pack("<QQB", *place[1:])
        documents.append(row + struct.pack("<I", len(entry)) + entry)
        for token, impact in zip(weighed.token_list(), weighed.impacts, strict=True):
            postings.append((token, journal.cursor(subject), cursor + bytes([impact])))
    content = struct.pack("<Q", len(open_subjects)) + b"".join(open_subjects)
    content += struct.pack("<Q", len(documents)) + b"".join(documents)
    content += b"".join(token + rest for token, _, rest in sorted(postings)) + struct.pack("<Q", len(postings))
    return blake3(content).digest()


def test_the_digest_is_what_its_description_says(journal, index):
    index.fold_in_batches(journal.events, [2])
    assert index.digest() == derived(journal)


def test_a_transaction_that_copies_gives_the_same(journal, index):
    index.fold(journal.events)
    with index.env.begin() as txn:
        assert index.projection.content_digest(txn, index.databases) == index.digest()
        reader = index.projection.reader(txn, index.databases, 7)
        assert reader.search(Question.of("cache"), 10).hits == index.search("cache")
        assert reader.cursor == 7


@pytest.mark.parametrize("name", [STATE, DICTIONARIES, POSTINGS, DOCUMENTS, FORWARD, ORDINALS, SUBJECTS, SEQUENCE])
def test_every_changed_bit_of_what_is_in_force_is_seen(journal, index, name):
    journal.events = [event for event in journal.events if event.header.type <= EventType.WITHDRAW]  # none is dead
    index.fold(journal.events)
    before = index.digest()
    generator = random.Random(5)
    for key, value in rows(index, name):
        for _ in range(12):
            damaged = bytearray(value)
            bit = generator.randrange(8 * len(damaged))
            damaged[bit // 8] ^= 1 << bit % 8
            if name == STATE and key == b"counts" and bit // 8 >= 16:
                continue  # the next numbers: to skip some does no harm
            put(index, name, key, bytes(damaged))
            assert index.digest() != before
        put(index, name, key, value)
    assert index.digest() == before


@pytest.mark.parametrize("name", [DEAD, DEAD_COUNTS])
def test_a_changed_bit_among_the_dead_is_seen(journal, index, name, monkeypatch):
    monkeypatch.setattr("projections.lexical.writing.merge_once", lambda tables, inline: False)
    index.fold_in_batches(journal.events, [3])
    before = index.digest()
    for key, value in rows(index, name):
        put(index, name, key, bytes([value[0] ^ 1]) + value[1:])
        assert index.digest() != before
        put(index, name, key, value)
    assert index.digest() == before == derived(journal)


def test_a_list_out_of_order_is_seen(tmp_path):
    index, journal = Index(tmp_path), Journal()
    for text in ("cache", "cache deploy"):
        journal.add(payload_of(text, source="!", value="-"))
    index.fold(journal.events)
    before = index.digest()
    ((key, value),) = rows(index, POSTINGS)
    ids, impacts = np.frombuffer(value, "<u4", 3), value[12:]
    at = int(np.flatnonzero(np.diff(ids.astype(np.int64)) == 1)[0])  # the list of both documents
    order = [0, 1, 2]
    order[at], order[at + 1] = at + 1, at
    put(index, POSTINGS, key, ids[order].tobytes() + bytes(impacts[each] for each in order))
    assert index.digest() != before
    index.close()


def test_a_missing_row_is_seen(journal, index):
    index.fold(journal.events)
    before = index.digest()
    for name in (STATE, DICTIONARIES, POSTINGS, DOCUMENTS, FORWARD, ORDINALS, SUBJECTS, SEQUENCE):
        for key, value in rows(index, name):
            with index.env.begin(write=True) as txn:
                txn.delete(key, db=index.databases[name])
            assert index.digest() != before
            put(index, name, key, value)


def rows(index, name):
    """Return the rows of a table, of which there are some."""
    with index.env.begin() as txn:
        found = list(txn.cursor(db=index.databases[name]))
    assert found
    return found


def put(index, name, key, value):
    with index.env.begin(write=True) as txn:
        txn.put(key, value, db=index.databases[name])


def test_the_dead_leave_no_trace_once_merged(journal, index):
    with small_limits():
        for subject in journal.current():
            journal.move(subject, Operation.TOMBSTONE)
        index.fold_in_batches(journal.events, [3])
        with index.env.begin() as txn:
            tables = IndexTables(txn, index.databases)
            assert tables.segments() == []
            assert tables.state().documents == tables.state().dead == 0
            for name in (DICTIONARIES, POSTINGS, FORWARD, ORDINALS, DEAD_COUNTS, SEQUENCE):
                assert txn.stat(index.databases[name])["entries"] == 0
