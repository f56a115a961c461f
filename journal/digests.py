"""Digests and ids (CONTRACT §7)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from journal.canonical import canonical_bytes

DIGEST_PREFIX = "sha256:"


def digest(domain: bytes, value: Any) -> str:
    """Return ``sha256:`` and 64 hex digits over the domain (which ends in NUL) and the canonical form of value."""
    return DIGEST_PREFIX + hashlib.sha256(domain + canonical_bytes(value)).hexdigest()


def payload_digest(effective_payload: dict[str, Any]) -> str:
    """Return the digest of an effective payload: agent payload, scope_ref, resolved retention and reconciliation."""
    return digest(b"graphify-memory/payload/v2\0", effective_payload)


def record_digest(record: dict[str, Any]) -> str:
    """Return the digest of a record; ``record_id`` and ``record_digest`` are left out where present."""
    bare = {name: value for name, value in record.items() if name not in ("record_id", "record_digest")}
    return digest(b"graphify-memory/record/v2\0", bare)


def receipt_digest(kind: str, receipt: dict[str, Any]) -> str:
    """Return the digest of a receipt of this kind, over the receipt without its own digest field."""
    bare = {name: value for name, value in receipt.items() if name != "receipt_digest"}
    return digest(b"graphify-memory/%b/v1\0" % kind.encode(), bare)


def sealed_receipt(kind: str, receipt: dict[str, Any]) -> dict[str, Any]:
    """Return the receipt with its own ``receipt_digest``."""
    return {**receipt, "receipt_digest": receipt_digest(kind, receipt)}


def record_id_of(record_digest_text: str) -> str:
    """Return ``mem_`` and the unpadded lower-case base32 of the digest's 32 bytes: 56 characters."""
    raw = bytes.fromhex(record_digest_text.removeprefix(DIGEST_PREFIX))
    return "mem_" + base64.b32encode(raw).decode().rstrip("=").lower()


def candidate_id_of(event_id: bytes) -> str:
    """Return ``candidate_`` and the 64 hex digits of the capture-identity digest of an event id."""
    return "candidate_" + receipt_digest("capture-identity", {"event_id": event_id.hex()}).removeprefix(DIGEST_PREFIX)
