"""Signed notes: the example of the specification, an independent check, and what is refused."""

from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from journal import limits
from journal.errors import InvalidDigest
from journal.notes import PublicKey, opened, signed, unverified

SEED = bytes(range(32))
TEXT = "engram/00\n7\nroot\n"
NAME = "engram/00"
KEY = PublicKey.of(NAME, SEED)
NOTE = signed(TEXT, NAME, SEED).encode()


def _verified_by_hand(note: bytes, vkey: str) -> str:
    """Check a note with nothing but the specification and Ed25519."""
    name, hexed, encoded = vkey.split("+", 2)
    typed_key = base64.b64decode(encoded)
    assert typed_key[0] == 1
    key_id = hashlib.sha256(name.encode() + b"\n" + typed_key).digest()[:4]
    assert key_id.hex() == hexed
    text, line = note.decode().rsplit("\n\n", 1)
    dash, signer, blob = line.rstrip("\n").split(" ")
    assert (dash, signer) == ("\u2014", name)
    raw = base64.b64decode(blob)
    assert raw[:4] == key_id
    Ed25519PublicKey.from_public_bytes(typed_key[1:]).verify(raw[4:], (text + "\n").encode())
    return text + "\n"


def test_an_independent_reader_verifies_it():
    assert _verified_by_hand(NOTE, KEY.text()) == TEXT
    with pytest.raises(InvalidSignature):
        _verified_by_hand(NOTE.replace(b"\n7\n", b"\n8\n"), KEY.text())


def test_it_opens_to_its_text():
    assert opened(NOTE, KEY) == TEXT == unverified(NOTE)


def test_the_key_as_text_and_back():
    assert PublicKey.parse(KEY.text() + "\n") == KEY
    assert KEY.text().startswith("engram/00+")


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a+b+c", KEY.text()[:-4], KEY.text().replace("+", "+0", 1), "+" + KEY.text(),
        f"x+{KEY.key_id.hex()}+{base64.b64encode(bytes([1]) + KEY.raw).decode()}",
        f"{NAME}+{KEY.key_id.hex()}+{base64.b64encode(bytes([2]) + KEY.raw).decode()}",
    ],
)  # fmt: skip
def test_what_is_no_key(text):
    with pytest.raises(InvalidDigest):
        PublicKey.parse(text)


def test_a_stranger_signature_is_passed_over():
    other = signed(TEXT, NAME, bytes(32)).encode()
    both = NOTE + other.rpartition(b"\n\n")[2]
    assert opened(both, KEY) == TEXT
    assert opened(both, PublicKey.of(NAME, bytes(32))) == TEXT
    with pytest.raises(InvalidDigest, match="without a signature"):
        opened(other, KEY)


def test_one_that_fails_beside_one_that_verifies_refuses_the_whole():
    line = NOTE.rpartition(b"\n\n")[2].decode()
    raw = bytearray(base64.b64decode(line.split(" ")[2]))
    raw[-1] ^= 1
    forged = f"\u2014 {NAME} {base64.b64encode(raw).decode()}\n".encode()
    with pytest.raises(InvalidDigest, match="does not verify"):
        opened(NOTE + forged, KEY)


@pytest.mark.parametrize("at", range(0, len(NOTE), 7))
def test_a_changed_byte_never_opens_to_another_text(at):
    changed = bytearray(NOTE)
    changed[at] ^= 4
    try:
        text = opened(bytes(changed), KEY)
    except InvalidDigest:
        return
    assert text == TEXT


@pytest.mark.parametrize(
    "note",
    [
        b"", b"\n\n", TEXT.encode(), TEXT.encode() + b"\n", NOTE[:-1], NOTE + b"\n", NOTE.replace(b" ", b"  "),
        NOTE.replace("\u2014".encode(), b"-"), NOTE.replace(b"\n7", b"\t7"), NOTE.replace(b"7", b"\xff"),
        TEXT.encode() + b"\n\xe2\x80\x94 engram/00 AAAA\n", b"x" * limits.NOTE_MAX_BYTES + NOTE,
    ],
)  # fmt: skip
def test_what_is_no_note(note):
    with pytest.raises(InvalidDigest):
        opened(note, KEY)


@pytest.mark.parametrize(
    ("text", "name"), [("no end", NAME), ("a\x00\n", NAME), ("a\n", "a b"), ("a\n", "a+b"), ("a\n", "")]
)
def test_what_cannot_be_signed(text, name):
    with pytest.raises(ValueError, match="no text or key name"):
        signed(text, name, SEED)
