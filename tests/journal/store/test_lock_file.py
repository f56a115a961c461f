"""LMDB's lock file has its blocks before it is mapped: a hole in it would be SIGBUS where the disk is full."""

from __future__ import annotations

import errno
import os

import pytest

from journal.errors import StoreUnavailable
from journal.store.lmdb.environment import Environment
from projections import environment as projected


def has_a_hole(path):
    found = path.stat()
    return found.st_blocks * 512 < found.st_size


def test_the_journals_has_no_hole(tmp_path):
    environment = Environment(tmp_path)
    assert not has_a_hole(tmp_path / "lock.mdb")
    environment.close()


def test_a_projections_has_no_hole(tmp_path):
    environment = projected.create(tmp_path, [b"meta"])
    assert not has_a_hole(tmp_path / "lock.mdb")
    environment.release()


@pytest.mark.parametrize("made", [Environment, lambda place: projected.create(place, [b"meta"])])
def test_a_full_disk_is_a_code_and_no_signal(tmp_path, monkeypatch, made):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        made(tmp_path)
