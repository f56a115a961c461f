"""Sealing to a recipient: HPKE as RFC 9180 draws it, and files that only their owner may read."""

from __future__ import annotations

import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal.errors import BackupInvalid, StoreUnavailable
from journal.recipients import Identity, Recipient, create_identity_file, load_identity

_KEM = b"KEM\x00\x20"
_SUITE = b"HPKE\x00\x20\x00\x01\x00\x02"


def _extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    return hmac.digest(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\x01", "sha256")[:size]


def opened_by_the_book(raw: bytes, sealed: bytes, info: bytes) -> bytes:
    """Open by RFC 9180, sections 4.1 and 5.1, written from the text alone."""
    private = X25519PrivateKey.from_private_bytes(raw)
    enc, ciphertext = sealed[:32], sealed[32:]
    context = enc + private.public_key().public_bytes_raw()
    eae = _extract(_KEM, b"", b"eae_prk", private.exchange(X25519PublicKey.from_public_bytes(enc)))
    shared = _expand(_KEM, eae, b"shared_secret", context, 32)
    schedule = b"\x00" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)
    secret = _extract(_SUITE, shared, b"secret", b"")
    key, nonce = _expand(_SUITE, secret, b"key", schedule, 32), _expand(_SUITE, secret, b"base_nonce", schedule, 12)
    return AESGCM(key).decrypt(nonce, ciphertext, b"")


def test_what_is_sealed_opens_by_the_book():
    identity = Identity(bytes(range(32)))
    assert opened_by_the_book(identity.raw, identity.recipient.seal(b"words", b"info"), b"info") == b"words"


def test_sealing_is_for_one_alone():
    one, two = Identity(bytes([1]) * 32), Identity(bytes([2]) * 32)
    sealed = one.recipient.seal(b"words", b"info")
    assert one.open(sealed, b"info") == b"words"
    assert sealed != one.recipient.seal(b"words", b"info")
    for identity, info, raw in ((two, b"info", sealed), (one, b"other", sealed), (one, b"info", sealed[:-1])):
        with pytest.raises(BackupInvalid):
            identity.open(raw, info)
    assert one.raw.hex() not in repr(one)


def test_an_identity_file_is_private_and_never_replaced(tmp_path):
    path = tmp_path / "identity"
    recipient = create_identity_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_identity(path).recipient == recipient == Recipient.parse(f" {recipient.text()}\n")
    with pytest.raises(FileExistsError):
        create_identity_file(path)
    path.chmod(0o640)
    with pytest.raises(StoreUnavailable, match="open to others"):
        load_identity(path)


@pytest.mark.parametrize(
    "text", ["", "engram-identity-12", "engram-recipient-" + "0" * 64, "engram-identity-" + "g" * 64]
)
def test_a_file_that_holds_none_is_refused_and_not_quoted(tmp_path, text):
    path = tmp_path / "identity"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(StoreUnavailable) as caught:
        load_identity(path)
    assert not text or text not in caught.value.detail
    with pytest.raises(StoreUnavailable):
        load_identity(tmp_path / "none")


@pytest.mark.parametrize("text", ["", "age1qqq", "engram-recipient-" + "0" * 63, "engram-identity-" + "0" * 64])
def test_a_recipient_is_parsed_strictly(text):
    with pytest.raises(ValueError, match="64 hex digits"):
        Recipient.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "00" * 32,
        "01" + "00" * 31,
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ],
)
def test_a_point_of_low_order_is_nobody(text):
    """RFC 7748, section 7: with these every secret is zero, so that anybody could open what is sealed."""
    with pytest.raises(ValueError, match="nobody can be"):
        Recipient.parse(f"engram-recipient-{text}")
