"""A journal where nothing may be written is read without LMDB's lock file, unless somebody may be writing there."""

from __future__ import annotations

import os
import shutil

import pytest

from journal.errors import StoreUnavailable
from tests.journal.stores import SCOPE, capture, make, opened


@pytest.fixture
def copied(tmp_path):
    """A copy of a closed store."""
    path = make(tmp_path / "store")
    with opened(path) as journal:
        capture(journal, "key-0000000000000001")
    shutil.copytree(path, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def unwritable(copied, monkeypatch):
    """The copy, as it looks to somebody who may not write there; root may everywhere, so the answer is put in."""
    really = os.access

    def access(path, mode, **how):
        inside = str(path).startswith(str(copied / "journal"))
        return really(path, mode & ~os.W_OK, **how) and not (inside and mode & os.W_OK)

    monkeypatch.setattr(os, "access", access)
    return copied


@pytest.mark.parametrize("lock_file", [True, False], ids=["with its lock file", "without"])
def test_it_is_read_without_locks(unwritable, lock_file):
    if not lock_file:
        (unwritable / "journal" / "lock.mdb").unlink()
    with opened(unwritable, readonly=True) as journal:
        assert journal.store.environment.lockless
        assert journal.store.head(SCOPE).cursor == 1
        assert len(journal.store.read(SCOPE, 0, 10)) == 1
    assert (unwritable / "journal" / "lock.mdb").exists() is lock_file


def test_it_is_read_with_locks_where_it_can(copied):
    with opened(copied, readonly=True) as journal:
        assert not journal.store.environment.lockless


def test_where_somebody_may_be_writing_it_is_refused(unwritable):
    (unwritable / "journal" / "open").mkdir(exist_ok=True)
    from journal.store.lmdb.markers import boot_id

    (unwritable / "journal" / "open" / ("0" * 32)).write_text(boot_id(), encoding="ascii")
    with pytest.raises(StoreUnavailable, match="may have it open"), opened(unwritable, readonly=True):
        pass
