"""What an acceptance proposes, in its own transaction, and what it never does."""

from __future__ import annotations

from typing import Any

from journal.events import EventType
from journal.lifecycle import Operation, State
from tests.tools.memory.test_admission import Scripted
from tests.tools.memory.world import NOW, OTHER, SCOPE, Caller, World
from tools.host.policies.port import PolicyAnswer, PolicyRequest, answer
from tools.memory.families import BINARY_STATUS
from tools.memory.proposals import proposals

FAMILY: dict[str, Any] = {"reconciliation": {"family_refs": [BINARY_STATUS]}}


def asserting(agent: Caller, text: str, at: int = NOW - 1_000, **changes: Any) -> str:
    """Have an agent assert something; return the candidate id of the record."""
    outcome = agent.admit(agent.capture(text, **{**FAMILY, "valid_time": {"t": at}, **changes}))
    assert outcome["status"] == "accepted"
    return outcome["candidate_id"]


def made(world: World) -> list[tuple[str, str, str, str | None]]:
    """Return (relation, record, other record, superseding) of every proposal, candidate ids."""
    return [
        (each.relation, each.candidate_id, each.other_id, each.superseding_id)
        for each in proposals(world.journal, SCOPE)
    ]


def test_a_contradiction_is_proposed_in_the_transaction_of_the_acceptance(world, agent):
    first = asserting(agent, "빌드|상태|active")
    assert made(world) == []
    told: list[str] = []
    agent.engine.notify = told.append
    second = asserting(agent, "빌드|상태|inactive")
    assert made(world) == [("contradicts", second, first, None)]
    assert [kind for kind, _ in agent.events()][-2:] == ["accept", "reconciliation_proposed"]
    assert told == ["proposal"]
    assert agent.state(first) is State.ACCEPTED_CURRENT
    assert agent.state(second) is State.ACCEPTED_CURRENT
    header = list(world.journal.store.read(SCOPE, 0, 100))[-1].header
    assert (header.subject, header.related, header.actor.principal) == (second, first, "engram:system")


def test_the_direction_is_the_later_concrete_values_whichever_was_accepted_first(world, agent):
    unknown = asserting(agent, "a|b|unknown", at=1)
    concrete = asserting(agent, "a|b|active", at=2)
    assert made(world) == [("supersedes", concrete, unknown, concrete)]
    late = asserting(agent, "c|d|active", at=2)
    early = asserting(agent, "c|d|unknown", at=1)
    assert made(world)[1:] == [("supersedes", early, late, late)]
    same = asserting(agent, "e|f|active", at=1)
    also = asserting(agent, "e|f|unknown", at=1)
    assert made(world)[2:] == [("needs_adjudication", also, same, None)]


def test_equal_values_other_matters_and_other_trust_propose_nothing(world, agent):
    asserting(agent, "a|b|active")
    asserting(agent, "A | b|active")
    asserting(agent, "a|c|inactive")
    assert made(world) == []
    agent.remember("a|b|inactive")  # did not opt in
    assert made(world) == []


def test_only_records_in_force_pair(world, agent):
    disputed, historical, forgotten = (asserting(agent, f"{name}|b|active") for name in "xyz")
    agent.transit(disputed, Operation.DISPUTE)
    agent.transit(historical, Operation.MARK_NON_CURRENT)
    agent.forget(agent.record_id_of(forgotten))
    agent.capture("w|b|active", **FAMILY)  # pending
    for name in "wxyz":
        asserting(agent, f"{name}|b|inactive")
    assert made(world) == []
    agent.transit(disputed, Operation.RESOLVE_DISPUTE)
    again = asserting(agent, "x|b|unknown", at=NOW)
    assert {(relation, record) for relation, record, _, _ in made(world)} == {("needs_adjudication", again)}
    assert disputed in {other for _, _, other, _ in made(world)}
    assert len(made(world)) == 2


def test_other_scopes_never_pair(world, agent):
    elsewhere = world.caller(OTHER)
    assert elsewhere.admit(elsewhere.capture("a|b|active", **FAMILY))["status"] == "accepted"
    asserting(agent, "a|b|inactive")
    assert made(world) == []
    assert proposals(world.journal, OTHER) == []


def test_a_family_that_the_host_does_not_allow_any_more_proposes_nothing(world, agent):
    asserting(agent, "a|b|active")
    candidate_id = agent.capture("a|b|inactive", **FAMILY)
    assert world.caller(families=frozenset()).admit(candidate_id)["status"] == "accepted"
    assert made(world) == []


def test_one_accepted_while_the_policy_thinks_pairs_too(world, agent):
    others: list[str] = []

    def overtaken(request: PolicyRequest) -> PolicyAnswer:
        others.append(asserting(agent, "a|b|active"))
        return answer(request, "accept", NOW)

    slow = world.caller(policy_port=Scripted(overtaken))
    mine = slow.admit(slow.capture("a|b|inactive", **FAMILY))["candidate_id"]
    assert made(world) == [("contradicts", mine, others[0], None)]


def test_two_processes_pair(world, agent):
    first = asserting(agent, "a|b|active")
    with world.second_process() as other:
        from tests.tools.memory.world import capture_arguments, key

        captured = other.call("engram_memory_capture", capture_arguments("a|b|inactive", "", **FAMILY))
        candidate_id = captured["output"]["value"]["candidate_id"]
        asked = {"candidate_id": candidate_id, "idempotency_key": key()}
        assert other.call("engram_memory_request_admission", asked)["ok"]
    assert made(world) == [("contradicts", candidate_id, first, None)]
    third = asserting(agent, "a|b|active", at=NOW)
    assert made(world)[1:] == [("contradicts", third, candidate_id, None)]


def test_a_rejection_and_a_replay_propose_nothing(world, agent):
    asserting(agent, "a|b|active")
    candidate_id = agent.capture("a|b|inactive", **FAMILY)
    rejecting = world.caller(policy_port=Scripted(lambda request: answer(request, "reject", NOW)))
    rejecting.admit(candidate_id)
    assert made(world) == []
    asserting(agent, "a|b|inactive")
    before = len(made(world))
    agent.admit(candidate_id)
    assert len(made(world)) == before == 1


def test_an_acceptance_proposes_so_many_and_no_more(world, agent, monkeypatch):
    from journal import limits

    monkeypatch.setattr(limits, "PROPOSALS_MAX", 2)
    _, second, third = (asserting(agent, "a|b|active") for _ in range(3))
    mine = asserting(agent, "a|b|inactive")
    assert [(record, other) for _, record, other, _ in made(world)] == [(mine, third), (mine, second)]


def test_no_word_of_what_is_asserted_stands_in_a_proposal(world, agent):
    asserting(agent, "plantedword|b|active")
    asserting(agent, "plantedword|b|inactive")
    with world.journal.store.view(SCOPE) as view:
        event = view.event(view.head.cursor)
        assert event is not None
        assert event.header.kind is EventType.RECONCILIATION_PROPOSED
        ledger = world.journal.ledger(view, event.header)
    assert ledger == {"family_ref": BINARY_STATUS, "relation": "contradicts"}


def test_what_was_forgotten_leaves_the_memory_too(world, agent):
    gone = asserting(agent, "plantedword|b|active")
    asserting(agent, "plantedword|b|active")
    agent.forget(agent.record_id_of(gone))
    asserting(agent, "other|b|active")
    kept = agent.engine.assertions(SCOPE)
    assert gone not in str(kept._matters)
    assert gone not in kept._matter_of
