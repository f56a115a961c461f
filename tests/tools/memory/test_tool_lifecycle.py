"""22 legal and 98 illegal cells, by the journal's own verb and through the tools; the illegal ones leave no event."""

from __future__ import annotations

import dataclasses

import pytest

from journal.errors import AlreadyTerminal, EngramError, IllegalTransition, JournalCorrupt
from journal.events import EventType
from journal.lifecycle import Operation, State
from tests.tools.memory.world import (
    SCOPE,
    Caller,
    World,
    capture_arguments,
    forgetting,
    key,
    transition_draft,
    withdrawal,
)
from tools.host.capabilities import CAPTURE, FORGET, REQUEST_ADMISSION, WITHDRAW
from tools.memory.engine import Engine

# Typed again from the contract's table, on purpose.
TABLE = """
capture           absent                                                                      pending
accept            pending                                                                     accepted_current
reject            pending                                                                     rejected
withdraw          pending                                                                     withdrawn
dispute           accepted_current                                                            accepted_disputed
resolve_dispute   accepted_disputed                                                           accepted_current
supersede         accepted_current,accepted_disputed                                          historical
mark_non_current  accepted_current,accepted_disputed                                          historical
rewind            historical                                                                  accepted_current
expire            accepted_current,accepted_disputed,historical                               expired
trust_invalidate  accepted_current,accepted_disputed,historical                               trust_invalid
tombstone         accepted_current,accepted_disputed,historical,expired,trust_invalid         tombstoned
"""
LEGAL = {
    (operation, state): to_state
    for operation, states, to_state in (line.split() for line in TABLE.split("\n") if line)
    for state in states.split(",")
}
STATES = [state.label for state in State]
OPERATIONS = [operation.label for operation in Operation]
CELLS = [(operation, state) for operation in OPERATIONS for state in STATES]
ILLEGAL = [cell for cell in CELLS if cell not in LEGAL]
TERMINAL = ("rejected", "withdrawn", "tombstoned")


def test_there_are_22_legal_and_98_illegal_cells():
    assert (len(LEGAL), len(ILLEGAL)) == (22, 98)


class Cells:
    """A candidate in any state, and a record that can succeed another."""

    def __init__(self, world: World) -> None:
        self.agent = world.caller()
        self.rejecting = world.caller(policy_port=Rejecting(self.agent.engine))

    def fresh(self) -> str:
        """Return a pending candidate whose text nobody forgot before."""
        return self.agent.capture(f"the text of {key()}")

    def candidate_in(self, state: str) -> str:
        """Return the id of a candidate in this state, reached by legal steps."""
        agent = self.agent
        if state == "absent":
            return "candidate_" + 64 * "a"
        candidate_id = self.fresh()
        if state == "rejected":
            assert self.rejecting.admit(candidate_id)["status"] == "rejected"
        elif state == "withdrawn":
            agent.transit(candidate_id, Operation.WITHDRAW)
        elif state != "pending":
            agent.admit(candidate_id)
            for operation, label in (
                (Operation.DISPUTE, "accepted_disputed"),
                (Operation.MARK_NON_CURRENT, "historical"),
                (Operation.EXPIRE, "expired"),
                (Operation.TRUST_INVALIDATE, "trust_invalid"),
                (Operation.TOMBSTONE, "tombstoned"),
            ):
                if label == state:
                    agent.transit(candidate_id, operation)
        assert agent.state(candidate_id).label == state
        return candidate_id

    def attempt(self, operation: str, candidate_id: str) -> None:
        """Ask the journal for a transition, with a fitting successor where one is needed."""
        agent, kind = self.agent, Operation[operation.upper()]
        related = None
        if kind in (Operation.SUPERSEDE, Operation.REWIND):
            related = self.fresh()
            agent.admit(related)
        state = agent.state(candidate_id)
        draft = transition_draft(agent.engine.journal, SCOPE, candidate_id, kind, state, related)
        if kind is Operation.CAPTURE:
            draft = with_content(agent, draft)
        if kind not in BEFORE_ACCEPTANCE:
            draft = dataclasses.replace(draft, record_id="mem_" + 52 * "a")
        before = agent.head
        try:
            agent.engine.journal.commit(SCOPE, lambda view: [draft])
        except EngramError:
            assert agent.head == before, "a refused transition takes no cursor"
            assert agent.state(candidate_id) == state
            raise


BEFORE_ACCEPTANCE = (Operation.CAPTURE, Operation.REJECT, Operation.WITHDRAW)


def with_content(agent: Caller, draft):
    journal = agent.engine.journal
    data_key = journal.take_key(SCOPE)
    content = journal.seal_content(SCOPE, draft.event_id, draft.subject, data_key, {})
    return dataclasses.replace(
        draft, key_id=data_key.key_id, slot=data_key.slot, slot_generation=data_key.generation, content=content
    )


class Rejecting:
    """A policy that rejects everything."""

    policy_id = "rejecting"
    policy_version = "1"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def decide(self, request):
        from tools.host.policies.port import answer

        return answer(request, "reject", self._engine.clock.now())


@pytest.fixture
def cells(world: World) -> Cells:
    return Cells(world)


def test_every_legal_cell_is_written(cells):
    for (operation, state), to_state in LEGAL.items():
        candidate_id = cells.candidate_in(state)
        cells.attempt(operation, candidate_id)
        assert cells.agent.state(candidate_id).label == to_state, (operation, state)


def test_no_illegal_cell_is_written(cells):
    standing = {state: cells.candidate_in(state) for state in STATES}
    for operation, state in ILLEGAL:
        expected = AlreadyTerminal if state in TERMINAL else IllegalTransition
        with pytest.raises(expected):
            cells.attempt(operation, standing[state])


def test_no_event_misstates_where_it_comes_from_or_leads_to(cells):
    agent = cells.agent
    candidate_id = cells.candidate_in("accepted_current")
    draft = transition_draft(agent.engine.journal, SCOPE, candidate_id, Operation.DISPUTE, State.ACCEPTED_CURRENT)
    draft = dataclasses.replace(draft, record_id=agent.record_id_of(candidate_id))
    before = agent.head
    for wrong in (
        dataclasses.replace(draft, to_state=State.HISTORICAL),
        dataclasses.replace(draft, from_state=State.PENDING),
        dataclasses.replace(draft, to_state=State.TOMBSTONED),
    ):
        with pytest.raises(JournalCorrupt):
            agent.engine.journal.commit(SCOPE, lambda view, wrong=wrong: [wrong])
    assert agent.head == before


@pytest.mark.parametrize("operation", ["supersede", "rewind"])
def test_a_successor_is_another_record_that_is_current(cells, operation):
    agent, kind = cells.agent, Operation[operation.upper()]
    subject = cells.candidate_in("accepted_current" if operation == "supersede" else "historical")
    before = agent.head
    for related in (None, subject, "candidate_" + 64 * "9", *(cells.candidate_in(state) for state in TERMINAL)):
        before = agent.head
        with pytest.raises(EngramError):
            agent.transit(subject, kind, related)
        assert agent.head == before


def test_a_rewind_makes_its_successor_historical_in_the_same_event(cells):
    agent = cells.agent
    old, new = cells.candidate_in("accepted_current"), cells.candidate_in("accepted_current")
    agent.transit(old, Operation.SUPERSEDE, new)
    before = agent.head
    agent.transit(old, Operation.REWIND, new)
    assert agent.head == before + 1
    assert (agent.state(old), agent.state(new)) == (State.ACCEPTED_CURRENT, State.HISTORICAL)


# --- through the tools ----------------------------------------------------------------------------

ADMISSION = {
    "absent": "NOT_FOUND", "pending": "accepted", "withdrawn": "ALREADY_TERMINAL", "rejected": "duplicate_exact",
    "accepted_current": "duplicate_exact", "accepted_disputed": "duplicate_exact", "historical": "duplicate_exact",
    "expired": "duplicate_exact", "trust_invalid": "duplicate_exact", "tombstoned": "duplicate_exact",
}  # fmt: skip
WITHDRAWAL = {
    "absent": "NOT_FOUND", "pending": "withdrawn", "withdrawn": "ALREADY_TERMINAL", "rejected": "ALREADY_TERMINAL",
    "accepted_current": "ILLEGAL_TRANSITION", "accepted_disputed": "ILLEGAL_TRANSITION",
    "historical": "ILLEGAL_TRANSITION", "expired": "ILLEGAL_TRANSITION", "trust_invalid": "ILLEGAL_TRANSITION",
    "tombstoned": "ALREADY_TERMINAL",
}  # fmt: skip
FORGETTING = {
    "absent": "NOT_FOUND", "pending": "NOT_FOUND", "withdrawn": "NOT_FOUND", "rejected": "NOT_FOUND",
    "accepted_current": "tombstoned", "accepted_disputed": "tombstoned", "historical": "tombstoned",
    "expired": "tombstoned", "trust_invalid": "tombstoned", "tombstoned": "ALREADY_TERMINAL",
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_request_admission_from_every_state(cells, state):
    agent, candidate_id = cells.agent, cells.candidate_in(state)
    before = agent.head
    document = agent.call(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()})
    if not document["ok"]:
        assert document["error"]["code"] == ADMISSION[state]
    else:
        value = document["output"]["value"]
        assert (value["outcome"]["status"], value["replayed"]) == (ADMISSION[state], False)
        assert ("record_id" in value["outcome"]) == (state != "rejected")
    assert agent.head == before + (state == "pending")


@pytest.mark.parametrize("state", STATES)
def test_withdraw_from_every_state(cells, state):
    agent, candidate_id = cells.agent, cells.candidate_in(state)
    before = agent.head
    if state == "pending":
        receipt = agent.withdraw(candidate_id)["receipt"]
        assert (receipt["operation"], receipt["from_state"], receipt["to_state"]) == (
            "withdraw",
            "pending",
            "withdrawn",
        )
    else:
        assert agent.code(WITHDRAW, withdrawal(candidate_id)) == WITHDRAWAL[state]
        assert agent.head == before
        assert agent.requests() == []


@pytest.mark.parametrize("state", STATES)
def test_forget_from_every_state(cells, state):
    agent, candidate_id = cells.agent, cells.candidate_in(state)
    record_id = undisclosed_record_id(agent, candidate_id)
    before = agent.head
    if FORGETTING[state] == "tombstoned":
        receipt = agent.forget(record_id)["receipt"]
        assert (receipt["operation"], receipt["from_state"], receipt["to_state"]) == ("tombstone", state, "tombstoned")
    else:
        assert agent.code(FORGET, forgetting(record_id)) == FORGETTING[state]
        assert agent.head == before
        assert agent.requests() == []


def undisclosed_record_id(agent: Caller, candidate_id: str) -> str:
    """Return the id that a candidate's record has or would have; of one without content, an id that nobody has."""
    from tools.memory.records import record_of

    journal = agent.engine.journal
    with journal.store.view(SCOPE) as view:
        subject = view.subject(candidate_id)
        event = None if subject is None else view.event(subject.born)
        if subject is None or event is None:
            return "mem_" + 52 * "a"
        content = journal.content(view, event.header)
    return subject.record_id or (
        "mem_" + 52 * "b" if content is None else record_of(event.header, content)["record_id"]
    )


def test_withdraw_then_admit_is_refused(agent):
    candidate_id = agent.capture()
    agent.withdraw(candidate_id)
    before = agent.head
    assert agent.code(REQUEST_ADMISSION, {"candidate_id": candidate_id, "idempotency_key": key()}) == "ALREADY_TERMINAL"
    assert agent.head == before


def test_accept_then_withdraw_is_refused(agent):
    candidate_id = agent.capture()
    agent.admit(candidate_id)
    assert agent.code(WITHDRAW, withdrawal(candidate_id)) == "ILLEGAL_TRANSITION"


def test_replaying_a_withdrawal_of_a_withdrawn_candidate_succeeds(agent):
    candidate_id = agent.capture()
    arguments = withdrawal(candidate_id)
    first = agent.confirmed(WITHDRAW, arguments)
    assert agent.value(WITHDRAW, arguments) == first
    assert agent.code(WITHDRAW, {**arguments, "idempotency_key": key()}) == "ALREADY_TERMINAL"


def test_the_ids_of_one_kind_are_no_targets_of_another(agent):
    candidate_id = agent.capture()
    agent.code(WITHDRAW, withdrawal(agent.capture()))
    confirmation_id = agent.requests()[0].confirmation_id
    before = agent.head
    for other in (confirmation_id, agent.remember(), candidate_id.upper(), candidate_id + "0", " " + candidate_id):
        assert agent.code(REQUEST_ADMISSION, {"candidate_id": other, "idempotency_key": key()}) == "NOT_FOUND"
        assert agent.code(WITHDRAW, withdrawal(other)) == "NOT_FOUND"
    assert agent.head == before + 2
    assert EventType.TOMBSTONE.label not in {kind for kind, _ in agent.events()}
    assert agent.value(CAPTURE, capture_arguments())["status"] == "committed_pending"
