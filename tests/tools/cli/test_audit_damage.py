"""engram audit of a damaged store: the cause is told once, with its number, and leads somewhere."""

from __future__ import annotations

import lmdb
import pytest

from replay.audit import Finding
from tools.cli import audit


@pytest.fixture
def full(open_desk):
    with open_desk.agent() as agent:
        for number in range(4):
            agent.remember(f"The {number}th thing.")
        agent.search("thing")
    return open_desk


def test_a_lost_body_makes_no_projection_differ(full):
    env = lmdb.open(str(full.store / "journal"), max_dbs=32, lib_version=0)
    handle = env.open_db(b"content", create=False)
    with env.begin(write=True) as txn:
        with txn.cursor(handle) as cursor:
            key, value = next(iter(cursor))
        txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=handle)
    env.close()
    ended = full.run("audit")
    assert ended.code == 1
    assert "not compared: the journal cannot be replayed whole" in ended.out
    assert "DIFFERS" not in ended.out
    assert "0 differing projections" in ended.out


def test_what_was_not_compared_does_not_differ():
    from journal.scope import Scope
    from replay.comparison import Compared

    one = Compared("current", Scope.of("a", "b"), False, None, None, is_compared=False)
    assert audit._compared(one) == "not compared: the journal cannot be replayed whole"
    assert one.as_json()["compared"] is False


def test_the_same_in_many_places_is_one_line_with_its_number():
    findings = [Finding("JOURNAL_CORRUPT", cursor, "a scope's keyring file is broken") for cursor in range(1, 100, 2)]
    named = [Finding("BLOB_MISSING", cursor, f"the key at cursor {cursor} is lost") for cursor in range(1, 100, 2)]
    line, other = audit._told_findings(findings + named)
    assert other == "  BLOB_MISSING between cursor 1 and 99 (50 findings): the key is lost"
    assert "between cursor 1 and 99 (50 findings)" in line


def test_a_journal_that_cannot_be_read_is_told_with_its_place_and_mend(full):
    data = full.store / "journal" / "data.mdb"
    data.write_bytes(data.read_bytes()[:5000])
    ended = full.run("audit")
    assert ended.code == 2
    assert str(full.store / "journal") in ended.err
    assert "engram restore" in ended.err
    assert ended.err.count("\n") == 1
