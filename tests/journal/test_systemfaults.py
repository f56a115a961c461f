"""One mapping of what the system and LMDB refuse: damage is never told as something that passes."""

from __future__ import annotations

import errno

import lmdb
import pytest

from journal.errors import JournalCorrupt, StoreUnavailable
from journal.systemfaults import DAMAGE, described, faults_told, told

PASSES = (
    lmdb.MapFullError, lmdb.MapResizedError, lmdb.ReadersFullError, lmdb.DiskError, lmdb.MemoryError, lmdb.TxnFullError,
    lmdb.TlsFullError, lmdb.DbsFullError, lmdb.LockError, lmdb.PanicError, lmdb.Error,
)  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_not_to_be_tried_again(kind):
    answer = told(kind("where it stands"))
    assert type(answer) is JournalCorrupt
    assert not answer.retriable
    assert kind.__name__ in answer.detail


@pytest.mark.parametrize("kind", PASSES)
def test_what_may_pass_is_tried_again(kind):
    assert type(told(kind("where it stands"))) is StoreUnavailable


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EACCES])
def test_the_systems_own_is_named_by_its_number(number):
    answer = told(OSError(number, "secret/path"))
    assert type(answer) is StoreUnavailable
    assert errno.errorcode[number] in answer.detail
    assert "secret" not in answer.detail


def test_memory_that_is_not_had_is_the_systems_own():
    with pytest.raises(StoreUnavailable), faults_told():
        raise MemoryError


def test_a_fault_is_described_by_the_line_of_ours_that_met_it(tmp_path):
    from journal.rootkey import flush_directory

    with pytest.raises(OSError, match="No such file") as caught:
        flush_directory(tmp_path / "secret")
    said = described(caught.value)
    assert said["error"] == "FileNotFoundError ENOENT"
    assert said["at"].startswith("journal/rootkey.py:")
    assert "secret" not in str(said)


def test_what_is_no_fault_of_the_systems_passes():
    with pytest.raises(KeyError), faults_told():
        raise KeyError("ours")
