"""engram doctor on a journal in doubt: it is walked, named where it is damaged, and nothing else is blamed for it."""

from __future__ import annotations

import shutil
import struct

import pytest

from journal import layout, limits
from journal.errors import JournalCorrupt
from journal.scope import Scope
from journal.store.lmdb import quarantine
from tests.corruption.pages import PAGE_BYTES, DataFile
from tests.journal.store.places import crash
from tests.tools.cli.desk import ready
from tests.tools.cli.examined import another, examined, severities
from tools.cli.checkup import walking
from tools.cli.checkup.keyslots import key_slots

_HEADER = struct.Struct("<QHHHH")


@pytest.fixture
def desk(directory, capsys):
    desk = ready(directory, capsys, "--policy", "accept-asserted")
    with desk.agent() as agent:
        for number in range(12):
            agent.remember(f"The {number}th thing.")
        agent.search("thing")
    return desk


def damage(desk, at=-40):
    """Change the first frame of the journal where no cheap look comes by."""
    data = desk.store / layout.JOURNAL / "data.mdb"
    raw = bytearray(data.read_bytes())
    for page in DataFile(data, data.name).pages("leaf"):
        start = page * PAGE_BYTES
        upper = _HEADER.unpack_from(raw, start)[4]
        if upper < PAGE_BYTES - 200:
            raw[start + PAGE_BYTES + at] ^= 1  # the node that was put first
    data.write_bytes(raw)
    return data


def test_a_journal_that_was_changed_while_it_was_closed_is_walked(desk):
    assert examined(desk) == {}
    damage(desk)
    found = examined(desk)
    assert found["JOURNAL_BROKEN"]["severity"] == "fault"
    assert found["JOURNAL_BROKEN"]["subject"] == str(desk.store / layout.JOURNAL)
    assert "changed since it was closed" in found["JOURNAL_BROKEN"]["detail"]
    assert "engram restore" in found["JOURNAL_BROKEN"]["mend"]
    assert "KEYRING_BROKEN" not in found


def test_a_damaged_journal_is_one_finding(desk):
    (desk.store / layout.JOURNAL / "data.mdb").write_bytes(b"no store" * 4096)
    broken = [each for each in desk.run("doctor", "--json").json["checks"] if each["code"] == "JOURNAL_BROKEN"]
    assert len(broken) == 1


@pytest.mark.parametrize("left", ["closed", "open"])
def test_a_journal_as_it_was_left_is_not_walked(desk, monkeypatch, left):
    def walk(*_):
        raise AssertionError("walked")

    monkeypatch.setattr(walking, "command_of", walk)
    if left == "closed":
        assert list(walking.walked(desk.store)) == []
    else:
        with another(desk):
            assert list(walking.walked(desk.store)) == []


def test_after_a_kill_it_is_walked_beside_who_has_it_open(desk, monkeypatch):
    made = []

    def command_of(*words):
        made.append(words[1:])
        return quarantine.command_of(*words)

    monkeypatch.setattr(walking, "command_of", command_of)
    with another(desk), another(desk, "agent.remember('Another.')") as process:
        process.kill()
        process.wait()
        assert list(walking.walked(desk.store)) == []
    assert made == [("beside",)]


def test_a_walk_that_takes_too_long_is_told(desk, monkeypatch):
    crash(desk.store / layout.JOURNAL)
    monkeypatch.setattr(limits, "CHECK_WALK_SECONDS", 0.001)
    (found,) = walking.walked(desk.store)
    assert (found.code, found.severity.value) == ("JOURNAL_NOT_WALKED", "warning")
    assert "not finished in 0.001 s" in found.detail


def test_index_tables_that_are_written_anew_are_no_fault(desk, monkeypatch):
    crash(desk.store / layout.JOURNAL)
    monkeypatch.setattr(walking, "_waited_for", lambda _: ["subject"])
    (found,) = walking.walked(desk.store)
    assert (found.code, found.severity.value) == ("INDEXES_DAMAGED", "warning")


def test_what_the_journal_cannot_tell_is_not_the_keys_fault(desk):
    scope = Scope.of("default", "default")

    def view_of(_):
        raise JournalCorrupt("the store's file is damaged: CorruptedError")

    (found,) = key_slots(desk.store, scope, view_of, lambda _: [])
    assert found.code == "JOURNAL_BROKEN"
    assert "keys/" not in found.mend


def test_a_copy_is_one_note_of_all_projections(desk):
    shutil.copytree(desk.store / layout.PROJECTIONS, desk.store / "copied")
    shutil.rmtree(desk.store / layout.PROJECTIONS)
    (desk.store / "copied").rename(desk.store / layout.PROJECTIONS)
    found = [each for each in desk.run("doctor", "--json").json["checks"] if each["code"].startswith("PROJECTION_")]
    assert len(found) == 1
    assert severities(examined(desk)) == {"PROJECTION_UNCLEAN": "note"}
    assert "rebuild --all" in found[0]["mend"]
    assert "current, lexical" in found[0]["subject"]
