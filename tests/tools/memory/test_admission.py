"""request_admission: what a policy may answer, the guard on forgotten content, the secret screen's place in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from journal.clock import instant
from journal.digests import sealed_receipt
from journal.errors import CODES
from journal.lifecycle import State
from tests.tools.memory.world import (
    NOW,
    OTHER,
    SCOPE,
    Caller,
    World,
    capture_arguments,
    component,
    key,
    nfd,
)
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION
from tools.host.policies.port import PolicyAnswer, PolicyRequest, answer


class Scripted:
    """A policy that answers as a test says, and keeps what it was asked."""

    policy_id = "scripted"
    policy_version = "7"

    def __init__(self, script: Callable[[PolicyRequest], Any]) -> None:
        self._script = script
        self.asked: list[PolicyRequest] = []

    def decide(self, request: PolicyRequest) -> Any:
        self.asked.append(request)
        return self._script(request)


def deciding(decision: Any = "accept", **changes: Any) -> Callable[[PolicyRequest], PolicyAnswer]:
    """Return a script that answers with some fields changed, sealed again."""

    def script(request: PolicyRequest) -> PolicyAnswer:
        fields = {**msgspec.to_builtins(answer(request, decision, NOW)), **changes}
        return PolicyAnswer(**(fields if "receipt_digest" in changes else sealed_receipt("decision", fields)))

    return script


def raising(error: BaseException) -> Callable[[PolicyRequest], Any]:
    def script(_: PolicyRequest) -> Any:
        raise error

    return script


def decision_of(agent: Caller, candidate_id: str) -> dict[str, Any]:
    """Return the ledger of the newest event about a candidate."""
    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        for cursor in range(view.head.cursor, 0, -1):
            event = view.event(cursor)
            assert event is not None
            if event.header.subject == candidate_id:
                return journal.ledger(view, event.header)
    raise AssertionError


def admission(candidate_id: str) -> dict[str, Any]:
    return {"candidate_id": candidate_id, "idempotency_key": key()}


# --- the policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "status", "state"),
    [
        ("accept", "accepted", State.ACCEPTED_CURRENT),
        ("reject", "rejected", State.REJECTED),
        ("adjudication_required", "pending_adjudication", State.PENDING),
    ],
)
def test_a_policy_decides(world, decision, status, state):
    agent = world.caller(policy_port=Scripted(deciding(decision)))
    candidate_id = agent.capture()
    value = agent.value(REQUEST_ADMISSION, admission(candidate_id))
    assert value["replayed"] is False
    outcome = value["outcome"]
    assert outcome["status"] == status
    assert ("record_id" in outcome) == (status == "accepted")
    assert outcome["candidate_id"] == candidate_id
    assert outcome["cursor"] == str(agent.head if status != "rejected" else agent.head - 1)
    assert agent.state(candidate_id) is state
    assert decision_of(agent, candidate_id)["decision"]["decision"] == decision


def test_a_policy_sees_digests_and_references_alone(world):
    policy = Scripted(deciding())
    agent = world.caller(policy_port=policy)
    candidate_id = agent.capture("the words themselves")
    outcome = agent.admit(candidate_id)
    (request,) = policy.asked
    assert set(request.__struct_fields__) == {
        "policy_id", "policy_version", "record_digest", "payload_digest", "candidate_envelope_ref", "evidence_digest",
        "evidence_ref", "deadline",
    }  # fmt: skip
    record = agent.get(outcome["record_id"])["output"]["value"]["record"]
    assert request.record_digest == record["record_digest"]
    assert request.payload_digest == record["payload_digest"]
    assert request.candidate_envelope_ref == candidate_id
    assert request.evidence_ref == "evidence:minutes"
    assert (request.policy_id, request.policy_version) == ("scripted", "7")
    assert request.deadline == instant(NOW + 10_000)
    assert "words" not in repr(request)


REFUSED: dict[str, tuple[Callable[[PolicyRequest], Any], str]] = {
    "from the future": (deciding(issued_at=instant(NOW + 1)), "POLICY_STALE"),
    "older than 300 s": (deciding(issued_at=instant(NOW - 300_001)), "POLICY_STALE"),
    "another version": (deciding(policy_version="8"), "POLICY_STALE"),
    "another policy": (deciding(policy_id="other"), "POLICY_STALE"),
    "another record": (deciding(record_digest="sha256:" + 64 * "0"), "INVALID_DIGEST"),
    "another receipt": (deciding(receipt_digest="sha256:" + 64 * "0"), "INVALID_DIGEST"),
    "no instant": (deciding(issued_at="now"), "POLICY_UNAVAILABLE"),
    "no decision": (deciding("maybe"), "POLICY_UNAVAILABLE"),
    "decision of another type": (deciding(7), "POLICY_UNAVAILABLE"),
    "nothing": (lambda _: None, "POLICY_UNAVAILABLE"),
    "a word": (lambda _: "accept", "POLICY_UNAVAILABLE"),
    "seven fields": (
        lambda request: {**msgspec.to_builtins(answer(request, "accept", NOW)), "seventh": 1},
        "POLICY_UNAVAILABLE",
    ),
    "five fields": (
        lambda request: {
            k: v for k, v in msgspec.to_builtins(answer(request, "accept", NOW)).items() if k != "issued_at"
        },
        "POLICY_UNAVAILABLE",
    ),
    "an object": (lambda _: object(), "POLICY_UNAVAILABLE"),
    "raises": (raising(ValueError("boom")), "POLICY_UNAVAILABLE"),
    "unreachable": (raising(OSError("no route")), "POLICY_UNAVAILABLE"),
    "raises a code of its own": (raising(CODES["NOT_FOUND"]("x")), "POLICY_UNAVAILABLE"),
    "raises a conflict": (raising(CODES["DIGEST_CONFLICT"]("x")), "POLICY_UNAVAILABLE"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_an_answer_that_does_not_count_changes_nothing(world, agent, how):
    script, code = REFUSED[how]
    misled = world.caller(policy_port=Scripted(script))
    candidate_id = agent.capture()
    arguments = admission(candidate_id)
    before = agent.head
    document = misled.call(REQUEST_ADMISSION, arguments)
    assert (document["ok"], document["error"]["code"]) == (False, code)
    assert agent.state(candidate_id) is State.PENDING
    assert agent.head == before
    # Nothing is reserved: the same key asks again once the policy is well.
    assert agent.value(REQUEST_ADMISSION, arguments)["outcome"]["status"] == "accepted"


@pytest.mark.parametrize("age", [0, 1, 299_999, 300_000])
def test_an_answer_up_to_300_seconds_old_counts(world, age):
    agent = world.caller(policy_port=Scripted(deciding(issued_at=instant(NOW - age))))
    assert agent.admit(agent.capture())["status"] == "accepted"


def test_an_answer_after_the_deadline_is_none(world, agent):
    def slow(request: PolicyRequest) -> PolicyAnswer:
        world.clock.advance(milliseconds=10_001)
        return answer(request, "accept", world.clock.now())

    late = world.caller(policy_port=Scripted(slow))
    assert late.code(REQUEST_ADMISSION, admission(agent.capture())) == "POLICY_UNAVAILABLE"


def test_a_policy_upgrade_strands_no_older_candidate(world, agent):
    candidate_id = agent.capture()
    upgraded = Scripted(deciding())
    upgraded.policy_version = "8"
    outcome = world.caller(policy_port=upgraded).admit(candidate_id)
    assert outcome["status"] == "accepted"
    assert decision_of(agent, candidate_id)["decision"]["policy_version"] == "8"


def test_the_human_is_told_of_what_has_to_be_decided(world):
    agent = world.caller(policy="adjudicate")
    told: list[str] = []
    agent.engine.notify = told.append
    arguments = admission(agent.capture())
    assert agent.value(REQUEST_ADMISSION, arguments)["outcome"]["status"] == "pending_adjudication"
    assert told == ["candidate"]
    agent.value(REQUEST_ADMISSION, arguments)
    assert told == ["candidate"], "a replay is no news"
    accepting = world.caller()
    accepting.engine.notify = told.append
    accepting.admit(accepting.capture("other"))
    assert told == ["candidate"]


def test_a_rejected_candidates_key_is_destroyed(world):
    agent = world.caller(policy_port=Scripted(deciding("reject")))
    candidate_id = agent.capture()
    assert not world.journal.key_is_destroyed(SCOPE, candidate_id)
    agent.admit(candidate_id)
    assert world.journal.key_is_destroyed(SCOPE, candidate_id)
    assert world.journal.payload(SCOPE, candidate_id) is None


# --- unknown and foreign targets ------------------------------------------------------------------


def test_unknown_and_foreign_candidates_are_not_told_apart(world, agent):
    elsewhere = world.caller(OTHER)
    foreign = elsewhere.capture()
    answers = []
    for candidate_id in (foreign, "candidate_" + 64 * "0", "candidate_", "x", foreign + "0"):
        document = agent.call(REQUEST_ADMISSION, admission(candidate_id))
        answers.append({**document, "auditId": ""})
    assert answers[0]["error"]["code"] == "NOT_FOUND"
    assert all(answer == answers[0] for answer in answers)
    assert agent.head == 0


# --- forgotten content ----------------------------------------------------------------------------

TEXT = "The Café closes at nine, said 민수."
SAME = {
    "equal": TEXT,
    "spacing": "  The Café\tcloses\n at   nine, said\u3000민수. ",
    "letter case": "THE CAFÉ CLOSES AT NINE, SAID 민수.",
    "decomposed": nfd(TEXT),
    "compatibility forms": "Ｔｈｅ Ｃａｆé closes at nine, said 민수.",
}
OTHERS = {
    "a word more": TEXT + " Really.",
    "a sign less": TEXT[:-1],
    "no accent": "The Cafe closes at nine, said 민수.",
    "joined words": "TheCafé closes at nine, said 민수.",
}


def forgotten(world: World) -> Caller:
    agent = world.caller()
    agent.forget(agent.remember(TEXT))
    return agent


@pytest.mark.parametrize("how", SAME)
def test_forgotten_content_is_captured_and_waits_for_a_person(world, how):
    agent = forgotten(world)
    value = agent.value(CAPTURE, capture_arguments(SAME[how]))
    assert value["status"] == "committed_pending"
    outcome = agent.admit(value["candidate_id"])
    assert outcome["status"] == "pending_adjudication"
    assert "record_id" not in outcome
    assert agent.state(value["candidate_id"]) is State.PENDING
    assert decision_of(agent, value["candidate_id"])["reason"] == "forgotten-content"


@pytest.mark.parametrize("how", OTHERS)
def test_other_content_is_not_held_up(world, how):
    agent = forgotten(world)
    assert agent.admit(agent.capture(OTHERS[how]))["status"] == "accepted"


def test_the_forgotten_primary_text_alone_is_enough(world):
    agent = forgotten(world)
    more = [component("component:1", TEXT.upper()), component("component:2", "something else", "context")]
    assert agent.admit(agent.capture(components=more))["status"] == "pending_adjudication"
    moved = [component("component:2", "something else", "context"), component("component:1", TEXT)]
    assert agent.admit(agent.capture(components=moved))["status"] == "pending_adjudication"
    beside = [component("component:1", "something else"), component("component:2", TEXT, "context")]
    assert agent.admit(agent.capture(components=beside))["status"] == "accepted"


def test_all_forgotten_texts_in_their_order_are_enough(world):
    agent = world.caller()
    both = [component("component:1", "one"), component("component:2", "two", "context")]
    agent.forget(agent.remember(components=both))
    renamed = [component("component:a", "ONE", "evidence"), component("component:b", "two ")]
    other_primary = {"components": renamed, "primary_component_id": "component:b"}
    assert agent.admit(agent.capture(**other_primary))["status"] == "pending_adjudication"
    swapped = {**other_primary, "components": renamed[::-1]}
    assert agent.admit(agent.capture(**swapped))["status"] == "accepted"


def test_the_guard_outlives_restart_rotation_and_a_second_forgetting(world):
    from journal.events import Actor

    agent = forgotten(world)
    world.journal.rotate_keys(SCOPE, Actor("operator:tests"))
    world.restart()
    again = world.caller()
    assert again.admit(again.capture(TEXT))["status"] == "pending_adjudication"
    assert agent is not again


def test_the_guard_is_one_scopes(world):
    forgotten(world)
    elsewhere = world.caller(OTHER)
    assert elsewhere.admit(elsewhere.capture(TEXT))["status"] == "accepted"


def test_a_refusal_of_the_policy_stays_a_refusal(world):
    forgotten(world)
    for decision, status in (("reject", "rejected"), ("adjudication_required", "pending_adjudication")):
        agent = world.caller(policy_port=Scripted(deciding(decision)))
        candidate_id = agent.capture(TEXT)
        assert agent.admit(candidate_id)["status"] == status
        assert "reason" not in decision_of(agent, candidate_id)


def test_the_first_capture_of_forgotten_content_is_a_replay_and_no_decision(agent):
    arguments = capture_arguments(TEXT)
    first = agent.value(CAPTURE, arguments)
    outcome = agent.admit(first["candidate_id"])
    agent.forget(outcome["record_id"])
    again = agent.value(CAPTURE, arguments)
    assert (again["status"], again["candidate_id"]) == ("duplicate_exact", first["candidate_id"])
    assert agent.admit(first["candidate_id"]) == {**outcome, "status": "duplicate_exact"}


def test_a_forgetting_between_the_policy_and_the_lock_counts(world, agent):
    record_id = agent.remember(TEXT)

    def overtaken(request: PolicyRequest) -> PolicyAnswer:
        agent.forget(record_id)
        return answer(request, "accept", NOW)

    slow = world.caller(policy_port=Scripted(overtaken))
    assert slow.admit(agent.capture(TEXT))["status"] == "pending_adjudication"


def test_a_candidate_withdrawn_while_the_policy_thinks_stays_withdrawn(world, agent):
    candidate_id = agent.capture()

    def overtaken(request: PolicyRequest) -> PolicyAnswer:
        agent.withdraw(candidate_id)
        return answer(request, "accept", NOW)

    slow = world.caller(policy_port=Scripted(overtaken))
    assert slow.code(REQUEST_ADMISSION, admission(candidate_id)) == "ALREADY_TERMINAL"
    assert agent.state(candidate_id) is State.WITHDRAWN


def test_the_texts_of_the_tests_are_what_they_are_called():
    assert SAME["decomposed"] != TEXT
    assert unicodedata.normalize("NFC", SAME["decomposed"]) == TEXT
