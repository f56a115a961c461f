"""engram backup, engram restore, engram keys backup, list and recipient: what they print and refuse."""

from __future__ import annotations

import json
import resource
import shutil
import tarfile
from contextlib import contextmanager

import pytest

from journal import layout


@pytest.fixture
def ready(open_desk, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(open_desk.place / "state"))
    with open_desk.agent() as agent:
        agent.remember("Words of copper.")
    return open_desk


@pytest.fixture
def sealed(ready):
    """A desk with an identity and a key backup."""
    ready.bare("keys", "recipient", str(ready.place / "identity"))
    ready.ok("keys", "backup", str(ready.place / "keys"), "--to", recipient(ready))
    return ready


def recipient(desk):
    from journal.recipients import load_identity

    return load_identity(desk.place / "identity").recipient.text()


def restoring(desk, *more):
    keys, identity = str(desk.place / "keys"), str(desk.place / "identity")
    return "restore", str(desk.place / "backup"), "--keys", keys, "--identity", identity, *more


def test_a_backup_tells_what_is_in_it_and_tar_does_too(ready):
    file = ready.place / "backup"
    value = ready.json("backup", str(file))
    assert value["store"] == layout.store_id(ready.store)
    (scope,) = value["scopes"]
    (audited,) = ready.json("audit")["scopes"]
    assert {name: scope[name] for name in ("head_cursor", "head_hash", "root")} == {
        name: audited[name] for name in ("head_cursor", "head_hash", "root")
    }
    with tarfile.open(file) as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        assert json.load(manifest)["store"] == value["store"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_words_are_in_no_file(sealed):
    sealed.ok("backup", str(sealed.place / "backup"))
    sealed.ok("backup", "--ledger", str(sealed.place / "ledger"))
    root_key = sealed.root_key.read_bytes().strip()
    for name in ("backup", "ledger", "keys"):
        raw = (sealed.place / name).read_bytes()
        assert b"copper" not in raw
        assert root_key not in raw


def test_nothing_is_overwritten(sealed):
    for words in (("backup",), ("backup", "--ledger"), ("keys", "backup", "--to", recipient(sealed))):
        ended = sealed.run(*words, str(sealed.place / "identity"))
        assert (ended.code, "nothing is overwritten" in ended.err) == (1, True)
    ended = sealed.bare("keys", "recipient", str(sealed.place / "identity"))
    assert (ended.code, "nothing is overwritten" in ended.err) == (1, True)
    ended = sealed.run(*restoring(sealed))
    assert ended.code != 0


def test_a_place_that_is_none_is_told(sealed):
    ended = sealed.run("backup", str(sealed.place / "none" / "backup"))
    assert ended.code == 2
    ended = sealed.run(*restoring(sealed, "--to", str(sealed.place / "copy")))
    assert (ended.code, "cannot be read" in ended.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["", "engram-recipient-12", "engram-recipient-" + "0" * 64, "engram-identity-" + "0" * 64, "age1qqq"]
)
def test_a_recipient_that_is_none_is_wrong_use(ready, text):
    ended = ready.run("keys", "backup", str(ready.place / "keys"), "--to", text)
    assert ended.code == 2
    assert not (ready.place / "keys").exists()
    assert ready.json("keys", "list") == []


def test_key_backups_are_listed_also_after_a_restore(sealed):
    sealed.ok("keys", "backup", str(sealed.place / "more"), "--to", recipient(sealed), "--days", "1")
    listed = sealed.json("keys", "list")
    assert [one["file"] for one in listed] == ["keys", "more"]
    assert {one["recipient"] for one in listed} == {recipient(sealed)}
    assert listed[0]["expires_at"] > listed[1]["expires_at"]
    assert "more" in sealed.ok("keys", "list").out
    sealed.ok("backup", str(sealed.place / "backup"))
    shutil.rmtree(sealed.store)
    keys = str(sealed.place / "more")
    sealed.ok("restore", str(sealed.place / "backup"), "--keys", keys, "--identity", str(sealed.place / "identity"))
    assert [one["file"] for one in sealed.json("keys", "list")] == ["keys"], "what stood in the list when it was sealed"


def test_a_lost_root_key_file_comes_back(sealed):
    sealed.ok("backup", str(sealed.place / "backup"))
    root_key = sealed.root_key.read_bytes()
    shutil.rmtree(sealed.store)
    sealed.root_key.unlink()
    value = sealed.json(*restoring(sealed))
    assert (value["ended_again"], value["lost"]) == (0, 0)
    assert sealed.root_key.read_bytes() == root_key
    assert sealed.root_key.stat().st_mode & 0o777 == 0o600
    assert sealed.json("audit")["ok"]


def test_a_restore_that_is_refused_brings_no_root_key_either(sealed):
    sealed.ok("backup", str(sealed.place / "backup"))
    with sealed.agent() as agent:
        agent.forget(agent.found("copper")[0])
    shutil.rmtree(sealed.store)
    sealed.root_key.unlink()
    ended = sealed.run(*restoring(sealed))
    assert (ended.code, "[RESTORE_REFUSED]" in ended.err) == (1, True)
    assert not sealed.root_key.exists()
    assert not sealed.store.exists()


def test_a_copy_elsewhere_replaces_nothing(sealed):
    sealed.ok("backup", str(sealed.place / "backup"))
    before = layout.store_id(sealed.store)
    value = sealed.json(*restoring(sealed, "--to", str(sealed.place / "copy")))
    assert value["store"] != before
    assert layout.predecessor(sealed.place / "copy") is None
    ended = sealed.run(*restoring(sealed))
    assert (ended.code, "not empty" in ended.err) == (1, True)
    shutil.rmtree(sealed.store)
    assert "restored and audited" in sealed.ok(*restoring(sealed)).out


@contextmanager
def files_of_at_most(size_bytes):
    """A disk that is full, as a process meets it: a write stops short, and the next one fails."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def names(desk):
    """Return what lies in the place; the state folder comes and goes with what is known, not with what is written."""
    return {path.name for path in desk.place.iterdir()} - {"state"}


def limited(desk, size_bytes, *words):
    with files_of_at_most(size_bytes):
        return desk.process(*words)


def test_a_backup_for_which_there_is_no_room_leaves_nothing(sealed):
    before = names(sealed)
    ended = limited(sealed, 9_000, "backup", str(sealed.place / "backup"), "--json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"engram: {sealed.place / 'backup'}: File too large\n"
    assert names(sealed) == before


def test_a_key_backup_for_which_there_is_no_room_leaves_nothing(sealed):
    before, listed = names(sealed), sealed.json("keys", "list")
    ended = limited(sealed, 4_096, "keys", "backup", str(sealed.place / "more"), "--to", recipient(sealed))
    assert (ended.code, ended.err) == (2, f"engram: {sealed.place / 'more'}: File too large\n")
    assert names(sealed) == before
    assert sealed.json("keys", "list") == listed


def test_a_line_of_the_list_that_was_cut_takes_no_other_with_it(sealed):
    path = sealed.store / "keys" / "backups.jsonl"
    path.write_bytes(path.read_bytes() + b'{"digest":"bla')
    sealed.ok("keys", "backup", str(sealed.place / "more"), "--to", recipient(sealed))
    assert [one["file"] for one in sealed.json("keys", "list")] == ["keys", "more"]


@pytest.mark.parametrize("size_bytes", [1_000, 20_000, 40_000, 60_000])
def test_a_restore_for_which_there_is_no_room_says_so(sealed, size_bytes):
    sealed.ok("backup", str(sealed.place / "backup"))
    before = names(sealed)
    ended = limited(sealed, size_bytes, *restoring(sealed, "--to", str(sealed.place / "copy")))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"engram: there is no room at {sealed.place / 'copy'}")
    assert ended.err.endswith("; nothing is left there [STORE_UNAVAILABLE]\n")
    assert "Traceback" not in ended.err
    assert names(sealed) == before
