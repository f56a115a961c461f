"""A journal's file that was changed between its last close and the next opening, in the same boot and in another."""

from __future__ import annotations

import os
import shutil

import pytest

from journal import limits
from journal.errors import JournalCorrupt
from journal.indexes import Table
from journal.store.lmdb import opening, quarantine, rest
from journal.store.lmdb.rest import NAME, is_as_left
from tests.journal.peers import Peer
from tests.journal.store.history import HERE, History
from tests.journal.store.places import content, open_store


@pytest.fixture
def walks(monkeypatch):
    """Count the walks that are made."""
    made = []

    def inspect(directory):
        made.append(directory)
        return quarantine.inspect(directory)

    monkeypatch.setattr(opening, "inspect", inspect)
    return made


@pytest.fixture(params=["summed", "large"])
def left(request, directory, monkeypatch):
    """A journal that was closed in this place, with a sum and without."""
    if request.param == "large":
        monkeypatch.setattr(limits, "REST_SUMMED_BYTES", 0)
    open_store(directory).close()
    return directory


def flipped(directory, at, *, hidden=False):
    """Change a bit of the file; ``hidden``: and set its time back."""
    data = directory / "data.mdb"
    before = data.stat()
    with data.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    if hidden:
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))


def place_of(directory, needle):
    """Return where some bytes stand that are on one page alone."""
    found = (directory / "data.mdb").read_bytes()
    assert needle in found
    return found.rindex(needle)


def test_what_was_closed_cleanly_is_opened_without_a_walk(left, walks):
    assert is_as_left(left)
    open_store(left).close()
    open_store(left, readonly=True).close()
    assert walks == []
    assert is_as_left(left)


def test_who_wrote_nothing_sums_nothing(directory, monkeypatch):
    open_store(directory).close()
    monkeypatch.setattr(rest, "_sum", lambda path: pytest.fail("it is summed"))
    open_store(directory).close()
    assert is_as_left(directory)


@pytest.mark.parametrize("hidden", [False, True])
def test_an_index_that_was_changed_at_rest_is_written_anew(left, walks, hidden):
    """A subject's row that no search finds any more: what it tells of would be NOT_FOUND."""
    before = content(left)
    subject = next(key for key in before[Table.SUBJECT.value] if key.startswith(HERE.tag))
    flipped(left, place_of(left, subject) + len(subject) - 1, hidden=hidden)
    store = open_store(left)
    assert walks == [left]
    store.close()
    assert content(left) == before


def test_events_that_were_changed_at_rest_are_not_opened(left, walks):
    flipped(left, place_of(left, next(iter(content(left)[b"events"].values()))) + 40)
    for _ in range(2):
        with pytest.raises(JournalCorrupt):
            open_store(left)
    assert len(walks) == 2


@pytest.mark.parametrize("text", [None, b"", b"{}", b"\xff"])
def test_without_a_note_it_is_walked_once(left, walks, text):
    (left / NAME).unlink()
    if text is not None:
        (left / NAME).write_bytes(text)
    for _ in range(2):
        open_store(left).close()
    assert walks == [left]


def test_a_copy_is_known_by_its_sum(directory, walks, tmp_path):
    open_store(directory).close()
    shutil.copytree(directory, tmp_path / "copy")
    open_store(tmp_path / "copy").close()
    assert walks == []


def test_in_another_boot_bytes_that_have_a_sum_are_looked_at(directory, walks, monkeypatch):
    open_store(directory).close()
    noted = (directory / NAME).read_bytes()
    monkeypatch.setattr(rest, "boot_id", lambda: "another boot")
    assert is_as_left(directory)
    flipped(directory, place_of(directory, next(iter(content(directory)[Table.OUTCOME.value]))), hidden=True)
    (directory / NAME).write_bytes(noted)
    open_store(directory).close()
    assert walks == [directory]


def test_who_closes_while_another_has_it_open_notes_nothing(directory):
    open_store(directory).close()
    noted = (directory / NAME).read_bytes()
    code = """
from pathlib import Path
from tests.journal.store.places import open_store
store = open_store(Path(sys.argv[1]))
say("open")
hear()
store.close()
say("closed")
"""
    with Peer(code, directory) as peer:
        assert peer.hear() == "open"
        store = open_store(directory)
        History().write(store, History().capture(bytes(32)))
        store.close()
        assert (directory / NAME).read_bytes() == noted
        peer.say("close")
        assert peer.hear() == "closed"
    assert is_as_left(directory)
