"""Receipts of mutations: each a function of the event as it stands in the chain, so that a replay derives it again."""

from __future__ import annotations

from typing import Any

from journal.digests import receipt_digest
from journal.frames import event_digest
from journal.lifecycle import State
from journal.store.port import Committed


def event_ref(event_id: bytes) -> str:
    """Return how receipts name an event: ``event_`` and the 64 hex digits of its id."""
    return f"event_{event_id.hex()}"


def transaction_receipt_digest(event: Committed) -> str:
    """Return the digest of an event's transaction receipt: what was written, where in the chain, after what."""
    header = event.header
    return receipt_digest(
        "transaction",
        {
            "schema_version": 1,
            "scope_ref": header.scope.ref,
            "event_id": event_ref(header.event_id),
            "event_type": header.kind.label,
            "subject": header.subject,
            "cursor": str(header.cursor),
            "event_digest": event_digest(event.frame),
            "previous": header.prev.hex(),
        },
    )


def transition_receipt(event: Committed, authorization_receipt_digest: str) -> dict[str, Any]:
    """Return the receipt of a withdrawal or a forgetting (CONTRACT §3)."""
    header = event.header
    return {
        "event_id": event_ref(header.event_id),
        "operation": header.kind.label,
        "from_state": State(header.from_state).label,
        "to_state": State(header.to_state).label,
        "cursor": str(header.cursor),
        "event_digest": event_digest(event.frame),
        "authorization_receipt_digest": authorization_receipt_digest,
        "transaction_receipt_digest": transaction_receipt_digest(event),
    }
