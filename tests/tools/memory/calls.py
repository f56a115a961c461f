"""The whole arguments of each tool, and what becomes of changed ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from journal.errors import InvalidSchema
from tests.tools.memory.world import at, citation, evidence, payload
from tools.memory import arguments

SAFE = 9_007_199_254_740_991
RECORD_ID = "mem_" + 52 * "a"
CANDIDATE_ID = "candidate_" + 64 * "0"
HAN, SMILE, ACCENT = "한", "\U0001f642", "\u0301"

Convert = Callable[[dict[str, Any]], Any]

SEARCH: dict[str, Any] = {
    "query": "nightly build",
    "purpose_ref": "purpose:work",
    "limit": 10,
    "max_packet_bytes": 65_536,
    "capability_policy": {"minimum_channels": "lexical", "network": "forbid"},
    "page_cursor": "A" * 71,
}
GET: dict[str, Any] = {"record_id": RECORD_ID, "purpose_ref": "purpose:work", "max_packet_bytes": 65_536}
CAPTURE: dict[str, Any] = {
    "idempotency_key": "a-key-of-sixteen",
    "payload": payload(
        valid_time={"t": 1, "t_end": 2},
        citations=[citation("citation:1", observed_at="2026-08-16T12:34:56.789Z")],
        retention={"derivative_rule": "make-ineligible", "expires_at": "2030-01-01T00:00:00.000Z"},
        reconciliation={"family_refs": ["assertion-family:binary-status"]},
    ),
    "evidence": evidence(attestation="seen"),
}
ADMISSION: dict[str, Any] = {"candidate_id": CANDIDATE_ID, "idempotency_key": "a-key-of-sixteen"}
WITHDRAW: dict[str, Any] = {**ADMISSION, "reason_ref": "reason:mistaken"}
FORGET: dict[str, Any] = {"record_id": RECORD_ID, "idempotency_key": "a-key-of-sixteen", "reason_ref": "reason:asked"}

WHOLE: dict[str, tuple[Convert, dict[str, Any]]] = {
    "search": (arguments.search_arguments, SEARCH),
    "get": (arguments.get_arguments, GET),
    "capture": (arguments.capture_arguments, CAPTURE),
    "request_admission": (arguments.admission_arguments, ADMISSION),
    "withdraw": (arguments.withdraw_arguments, WITHDRAW),
    "forget": (arguments.forget_arguments, FORGET),
}
OPTIONAL = {
    ("search", path) for path in (
        "limit", "max_packet_bytes", "capability_policy", "capability_policy.minimum_channels",
        "capability_policy.network", "page_cursor",
    )
} | {("get", "max_packet_bytes")} | {
    ("capture", path) for path in (
        "payload.valid_time.t_end", "payload.citations.0.observed_at", "payload.retention",
        "payload.retention.derivative_rule", "payload.retention.expires_at",
        "payload.reconciliation", "evidence.attestation",
    )
}  # fmt: skip


def accepted(tool: str, document: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    WHOLE[tool][0](document)
    assert document == before, "arguments are kept as they were sent"


def refused(tool: str, document: Any) -> None:
    with pytest.raises(InvalidSchema):
        WHOLE[tool][0](document)


def paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of every member and element below a value."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = [(str(number), item) for number, item in enumerate(value)]
    for name, item in items:
        below = f"{path}.{name}" if path else name
        yield below
        yield from paths(item, below)


EVERY = [(tool, path) for tool, (_, document) in WHOLE.items() for path in paths(document)]
OBJECTS = [(tool, path) for tool, path in EVERY if isinstance(at(WHOLE[tool][1], path), dict)]
MEMBERS = [(tool, path) for tool, path in EVERY if not path.split(".")[-1].isdigit()]


def named(value: Any) -> str:
    return value if isinstance(value, str) and value.isascii() and len(value) < 60 else repr(value)[:24]
