"""Many at once: threads, processes, rebuilds and rotations; and a message whose key is lost."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from journal import layout
from projections.timeline_reader import Filter
from replay.rebuild import rebuild
from tests.tools.conversation.talks import HAND, ONE, TWO, OtherProcess, assert_sound, erasing, labels, speaker
from tests.tools.memory.world import SCOPE
from tools.host.capabilities import MANAGE_KNOWLEDGE, MEMORY_STARTUP, SAVE_MESSAGE, SEARCH_MEMORY


@pytest.fixture
def one(world):
    return speaker(world)


def test_lines_added_to_a_profile_at_once_are_all_kept(world, one):
    lines = [f"thread {number} line {each}" for number in range(8) for each in range(4)]
    elsewhere = [[f"process {number} line {each}" for each in range(10)] for number in range(2)]

    def arguments(line):
        return {"action": "add", "target": "sub_profile", "content": line}

    with OtherProcess(world) as first, OtherProcess(world) as second, ThreadPoolExecutor(8) as pool:
        for other, told in zip((first, second), elsewhere, strict=True):
            other.call(SEARCH_MEMORY, {})  # so that both are there before it begins
            other.ask("calls", tool=MANAGE_KNOWLEDGE, many=[arguments(line) for line in told])
        answers = list(pool.map(lambda line: one.call(MANAGE_KNOWLEDGE, arguments(line), seconds=60), lines))
        answers += first.answer() + second.answer()
    assert [answer for answer in answers if not answer["ok"]] == []
    with one.engine.projections(SCOPE).snapshot() as snapshot:
        history = snapshot.reader("profile").history(frozenset({ONE}))
    kept = history[0].sub_profile.split("\n")
    assert sorted(kept) == sorted([*lines, *elsewhere[0], *elsewhere[1]])
    assert [len(each.sub_profile.split("\n")) for each in history] == list(range(len(kept), 0, -1))
    assert_sound(world, one.engine)


def test_sixty_four_saves_at_once_are_all_stored_once(world, one):
    texts = [f"saved at once {number}" for number in range(64)]
    with ThreadPoolExecutor(64) as pool:
        ids = list(pool.map(one.save, texts))
    assert len(set(ids)) == 64
    found = one.look("saved once", limit=50)["results"] + one.look(role="user", limit=50)["results"]
    assert {each["id"] for each in found} <= set(ids)
    assert one.head == 64
    assert {labels(world, message_id)[0] for message_id in ids} == {"message"}
    assert_sound(world, one.engine)


def test_saves_and_searches_while_messages_are_rebuilt_and_keys_rotated(world, one):
    stop, saved, failed = threading.Event(), [], []

    def keep_saving():
        number = 0
        while not stop.is_set():
            answer = one.call(SAVE_MESSAGE, {"role": "user", "message": f"meanwhile {number}"})
            if not answer["ok"]:
                failed.append(answer)
                return
            saved.append(answer["output"]["value"]["id"])
            if one.look(f"meanwhile {number}", limit=50)["count"] < 1:
                failed.append(number)
            number += 1

    before = one.tell([f"before {number}" for number in range(300)])
    thread = threading.Thread(target=keep_saving)
    with OtherProcess(world) as other:
        thread.start()
        for _ in range(2):
            rebuild(one.engine.projections(SCOPE), "messages")
            world.journal.rotate_keys(SCOPE, HAND)
            assert other.do("rebuild", name="timeline")
            assert other.do("rotate")
            assert other.call(SEARCH_MEMORY, {"query": "before 7"})["ok"]
        stop.set()
        thread.join(60)
    assert failed == []
    assert saved
    assert set(one.ids(limit=50)) <= {*saved, *before}
    world.restart()
    again = speaker(world)
    assert again.head == len(before) + len(saved) + 4
    with again.engine.projections(SCOPE).snapshot() as snapshot:
        timeline = snapshot.reader("timeline")
        everything = timeline.newest(Filter(owners=frozenset({ONE})), 100_000)
        assert {timeline.at(cursor).message_id for cursor in everything} == {*saved, *before}
    assert_sound(world, again.engine)


def test_a_revision_during_a_rotation_opens_afterwards(world, one):
    message_id = one.keep("the first")
    stop = threading.Event()
    revised: list[Any] = []

    def revise():
        while not stop.is_set() or not revised:
            text = f"revision {len(revised)}"
            one.know("update", memory_id=message_id, content=text)
            revised.append(text)

    thread = threading.Thread(target=revise)
    thread.start()
    for _ in range(3):
        world.journal.rotate_keys(SCOPE, HAND)
    stop.set()
    thread.join(60)
    world.restart()
    assert [found["message"] for found in speaker(world).look()["results"]] == [revised[-1]]


def test_everything_stands_after_a_restart(world, one):
    one.project("engram")
    pinned, away = one.keep("pinned"), one.keep("put away")
    one.know("update", memory_id=pinned, content="revised")
    one.tag(pinned, "engram", ["word"])
    one.know("remove", memory_id=away)
    one.know("add", "sub_profile", content="a line")
    before = [one.look(include_archived=True), one.look("revised"), one.look(p_tag="engram"), one.brief()]
    world.restart()
    again = speaker(world)
    assert [
        again.look(include_archived=True),
        again.look("revised"),
        again.look(p_tag="engram"),
        again.brief(),
    ] == before


# --- what is lost ----------------------------------------------------------------------------------


@pytest.fixture
def lost(world, one, monkeypatch):
    """A message of one whose key cannot be had any more, beside others; the projections are gone."""
    kept, gone = one.save("the kept one has a brown door"), one.keep("the lost one has a green roof")
    assert one.ids("green roof") == [gone]
    assert "green roof" in one.brief()
    with world.journal.store.view(SCOPE) as view:
        doomed = view.subject(gone).key_id
    opened = world.journal.keyring.open
    monkeypatch.setattr(
        world.journal.keyring, "open", lambda scope, key, slot: None if key == doomed else opened(scope, key, slot)
    )
    one.engine.projections(SCOPE).close()
    one.engine._projections.clear()
    shutil.rmtree(world.path / layout.PROJECTIONS / SCOPE.tag.hex())
    return kept, gone


@pytest.mark.parametrize("arguments", [{}, {"query": "brown door"}, {"query": "row"}, {"role": "user"}])
def test_no_search_passes_for_whole_where_a_message_is_lost(one, lost, arguments):
    assert one.code(SEARCH_MEMORY, arguments) == "BLOB_MISSING"


def test_anothers_search_is_as_ever(world, one, lost):
    two = speaker(world, TWO)
    message_id = two.save("two's brown door")
    assert two.ids("brown") == two.ids() == [message_id]
    assert two.call(MEMORY_STARTUP, {})["ok"]


def test_the_brief_and_a_save_go_on(one, lost):
    _, gone = lost
    assert "brown door" in one.brief()
    assert one.save("and goes on")
    assert one.know("remove", memory_id=gone)["archived"]
    assert one.code(MANAGE_KNOWLEDGE, {"action": "update", "target": "memory", "memory_id": gone, "content": "c"}) == (
        "BLOB_MISSING"
    )


def test_erasing_the_lost_one_mends_it(one, lost):
    kept, gone = lost
    assert one.erase(gone)["key_destruction"] == "complete"
    assert one.ids("brown door") == one.ids() == [kept]
    assert one.value(MANAGE_KNOWLEDGE, erasing(gone))["projection_invalidation"] == "complete"
