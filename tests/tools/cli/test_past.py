"""The past as it is asked: exactly at the bounds of the clock, and the conversations of then."""

from __future__ import annotations

import pytest

from journal.clock import instant
from journal.events import EventType
from replay.events import cursor_at
from tests.tools.conversation.talks import ONE, TWO, speaker
from tests.tools.memory.world import NOW, PURPOSE, SCOPE
from tools.cli.past import opened_past


def _found(world, caller, now, *, cursor=None):
    """Return what a search of records finds as of an instant."""
    cursor = cursor_at(world.journal.store, SCOPE, now) if cursor is None else cursor
    with opened_past(world.journal, caller.engine.binding, "somebody", cursor, now) as past:
        value = past.search("harvest", PURPOSE)
    assert (value["system_as_of"], value["valid_as_of"]) == (str(cursor), instant(now))
    return [packet["record"]["record_id"] for packet in value["records"]]


def _talk(world, one, query, cursor=None, now=None):
    """Return the value of a search of the conversations as of a cursor."""
    cursor = one.head if cursor is None else cursor
    with opened_past(world.journal, one.engine.binding, "somebody", cursor, now or NOW, messages=True) as past:
        return past.search_messages(query)


def _said(value):
    return [result["message"] for result in value["results"]]


# --- records at the bounds of the clock ---------------------------------------------------------


@pytest.mark.parametrize(("later", "is_there"), [(-1, False), (0, True), (99, True), (100, False), (101, False)])
def test_expiry_is_open(world, agent, later, is_there):
    retention = {"derivative_rule": "make-ineligible", "expires_at": instant(NOW + 100)}
    record_id = agent.remember("harvest", retention=retention)
    assert _found(world, agent, NOW + later) == [record_id] * is_there
    assert _found(world, agent, NOW + later, cursor=agent.head) == [record_id] * (later < 100)


@pytest.mark.parametrize(("later", "is_there"), [(49, False), (50, True), (100, True), (101, False)])
def test_validity_is_closed(world, agent, later, is_there):
    record_id = agent.remember("harvest", valid_time={"t": NOW + 50, "t_end": NOW + 100})
    assert _found(world, agent, NOW + later) == [record_id] * is_there


def test_an_instant_takes_every_event_of_its_millisecond(world, agent):
    first = agent.remember("harvest one")
    world.clock.advance(milliseconds=1)
    second = agent.remember("harvest two")
    assert _found(world, agent, NOW) == [first]
    assert set(_found(world, agent, NOW + 1)) == {first, second}
    assert _found(world, agent, NOW - 1) == []


# --- conversations ------------------------------------------------------------------------------


def test_messages_of_then_are_found_and_later_ones_are_not(world):
    one = speaker(world)
    one.save("the harvest begins")
    then = one.head
    one.save("the harvest ends")
    assert _said(_talk(world, one, "harvest", then)) == ["the harvest begins"]
    assert set(_said(_talk(world, one, "harvest"))) == {"the harvest begins", "the harvest ends"}
    value = _talk(world, one, "harvest", 0)
    assert (value["used"], value["results"], value["erased_since"]) == ("none", [], [])


def test_a_search_of_now_is_what_the_tool_answers(world):
    one = speaker(world)
    one.project("farm")
    one.tag(one.save("the harvest begins"), "farm", ["autumn"])
    expected = one.look("harvest")
    value = _talk(world, one, "harvest")
    assert {name: value[name] for name in expected} == expected


def test_each_text_and_state_of_a_message_at_its_cursor(world):
    one = speaker(world)
    one.project("farm")
    message_id = one.keep("harvest in May")
    cursors, texts = [one.head], ["harvest in May"]
    for text in ("harvest in June", "harvest in July"):
        one._about(EventType.MESSAGE_REVISION, message_id, {"message": text})
        cursors.append(one.head)
        texts.append(text)
    one.tag(message_id, "farm")
    tagged = one.head
    one.move(EventType.MESSAGE_UNPIN, message_id)
    one.move(EventType.MESSAGE_ARCHIVE, message_id)
    for cursor, text in zip(cursors, texts, strict=True):
        (found,) = _talk(world, one, "harvest", cursor)["results"]
        assert (found["message"], found["is_pinned"], found["p_tag"]) == (text, True, None)
    (found,) = _talk(world, one, "harvest", tagged)["results"]
    assert (found["message"], found["is_pinned"], found["p_tag"]) == (texts[-1], True, "farm")
    (found,) = _talk(world, one, "harvest", tagged + 1)["results"]
    assert found["is_pinned"] is False
    assert _said(_talk(world, one, "harvest", tagged + 2)) == []


def test_what_was_erased_since_is_named_and_left_out(world):
    one, two = speaker(world), speaker(world, TWO)
    assert one.engine.binding.principal == ONE
    one.save("the harvest begins")
    gone = one.save("the harvest of whom nobody may know")
    one._about(EventType.MESSAGE_REVISION, gone, {"message": "the harvest, revised"})
    others = two.save("the harvest of another")
    then = one.head
    one.erase(gone)
    two.erase(others)
    value = _talk(world, one, "harvest", then)
    assert _said(value) == ["the harvest begins"]
    assert value["erased_since"] == [gone]
    assert _talk(world, two, "harvest", then)["erased_since"] == [others]
    assert _talk(world, one, "harvest")["erased_since"] == []


def test_the_command_tells_it(open_desk):
    with open_desk.agent() as agent:
        agent.value("save_message", {"role": "user", "message": "the harvest begins"})
    value = open_desk.json("replay", "--query", "harvest", "--messages")
    assert _said(value) == ["the harvest begins"]
    assert "the harvest begins" in open_desk.ok("replay", "--query", "harvest", "--messages").out
    assert "Nothing was to be found" in open_desk.ok("replay", "--query", "harvest", "--messages", "--to", "0").out
