"""engram_memory_capture: retention, families, and nothing taken that could never be given back."""

from __future__ import annotations

import unicodedata
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from journal import limits
from journal.canonical import canonical_bytes
from journal.clock import instant
from journal.events import Actor, Header
from tests.tools.memory.world import (
    DAY,
    NOW,
    SCOPE,
    Caller,
    World,
    capture_arguments,
    citation,
    component,
    evidence,
    key,
    payload,
)
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION, SEARCH
from tools.memory.capture import _packet_bytes
from tools.memory.records import asserted_trust, effective_payload, record_of, redacted

CEILING = 30 * DAY


@pytest.fixture
def careful(world: World) -> Caller:
    """An agent whose host allows records to be kept for thirty days."""
    return world.caller(retention_ceiling_milliseconds=CEILING)


def until(moment: int) -> dict[str, Any]:
    return {"retention": {"expires_at": instant(moment)}}


# --- retention ------------------------------------------------------------------------------------


def test_derivatives_become_ineligible_unless_said_otherwise(agent):
    for retention in (None, {}, {"derivative_rule": "make-ineligible"}):
        record = agent.get(agent.remember(retention=retention))["output"]["value"]["record"]
        assert record["retention"] == {"derivative_rule": "make-ineligible"}
    record = agent.get(agent.remember(**until(NOW + DAY)))["output"]["value"]["record"]
    assert record["retention"] == {"derivative_rule": "make-ineligible", "expires_at": instant(NOW + DAY)}


def test_retaining_derivatives_is_the_hosts_to_allow(world, agent):
    arguments = capture_arguments(retention={"derivative_rule": "retain"})
    assert agent.code(CAPTURE, arguments) == "UNAUTHORIZED"
    assert agent.head == 0
    allowing = world.caller(allow_retain=True)
    assert allowing.value(CAPTURE, arguments)["status"] == "committed_pending"


@pytest.mark.parametrize(
    ("moment", "code"),
    [
        (NOW - DAY, "INVALID_SCHEMA"),
        (NOW - 1, "INVALID_SCHEMA"),
        (NOW, "INVALID_SCHEMA"),
        (NOW + 1, "ok"),
        (NOW + CEILING - 1, "ok"),
        (NOW + CEILING, "ok"),
        (NOW + CEILING + 1, "UNAUTHORIZED"),
        (253_402_300_799_999, "UNAUTHORIZED"),
    ],
)
def test_expiry_is_after_the_capture_and_within_the_ceiling(careful, moment, code):
    assert careful.code(CAPTURE, capture_arguments(**until(moment))) == code
    assert careful.head == (code == "ok")


def test_the_retention_of_the_first_capture_is_reused_after_it_has_passed(world, careful):
    arguments = capture_arguments("kept shortly", **until(NOW + 1_000))
    first = careful.value(CAPTURE, arguments)
    world.clock.advance(milliseconds=10 * CEILING)
    assert careful.value(CAPTURE, arguments) == {**first, "status": "duplicate_exact"}
    # The candidate can still be admitted; as a record nobody can read it.
    outcome = careful.admit(first["candidate_id"])
    assert outcome["status"] == "accepted"
    assert careful.get(outcome["record_id"])["error"]["code"] == "NOT_FOUND"
    assert careful.found("shortly") == []


# --- families -------------------------------------------------------------------------------------


def test_a_family_needs_the_hosts_consent(world, agent):
    binary = {"family_refs": ["assertion-family:binary-status"]}
    record = agent.get(agent.remember("door|status|active", reconciliation=binary))["output"]["value"]["record"]
    assert record["reconciliation"] == binary
    for refs in (["assertion-family:other"], ["assertion-family:binary-status", "assertion-family:other"]):
        assert agent.code(CAPTURE, capture_arguments(reconciliation={"family_refs": refs})) == "UNAUTHORIZED"
    none = world.caller(families=frozenset())
    assert none.code(CAPTURE, capture_arguments(reconciliation=binary)) == "UNAUTHORIZED"
    assert none.code(CAPTURE, capture_arguments(reconciliation={"family_refs": []})) == "ok"


# --- an agent never names what the host owns ------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("scope_ref", "scope:other"),
        ("record_id", "mem_a"),
        ("trust", {"class": "signed"}),
        ("recorded_at", instant(NOW)),
        ("payload_digest", "sha256:" + 64 * "a"),
    ],
)
def test_a_payload_names_nothing_that_is_the_hosts(agent, path, value):
    assert agent.code(CAPTURE, capture_arguments(**{path: value})) == "INVALID_SCHEMA"


def test_trust_is_what_an_agent_asserts_and_no_more(world, agent):
    world.clock.advance(milliseconds=7)
    arguments = capture_arguments()
    arguments["evidence"]["attestation"] = "signed: the director"
    candidate_id = agent.value(CAPTURE, arguments)["candidate_id"]
    record_id = agent.admit(candidate_id)["record_id"]
    trust = agent.get(record_id)["output"]["value"]["record"]["trust"]
    assert (trust["class"], trust["verifier_id"], trust["revocation_epoch"]) == ("asserted", "engine:asserted", "0")
    assert trust["evidence_digest"] == arguments["evidence"]["evidence_digest"]
    assert trust["issued_at"] == instant(NOW + 7)


# --- what could never fit -------------------------------------------------------------------------


def test_every_capture_that_is_taken_can_be_got_and_searched_at_the_cap(world):
    # The largest text that the capture takes, found by halving, at several caps.
    for cap in (4_096, 6_000, 20_000):
        agent = world.caller(packet_cap_bytes=cap)
        least, most = 0, 65_536
        while most - least > 1:
            middle = (least + most) // 2
            taken = agent.code(CAPTURE, capture_arguments("harvest " + middle * "x")) == "ok"
            least, most = (middle, most) if taken else (least, middle)
        assert_serves(agent, "harvest " + least * "x")
        assert agent.code(CAPTURE, capture_arguments("harvest " + most * "x")) == "INVALID_SCHEMA"


def assert_serves(agent: Caller, text: str, **changes: Any) -> None:
    """Check that a record can be got and searched under the host's cap, alone and with others beside it."""
    cap = agent.engine.binding.packet_cap_bytes
    record_id = agent.remember(text, **changes)
    beside = agent.remember(f"harvest {cap}")
    got = agent.value(
        "engram_memory_get", {"record_id": record_id, "purpose_ref": "purpose:work", "max_packet_bytes": cap}
    )
    assert len(canonical_bytes(got)) <= cap
    found, cursor = [], None
    while True:
        more: dict[str, Any] = {"page_cursor": cursor} if cursor else {}
        value = agent.value(
            SEARCH, {"query": "harvest", "purpose_ref": "purpose:work", "max_packet_bytes": cap, **more}
        )
        assert len(canonical_bytes(value)) <= cap
        found += [packet["record"]["record_id"] for packet in value["records"]]
        cursor = value.get("next_page_cursor")
        if cursor is None:
            break
    assert {record_id, beside} <= set(found)
    agent.forget(record_id)
    agent.forget(beside)


def test_the_caps_boundary_is_the_measure_to_the_byte(world):
    arguments = capture_arguments("카페 " * 40)
    size_bytes = _packet_bytes(effective_payload(SCOPE, arguments["payload"]))
    assert world.caller(packet_cap_bytes=size_bytes - 1).code(CAPTURE, arguments) == "INVALID_SCHEMA"
    assert world.caller(packet_cap_bytes=size_bytes).code(CAPTURE, arguments) == "ok"


def test_a_cap_below_the_smallest_record_takes_nothing(world):
    agent = world.caller(packet_cap_bytes=2_900)
    assert agent.code(CAPTURE, capture_arguments("x")) == "INVALID_SCHEMA"
    assert agent.head == 0


def overhead(agent: Caller, record_id: str) -> list[int]:
    """Return how many bytes each answer that carries a record takes beside it."""
    got = agent.get(record_id, max_packet_bytes=1 << 20)["output"]["value"]
    agent.remember("harvest another, so that there is a next page")
    searched = agent.search("harvest", limit=1, max_packet_bytes=1 << 20)
    assert "next_page_cursor" in searched
    record = len(canonical_bytes(got["record"]))
    shown = len(canonical_bytes(searched["records"][0]["record"]))
    return [len(canonical_bytes(got)) - record, len(canonical_bytes(searched)) - shown]


REFS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).map(
    lambda text: unicodedata.normalize("NFC", text)
)


@hypothesis.given(
    text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=400),
    ref=REFS,
    valid=st.tuples(st.integers(-(2**53) + 1, 2**53 - 1), st.integers(-(2**53) + 1, 2**53 - 1)).map(sorted),
)
@hypothesis.settings(max_examples=40, suppress_health_check=list(hypothesis.HealthCheck))
def test_a_record_is_measured_as_it_will_be_answered(text, ref, valid):
    # What a capture counts is what an answer holds, to the byte, but for the recorded cursor's digits.
    made = payload(
        valid_time={"t": valid[0], "t_end": valid[1]},
        components=[component(ref, text, cited=(ref,))],
        primary_component_id=ref,
        primary_event={"at": valid[0], "type_ref": ref, "citation_id": ref},
        citations=[citation(ref, source_ref=ref, observed_at=instant(NOW))],
    )
    counted = _packet_bytes(effective_payload(SCOPE, made)) - limits.ANSWER_RECEIPTS_MAX_BYTES
    shown = shown_bytes(made)
    assert 0 <= counted - shown <= 20


def shown_bytes(made: dict[str, Any]) -> int:
    """Return the size of the record that an agent sees of a payload, recorded at cursor 1."""
    header = Header(
        format=1, type=1, scope=SCOPE, cursor=1, recorded_at=NOW, event_id=bytes(32), actor=Actor("p"), subject="c",
        record_id=None, related=None, from_state=0, to_state=1, key_id=None, intent=None, guards=(),
        content_digest=None, ledger_digest=None, prev=bytes(32),
    )  # fmt: skip
    digest = "sha256:" + 64 * "a"
    content = {
        "payload": effective_payload(SCOPE, made),
        "trust": asserted_trust(digest, NOW),
        "authorization": {"receipt_digest": digest},
    }
    return len(canonical_bytes(redacted(record_of(header, content))["record"]))


def test_the_bound_on_what_stands_around_a_record_is_one(world):
    # The most that can stand around it: the longest cursors, scores and windows, and a scope of the longest names.
    agent = world.caller()
    record_id = agent.remember("harvest " * 50)
    for _ in range(55):
        agent.remember("harvest again")
    measured = overhead(agent, record_id)
    digits = 4 * (20 - 1) + 20 + 10  # cursors of 20 digits, a rank of 10, a score of 20
    assert max(measured) + digits <= limits.ANSWER_RECEIPTS_MAX_BYTES
    assert max(measured) > limits.ANSWER_RECEIPTS_MAX_BYTES // 2, "a bound that says something"


def test_the_largest_payload_of_the_contract_is_taken_and_served(agent):
    components = [component(f"component:{n}", "harvest " + n * "가" + 14_000 * "x", "context") for n in range(64)]
    large: dict[str, Any] = {"components": components, "primary_component_id": "component:0"}
    assert_serves(agent, "", **large)
    over = {**large, "components": [{**each, "text": each["text"] + 3_000 * "y"} for each in components]}
    assert agent.code(CAPTURE, capture_arguments(**over)) == "INVALID_SCHEMA"


def test_64_components_with_256_citations_are_served(agent):
    ids = [f"citation:{number:03}" for number in range(256)]
    components = [component(f"component:{n}", f"harvest {n}", cited=tuple(ids)) for n in range(64)]
    made = payload(
        components=components,
        primary_component_id="component:63",
        citations=[citation(each) for each in ids],
        primary_event={"at": 0, "type_ref": "event:x", "citation_id": "citation:255"},
    )
    arguments = {"idempotency_key": key(), "payload": made, "evidence": evidence(citation_ids=ids)}
    candidate_id = agent.value(CAPTURE, arguments)["candidate_id"]
    outcome = agent.value(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})["outcome"]
    record = agent.get(outcome["record_id"], max_packet_bytes=1 << 20)["output"]["value"]["record"]
    assert {name: record[name] for name in made} == made
    assert agent.found("harvest 17", max_packet_bytes=1 << 20) == [outcome["record_id"]]
