"""What search and get share: opening a readable record, and the receipts of a read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal.clock import instant, parse_instant
from journal.digests import receipt_digest
from journal.lifecycle import State
from tools.memory.records import record_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.store.port import View
    from tools.memory.call import Call


def readable_record(
    journal: Journal, view: View, candidate_id: str | None, call: Call, purpose_ref: str
) -> dict[str, Any] | None:
    """Return a record that is readable at the call's instant under a purpose, or None (CONTRACT §5, the last rules).

    This is the revalidation before materialisation: state, validity, expiry and purpose are looked at afresh in the
    journal, whatever a projection said a moment ago.
    """
    subject = None if candidate_id is None else view.subject(candidate_id)
    if candidate_id is None or subject is None or subject.state != State.ACCEPTED_CURRENT:
        return None
    capture = view.event(subject.born)
    content = None if capture is None else journal.content(view, capture.header)
    if capture is None or content is None or not _eligible(content["payload"], call, purpose_ref):
        return None
    return record_of(capture.header, content)


def _eligible(payload: dict[str, Any], call: Call, purpose_ref: str) -> bool:
    valid, expires_at = payload["valid_time"], payload["retention"].get("expires_at")
    return (
        valid["t"] <= call.now
        and ("t_end" not in valid or call.now <= valid["t_end"])
        and (expires_at is None or call.now < parse_instant(expires_at))
        and payload["purpose_ref"] in call.binding.readable(purpose_ref)
    )


def revalidation_receipt_digest(
    authorization: dict[str, Any], revalidated: dict[str, Any], call: Call, cursor: int
) -> str:
    """Return the digest of what was looked at again before materialisation: the grant's epoch, the journal's head."""
    return receipt_digest(
        "revalidation",
        {
            "schema_version": 1,
            "authorization_receipt_digest": authorization["receipt_digest"],
            "authorization_revalidation_digest": revalidated["receipt_digest"],
            "checked_at": instant(call.now),
            "validated_through_cursor": str(cursor),
        },
    )
