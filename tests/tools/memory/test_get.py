"""engram_memory_get: what is readable, what is not told apart, and the receipts of a read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.digests import receipt_digest, record_digest, record_id_of
from journal.lifecycle import Operation
from tests.tools.memory.world import (
    DAY,
    NOW,
    OTHER,
    PURPOSE,
    SCOPE,
    SECOND,
    Caller,
    World,
    capture_arguments,
    component,
    key,
)
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION, SEARCH, WITHDRAW
from tools.host.sections import PurposeSection
from tools.memory.records import record_of
from tools.server.service import UnknownTool, UntrustedContext

UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def would_be_id(agent: Caller, candidate_id: str) -> str:
    """Return the record id that a candidate has or would have, as only the store's owner can know it."""
    journal = agent.engine.journal
    with journal.store.view(agent.scope) as view:
        subject = view.subject(candidate_id)
        assert subject is not None
        event = view.event(subject.born)
        assert event is not None
        content = journal.content(view, event.header)
    assert content is not None
    return record_of(event.header, content)["record_id"]


def unreadable(world: World, agent: Caller) -> dict[str, str]:
    """Return record ids of every kind that must not be told from an unknown one."""
    ids = {"unknown": "mem_" + 52 * "a", "short": "mem_a", "long": "mem_" + 4_000 * "z"}
    ids["foreign"] = world.caller(OTHER).remember("foreign")
    ids["pending"] = would_be_id(agent, agent.capture("pending"))
    for name, operation in (
        ("disputed", Operation.DISPUTE),
        ("historical", Operation.MARK_NON_CURRENT),
        ("expired by event", Operation.EXPIRE),
        ("trust invalid", Operation.TRUST_INVALIDATE),
        ("tombstoned by the host", Operation.TOMBSTONE),
    ):
        candidate_id = agent.capture(name)
        ids[name] = agent.admit(candidate_id)["record_id"]
        agent.transit(candidate_id, operation)
    for name, operation in (("withdrawn", Operation.WITHDRAW), ("rejected", Operation.REJECT)):
        candidate_id = agent.capture(name)
        ids[name] = would_be_id(agent, candidate_id)
        agent.transit(candidate_id, operation)
    ids["forgotten"] = agent.remember("forgotten")
    agent.forget(ids["forgotten"])
    old, new = agent.capture("old"), agent.capture("new")
    ids["superseded"] = agent.admit(old)["record_id"]
    agent.admit(new)
    agent.transit(old, Operation.SUPERSEDE, new)
    ids["not yet valid"] = agent.remember("not yet valid", valid_time={"t": NOW + 1})
    ids["no longer valid"] = agent.remember("no longer valid", valid_time={"t": 0, "t_end": NOW - 1})
    ids["another purpose"] = agent.remember("another purpose", purpose_ref=SECOND)
    ids["expired by the clock"] = agent.remember("expired", retention={"expires_at": instant(NOW + 1)})
    return ids


def test_what_cannot_be_read_is_not_told_apart(world, agent):
    known = agent.remember("known")
    ids = unreadable(world, agent)
    world.clock.advance(milliseconds=1)
    ids["not yet valid"] = agent.remember("not yet valid again", valid_time={"t": NOW + 2})
    before = agent.head
    answers = {name: agent.get(record_id) for name, record_id in ids.items()}
    assert agent.get(known)["ok"]
    audit_ids = {answer.pop("auditId") for answer in answers.values()}
    assert len(audit_ids) == len(ids)
    assert all(UUID4.fullmatch(audit_id) for audit_id in audit_ids)
    (only,) = {str(answer) for answer in answers.values()}
    assert only == str({
        "ok": False,
        "redactionClass": "high",
        "error": {"code": "NOT_FOUND", "message": "No such target is available.", "retriable": False},
    })  # fmt: skip
    assert agent.head == before
    # Nor does a search find any of them.
    assert agent.found("pending disputed historical expired invalid tombstoned withdrawn rejected forgotten old") == []


def test_unknown_and_foreign_records_are_not_told_apart_by_forget(world, agent):
    foreign = world.caller(OTHER).remember("foreign")
    answers = []
    for record_id in (foreign, "mem_" + 52 * "a", "mem_a", "mem_" + 1_000 * "a"):
        arguments = {"record_id": record_id, "idempotency_key": key(), "reason_ref": "reason:x"}
        answers.append({**agent.call(FORGET, arguments), "auditId": ""})
    assert answers[0]["error"]["code"] == "NOT_FOUND"
    assert all(answer == answers[0] for answer in answers)
    assert agent.head == 0
    assert world.caller(OTHER).get(foreign)["ok"]


def test_unknown_and_foreign_candidates_are_not_told_apart_by_withdraw(world, agent):
    foreign = world.caller(OTHER).capture("foreign")
    answers = []
    for candidate_id in (foreign, "candidate_" + 64 * "a", "candidate_x", "x", 500 * "a"):
        arguments = {"candidate_id": candidate_id, "idempotency_key": key(), "reason_ref": "reason:x"}
        answers.append({**agent.call(WITHDRAW, arguments), "auditId": ""})
    assert answers[0]["error"]["code"] == "NOT_FOUND"
    assert all(answer == answers[0] for answer in answers)
    assert agent.head == 0


# --- boundaries -----------------------------------------------------------------------------------


def readable(agent: Caller, record_id: str) -> bool:
    """Whether get gives a record; search must agree."""
    got = agent.get(record_id)["ok"]
    assert (record_id in agent.found("boundary")) == got
    return got


def test_validity_is_closed_to_the_millisecond(world, agent):
    record_id = agent.remember("boundary", valid_time={"t": NOW + 10, "t_end": NOW + 20})
    for later, expected in ((0, False), (9, False), (10, True), (11, True), (19, True), (20, True), (21, False)):
        world.clock.set(NOW + later)
        assert readable(agent, record_id) is expected, later


def test_a_record_may_be_valid_for_one_millisecond(world, agent):
    record_id = agent.remember("boundary", valid_time={"t": NOW + 5, "t_end": NOW + 5})
    for later, expected in ((4, False), (5, True), (6, False)):
        world.clock.set(NOW + later)
        assert readable(agent, record_id) is expected, later


def test_expiry_is_open_to_the_millisecond_and_needs_no_event(world, agent):
    record_id = agent.remember("boundary", retention={"expires_at": instant(NOW + 1_000)})
    for later, expected in ((0, True), (999, True), (1_000, False), (1_001, False), (DAY, False)):
        world.clock.set(NOW + later)
        assert readable(agent, record_id) is expected, later
    assert "expire" not in {kind for kind, _ in agent.events()}


def test_a_record_without_an_end_stays_valid(world, agent):
    record_id = agent.remember("boundary", valid_time={"t": -9_007_199_254_740_991})
    world.clock.advance(milliseconds=100 * 365 * DAY)
    assert readable(agent, record_id)


def test_what_the_host_restores_is_readable_again(agent):
    candidate_id = agent.capture("boundary")
    record_id = agent.admit(candidate_id)["record_id"]
    for operation, expected in (
        (Operation.DISPUTE, False), (Operation.RESOLVE_DISPUTE, True), (Operation.MARK_NON_CURRENT, False),
    ):  # fmt: skip
        agent.transit(candidate_id, operation)
        assert readable(agent, record_id) is expected


# --- purposes -------------------------------------------------------------------------------------


def test_a_record_is_read_under_its_purpose_and_those_it_is_compatible_with(world):
    purposes = (PurposeSection(ref=PURPOSE, compatible=(SECOND,)), PurposeSection(ref=SECOND))
    agent = world.caller(purposes=purposes)
    work = agent.remember("work", purpose_ref=PURPOSE)
    second = agent.remember("work too", purpose_ref=SECOND)
    assert [agent.get(record_id, purpose_ref=PURPOSE)["ok"] for record_id in (work, second)] == [True, False]
    assert [agent.get(record_id, purpose_ref=SECOND)["ok"] for record_id in (work, second)] == [True, True]
    assert set(agent.found("work", purpose_ref=PURPOSE)) == {work}
    assert set(agent.found("work", purpose_ref=SECOND)) == {work, second}


@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE])
def test_a_purpose_that_the_host_did_not_bind_is_a_protocol_refusal(agent, tool):
    def arguments(purpose_ref: Any) -> dict[str, Any]:
        return {
            SEARCH: {"query": "x", "purpose_ref": purpose_ref},
            GET: {"record_id": "mem_a", "purpose_ref": purpose_ref},
            CAPTURE: capture_arguments("x", purpose_ref=purpose_ref),
        }[tool]

    with pytest.raises(UntrustedContext) as caught:
        agent.call(tool, arguments("purpose:another"))
    assert (caught.value.code, caught.value.message) == (-32603, "trusted invocation context unavailable")
    assert "another" not in str(caught.value)
    for malformed in ("", 513 * "p", "purpose:\u1112\u1161\u11ab", 7, ["purpose:work"]):
        assert agent.code(tool, arguments(malformed)) == "INVALID_SCHEMA"
    # A malformed call is malformed whatever its purpose.
    for whole in ({**arguments("purpose:another"), "extra": 1},):
        assert agent.code(tool, whole) == "INVALID_SCHEMA"


@pytest.mark.parametrize("tool", [SEARCH, GET, CAPTURE, REQUEST_ADMISSION, WITHDRAW, FORGET])
def test_an_ungranted_tool_is_unknown(world, tool):
    granted = frozenset({SEARCH, GET, CAPTURE, REQUEST_ADMISSION, WITHDRAW, FORGET} - {tool})
    agent = world.caller(granted=granted)
    assert set(agent.service.listed_tools()) == granted
    for arguments in ({}, capture_arguments()):
        with pytest.raises(UnknownTool) as caught:
            agent.call(tool, arguments)
        assert caught.value.code == -32602
    off = world.caller(enabled=False)
    assert off.service.listed_tools() == ()
    with pytest.raises(UnknownTool):
        off.call(tool, {})


def test_the_service_names_its_purposes(agent):
    assert agent.service.purposes() == (PURPOSE, SECOND)


# --- receipts -------------------------------------------------------------------------------------

PACKET = {"record", "redacted_fields", "redaction_receipt_digest", "read_receipt", "packet_digest"}
READ_RECEIPT = {
    "record_id", "record_digest", "valid_as_of", "system_as_of", "validated_through_cursor",
    "authorization_receipt_digest", "revalidation_receipt_digest", "checked_at", "receipt_digest",
}  # fmt: skip
RECORD = {
    "schema_version", "purpose_ref", "valid_time", "components", "primary_component_id", "primary_event", "citations",
    "retention", "reconciliation", "record_id", "payload_digest", "record_digest", "recorded_at", "recorded_cursor",
    "trust",
}  # fmt: skip


def test_a_packet_and_its_receipt_have_their_fields(world, agent):
    world.clock.advance(milliseconds=5)
    candidate_id = agent.capture()
    world.clock.advance(milliseconds=5)
    record_id = agent.admit(candidate_id)["record_id"]
    world.clock.advance(milliseconds=5)
    value = agent.get(record_id)["output"]["value"]
    assert set(value) == PACKET
    assert set(value["record"]) == RECORD
    receipt = value["read_receipt"]
    assert set(receipt) == READ_RECEIPT
    assert receipt["record_id"] == value["record"]["record_id"] == record_id
    assert receipt["record_digest"] == value["record"]["record_digest"]
    assert receipt["valid_as_of"] == receipt["checked_at"] == instant(NOW + 15)
    assert receipt["system_as_of"] == receipt["validated_through_cursor"] == "2"
    assert value["record"]["recorded_at"] == instant(NOW + 5), "the capture's, not the acceptance's"
    assert value["record"]["recorded_cursor"] == "1"
    digests = [name for name in receipt if name.endswith("_digest")]
    assert all(DIGEST.fullmatch(receipt[name]) for name in digests)
    assert len({receipt[name] for name in digests}) == len(digests)


def test_every_digest_of_a_packet_can_be_derived_again(agent):
    value = agent.get(agent.remember())["output"]["value"]
    assert value["read_receipt"]["receipt_digest"] == receipt_digest("read", value["read_receipt"])
    packet = {name: item for name, item in value.items() if name != "packet_digest"}
    assert value["packet_digest"] == receipt_digest("get-packet", packet)
    redaction = {
        "schema_version": 1,
        "record_id": value["record"]["record_id"],
        "record_digest": value["record"]["record_digest"],
        "profile": "agent-v1",
        "redacted_fields": value["redacted_fields"],
    }
    assert value["redaction_receipt_digest"] == receipt_digest("redaction", redaction)
    assert value["record"]["record_id"] == record_id_of(value["record"]["record_digest"])
    trust = value["record"]["trust"]
    assert trust["receipt_digest"] == receipt_digest("trust", trust)
    assert set(trust) == {
        "class", "evidence_digest", "verifier_id", "verifier_version", "issued_at", "revocation_epoch",
        "receipt_digest",
    }  # fmt: skip
    assert trust["class"] == "asserted"


def test_a_redacted_record_says_what_was_taken(world, agent):
    record_id = agent.remember()
    value = agent.get(record_id)["output"]["value"]
    assert value["redacted_fields"] == ["authorization_receipt_digest", "scope_ref"]
    whole = whole_record(world, agent, record_id)
    assert set(whole) - set(value["record"]) == set(value["redacted_fields"])
    assert {name: whole[name] for name in value["record"]} == value["record"]
    assert whole["record_digest"] == record_digest(whole)
    assert whole["scope_ref"] == SCOPE.ref


def whole_record(world: World, agent: Caller, record_id: str) -> dict[str, Any]:
    with world.journal.store.view(SCOPE) as view:
        candidate_id = view.candidate_of(record_id)
        assert candidate_id is not None
        subject = view.subject(candidate_id)
        assert subject is not None
        event = view.event(subject.born)
        assert event is not None
        content = world.journal.content(view, event.header)
    assert content is not None
    return record_of(event.header, content)


def test_nothing_of_scope_or_authorization_reaches_an_agent(world):
    agent = world.caller()
    arguments = capture_arguments("seen by an agent")
    capture = agent.call(CAPTURE, arguments)
    candidate_id = capture["output"]["value"]["candidate_id"]
    admission = agent.call(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})
    record_id = admission["output"]["value"]["outcome"]["record_id"]
    whole = whole_record(world, agent, record_id)
    got = agent.get(record_id)
    searched = agent.call(SEARCH, {"query": "seen", "purpose_ref": PURPOSE, "limit": 1})
    agent.remember("seen by another agent")
    paged = agent.call(SEARCH, {"query": "seen", "purpose_ref": PURPOSE, "limit": 1})
    forgotten = agent.forget(record_id)
    withdrawn = agent.withdraw(agent.capture("seen and withdrawn"))
    answers = repr([capture, admission, got, searched, paged, forgotten, withdrawn])
    assert SCOPE.tag.hex() not in answers
    assert SCOPE.tenant_id not in answers
    assert whole["authorization_receipt_digest"] not in answers
    assert agent.engine.binding.principal not in answers
    assert record_id not in repr(capture), "the record id is disclosed at acceptance"
    assert whole["record_digest"] not in repr(capture)


def test_the_record_id_does_not_depend_on_the_admission(world, agent):
    candidate_id = agent.capture()
    before = would_be_id(agent, candidate_id)
    world.clock.advance(milliseconds=DAY)
    assert agent.admit(candidate_id)["record_id"] == before


# --- budget ---------------------------------------------------------------------------------------


def test_a_packet_over_the_budget_is_said_to_be(world, agent):
    record_id = agent.remember(components=[component("component:1", 9_000 * "a")])
    size_bytes = len(canonical_bytes(agent.get(record_id)["output"]["value"]))
    assert agent.get(record_id, max_packet_bytes=size_bytes)["ok"]
    assert agent.get(record_id, max_packet_bytes=size_bytes - 1)["error"]["code"] == "PROJECTION_OVERSIZED"
    capped = world.caller(packet_cap_bytes=size_bytes - 1)
    assert capped.get(record_id, max_packet_bytes=1 << 20)["error"]["code"] == "PROJECTION_OVERSIZED"
    assert world.caller(packet_cap_bytes=size_bytes).get(record_id, max_packet_bytes=1 << 20)["ok"]


def test_text_comes_back_as_it_was_sent(agent):
    texts = [
        "카페\u0301",
        "\u1112\u1161\u11ab\u1100\u1173\u11af",
        "a\x00b\r\n\u2028\t",
        "\U0001f642\u200d\u202e",
        '"\\/<&>',
    ]
    for text in texts:
        record = agent.get(agent.remember(text))["output"]["value"]["record"]
        assert record["components"][0]["text"] == text
