"""Erasing a message: one person's approval, one event, and no way to it but the host's."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from journal import identity
from journal.errors import EngramError, GateFailed, JournalCorrupt, Unauthorized
from journal.events import EventType
from tests.tools.conversation.talks import HAND, ONE, TWO, OtherProcess, erasing, labels, speaker
from tests.tools.memory.world import SCOPE
from tools.host import confirmation
from tools.host.capabilities import ALL_TOOLS, MANAGE_KNOWLEDGE
from tools.host.sections import ConfirmationSection
from tools.memory import approval


@pytest.fixture
def one(world):
    return speaker(world)


def test_an_approved_erasure_is_done_once_and_answered_alike_for_ever(world, one):
    message_id = one.keep("to be erased")
    value = one.erase(message_id)
    assert value == {
        "erased": True, "id": message_id, "key_destruction": "complete", "projection_invalidation": "complete",
    }  # fmt: skip
    assert one.value(MANAGE_KNOWLEDGE, erasing(message_id)) == value
    world.restart()
    again = speaker(world)
    assert again.value(MANAGE_KNOWLEDGE, erasing(message_id)) == value
    assert labels(world, message_id)[:2] == ["message", "message_erased"]
    assert labels(world, message_id).count("message_erased") == 1
    assert again.asked() == []


def test_the_event_is_the_reservation_of_principal_erase_and_id(world, one):
    message_id = one.save("to be erased")
    one.erase(message_id)
    key = world.journal.keyring.identity_key(SCOPE)
    with world.journal.store.view(SCOPE) as view:
        event = view.outcome(identity.message_erasure(key, ONE, message_id))
    assert event is not None
    assert (event.header.type, event.header.subject) == (EventType.MESSAGE_ERASED, message_id)
    assert event.header.actor.principal == ONE
    assert event.header.actor.agent_id == "codex"


def test_what_is_erased_is_gone_from_every_answer(one):
    message_id = one.keep("a striped zebra")
    one.tag(message_id, None, ["zebra"])
    one.erase(message_id)
    assert one.ids("zebra", include_archived=True) == []
    assert one.ids(include_archived=True) == []
    assert "zebra" not in one.brief()
    for more in ({"action": "update", "content": "c"}, {}):
        assert one.code(
            MANAGE_KNOWLEDGE, {"action": "remove", "target": "memory", "memory_id": message_id, **more}
        ) == ("NOT_FOUND")


def test_the_request_shows_a_person_what_is_asked(one):
    message_id = one.save("to be erased")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    (request,) = one.asked()
    assert (request.capability, request.target, request.arguments) == (
        MANAGE_KNOWLEDGE, message_id, erasing(message_id),
    )  # fmt: skip
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    assert len(one.asked()) == 1, "a retry joins the open request"
    assert one.ids() == [message_id]


def test_an_agents_own_word_confirms_nothing(one):
    message_id = one.save("not yet")
    for claimed in ({"confirmed": True}, {"confirmation": "yes"}, {"confirmation_id": "confirmation_" + 32 * "0"}):
        assert one.code(MANAGE_KNOWLEDGE, erasing(message_id, **claimed)) == "INVALID_SCHEMA"
    assert one.asked() == []


@pytest.mark.parametrize("channels", [(), ("email",)])
def test_without_a_channel_nobody_can_approve(world, channels):
    one = speaker(world, confirmation=ConfirmationSection(channels=channels, wait_seconds=0))
    message_id = one.save("not yet")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    assert one.asked() == []
    assert one.ids() == [message_id]


def test_what_is_denied_can_be_asked_again(one):
    message_id = one.save("not yet")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    confirmation.deny(one.engine, SCOPE, one.asked()[0].confirmation_id, "operator")
    assert one.ids() == [message_id]
    assert one.erase(message_id)["erased"]


def test_an_expired_request_cannot_be_approved_and_does_not_stand_in_the_way(world, one):
    message_id = one.save("not yet")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    old = one.asked()[0].confirmation_id
    world.clock.advance(milliseconds=300_000)
    assert one.asked() == []
    with pytest.raises(GateFailed):
        approval.approve(one.engine, SCOPE, old, "operator")
    assert one.ids() == [message_id]
    assert one.erase(message_id)["erased"]


def test_anothers_request_is_approved_under_anothers_host_file(world, one):
    two = speaker(world, TWO)
    message_id = two.save("of two")
    assert two.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    with pytest.raises(Unauthorized):
        approval.approve(one.engine, SCOPE, two.asked()[0].confirmation_id, "operator")
    assert two.ids() == [message_id]


def test_the_grant_is_looked_at_again_when_it_is_approved(world, one):
    message_id = one.save("kept after all")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    revoked = speaker(world, granted=frozenset(ALL_TOOLS) - {MANAGE_KNOWLEDGE})
    with pytest.raises(Unauthorized):
        revoked.approve()
    assert one.ids() == [message_id]


@pytest.mark.parametrize("between", ["update", "archive", "tag", "rotate"])
def test_what_happens_between_request_and_approval_is_erased_too(world, one, between):
    message_id = one.keep("the first")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    if between == "update":
        one.know("update", memory_id=message_id, content="the second")
    elif between == "archive":
        one.know("remove", memory_id=message_id)
    elif between == "tag":
        one.tag(message_id, None, ["word"])
    else:
        world.journal.rotate_keys(SCOPE, HAND)
    one.approve()
    assert one.value(MANAGE_KNOWLEDGE, erasing(message_id))["key_destruction"] == "complete"
    assert one.ids(include_archived=True) == []


def test_two_principals_of_one_user_erase_a_message_once(world):
    desk = speaker(world, talk={"user": {TWO}})
    laptop = speaker(world, TWO, talk={"user": {ONE}})
    message_id = desk.save("of both")
    for each in (desk, laptop):
        assert each.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    mine, others = sorted(desk.asked(), key=lambda request: request.principal)
    approval.approve(laptop.engine, SCOPE, others.confirmation_id, "operator")
    with pytest.raises(EngramError):
        approval.approve(desk.engine, SCOPE, mine.confirmation_id, "operator")
    assert laptop.value(MANAGE_KNOWLEDGE, erasing(message_id))["erased"]
    assert desk.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "ALREADY_TERMINAL"
    assert labels(world, message_id).count("message_erased") == 1
    assert desk.asked() == []


def test_asked_twice_at_once_and_approved_twice_at_once_it_is_one_erasure(world, one):
    message_id, codes = one.save("once"), []
    askers = [
        threading.Thread(target=lambda: codes.append(one.code(MANAGE_KNOWLEDGE, erasing(message_id)))) for _ in "abcd"
    ]
    for thread in askers:
        thread.start()
    for thread in askers:
        thread.join(60)
    assert codes == ["gate_failed"] * 4
    (request,) = one.asked()
    outcomes: list[object] = []

    def approve():
        try:
            outcomes.append(approval.approve(one.engine, SCOPE, request.confirmation_id, "operator").header.event_id)
        except GateFailed as error:
            outcomes.append(error)

    approvers = [threading.Thread(target=approve) for _ in "abcd"]
    for thread in approvers:
        thread.start()
    for thread in approvers:
        thread.join(60)
    assert sum(isinstance(outcome, bytes) for outcome in outcomes) == 1
    assert labels(world, message_id).count("message_erased") == 1


def test_a_call_that_waits_is_answered_by_another_processs_approval(world):
    waiting = speaker(world, confirmation=ConfirmationSection(wait_seconds=30))
    message_id, answers = waiting.save("waited for"), []
    thread = threading.Thread(target=lambda: answers.append(waiting.call(MANAGE_KNOWLEDGE, erasing(message_id))))
    with OtherProcess(world) as other:
        thread.start()
        while not waiting.asked():
            assert thread.is_alive()
        assert other.do("approve")
        thread.join(60)
    assert answers[0]["output"]["value"]["erased"] is True
    assert waiting.ids() == []


def test_a_request_that_no_longer_fits_its_operation_is_not_approved(world, one, monkeypatch):
    message_id, another = one.save("asked for"), one.save("never asked for")
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    (request,) = one.asked()
    forged = dataclasses.replace(request, arguments=erasing(another))
    monkeypatch.setattr(approval, "decidable", lambda *_: forged)
    with pytest.raises(JournalCorrupt):
        approval.approve(one.engine, SCOPE, request.confirmation_id, "operator")
    assert set(one.ids()) == {message_id, another}
