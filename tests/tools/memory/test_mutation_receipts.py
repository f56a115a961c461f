"""Receipts and ids of the four mutations: every field of the contract, and each digest derived again."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import msgspec
import pytest
from blake3 import blake3

from journal.canonical import canonical_bytes
from journal.digests import payload_digest, receipt_digest
from journal.events import Actor, EventType, Header
from journal.frames import event_digest
from journal.lifecycle import State
from journal.scope import Scope
from tests.tools.memory.world import (
    NOW,
    SCOPE,
    Caller,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.memory import transition
from tools.memory.erasure import finish_erasures
from tools.memory.receipts import transaction_receipt_digest
from tools.memory.records import effective_payload, record_of

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TRANSITION = {
    "event_id", "operation", "from_state", "to_state", "cursor", "event_digest", "authorization_receipt_digest",
    "transaction_receipt_digest",
}  # fmt: skip


def event_at(agent: Caller, cursor: str) -> Any:
    with agent.engine.journal.store.view(SCOPE) as view:
        return view.event(int(cursor))


def ledger_at(agent: Caller, cursor: str) -> Any:
    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        event = view.event(int(cursor))
        assert event is not None
        return journal.ledger(view, event.header)


def sha256_of(domain: str, value: Any) -> str:
    return "sha256:" + hashlib.sha256(domain.encode() + b"\0" + canonical_bytes(value)).hexdigest()


def test_a_capture_tells_what_was_committed(agent):
    value = agent.value(CAPTURE, capture_arguments())
    assert set(value) == {"status", "candidate_id", "cursor", "transaction_receipt_digest"}
    assert (value["status"], value["cursor"]) == ("committed_pending", "1")
    event = event_at(agent, value["cursor"])
    assert value["transaction_receipt_digest"] == transaction_receipt_digest(event)
    identity = {"event_id": event.header.event_id.hex()}
    assert value["candidate_id"] == (
        "candidate_" + sha256_of("graphify-memory/capture-identity/v1", identity).removeprefix("sha256:")
    )
    assert event.header.subject == value["candidate_id"]


def test_a_transaction_receipt_binds_the_event_its_place_and_its_predecessor(agent):
    agent.value(CAPTURE, capture_arguments("before"))
    value = agent.value(CAPTURE, capture_arguments())
    event = event_at(agent, value["cursor"])
    before = event_at(agent, "1")
    receipt = {
        "schema_version": 1,
        "scope_ref": SCOPE.ref,
        "event_id": "event_" + event.header.event_id.hex(),
        "event_type": "capture",
        "subject": value["candidate_id"],
        "cursor": "2",
        "event_digest": "sha256:" + hashlib.sha256(b"\0" + event.frame).hexdigest(),
        "previous": blake3(before.frame).hexdigest(),
    }
    assert value["transaction_receipt_digest"] == sha256_of("graphify-memory/transaction/v1", receipt)


def test_an_admission_tells_the_decision(agent):
    candidate_id = agent.capture()
    value = agent.value(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})
    assert set(value) == {"outcome", "replayed"}
    outcome = value["outcome"]
    assert set(outcome) == {
        "status", "candidate_id", "record_id", "cursor", "decision_receipt_digest", "transaction_receipt_digest",
    }  # fmt: skip
    ledger = ledger_at(agent, outcome["cursor"])
    assert outcome["decision_receipt_digest"] == receipt_digest("decision", ledger["decision"])
    assert set(ledger["decision"]) == {
        "policy_id", "policy_version", "record_digest", "decision", "issued_at", "receipt_digest",
    }  # fmt: skip
    record = agent.get(outcome["record_id"])["output"]["value"]["record"]
    assert ledger["decision"]["record_digest"] == record["record_digest"]
    assert DIGEST.fullmatch(ledger["authorization_receipt_digest"])
    raw = bytes.fromhex(record["record_digest"].removeprefix("sha256:"))
    assert outcome["record_id"] == "mem_" + base64.b32encode(raw).decode().lower().rstrip("=")
    assert len(outcome["record_id"]) == 56


@pytest.mark.parametrize("tool", [WITHDRAW, FORGET])
def test_a_transition_tells_its_receipt(agent, tool):
    if tool == WITHDRAW:
        value = agent.confirmed(WITHDRAW, withdrawal(agent.capture()))
        assert set(value) == {"receipt", "replayed", "key_destruction"}
        expected = ("withdraw", "pending", "withdrawn")
    else:
        value = agent.confirmed(FORGET, forgetting(agent.remember()))
        assert set(value) == {"receipt", "replayed", "projection_invalidation", "coverage_receipt_digest"}
        expected = ("tombstone", "accepted_current", "tombstoned")
    receipt = value["receipt"]
    assert set(receipt) == TRANSITION
    assert (receipt["operation"], receipt["from_state"], receipt["to_state"]) == expected
    event = event_at(agent, receipt["cursor"])
    assert receipt["event_id"] == "event_" + event.header.event_id.hex()
    assert receipt["event_digest"] == event_digest(event.frame)
    assert receipt["transaction_receipt_digest"] == transaction_receipt_digest(event)
    ledger = ledger_at(agent, receipt["cursor"])
    assert receipt["authorization_receipt_digest"] == ledger["authorization_receipt_digest"]
    assert ledger["reason_ref"].startswith("reason:")


# --- what lives -----------------------------------------------------------------------------------


def test_a_withdrawals_key_destruction_tells_the_present(world, agent, monkeypatch):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    with monkeypatch.context() as late:
        late.setattr(world.journal, "finish_destructions", lambda *_, **__: False)
        assert agent.confirmed(WITHDRAW, arguments)["key_destruction"] == "pending"
    world.journal.finish_destructions(SCOPE)
    value = agent.value(WITHDRAW, arguments)
    assert value["key_destruction"] == "complete"
    assert world.journal.payload(SCOPE, candidate_id) is None


def test_a_destruction_that_fails_is_no_failure_of_the_commit(world, agent, monkeypatch):
    from journal.errors import StoreUnavailable

    def failing(*_: Any, **__: Any) -> bool:
        raise StoreUnavailable("the slot file cannot be written")

    candidate_id = agent.capture()
    with monkeypatch.context() as broken:
        broken.setattr(world.journal, "finish_destructions", failing)
        value = agent.confirmed(WITHDRAW, withdrawal(candidate_id))
    assert (value["receipt"]["to_state"], value["key_destruction"]) == ("withdrawn", "pending")
    assert agent.state(candidate_id) is State.WITHDRAWN


def test_a_forgettings_coverage_tells_the_present(world, agent, monkeypatch):
    record_id = agent.remember("to be forgotten")
    agent.found("forgotten")
    arguments = forgetting(record_id)
    with monkeypatch.context() as busy:
        busy.setattr(transition, "erase_now", lambda _engine, _scope: None)
        first = agent.confirmed(FORGET, arguments)
    assert first["projection_invalidation"] == "pending"
    assert "coverage_receipt_digest" not in first
    assert finish_erasures(agent.engine, SCOPE)
    value = agent.value(FORGET, arguments)
    assert value["projection_invalidation"] == "complete"
    assert DIGEST.fullmatch(value["coverage_receipt_digest"])
    assert {name: value[name] for name in first if name != "projection_invalidation"} == {
        name: first[name] for name in first if name != "projection_invalidation"
    }
    done = [event for event in world.journal.store.read(SCOPE, 0, 100) if event.header.type == EventType.ERASURE_DONE]
    coverage = ledger_at(agent, str(done[-1].header.cursor))["coverage"]
    assert value["coverage_receipt_digest"] == coverage["receipt_digest"] == receipt_digest("coverage", coverage)
    assert {each["projection"] for each in coverage["projections"]} == set(agent.engine.projections(SCOPE).names)
    assert finish_erasures(agent.engine, SCOPE)
    assert agent.value(FORGET, arguments) == value


# --- the effective payload and the golden vector --------------------------------------------------

GOLDEN: dict[str, Any] = {
    "schema_version": 2,
    "scope_ref": "scope:case-7",
    "purpose_ref": "purpose:case",
    "valid_time": {"t": 1755350096789, "t_end": 1755350096789},
    "components": [
        {
            "component_id": "component:decision",
            "kind": "decision",
            "text": "Applied the documented correction.",
            "citation_ids": ["citation:source"],
        }
    ],
    "primary_component_id": "component:decision",
    "primary_event": {
        "at": 1755350096789,
        "type_ref": "event:correction-applied",
        "citation_id": "citation:source",
    },
    "citations": [
        {
            "citation_id": "citation:source",
            "source_ref": "source:case",
            "locator": {"scheme": "document", "value": "case-7#correction"},
            "content_digest": "sha256:" + 64 * "a",
            "observed_at": "2026-08-16T12:34:56.789Z",
        }
    ],
    "retention": {"derivative_rule": "make-ineligible"},
    "reconciliation": {"family_refs": []},
}


def test_a_record_is_made_as_the_golden_vector_is():
    a = "sha256:" + 64 * "a"
    instant = "2026-08-16T12:34:56.789Z"
    trust = {
        "class": "asserted", "evidence_digest": a, "verifier_id": "engine:asserted", "verifier_version": "1",
        "issued_at": instant, "revocation_epoch": "0", "receipt_digest": a,
    }  # fmt: skip
    capture = Header(
        format=1, type=1, scope=Scope.of("t", "w"), cursor=7, recorded_at=1_786_883_696_789, event_id=bytes(32),
        actor=Actor("p"), subject="candidate_x", record_id=None, related=None, from_state=0, to_state=1, key_id=None,
        intent=None, guards=(), content_digest=None, ledger_digest=None, prev=bytes(32),
    )  # fmt: skip
    record = record_of(capture, {"payload": GOLDEN, "trust": trust, "authorization": {"receipt_digest": a}})
    assert record["recorded_at"] == instant
    assert record["payload_digest"] == "sha256:df5abcbf1d1091794c1f37efcd89e5f7bd6b91afa631e29f084178d35c55e913"
    assert record["record_digest"] == "sha256:c75783c63ab735102bf1cf8fb361f8eee2771d3accb233a7e67c3354b5094415"
    assert record["record_id"] == "mem_y5lyhrr2w42rak7rz6h3gypy53rhohj2zszdhj7gpqzvjnijiqkq"


def test_the_effective_payload_resolves_scope_retention_and_families():
    sent = {name: item for name, item in GOLDEN.items() if name not in ("scope_ref", "retention", "reconciliation")}
    before = msgspec.json.encode(sent)
    resolved = effective_payload(SCOPE, sent)
    assert msgspec.json.encode(sent) == before
    assert resolved == {**GOLDEN, "scope_ref": SCOPE.ref}
    until = {**sent, "retention": {"expires_at": "2030-01-01T00:00:00.000Z"}}
    assert effective_payload(SCOPE, until)["retention"] == {
        "derivative_rule": "make-ineligible",
        "expires_at": "2030-01-01T00:00:00.000Z",
    }
    kept = {**sent, "retention": {"derivative_rule": "retain"}}
    assert effective_payload(SCOPE, kept)["retention"] == {"derivative_rule": "retain"}
    assert payload_digest(resolved) != payload_digest(effective_payload(Scope.of("tenant", "other"), sent))


def test_equal_captures_are_distinct_records(agent):
    # The authorization receipt's nonce is in the record digest: a guess at the content tells nothing.
    first, second = agent.remember("the same"), agent.remember("the same")
    assert first != second
    one, two = (agent.get(record_id)["output"]["value"]["record"] for record_id in (first, second))
    assert one["payload_digest"] == two["payload_digest"]


# --- the envelope ---------------------------------------------------------------------------------


def test_an_envelope_has_its_fields(agent):
    good = agent.call(CAPTURE, capture_arguments())
    assert set(good) == {"ok", "output", "auditId", "redactionClass"}
    assert set(good["output"]) == {"schema_version", "value"}
    assert (good["ok"], good["output"]["schema_version"], good["redactionClass"]) == (True, 1, "high")
    bad = agent.call(CAPTURE, {})
    assert set(bad) == {"ok", "auditId", "redactionClass", "error"}
    assert (bad["ok"], bad["redactionClass"]) == (False, "high")
    assert set(bad["error"]) == {"code", "message", "retriable"}


def test_what_is_too_large_or_no_json_is_refused(agent):
    for arguments in (
        {"query": "x", "purpose_ref": "purpose:work", "extra": "y" * 1_048_576},
        {"query": object(), "purpose_ref": "purpose:work"},
        {"query": "\ud800", "purpose_ref": "purpose:work"},
        {1: 2},
        {"query": float("nan"), "purpose_ref": "purpose:work"},
    ):
        assert agent.code("engram_memory_search", arguments) == "INVALID_SCHEMA"


def test_arguments_are_at_most_a_mebibyte(agent):
    around = len(msgspec.json.encode({"record_id": "mem_", "purpose_ref": "purpose:work"}))
    for size_bytes, code in ((1_048_575, "NOT_FOUND"), (1_048_576, "NOT_FOUND"), (1_048_577, "INVALID_SCHEMA")):
        arguments = {"record_id": "mem_" + (size_bytes - around) * "a", "purpose_ref": "purpose:work"}
        assert agent.code("engram_memory_get", arguments) == code


def test_a_deadline_that_has_passed_writes_nothing(agent):
    arguments = capture_arguments("late")
    assert agent.code(CAPTURE, arguments, seconds=-1) == "DEADLINE_EXCEEDED"
    assert agent.head == 0
    assert agent.value(CAPTURE, arguments)["status"] == "committed_pending"


def test_recorded_time_is_the_captures_and_never_decreases(world, agent):
    first = agent.remember("one")
    world.clock.set(NOW - 5_000)
    second = agent.remember("two", valid_time={"t": 0})
    world.clock.set(NOW)
    records = [agent.get(record_id)["output"]["value"]["record"] for record_id in (first, second)]
    assert records[0]["recorded_at"] == records[1]["recorded_at"]
    assert records[1]["trust"]["issued_at"] < records[1]["recorded_at"]
