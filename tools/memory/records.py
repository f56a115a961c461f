"""Payload to record to packet: what is resolved, what is derived, and what an agent may see (CONTRACT §7)."""

from __future__ import annotations

from typing import Any

from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import payload_digest, receipt_digest, record_digest, record_id_of, sealed_receipt
from journal.events import Header
from journal.scope import Scope
from tools.host.policies.port import Facts

REDACTED_FIELDS = ("authorization_receipt_digest", "scope_ref")
"""What is taken out of a record toward agents, sorted (CONTRACT §7)."""

REDACTION_PROFILE = "agent-v1"


def effective_payload(scope: Scope, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the agent's payload with the host's scope_ref and what retention and reconciliation resolve to."""
    retention = {"derivative_rule": "make-ineligible", **payload.get("retention", {})}
    reconciliation = payload.get("reconciliation", {"family_refs": []})
    return {**payload, "scope_ref": scope.ref, "retention": retention, "reconciliation": reconciliation}


def asserted_trust(evidence_digest: str, now: int) -> dict[str, Any]:
    """Return the trust of a record whose host has no verifier: what the agent asserts, and no more."""
    return sealed_receipt(
        "trust",
        {
            "class": "asserted",
            "evidence_digest": evidence_digest,
            "verifier_id": "engine:asserted",
            "verifier_version": "1",
            "issued_at": instant(now),
            "revocation_epoch": "0",
        },
    )


def capture_content(
    payload: dict[str, Any],
    evidence: dict[str, Any],
    trust: dict[str, Any],
    authorization: dict[str, Any],
    verification: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what a capture's content part holds; ``verification`` is what the host's verifier found, if there is one.

    The authorization receipt stands here and not in the ledger: its nonce makes record_digest unguessable, and must go
    when the body goes.
    """
    content = {"payload": payload, "evidence": evidence, "trust": trust, "authorization": authorization}
    return content if verification is None else {**content, "verification": verification}


def record_of(capture: Header, content: dict[str, Any]) -> dict[str, Any]:
    """Return the record that a capture became: fixed at capture, disclosed at acceptance."""
    record = {
        **content["payload"],
        "payload_digest": payload_digest(content["payload"]),
        "recorded_at": instant(capture.recorded_at),
        "recorded_cursor": str(capture.cursor),
        "authorization_receipt_digest": content["authorization"]["receipt_digest"],
        "trust": content["trust"],
    }
    digest = record_digest(record)
    return {**record, "record_digest": digest, "record_id": record_id_of(digest)}


def facts_of(capture: Header, content: dict[str, Any], *, revoked: bool = False) -> Facts:
    """Return what can be told of a candidate without a word of it; ``revoked``: its trust counts no more."""
    payload = content["payload"]
    schemes = {_scheme(citation["source_ref"]) for citation in payload["citations"]}
    return Facts(
        kinds=tuple(sorted({component["kind"] for component in payload["components"]})),
        source_schemes=tuple(sorted(schemes)),
        size_bytes=len(canonical_bytes(payload)),
        principal=capture.actor.principal,
        trust_class="asserted" if revoked else content["trust"]["class"],
        verification="unverified" if revoked else content.get("verification", {}).get("result", "none"),
        families=tuple(payload["reconciliation"]["family_refs"]),
    )


def _scheme(source_ref: str) -> str:
    """Return what stands before the first colon, in lower case; empty where there is none, and so on no list."""
    scheme, colon, _ = source_ref.partition(":")
    return scheme.lower() if colon else ""


def redacted(record: dict[str, Any]) -> dict[str, Any]:
    """Return a packet of a record: what an agent sees, what was taken out, and the receipt of that."""
    receipt = {
        "schema_version": 1,
        "record_id": record["record_id"],
        "record_digest": record["record_digest"],
        "profile": REDACTION_PROFILE,
        "redacted_fields": list(REDACTED_FIELDS),
    }
    return {
        "record": {name: value for name, value in record.items() if name not in REDACTED_FIELDS},
        "redacted_fields": list(REDACTED_FIELDS),
        "redaction_receipt_digest": receipt_digest("redaction", receipt),
    }
