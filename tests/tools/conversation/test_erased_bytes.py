"""What was erased stands nowhere: not in a file of the store, not in a file that somebody holds, under no key."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from journal import failpoints, sealing
from journal.errors import JournalCorrupt
from journal.store.port import Part
from tests.tools.conversation.talks import HAND, OtherProcess, Speaker, assert_sound, erasing, labels, speaker
from tests.tools.memory.world import SCOPE, World
from tools.host.capabilities import MANAGE_KNOWLEDGE, SEARCH_MEMORY
from tools.memory.erasure import finish_erasures

SAID = "zanzibarian quokkas 한라봉나무 eat ocelotfruit"
REVISED = "pangolinous numbats 돌하르방 sleep"
TAGS = ("axolotlkeyword", "오름길잡이")
WORDS = ("zanzibarian", "quokkas", "한라봉나무", "ocelotfruit", "pangolinous", "numbats", "돌하르방", *TAGS)


def held(pid: int) -> dict[str, bytes]:
    """Return what a process holds open or mapped, by name; also what was unlinked since."""
    found: dict[str, bytes] = {}
    for directory in ("fd", "map_files"):
        place = Path(f"/proc/{pid}/{directory}")
        try:
            links = list(place.iterdir())
        except OSError:
            continue
        for link in links:
            try:
                target = str(link.readlink())
                if "engram-tests-" in target or target.endswith((".mdb", ".slots")):
                    found[target] = link.read_bytes()
            except OSError:
                continue
    return found


def scanned(path: Path, *pids: int, words: tuple[str, ...] = WORDS) -> list[str]:
    """Return where one of these words stands, in UTF-8 or UTF-16, in a store or in what processes hold open."""
    contents = {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for pid in pids:
        contents |= held(pid)
    assert len(contents) > 5
    needles = [form for word in words for form in (word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be"))]
    return [name for name, content in contents.items() if any(needle in content for needle in needles)]


def planted(one: Speaker) -> str:
    """Save a message, revise it, tag it, pin and archive it, and have it found by all of that."""
    message_id = one.keep(SAID)
    one.save("what stays")
    assert one.ids("ocelotfruit") == [message_id]
    one.tag(message_id, None, TAGS)
    one.know("update", memory_id=message_id, content=REVISED)
    assert one.ids("돌하르방") == one.ids("르방") == [message_id]
    one.brief()
    one.know("remove", memory_id=message_id)
    assert one.ids("numbats", include_archived=True) == [message_id]
    return message_id


def keys_of(world: World) -> list[bytes]:
    """Return every data key that the store can still open, and the keys of its scope."""
    keyring = world.journal.keyring
    opened = [keyring.open(SCOPE, key_id, slot) for key_id, slot in keyring.located(SCOPE).items()]
    return [key for key in opened if key is not None] + [keyring.ledger_key(SCOPE), keyring.identity_key(SCOPE)]


def sealed_parts(world: World, message_id: str) -> list[tuple[Any, bytes]]:
    """Return (header, sealed content) of a message's events."""
    store = world.journal.store
    return [
        (event.header, part)
        for event in store.read(SCOPE, 0, 1_000)
        if event.header.subject == message_id
        and event.header.content_digest is not None
        and (part := store.body(SCOPE, event.header.cursor, Part.CONTENT)) is not None
    ]


def opens(world: World, header: Any, part: bytes) -> bool:
    """Whether one of the store's keys opens a part."""
    return any(_opens(key, header, part) for key in keys_of(world))


def _opens(key: bytes, header: Any, part: bytes) -> bool:
    aad = sealing.associated_data(sealing.Purpose.BODY, header.scope, header.event_id, header.subject)
    try:
        return bool(sealing.unseal(key, sealing.Purpose.BODY, aad, part))
    except JournalCorrupt:
        return False


@pytest.fixture
def one(world: World) -> Speaker:
    return speaker(world)


def test_no_word_stands_in_a_file_before_or_after_an_erasure(world, one):
    with OtherProcess(world) as other:
        message_id = planted(one)
        # The other process has every projection open, and holds them while this one erases.
        assert (
            other.call(SEARCH_MEMORY, {"query": "numbats", "include_archived": True})["output"]["value"]["count"] == 1
        )
        assert other.call("memory_startup", {})["ok"]
        assert len(held(other.process.pid)) > 3
        assert scanned(world.path, os.getpid(), other.process.pid) == []
        value = one.erase(message_id)
        assert value["key_destruction"] == "complete"
        assert (
            other.call(SEARCH_MEMORY, {"query": "numbats", "include_archived": True})["output"]["value"]["count"] == 0
        )
        assert other.do("finish")
        assert scanned(world.path, os.getpid(), other.process.pid) == []
        assert one.value(MANAGE_KNOWLEDGE, erasing(message_id))["projection_invalidation"] == "complete"
        # No replaced generation is held any more: what it had of the message would be keyed digests still.
        gone = [name for name in held(other.process.pid) if name.endswith("(deleted)") and "projections" in name]
        assert gone == []
    world.close()
    assert scanned(world.path) == []
    world.restart()


def test_the_scan_finds_what_is_planted(world, one):
    one.save("anything")
    (world.path / "planted").write_bytes(b"\0" + "돌하르방".encode("utf-16-le"))
    assert scanned(world.path) == [str(world.path / "planted")]
    held_open = (world.path / "another").open("w+b")
    held_open.write(b"x quokkas x")
    held_open.flush()
    (world.path / "planted").unlink()
    (world.path / "another").unlink()
    (found,) = scanned(world.path, os.getpid())
    assert found.endswith("another (deleted)")
    held_open.close()


def test_neither_text_revision_nor_tags_open_with_any_key_of_the_store(world, one):
    message_id = planted(one)
    parts = sealed_parts(world, message_id)
    assert [header.kind.label for header, _ in parts] == ["message", "message_tag", "message_revision"]
    assert all(opens(world, header, part) for header, part in parts), "before the erasure each opens"
    one.erase(message_id)
    assert not any(opens(world, header, part) for header, part in parts)
    world.journal.rotate_keys(SCOPE, HAND)
    world.restart()
    assert not any(opens(world, header, part) for header, part in parts)
    stays = [event.header for event in world.journal.store.read(SCOPE, 0, 2) if event.header.subject != message_id]
    (kept,) = sealed_parts(world, str(stays[0].subject))
    assert opens(world, *kept), "what was not erased opens as before"


@pytest.mark.parametrize(
    "name",
    [name for name in failpoints.NAMES if not name.startswith(("root.", "backup.", "restore."))],  # these lie beside it
)
def test_an_erasure_is_brought_to_its_end_after_a_death_at_any_step(world, one, name):
    message_id = planted(one)
    with OtherProcess(world, failpoint=name) as dying:
        dying.call(MANAGE_KNOWLEDGE, erasing(message_id))
        dying.do("approve")
        if name.startswith("rotate"):
            dying.do("rotate")
        assert dying.close() == -signal.SIGKILL
    if one.asked():
        one.approve()
    value = one.call(MANAGE_KNOWLEDGE, erasing(message_id))
    if not value["ok"]:  # it died before the request was written
        one.approve()
    assert one.call(MANAGE_KNOWLEDGE, erasing(message_id))["ok"]
    finish_erasures(one.engine, SCOPE)
    assert one.value(MANAGE_KNOWLEDGE, erasing(message_id)) == {
        "erased": True, "id": message_id, "key_destruction": "complete", "projection_invalidation": "complete",
    }  # fmt: skip
    assert labels(world, message_id).count("message_erased") == 1
    assert [found["message"] for found in one.look(include_archived=True)["results"]] == ["what stays"]
    assert scanned(world.path, os.getpid()) == []
    if name.startswith("rotate"):
        world.journal.rotate_keys(SCOPE, HAND)
    with world.journal.store.view(SCOPE) as view:
        assert view.pending_destructions() == view.pending_erasures() == view.open_requests() == []
    assert_sound(world, one.engine)


def test_a_revision_and_tags_that_meet_an_erasure_leave_nothing(world, one):
    """A revision that another process seals while the erasure comes is refused, or erased with the rest."""
    message_id = one.save(SAID)
    assert one.code(MANAGE_KNOWLEDGE, erasing(message_id)) == "gate_failed"
    update = {"action": "update", "target": "memory", "memory_id": message_id, "content": REVISED}
    with OtherProcess(world) as other:
        other.ask("calls", tool=MANAGE_KNOWLEDGE, many=[update] * 40)
        one.approve()
        codes = {"ok" if answer["ok"] else answer["error"]["code"] for answer in other.answer()}
    assert codes <= {"ok", "NOT_FOUND"}
    finish_erasures(one.engine, SCOPE)
    assert not any(opens(world, header, part) for header, part in sealed_parts(world, message_id))
    assert one.ids(include_archived=True) == []
    assert scanned(world.path) == []
    assert_sound(world, one.engine)
