"""Key backups that somebody else sealed: the recipient is public, so that anybody can make one that opens."""

from __future__ import annotations

import msgspec
import pytest
from blake3 import blake3

from journal.errors import BackupInvalid, EngramError
from replay import keybackup
from tests.replay.restores import Safe, told

KEYRING, SLOTS = 2, 3


@pytest.fixture
def safe(tmp_path):
    made = Safe(tmp_path)
    told(made)
    made.keys("first")
    made.keys()
    made.backup()
    made.world.close()
    return made


def forged(safe, clear=None, how=None):
    """Seal the key backup anew with a change to its line, or to what is inside."""
    line, _, sealed = (safe.place / "keys").read_bytes().partition(b"\n")
    inside = msgspec.msgpack.decode(safe.identity.open(sealed, keybackup._CONTEXT + line + b"\n"))
    if how is not None:
        how(inside)
    stated = msgspec.json.decode(line)
    if clear is not None:
        clear(stated)
    line = msgspec.json.encode(stated) + b"\n"
    raw = safe.identity.recipient.seal(msgspec.msgpack.encode(inside), keybackup._CONTEXT + line)
    (safe.place / "keys").write_bytes(line + raw)


def put(place, value):
    def change(inside):
        inside["scopes"][0][place] = value(inside["scopes"][0][place]) if callable(value) else value

    return change


def ring(**changes):
    """Return what changes a keyring file and makes its checksum right."""

    def changed(raw):
        file = {**msgspec.msgpack.decode(raw), **changes, "check": b""}
        file["check"] = blake3(msgspec.msgpack.encode(file)).digest(16)
        return msgspec.msgpack.encode(file)

    return put(KEYRING, changed)


INSIDE = {
    "no root key": lambda inside: inside.update(root_key=b""),
    "a short root key": lambda inside: inside.update(root_key=b"x"),
    "another root key": lambda inside: inside.update(root_key=bytes(32)),
    "no scope": lambda inside: inside.update(scopes=[]),
    "a scope twice": lambda inside: inside.update(scopes=[*inside["scopes"], inside["scopes"][0]]),
    "scopes in another order": lambda inside: inside["scopes"].reverse(),
    "a scope without a name": put(0, ""),
    "a scope with a huge name": put(0, "x" * 100_000),
    "a scope of another name": put(0, "a\0b/../"),
    "no keyring": put(KEYRING, b""),
    "a keyring that is none": put(KEYRING, b"junk"),
    "a keyring without keys": ring(wrapped={}),
    "a keyring below its first epoch": ring(epoch=-1),
    "a keyring of a huge epoch": ring(epoch=2**63),
    "no slots": put(SLOTS, b""),
    "slots that are none": put(SLOTS, b"\xa5" * 9_000),
    "slots of zeros": put(SLOTS, lambda raw: bytes(len(raw))),
    "slots cut in the header": put(SLOTS, lambda raw: raw[:100]),
    "slots altered in the header": put(SLOTS, lambda raw: raw[:16] + b"\xff" + raw[17:]),
    "another scope's slots": lambda inside: put(SLOTS, inside["scopes"][1][SLOTS])(inside),
    "a list that is none": lambda inside: inside.update(backups=b"\xff\0junk\n" * 9),
}

CLEAR = {
    "a head below nothing": lambda stated: stated["scopes"][0].update(head_cursor=-5),
    "a scope that is not inside": lambda stated: stated["scopes"][0].update(workspace_id="x"),
    "no scopes": lambda stated: stated.update(scopes=[]),
    "no expiry": lambda stated: stated.update(expires_at="x"),
}


def refused(safe):
    before = safe.beside()
    with pytest.raises(EngramError) as caught:
        safe.restore()
    assert safe.beside() == before
    return caught.value.code


def test_the_control_is_restored(safe):
    forged(safe)
    assert safe.restore().lost == 0


@pytest.mark.parametrize("how", INSIDE.values(), ids=INSIDE.keys())
def test_keys_that_are_none_are_refused(safe, how):
    forged(safe, how=how)
    assert refused(safe) == BackupInvalid.code


@pytest.mark.parametrize("clear", CLEAR.values(), ids=CLEAR.keys())
def test_a_line_that_is_none_is_refused(safe, clear):
    forged(safe, clear=clear)
    assert refused(safe) == BackupInvalid.code


def test_slots_that_are_cut_lose_what_they_held_and_say_so(safe):
    forged(safe, how=put(SLOTS, lambda raw: raw[:512]))
    assert refused(safe) == "RESTORE_REFUSED"


def test_a_slot_that_a_crash_tore_is_no_fault(safe):
    """An append that never returned may leave a part of a slot; nothing refers to it."""
    forged(safe, how=put(SLOTS, lambda raw: raw + raw[-128:][:60]))
    assert safe.restore().lost == 0


def test_a_line_that_a_crash_cut_is_still_a_list(safe):
    forged(safe, how=lambda inside: inside.update(backups=inside["backups"] + b'{"digest":"bla'))
    assert safe.restore().lost == 0
    assert [one.file for one in keybackup.listed(safe.place / "restored")] == ["first"]
