"""engram_memory_get: one record by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import receipt_digest, sealed_receipt
from journal.errors import NotFound, ProjectionOversized
from tools.host.capabilities import GET
from tools.host.grants import authorize, revalidate
from tools.memory.arguments import get_arguments
from tools.memory.reading import readable_record, revalidation_receipt_digest
from tools.memory.records import redacted

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine


def get(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value.

    Raises:
        InvalidSchema: the arguments do not fit. UntrustedContext: the purpose is not bound.
        NotFound: unknown, out of scope or not readable now: which of them is not told.
        ProjectionOversized: the packet is over max_packet_bytes.
    """
    arguments = get_arguments(raw)
    call.binding.require_purpose(arguments.purpose_ref)
    resource = engine.resource_digest(call.scope, arguments.record_id)
    authorization = authorize(call.binding, GET, resource, call.now, randomness=engine.randomness, epoch=engine.epoch)
    with engine.journal.store.view(call.scope) as view:
        cursor = view.head.cursor
        candidate_id = view.candidate_of(arguments.record_id)
        record = readable_record(engine.journal, view, candidate_id, call, arguments.purpose_ref)
    if record is None:
        raise NotFound("no readable record of this id")
    revalidated = revalidate(authorization, engine.clock.now(), engine.epoch(call.scope))
    revalidation = revalidation_receipt_digest(authorization, revalidated, call, cursor)
    receipt = sealed_receipt(
        "read",
        {
            "record_id": record["record_id"],
            "record_digest": record["record_digest"],
            "valid_as_of": instant(call.now),
            "system_as_of": str(cursor),
            "validated_through_cursor": str(cursor),
            "authorization_receipt_digest": authorization["receipt_digest"],
            "revalidation_receipt_digest": revalidation,
            "checked_at": instant(call.now),
        },
    )
    packet = {**redacted(record), "read_receipt": receipt}
    value = {**packet, "packet_digest": receipt_digest("get-packet", packet)}
    if len(canonical_bytes(value)) > min(arguments.max_packet_bytes, call.binding.packet_cap_bytes):
        raise ProjectionOversized("the packet is over the budget")
    return value
