"""engram_memory_get: one record by its id."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import receipt_digest, sealed_receipt
from journal.errors import EngramError, JournalCorrupt, NotFound, ProjectionOversized
from journal.identity import answer_seal
from tools.host.capabilities import GET
from tools.memory.arguments import GetArguments, get_arguments
from tools.memory.reading import authorize_read, readable_record, revalidate_read, revalidation_receipt_digest
from tools.memory.records import redacted

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine


@dataclass(frozen=True, slots=True)
class Asked:
    """A get as it was asked, and the authority under which it is answered."""

    arguments: GetArguments
    authorization: dict[str, Any]


def get(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value.

    Raises:
        InvalidSchema: the arguments do not fit. UntrustedContext: the purpose is not bound.
        NotFound: unknown, out of scope or not readable now: which of them is not told.
        JournalCorrupt: the journal hides it.
        ProjectionOversized: the packet is over max_packet_bytes.
    """
    asked = asked_of(engine, call, raw)
    with engine.journal.store.view(call.scope) as view:
        cursor = view.head.cursor
        candidate_id = view.candidate_of(asked.arguments.record_id)
        record = readable_record(engine.journal, view, candidate_id, call, asked.arguments.purpose_ref)
        missed = candidate_id is None or view.subject(candidate_id) is None
    if record is None:
        if _is_projected(engine, call, asked.arguments.record_id, cursor) and missed:
            raise JournalCorrupt("the journal's indexes miss a record that a projection has")
        raise NotFound("no readable record of this id")
    value = answer_of(engine, call, asked, redacted(record), cursor)
    if len(canonical_bytes(value)) > min(asked.arguments.max_packet_bytes, call.binding.packet_cap_bytes):
        raise ProjectionOversized("the packet is over the budget")
    return value


def _is_projected(engine: Engine, call: Call, record_id: str, cursor: int) -> bool:
    """Whether a projection has a record that was accepted up to a cursor; asked of whatever is not readable.

    Nothing protects the pages of the journal's indexes while they are mapped, and a row that they hide is no answer.
    What the projection cannot tell soon is left to the scrub.
    """
    deadline = min(call.deadline, time.monotonic() + limits.GET_BESIDE_SECONDS)
    with suppress(EngramError):
        with engine.projections(call.scope).snapshot(deadline, ("current",)) as snapshot:
            row = snapshot.current.lookup(record_id)
        return row is not None and row.record_id == record_id and 0 < row.decided <= cursor
    return False


def asked_of(engine: Engine, call: Call, raw: dict[str, Any]) -> Asked:
    """Return what is asked, authorized.

    Raises:
        InvalidSchema, UntrustedContext: as ``get``. Unauthorized: it is not granted.
    """
    arguments = get_arguments(raw)
    call.binding.require_purpose(arguments.purpose_ref)
    resource = engine.resource_digest(call.scope, arguments.record_id)
    return Asked(arguments, authorize_read(engine, call, GET, resource))


def answer_of(engine: Engine, call: Call, asked: Asked, packet: dict[str, Any], cursor: int) -> dict[str, Any]:
    """Return the value that answers with a redacted record, read at a cursor."""
    record, revalidated = packet["record"], revalidate_read(engine, call, asked.authorization)
    key = engine.journal.keyring.identity_key(call.scope)
    receipt = sealed_receipt(
        "read",
        {
            "record_id": record["record_id"],
            "record_digest": record["record_digest"],
            "valid_as_of": instant(call.now),
            "system_as_of": str(cursor),
            "validated_through_cursor": str(cursor),
            "authorization_receipt_digest": asked.authorization["receipt_digest"],
            "revalidation_receipt_digest": revalidation_receipt_digest(
                asked.authorization, revalidated, call, cursor, answer_seal(key, packet)
            ),
            "checked_at": instant(call.now),
        },
    )
    whole = {**packet, "read_receipt": receipt}
    return {**whole, "packet_digest": receipt_digest("get-packet", whole)}
