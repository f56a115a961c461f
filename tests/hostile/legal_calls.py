"""Calls as they should be, one a tool: nonsense is made of them by changing one thing."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.tools.memory.world import PURPOSE, capture_arguments
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW

NO_RECORD = "mem_" + "a" * 52
NO_CANDIDATE = "candidate_" + "0" * 64
KEY = "key-of-at-least-16-bytes"
_TOMORROW = f"{dt.datetime.now(dt.UTC) + dt.timedelta(days=1):%Y-%m-%dT%H:%M:%S}.000Z"


def legal_calls() -> dict[str, dict[str, Any]]:
    """Return fresh arguments per tool, optional members included. None of them but the capture would write."""
    capture = capture_arguments("Nothing of this is ever kept.", KEY + ":capture")
    capture["payload"] |= {
        "valid_time": {"t": 1, "t_end": 2},
        "retention": {"derivative_rule": "make-ineligible", "expires_at": _TOMORROW},
        "reconciliation": {"family_refs": []},
    }
    capture["payload"]["citations"][0]["observed_at"] = "2026-08-16T12:34:56.789Z"
    capture["evidence"]["attestation"] = "seen"
    return {
        SEARCH: {
            "query": "nothing",
            "purpose_ref": PURPOSE,
            "limit": 3,
            "max_packet_bytes": 65_536,
            "capability_policy": {"minimum_channels": "lexical", "network": "forbid"},
            "page_cursor": "A" * 71,
        },
        GET: {"record_id": NO_RECORD, "purpose_ref": PURPOSE, "max_packet_bytes": 65_536},
        CAPTURE: capture,
        REQUEST_ADMISSION: {"candidate_id": NO_CANDIDATE, "idempotency_key": KEY},
        WITHDRAW: {"candidate_id": NO_CANDIDATE, "idempotency_key": KEY, "reason_ref": "reason:mistaken"},
        FORGET: {"record_id": NO_RECORD, "idempotency_key": KEY, "reason_ref": "reason:asked"},
    }


# What may be left out, by its last name; everything else is required.
OPTIONAL = {
    "limit", "max_packet_bytes", "capability_policy", "page_cursor", "t_end", "retention", "reconciliation",
    "observed_at", "attestation", "minimum_channels", "network", "derivative_rule", "expires_at",
}  # fmt: skip


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every place in a document but its root."""
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [found for step, inner in members for found in [(*path, step), *places(inner, (*path, step))]]


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def put(document: Any, path: tuple[str | int, ...], value: Any) -> None:
    at(document, path[:-1])[path[-1]] = value
