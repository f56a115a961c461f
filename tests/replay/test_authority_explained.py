"""By whose authority each event stands, and what of it is found to be forged: hands, approvals, receipts, grants."""

from __future__ import annotations

import itertools

import pytest

from journal.actors import RESERVED, Hand, hand_of, is_reserved
from journal.events import Actor, Draft, EventType
from journal.lifecycle import State
from journal.log import Journal
from replay.approvals import RESTORED
from replay.audit import audit_headers
from replay.authority import MAINTAIN, TOOLS, explained
from tests.replay.tampering import (
    ACCEPT,
    APPROVED,
    CAPTURE,
    GONE,
    REQUESTED,
    TOMBSTONE,
    audited,
    findings,
    forge,
    told,
)
from tests.tools.memory.world import ROOT_KEY, SCOPE, World
from tools.host.authority import Standing
from tools.host.capabilities import ALL_TOOLS, FORGET, REQUEST_ADMISSION, SAVE_MESSAGE
from tools.host.capabilities import CAPTURE as CAPTURE_TOOL
from tools.memory.authority_orders import Orders

ONE, TWO = "principal:one", "principal:two"


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "store")
    yield made
    made.close()


@pytest.fixture
def story(world):
    return told(world)


def explanations(world):
    """Return what is said of each event of a closed store, by cursor."""
    journal = Journal.open(world.path, ROOT_KEY, clock=world.clock, readonly=True)
    try:
        return {each.event.header.cursor: each.as_json() for each in explained(journal, SCOPE)}
    finally:
        journal.close()


# --- whose hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor", "hand"),
    [
        (Actor("Anna"), Hand.AGENT),
        (Actor("Anna", "codex"), Hand.AGENT),
        (Actor("operator"), Hand.AGENT),
        (Actor("operator:min"), Hand.OPERATOR),
        (Actor("Anna", "operator:min"), Hand.OPERATOR),  # what a person does to Anna's conversations
        (Actor("client:codex"), Hand.CLIENT),
        (Actor("Anna", "client:codex"), Hand.AGENT),
        (Actor("engram:system"), Hand.ENGINE),
    ],
)
def test_whose_hand(actor, hand):
    assert hand_of(actor) is hand


def test_what_no_agent_may_be_called():
    assert all(is_reserved(f"{word}x") for word in RESERVED)
    assert not is_reserved("operators")


def test_every_tool_that_is_named_is_one():
    assert set(TOOLS.values()) <= set(ALL_TOOLS)


# --- what is explained --------------------------------------------------------------------------------


def test_what_a_story_rests_on(story):
    said = explanations(story)
    assert all(each["amiss"] == [] for each in said.values())
    capture, accept, tombstone = said[CAPTURE], said[ACCEPT], said[TOMBSTONE]
    assert [each["operation"] for each in (capture, accept, tombstone)] == [CAPTURE_TOOL, REQUEST_ADMISSION, FORGET]
    for each in (capture, accept, tombstone):
        assert (each["principal"], each["hand"], each["basis"]) == (ONE, "agent", "host_file")
        assert each["authorization_receipt_digest"].startswith("sha256:")
        assert each["authorization_epoch"] == "0"
    assert accept["policy"]["policy_id"] == "accept-asserted"
    confirmation = tombstone["confirmation"]
    assert confirmation == said[APPROVED]["confirmation"]
    assert (confirmation["requested_cursor"], confirmation["approved_cursor"]) == (str(REQUESTED), str(APPROVED))
    assert (confirmation["approved_by"], confirmation["channel"]) == ("operator:operator", "console")
    assert (said[APPROVED]["hand"], said[APPROVED]["operation"]) == ("operator", MAINTAIN)
    assert {each["hand"] for each in said.values()} == {"agent", "operator", "engine"}


def test_grants_and_epochs_are_named(world):
    agent = world.caller()
    orders = Orders(agent.engine, SCOPE, "min")
    granted = orders.grant(ONE, [CAPTURE_TOOL])[0].header.cursor
    raised = orders.raise_epoch().header.cursor
    agent.capture("under a grant")
    agent.value(SAVE_MESSAGE, {"role": "user", "message": "under the host file"})
    world.close()
    said = explanations(world)
    capture, message = said[raised + 1], said[raised + 2]
    assert (capture["basis"], capture["grant_cursor"]) == ("grant", str(granted))
    assert capture["authorization_epoch"] == message["authorization_epoch"] == str(raised)
    assert (message["basis"], message["operation"]) == ("host_file", SAVE_MESSAGE)
    assert said[granted]["basis"] == "operator"
    assert said[granted]["authorization_receipt_digest"]
    assert audited(world).ok


# --- what is forged -----------------------------------------------------------------------------------


def test_a_capture_in_another_principals_name(story):
    forge(story, CAPTURE, actor=Actor(TWO))
    assert findings(story) == [("UNAUTHORIZED", CAPTURE)]
    assert explanations(story)[CAPTURE]["amiss"] == ["the authorization names another principal"]


@pytest.mark.parametrize(
    ("cursor", "fields", "at"),
    [
        (TOMBSTONE, {"actor": Actor(TWO)}, TOMBSTONE),
        (REQUESTED, {"actor": Actor(TWO)}, TOMBSTONE),
        (REQUESTED, {"intent": bytes(32)}, TOMBSTONE),
        (APPROVED, {"actor": Actor(ONE)}, APPROVED),
        (APPROVED, {"actor": Actor("operator", "min")}, APPROVED),
    ],
)
def test_what_nobody_approved_for_whoever_did_it(story, cursor, fields, at):
    forge(story, cursor, **fields)
    assert ("UNAUTHORIZED", at) in findings(story)
    journal = Journal.open(story.path, ROOT_KEY, clock=story.clock, readonly=True)
    try:  # it needs no key
        headers = audit_headers(journal.store, SCOPE)
    finally:
        journal.close()
    assert ("UNAUTHORIZED", at) in [(finding.code, finding.cursor) for finding in headers.findings]


def committed(world, kind, actor, candidate_id, **fields):
    """Commit an event by the journal's own verb, as a program with the store's keys could."""
    event_id = world.journal.random_event_id(SCOPE)
    draft = Draft(
        type=kind, event_id=event_id, actor=Actor(actor), subject=candidate_id,
        ledger=world.journal.seal_ledger(SCOPE, event_id, candidate_id, {"reason": "tests"}), **fields,
    )  # fmt: skip
    return world.journal.commit(SCOPE, lambda _: [draft])[0].header.cursor


def moved(world, kind, actor, to_state, **fields):
    agent = world.caller()
    record_id = agent.remember(GONE)
    [(candidate_id, _)] = [
        (name, row) for name, row in subjects(world) if row.record_id == record_id and name.startswith("candidate_")
    ]
    return committed(
        world, kind, actor, candidate_id, record_id=record_id, from_state=State.ACCEPTED_CURRENT, to_state=to_state,
        **fields,
    )  # fmt: skip


def subjects(world):
    with world.journal.store.view(SCOPE) as view:
        return list(view.subjects())


@pytest.mark.parametrize("actor", [ONE, "client:codex"])
@pytest.mark.parametrize(
    ("kind", "to_state"),
    [
        (EventType.DISPUTE, State.ACCEPTED_DISPUTED),
        (EventType.MARK_NON_CURRENT, State.HISTORICAL),
        (EventType.EXPIRE, State.EXPIRED),
        (EventType.TRUST_INVALIDATE, State.TRUST_INVALID),
    ],
)
def test_maintenance_is_no_agents(world, kind, to_state, actor):
    cursor = moved(world, kind, actor, to_state)
    world.close()
    assert findings(world) == [("UNAUTHORIZED", cursor)]


def test_maintenance_is_an_operators(world):
    moved(world, EventType.DISPUTE, "operator:min", State.ACCEPTED_DISPUTED)
    world.close()
    assert audited(world).ok


def test_a_forgetting_that_nobody_approved(world):
    cursor = moved(world, EventType.TOMBSTONE, ONE, State.TOMBSTONED)
    world.journal.finish_destructions(SCOPE, None)
    world.close()
    assert findings(world) == [("UNAUTHORIZED", cursor)]


def test_what_a_restore_brought_was_approved_elsewhere(world):
    cursor = moved(world, EventType.TOMBSTONE, ONE, State.TOMBSTONED, related=RESTORED)
    world.journal.finish_destructions(SCOPE, None)
    world.close()
    assert audited(world).ok
    assert explanations(world)[cursor]["basis"] == RESTORED


def test_a_grant_that_an_agent_gave_itself(world):
    agent = world.caller()
    orders = Orders(agent.engine, SCOPE, "min")
    orders._actor = Actor(ONE)
    orders.grant(ONE, [FORGET])
    orders.raise_epoch()
    orders.opt(enabled=False)
    world.close()
    assert findings(world) == [("UNAUTHORIZED", cursor) for cursor in (1, 2, 3)]


@pytest.mark.parametrize("how", ["revoked", "opted out", "another epoch"])
def test_what_was_done_after_it_was_taken_back(world, monkeypatch, how):
    agent = world.caller()
    orders = Orders(agent.engine, SCOPE, "min")
    if how == "revoked":
        orders.revoke(ONE, [CAPTURE_TOOL], by_file=ALL_TOOLS)
    elif how == "opted out":
        orders.opt(enabled=False)
    else:
        orders.raise_epoch()
    monkeypatch.setattr(agent.engine.authority, "standing", lambda *_: Standing())  # it sees no event of authority
    agent.capture("in spite of it")
    cursor = agent.head
    world.close()
    assert set(findings(world)) == {("UNAUTHORIZED", cursor)}


def test_a_story_told_twice_is_explained_alike(story):
    assert explanations(story) == explanations(story)
    numbers = list(explanations(story))
    assert numbers == list(itertools.islice(itertools.count(1), len(numbers)))
