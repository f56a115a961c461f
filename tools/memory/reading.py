"""What search and get share: opening a readable record, and the receipts of a read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import identity
from journal.clock import instant, parse_instant
from journal.digests import receipt_digest
from journal.lifecycle import State
from tools.host.grants import authorize, still_authorized
from tools.memory.records import record_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def authorize_read(engine: Engine, call: Call, tool: str, resource_digest: str) -> dict[str, Any]:
    """Return the authorization receipt of a read.

    Its nonce follows from the answer's auditId under the scope's identity key, so that the receipt, which is not kept,
    can be derived again from the answer, and by nobody without the key.

    Raises:
        Unauthorized: the tool is not granted, or memory is off.
    """
    nonce = None
    if call.audit_id is not None:
        nonce = identity.read_nonce(engine.journal.keyring.identity_key(call.scope), call.audit_id)
    return authorize(
        call.binding,
        tool,
        resource_digest,
        call.now,
        randomness=engine.randomness,
        authority=engine.authority,
        nonce=nonce,
    )


def revalidate_read(engine: Engine, call: Call, authorization: dict[str, Any]) -> dict[str, Any]:
    """Look at an authorization again; the receipt names the read's one instant, whatever the clock says by then.

    Raises:
        AuthorizationExpired, AuthorizationRevoked: it no longer holds.
    """
    return still_authorized(engine.authority, call.binding, authorization, engine.clock.now(), checked_at=call.now)


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
    if capture is None or content is None or not is_eligible(content["payload"], call, purpose_ref):
        return None
    return record_of(capture.header, content)


def is_eligible(payload: dict[str, Any], call: Call, purpose_ref: str) -> bool:
    """Whether the clock and a purpose let a record of this payload be read at the call's instant."""
    valid, expires_at = payload["valid_time"], payload["retention"].get("expires_at")
    return (
        valid["t"] <= call.now
        and ("t_end" not in valid or call.now <= valid["t_end"])
        and (expires_at is None or call.now < parse_instant(expires_at))
        and payload["purpose_ref"] in call.binding.readable(purpose_ref)
    )


def revalidation_receipt_digest(
    authorization: dict[str, Any], revalidated: dict[str, Any], call: Call, cursor: int, seal: str
) -> str:
    """Return the digest of what was looked at again before materialisation: the grant's epoch, the journal's head.

    ``seal`` binds what was materialised then (``journal.identity.answer_seal``); it is shown to nobody.
    """
    return receipt_digest(
        "revalidation",
        {
            "schema_version": 1,
            "authorization_receipt_digest": authorization["receipt_digest"],
            "authorization_revalidation_digest": revalidated["receipt_digest"],
            "checked_at": instant(call.now),
            "validated_through_cursor": str(cursor),
            "answer_seal": seal,
        },
    )
