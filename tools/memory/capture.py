"""engram_memory_capture: an encrypted pending candidate that nobody can search or read."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from journal import identity, limits
from journal.canonical import canonical_bytes
from journal.clock import parse_instant
from journal.digests import candidate_id_of, payload_digest
from journal.errors import InvalidSchema, JournalCorrupt, Unauthorized
from journal.events import Draft, EventType
from journal.lifecycle import State
from tools.host.capabilities import CAPTURE
from tools.host.grants import authorize
from tools.host.guard import Operation, operation_of
from tools.memory.arguments import CaptureArguments, capture_arguments
from tools.memory.receipts import transaction_receipt_digest
from tools.memory.records import REDACTED_FIELDS, asserted_trust, capture_content, effective_payload

if TYPE_CHECKING:
    from journal.keyring import DataKey
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_DIGEST_PLACE = "sha256:" + 64 * "0"
_ID_PLACE = "mem_" + 52 * "a"


class Capture:
    """One capture."""

    def __init__(self, engine: Engine, call: Call, raw: dict[str, Any]) -> None:
        """Validate the arguments and authorise the call.

        Raises:
            InvalidSchema: the arguments do not fit. UntrustedContext: the purpose is not bound.
        """
        arguments = capture_arguments(raw)
        call.binding.require_purpose(arguments.payload.purpose_ref)
        self._engine = engine
        self._call = call
        self._arguments = arguments
        self._sent = {"payload": raw["payload"], "evidence": raw["evidence"]}
        self._payload = effective_payload(call.scope, raw["payload"])
        self.operation = self._identified(arguments.idempotency_key)
        self.authorization = self._authorized(payload_digest(self._payload))
        self._candidate_id = candidate_id_of(self.operation.event_id)
        self._size_bytes = _packet_bytes(self._payload)
        self._key: DataKey | None = None
        self._draft: Draft | None = None

    def _identified(self, idempotency_key: str) -> Operation:
        """Return which operation this is."""
        journal, call = self._engine.journal, self._call
        return operation_of(
            journal, call.scope, call.binding.principal, CAPTURE, idempotency_key, None, self._sent
        )  # fmt: skip

    def _authorized(self, resource_digest: str) -> dict[str, Any]:
        """Return the receipt of the caller's authority."""
        engine, call = self._engine, self._call
        return authorize(
            call.binding, CAPTURE, resource_digest, call.now, randomness=engine.randomness, authority=engine.authority
        )  # fmt: skip

    def check(self, view: View) -> None:
        """Refuse a retention, a family or a size that the host does not allow."""
        _check_retention(self._arguments, self._call)
        if not self._call.binding.families.issuperset(self._payload["reconciliation"]["family_refs"]):
            raise Unauthorized("a reconciliation family without the host's consent")
        if self._size_bytes > self._call.binding.packet_cap_bytes:
            raise InvalidSchema("the record could never fit the host's packet cap")

    def answered(self, view: View) -> Committed | None:
        """A capture has no duplicate under another key."""
        return None

    def prepare(self) -> None:
        """Seal the content under a fresh data key."""
        journal, scope, event_id = self._engine.journal, self._call.scope, self.operation.event_id
        trust, verification = self._trust()
        content = capture_content(self._payload, self._sent["evidence"], trust, self.authorization, verification)
        key = self._key = journal.take_key(scope)
        self._draft = Draft(
            type=EventType.CAPTURE, event_id=event_id, actor=self._call.actor, subject=self._candidate_id,
            to_state=State.PENDING, key_id=key.key_id, slot=key.slot, slot_generation=key.generation,
            intent=self.operation.intent, guards=identity.guards(journal.keyring.identity_key(scope), self._payload),
            content=journal.seal_content(scope, event_id, self._candidate_id, key, content),
        )  # fmt: skip

    def _trust(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the trust that the host's verifier gives, and what it found; it is fixed with the record's id."""
        verifier, now, evidence = self._engine.verifier, self._call.now, self._sent["evidence"]
        if verifier is None:
            return asserted_trust(evidence["evidence_digest"], now), None
        from tools.host.verifiers.port import earned_trust, finding_of_host, verified_in_time

        verified = verified_in_time(verifier, self._payload["citations"], evidence, limits.VERIFY_SECONDS)
        finding = finding_of_host(verifier, verified, now)
        if verified.result == "matched":
            return earned_trust(verifier, verified, evidence["evidence_digest"], now), finding
        return asserted_trust(evidence["evidence_digest"], now), finding

    def drafts(self, view: View) -> list[Draft]:
        """Return the capture event.

        Raises:
            JournalCorrupt: its candidate is there, whose id follows from the event's: the journal hides the event.
        """
        assert self._draft is not None
        if view.subject(self._candidate_id) is not None:
            raise JournalCorrupt("the journal's indexes miss a capture")
        return [self._draft]

    def abandon(self) -> None:
        """Give the data key back: nothing is stored under it."""
        key, self._key = self._key, None
        if key is not None:
            self._engine.journal.keyring.give_back(self._call.scope, key)

    def settle(self, event: Committed) -> None:
        """Nothing follows a capture."""

    def value(self, event: Committed, *, first: bool) -> dict[str, Any]:
        """Return the tool's value; record_digest is disclosed at acceptance, not here."""
        return {
            "status": "committed_pending" if first else "duplicate_exact",
            "candidate_id": event.header.subject,
            "cursor": str(event.header.cursor),
            "transaction_receipt_digest": transaction_receipt_digest(event),
        }


def _check_retention(arguments: CaptureArguments, call: Call) -> None:
    retention = arguments.payload.retention
    if retention is UNSET:
        return
    if retention.derivative_rule == "retain" and not call.binding.allow_retain:
        raise Unauthorized("the host does not allow derivatives to be retained")
    if retention.expires_at is UNSET:
        return
    expires_at = parse_instant(retention.expires_at)
    if expires_at <= call.now:
        raise InvalidSchema("expires_at is not after the capture")
    if expires_at - call.now > call.binding.retention_ceiling_milliseconds:
        raise Unauthorized("expires_at is over the host's ceiling")


def _packet_bytes(payload: dict[str, Any]) -> int:
    """Return how large the smallest answer that carries this record is: the packet and the receipts around it."""
    visible = {name: value for name, value in payload.items() if name not in REDACTED_FIELDS}
    one_comma_for_two_braces = -1
    return len(canonical_bytes(visible)) + one_comma_for_two_braces + _around_bytes() + limits.ANSWER_RECEIPTS_MAX_BYTES


@cache
def _around_bytes() -> int:
    """Return how large the object of what a record has beside its payload is, which is the same for all."""
    around = {
        "record_id": _ID_PLACE, "record_digest": _DIGEST_PLACE, "payload_digest": _DIGEST_PLACE,
        "recorded_at": "2026-01-01T00:00:00.000Z", "recorded_cursor": str(limits.CURSOR_MAX),
        "trust": asserted_trust(_DIGEST_PLACE, 0),
    }  # fmt: skip
    return len(canonical_bytes(around))
