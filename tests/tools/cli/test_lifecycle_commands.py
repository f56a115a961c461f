"""engram records supersede, dispute, resolve, rewind, expire, mark-non-current, trust-invalidate."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from journal.errors import AuthorizationRevoked, EngramError
from journal.lifecycle import LEGAL, Operation, State
from tests.tools.memory.world import NOW, SCOPE, World, forgetting, withdrawal
from tools.host.capabilities import FORGET, WITHDRAW
from tools.memory.maintenance import DONE, Order, carry_out

ALONE = {
    "dispute": ("accepted_disputed", "disputed"),
    "expire": ("expired", "expired"),
    "mark-non-current": ("historical", "marked as not current"),
    "trust-invalidate": ("trust_invalid", "no longer trusted"),
}
WORDS = {
    Operation.DISPUTE: "dispute",
    Operation.RESOLVE_DISPUTE: "resolve",
    Operation.SUPERSEDE: "supersede",
    Operation.MARK_NON_CURRENT: "mark-non-current",
    Operation.REWIND: "rewind",
    Operation.EXPIRE: "expire",
    Operation.TRUST_INVALIDATE: "trust-invalidate",
}


def _remembered(desk, *texts):
    with desk.agent() as agent:
        return [agent.remember(text) for text in texts]


def _found(desk, query):
    with desk.agent() as agent:
        return agent.found(query)


def _states(desk):
    return {row["record_id"]: row["state"] for row in desk.json("records", "list")}


def _audited(desk):
    audit = desk.json("audit")
    assert audit["ok"], audit
    return audit["scopes"][0]["head_cursor"]


@pytest.mark.parametrize("name", ALONE)
def test_agents_find_it_no_more(open_desk, name):
    record, other = _remembered(open_desk, "The nightly build moved.", "The nightly build stayed.")
    value = open_desk.json("records", name, record, "--reason", "다시 봐야 한다")
    state, _ = ALONE[name]
    assert (value["record_id"], value["from_state"], value["to_state"]) == (record, "accepted_current", state)
    assert (value["replayed"], value["successor"], value["cursor"]) == (False, None, "5")
    assert _states(open_desk) == {record: state, other: "accepted_current"}
    with open_desk.agent() as agent:
        assert agent.found("nightly build") == [other]
        assert agent.get(record)["error"]["code"] == "NOT_FOUND"
    told = open_desk.json("records", "history", record)[-1]
    assert told["type"] == value["operation"]
    assert told["ledger"]["reason"] == "다시 봐야 한다"
    assert told["actor"]["principal"].startswith("operator:")
    assert told["ledger"]["authorization_receipt_digest"] == value["authorization_receipt_digest"]
    _audited(open_desk)


@pytest.mark.parametrize("name", ALONE)
def test_the_same_command_again_changes_nothing(open_desk, name):
    (record,) = _remembered(open_desk, "The nightly build moved.")
    first = open_desk.json("records", name, record)
    head = _audited(open_desk)
    again = open_desk.json("records", name, record, "--reason", "another reason, which is not kept")
    assert again == {**first, "replayed": True}
    said = open_desk.ok("records", name, record).out
    assert f"nothing was changed: it is {ALONE[name][1]} already, since cursor 3" in said
    assert _audited(open_desk) == head


def test_a_dispute_that_is_resolved_and_raised_again(open_desk):
    (record,) = _remembered(open_desk, "The nightly build moved.")
    open_desk.ok("records", "dispute", record)
    assert _found(open_desk, "nightly") == []
    assert "agents find it again" in open_desk.ok("records", "resolve", record).out
    assert _found(open_desk, "nightly") == [record]
    assert open_desk.json("records", "resolve", record)["replayed"]
    assert not open_desk.json("records", "dispute", record)["replayed"]
    assert _states(open_desk) == {record: "accepted_disputed"}
    types = [chapter["type"] for chapter in open_desk.json("records", "history", record)]
    assert types == ["capture", "accept", "dispute", "resolve_dispute", "dispute"]


def test_supersede_and_rewind(open_desk):
    old, new = _remembered(open_desk, "The nightly build runs at two.", "The nightly build runs at three.")
    value = open_desk.json("records", "supersede", old, "--by", new)
    assert (value["to_state"], value["successor"]) == ("historical", new)
    assert _found(open_desk, "nightly build") == [new]
    assert open_desk.json("records", "supersede", old, "--by", new) == {**value, "replayed": True}
    value = open_desk.json("records", "rewind", old, "--successor", new)
    assert (value["to_state"], value["successor"]) == ("accepted_current", new)
    assert _states(open_desk) == {old: "accepted_current", new: "historical"}
    assert _found(open_desk, "nightly build") == [old]
    assert open_desk.json("records", "rewind", old, "--successor", new)["replayed"]
    for record in (old, new):
        types = [chapter["type"] for chapter in open_desk.json("records", "history", record)]
        assert types == ["capture", "accept", "supersede", "rewind"]
    _audited(open_desk)


def test_a_rewind_knows_the_successor_that_the_journal_knows(open_desk):
    old, new = _remembered(open_desk, "The nightly build runs at two.", "The nightly build runs at three.")
    open_desk.ok("records", "supersede", old, "--by", new)
    value = open_desk.json("records", "rewind", old)
    assert (value["to_state"], value["successor"]) == ("accepted_current", new)
    assert open_desk.json("records", "rewind", old) == {**value, "replayed": True}
    value = open_desk.json("records", "rewind", new)
    assert (value["record_id"], value["successor"]) == (new, old), "what a rewind put in its place is known as well"
    assert _states(open_desk) == {old: "historical", new: "accepted_current"}
    _audited(open_desk)


def test_a_rewind_of_what_has_no_successor_asks_for_one(open_desk):
    old, new = _remembered(open_desk, "One.", "Two.")
    ended = open_desk.run("records", "rewind", old)
    assert ended.code == 1
    assert "accepted current since" in ended.err
    open_desk.ok("records", "mark-non-current", old)
    ended = open_desk.run("records", "rewind", old)
    assert (ended.code, ended.out) == (1, "")
    assert "--successor" in ended.err
    assert open_desk.json("records", "rewind", old, "--successor", new)["successor"] == new


def test_the_past_knows_what_was_current_then(open_desk):
    old, new = _remembered(open_desk, "The nightly build runs at two.", "The nightly build runs at three.")
    cursor = open_desk.json("records", "supersede", old, "--by", new)["cursor"]
    then = open_desk.json("replay", "--to", str(int(cursor) - 1), "--record", old)
    assert old in str(then)
    assert open_desk.run("replay", "--to", cursor, "--record", old).code == 1
    assert new in str(open_desk.json("replay", "--to", cursor, "--record", new))
    assert all(each["ok"] for each in open_desk.json("projections", "verify"))


def test_short_ids_and_candidate_ids_will_do(open_desk):
    old, new = _remembered(open_desk, "One.", "Two.")
    rows = {row["record_id"]: row["candidate_id"] for row in open_desk.json("records", "list")}
    value = open_desk.json("records", "supersede", old[:16], "--by", rows[new])
    assert (value["record_id"], value["successor"]) == (old, new)
    assert open_desk.run("records", "dispute", new[:6]).code == 1


@pytest.mark.parametrize("state", ["accepted_disputed", "historical", "expired", "trust_invalid", "tombstoned"])
def test_a_successor_must_be_accepted_current(open_desk, state):
    old, new = _remembered(open_desk, "One.", "Two.")
    if state == "tombstoned":
        with open_desk.agent() as agent:
            agent.forget(new)
    else:
        name = next(name for name, (to_state, _) in ALONE.items() if to_state == state)
        open_desk.ok("records", name, new)
    head = _audited(open_desk)
    ended = open_desk.run("records", "supersede", old, "--by", new)
    assert (ended.code, ended.out) == (1, "")
    assert "the successor must be accepted current" in ended.err
    assert state.replace("_", " ") in ended.err
    assert "[ILLEGAL_TRANSITION]" in ended.err
    assert _audited(open_desk) == head


def test_a_record_is_not_its_own_successor(open_desk):
    (record,) = _remembered(open_desk, "One.")
    ended = open_desk.run("records", "supersede", record, "--by", record)
    assert ended.code == 1
    assert "not its own successor" in ended.err


def test_another_successor_is_refused_and_the_first_is_named(open_desk):
    old, new, other = _remembered(open_desk, "One.", "Two.", "Three.")
    open_desk.ok("records", "supersede", old, "--by", new)
    ended = open_desk.run("records", "supersede", old, "--by", other)
    assert ended.code == 1
    assert f"superseded by {new}" in ended.err


def test_what_is_no_record_is_refused_in_words(open_desk):
    with open_desk.agent() as agent:
        pending, withdrawn = agent.capture("One."), agent.capture("Two.")
        agent.withdraw(withdrawn)
        forgotten = agent.remember("Three.")
        agent.forget(forgotten)
    head = _audited(open_desk)
    for name, code, words in (
        (pending, "ILLEGAL_TRANSITION", "a candidate, pending, and no record"),
        (withdrawn, "ALREADY_TERMINAL", "a candidate, withdrawn, and no record"),
        (forgotten, "ALREADY_TERMINAL", "it is tombstoned since cursor"),
        ("mem_" + 52 * "a", "NOT_FOUND", "no candidate or record of that id"),
    ):
        ended = open_desk.run("records", "dispute", name)
        assert (ended.code, ended.out) == (1, "")
        assert words in ended.err
        assert f"[{code}]" in ended.err
    assert _audited(open_desk) == head


@pytest.mark.parametrize("reason", ["", "x" * 513, "가" * 171])
def test_a_reason_has_bounds(open_desk, reason):
    (record,) = _remembered(open_desk, "One.")
    assert open_desk.run("records", "dispute", record, "--reason", reason).code == 2
    assert _states(open_desk) == {record: "accepted_current"}


def test_an_agents_open_request_meets_the_new_state(open_desk):
    (record,) = _remembered(open_desk, "One.")
    with open_desk.agent() as agent:
        candidate = agent.capture("Two.")
        assert agent.code(FORGET, forgetting(record)) == "gate_failed"
        assert agent.code(WITHDRAW, withdrawal(candidate)) == "gate_failed"
    open_desk.ok("records", "expire", record)
    for request in open_desk.json("confirm", "list"):
        open_desk.ok("confirm", "approve", request["confirmation_id"])
    assert _states(open_desk) == {record: "tombstoned"}


def test_what_the_host_never_opted_in_is_still_the_operators(open_desk):
    (record,) = _remembered(open_desk, "One.")
    text = open_desk.host_file.read_text(encoding="utf-8")
    open_desk.host_file.write_text(text.replace("enabled = true", "enabled = false"), encoding="utf-8")
    assert open_desk.json("records", "dispute", record)["to_state"] == "accepted_disputed"


def _brought(agent, state):
    """Return the candidate id of a subject in a state, and of an accepted current one."""
    steps = {
        State.REJECTED: [Operation.REJECT],
        State.WITHDRAWN: [Operation.WITHDRAW],
        State.PENDING: [],
        State.ACCEPTED_CURRENT: [],
        State.ACCEPTED_DISPUTED: [Operation.DISPUTE],
        State.HISTORICAL: [Operation.MARK_NON_CURRENT],
        State.EXPIRED: [Operation.EXPIRE],
        State.TRUST_INVALID: [Operation.TRUST_INVALIDATE],
        State.TOMBSTONED: [Operation.TOMBSTONE],
    }[state]
    subject, other = agent.capture("One."), agent.capture("Two.")
    agent.admit(other)
    if state not in (State.PENDING, State.REJECTED, State.WITHDRAWN):
        agent.admit(subject)
    for operation in steps:
        agent.transit(subject, operation)
    assert agent.state(subject) == state
    return subject, other


@pytest.mark.parametrize("state", [state for state in State if state is not State.ABSENT])
def test_every_cell_of_the_table(tmp_path, state):
    """Each order from each state: the legal ones move, the others are refused and the journal does not grow."""
    for operation in DONE:
        world = World(tmp_path / operation.label)
        agent = world.caller()
        subject, other = _brought(agent, state)
        successor = other if operation in (Operation.SUPERSEDE, Operation.REWIND) else None
        order = Order(operation=operation, candidate_id=subject, successor_id=successor)
        head = agent.head
        legal = LEGAL.get((operation, state))
        newest = agent.events()[-1]
        if legal is not None:
            done = carry_out(agent.engine, SCOPE, "tests", order)
            assert (done.first, agent.state(subject), agent.head) == (True, legal, head + 1)
            assert not carry_out(agent.engine, SCOPE, "tests", order).first
        elif newest == (operation.label, subject):  # brought there by the very same
            assert not carry_out(agent.engine, SCOPE, "tests", order).first
        else:
            with pytest.raises(EngramError) as refused:
                carry_out(agent.engine, SCOPE, "tests", order)
            assert refused.value.code in ("ILLEGAL_TRANSITION", "ALREADY_TERMINAL")
            assert agent.head == head
        world.close()


def test_authority_that_was_revoked_meanwhile(tmp_path, monkeypatch):
    world = World(tmp_path / "store")
    agent = world.caller()
    candidate = agent.capture("One.")
    agent.admit(candidate)
    epochs = iter([1, 2])
    monkeypatch.setattr(agent.engine.authority, "epoch", lambda _scope, _view=None: next(epochs))
    with pytest.raises(AuthorizationRevoked):
        carry_out(agent.engine, SCOPE, "tests", Order(operation=Operation.DISPUTE, candidate_id=candidate))
    assert agent.state(candidate) is State.ACCEPTED_CURRENT
    world.close()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"valid_time": {"t": NOW - 2_000, "t_end": NOW - 1_000}}, "its valid time is over"),
        ({"valid_time": {"t": 2**52}}, "its valid time has not begun"),
        ({}, None),
    ],
)
def test_a_successor_that_agents_do_not_find_is_warned_of(open_desk, changes, why):
    with open_desk.agent() as agent:
        old, new = agent.remember("One."), agent.remember("Two.", **changes)
    for words in (("supersede", old, "--by", new), ("dispute", new)):
        ended = open_desk.ok("records", *words)
        warned = why is not None and words[0] != "dispute"
        assert ended.err == (f"warning: agents do not find {new}: {why}\n" if warned else "")
    ended = open_desk.ok("records", "resolve", new)
    assert ended.err == (f"warning: agents do not find {new}: {why}\n" if why is not None else "")
    assert ("agents find it again" in ended.out) is (why is None)


def test_orders_at_once_make_one_event(tmp_path):
    world = World(tmp_path / "store")
    agent = world.caller()
    candidate = agent.capture("One.")
    agent.admit(candidate)
    head = agent.head
    order = Order(operation=Operation.DISPUTE, candidate_id=candidate)
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda name: carry_out(agent.engine, SCOPE, name, order), "abcdefgh"))
    assert agent.head == head + 1
    assert sorted(each.first for each in done) == [False] * 7 + [True]
    assert len({each.event.header.cursor for each in done}) == 1
    world.close()
