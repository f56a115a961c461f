"""manage_knowledge: a memory is found at once, revised under its id, put away losslessly; a profile grows by lines."""

from __future__ import annotations

import pytest

from journal import limits
from journal.events import EventType
from journal.messages import MessageState
from tests.tools.conversation.talks import ONE, OtherProcess, born, labels, speaker, story
from tools.host.capabilities import MANAGE_KNOWLEDGE, SEARCH_MEMORY
from tools.host.sections import ConfirmationSection

PENDING = {"tagged": "pending", "embedded": "pending"}
UNKNOWN_ID = "message_" + 32 * "0"


@pytest.fixture
def one(world):
    return speaker(world)


# --- memories --------------------------------------------------------------------------------------


def test_what_is_added_is_found_by_the_very_next_search_of_another_process(world, one):
    with OtherProcess(world) as other:
        assert other.call(SEARCH_MEMORY, {"query": "두 시 반"})["output"]["value"]["count"] == 0
        value = one.know("add", content="야간 빌드는 두 시 반에 돈다")
        assert value == {"stored": True, "id": value["id"], **PENDING}
        (found,) = other.call(SEARCH_MEMORY, {"query": "두 시 반"})["output"]["value"]["results"]
    assert (found["id"], found["is_pinned"], found["role"]) == (value["id"], True, "assistant")


def test_a_memory_is_pinned_from_birth_by_one_event(world, one):
    ((label, state, content),) = story(world, one.keep("kept"))
    assert (label, state) == ("message", MessageState.PINNED)
    assert (content["message"], content["agent_model"], content["agent_platform"]) == ("kept", "unknown", "codex")


def test_an_update_is_a_revision_of_the_same_id(world, one):
    message_id = one.keep("the door is brown")
    assert one.know("update", memory_id=message_id, content="the gate is green") == {
        "stored": True, "id": message_id, **PENDING,
    }  # fmt: skip
    assert one.ids("brown door") == []
    assert one.ids("green gate") == [message_id]
    events = story(world, message_id)
    assert [label for label, _, _ in events] == ["message", "message_revision"]
    assert [content["message"] for _, _, content in events] == ["the door is brown", "the gate is green"]
    assert one.look("green")["results"][0]["message"] == "the gate is green"
    assert one.look("green")["results"][0]["is_pinned"]


def test_a_message_that_was_only_said_can_be_revised_too(one):
    message_id = one.save("at two")
    one.know("update", memory_id=message_id, content="at three")
    one.know("update", memory_id=message_id, content="at four")
    (found,) = one.look()["results"]
    assert (found["message"], found["is_pinned"], found["role"]) == ("at four", False, "user")


def test_removing_archives_and_a_pinned_one_is_unpinned_first(world, one):
    pinned, said = one.keep("pinned"), one.save("said")
    assert one.know("remove", memory_id=pinned) == {"archived": True, "id": pinned}
    assert one.know("remove", memory_id=said, erase=False) == {"archived": True, "id": said}
    assert labels(world, pinned) == ["message", "message_unpin", "message_archive"]
    assert labels(world, said) == ["message", "message_archive"]
    assert one.ids() == []
    assert {found["message"] for found in one.look(include_archived=True)["results"]} == {"pinned", "said"}


def test_what_is_archived_already_is_no_more_archived(one):
    message_id = one.keep("once")
    one.know("remove", memory_id=message_id)
    head = one.head
    assert one.code(MANAGE_KNOWLEDGE, removing(message_id)) == "ILLEGAL_TRANSITION"
    assert one.head == head


def test_an_archived_one_can_be_revised_and_stays_archived(one):
    message_id = one.keep("before")
    one.know("remove", memory_id=message_id)
    one.know("update", memory_id=message_id, content="after")
    assert one.ids("after") == []
    assert one.ids("after", include_archived=True) == [message_id]


def removing(message_id, **more):
    return {"action": "remove", "target": "memory", "memory_id": message_id, **more}


KNOWN = {"action": "add", "target": "memory", "content": "c"}
REFUSED = {
    "nothing": {},
    "no target": {"action": "add", "content": "c"},
    "another action": {**KNOWN, "action": "merge"},
    "add without content": {"action": "add", "target": "memory"},
    "add with an id": {**KNOWN, "memory_id": UNKNOWN_ID},
    "add with erase": {**KNOWN, "erase": True},
    "add with an empty content": {**KNOWN, "content": ""},
    "add too long": {**KNOWN, "content": "m" * (limits.MESSAGE_MAX_BYTES + 1)},
    "update without an id": {**KNOWN, "action": "update"},
    "update without content": {"action": "update", "target": "memory", "memory_id": UNKNOWN_ID},
    "update with erase": {**KNOWN, "action": "update", "memory_id": UNKNOWN_ID, "erase": True},
    "remove without an id": {"action": "remove", "target": "memory"},
    "remove with content": {**removing(UNKNOWN_ID), "content": "c"},
    "an id of another form": removing("message_0"),
    "an id in capitals": removing("message_" + 32 * "A"),
    "a candidate's id": removing("candidate_" + 64 * "0"),
    "an erasure of a word": removing(UNKNOWN_ID, erase="true"),
    "a confirmation of its own": removing(UNKNOWN_ID, erase=True, confirmed=True),
    "a profile's id": {"action": "remove", "target": "sub_profile", "memory_id": UNKNOWN_ID},
    "a profile's erasure": {"action": "remove", "target": "sub_profile", "erase": True},
    "a blank line of a profile": {"action": "add", "target": "sub_profile", "content": " \n"},
    "a profile too long": {"action": "update", "target": "sub_profile", "content": "x" * 2_001},
    "a core profile": {"action": "add", "target": "core_profile", "content": "c"},
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_and_nothing_is_written(one, arguments):
    one.save("before")
    head = one.head
    assert one.code(MANAGE_KNOWLEDGE, arguments) == "INVALID_SCHEMA"
    assert one.head == head


@pytest.mark.parametrize("more", [{}, {"erase": True}, {"action": "update", "content": "c"}])
def test_an_unknown_id_is_not_found(one, more):
    assert one.code(MANAGE_KNOWLEDGE, {**removing(UNKNOWN_ID), **more}) == "NOT_FOUND"
    assert one.asked() == []


def test_the_policys_confirmations_do_not_concern_what_only_adds(world):
    one = speaker(world, confirmation=ConfirmationSection(channels=(), wait_seconds=0))
    message_id = one.keep("no person is asked")
    one.know("remove", memory_id=message_id)
    assert one.know("add", "sub_profile", content="a line")["stored"]


# --- the sub profile -------------------------------------------------------------------------------


def test_the_profile_grows_is_replaced_and_cleared(world, one):
    assert one.know("add", "sub_profile", content="첫 줄") == {"stored": True, "sub_profile": "첫 줄"}
    assert one.know("add", "sub_profile", content="second")["sub_profile"] == "첫 줄\nsecond"
    assert one.know("update", "sub_profile", content="all new")["sub_profile"] == "all new"
    assert one.know("remove", "sub_profile") == {"stored": True, "sub_profile": ""}
    assert one.know("add", "sub_profile", content="again")["sub_profile"] == "again"
    with one.engine.projections(one.scope).snapshot() as snapshot:
        history = snapshot.reader("profile").history(frozenset({ONE}))
    assert [(each.action.removeprefix("sub_profile_"), each.by, each.sub_profile) for each in history] == [
        ("add", "agent", "again"), ("remove", "agent", ""), ("update", "agent", "all new"),
        ("add", "agent", "첫 줄\nsecond"), ("add", "agent", "첫 줄"),
    ]  # fmt: skip


def test_an_agent_never_touches_the_core_profile(one):
    one.profile("Kim, who must not be woken", "naps", "Kim")
    one.know("add", "sub_profile", content="at noon")
    one.know("remove", "sub_profile")
    with one.engine.projections(one.scope).snapshot() as snapshot:
        newest = snapshot.reader("profile").newest(frozenset({ONE}))
    assert (newest.user_name, newest.core_profile, newest.sub_profile) == ("Kim", "Kim, who must not be woken", "")


def test_a_profile_that_would_get_too_long_stays_as_it_is(one):
    one.know("add", "sub_profile", content="가" * 1_000)
    head = one.head
    assert one.code(MANAGE_KNOWLEDGE, {"action": "add", "target": "sub_profile", "content": "나" * 1_000}) == (
        "INVALID_SCHEMA"
    )
    assert one.head == head
    assert len(one.know("add", "sub_profile", content="나" * 999)["sub_profile"]) == limits.PROFILE_SUB_MAX_CHARACTERS


def test_a_profile_is_stored_in_the_name_of_its_principal(world, one):
    one.know("add", "sub_profile", content="a line")
    (event,) = world.journal.store.read(one.scope, 0, 10)
    assert event.header.type == EventType.PROFILE
    assert (event.header.actor.principal, event.header.actor.agent_id, event.header.subject) == (ONE, "codex", None)


def test_a_revision_is_in_the_name_of_who_made_it(world):
    one, two = speaker(world), speaker(world, "principal:laptop", talk={"user": {ONE}})
    message_id = one.keep("the first text")
    two.client = "claude-code"
    two.know("update", memory_id=message_id, content="the second text")
    assert one.ids("second") == [message_id]  # whoever revised it, it is the message of who said it
    assert one.ids("first") == []
    assert born(world, message_id)[0].actor.principal == ONE
    revision = world.journal.store.read(one.scope, 1, 1)[0].header
    assert (revision.actor.principal, revision.actor.agent_id) == ("principal:laptop", "claude-code")
