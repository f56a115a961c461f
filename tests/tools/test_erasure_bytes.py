"""Erasure, byte by byte: after ``complete`` nothing of a record or a message can be found or opened, wherever it stood.

While another process holds every environment open; over every file, every unlinked inode that somebody has open, and
every log; and likewise where the erasure was cut short at any step and taken up again.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from journal import failpoints
from tests.tools.conversation.talks import HAND, OtherProcess, Speaker, assert_sound, erasing, speaker
from tests.tools.memory.world import PURPOSE, SCOPE, World, forgetting
from tests.tools.traces import Trace, everywhere, unlinked
from tools.host.capabilities import FORGET, MANAGE_KNOWLEDGE, MEMORY_STARTUP, SEARCH, SEARCH_MEMORY
from tools.memory.erasure import finish_erasures

FIRST = "zanzibarian quokkas 한라봉나무 eat ocelotfruit"
SECOND = "pangolinous numbats 돌하르방길 sleep"
TAGS = ("axolotlkeyword", "오름길잡이")
STAYS = "what stays of plums and pears"


@dataclass
class Erasable:
    """Something that can be erased: its trace, and the call that erases it."""

    trace: Trace
    tool: str
    arguments: dict[str, Any]

    def is_complete(self, value: dict[str, Any]) -> bool:
        return value["projection_invalidation"] == "complete"


def a_record(world: World, one: Speaker) -> Erasable:
    candidate_id = one.capture(FIRST + " " + SECOND)
    record_id = one.admit(candidate_id)["record_id"]
    one.remember(STAYS)
    assert one.found("ocelotfruit") == [record_id]
    trace = Trace(candidate_id, [FIRST + " " + SECOND]).take(world, one)
    return Erasable(trace, FORGET, forgetting(record_id))


def a_message(world: World, one: Speaker) -> Erasable:
    message_id = one.keep(FIRST)
    one.save(STAYS)
    assert one.ids("ocelotfruit") == one.ids("라봉나") == [message_id]
    trace = Trace(message_id, [FIRST, SECOND, *TAGS]).take(world, one)
    first = set(trace.tokens)
    one.tag(message_id, None, TAGS)
    one.know("update", memory_id=message_id, content=SECOND)
    assert one.ids("돌하르방길") == [message_id]
    trace.take(world, one)
    assert trace.tokens > first, "the tokens of both texts and of the tags"
    assert [header.kind.label for header, _ in trace.parts] == ["message", "message_tag", "message_revision"]
    return Erasable(trace, MANAGE_KNOWLEDGE, erasing(message_id))


KINDS: dict[str, Callable[[World, Speaker], Erasable]] = {"record": a_record, "message": a_message}


@pytest.fixture(params=KINDS)
def erasable(request, world: World) -> tuple[Speaker, Erasable]:
    one = speaker(world)
    return one, KINDS[request.param](world, one)


def hold(other: OtherProcess) -> None:
    """Have another process open every environment."""
    assert other.call(SEARCH, {"query": "plums ocelotfruit", "purpose_ref": PURPOSE})["ok"]
    assert other.call(SEARCH_MEMORY, {"query": "plums numbats"})["ok"]
    assert other.call(MEMORY_STARTUP, {})["ok"]
    held = {str(link.readlink()) for link in Path(f"/proc/{other.process.pid}/fd").iterdir()}
    assert len([path for path in held if path.endswith("data.mdb") and "projections" in path]) == 6


def assert_there(world: World, trace: Trace) -> None:
    """Before the erasure the scan finds the key and every token, and the content opens; never a plain word."""
    contents = everywhere(world.path.parent)
    assert trace.key_in(contents)
    assert len(trace.tokens) >= 8
    assert trace.tokens_in(contents) == trace.tokens
    assert trace.opened_by(world) == len(trace.parts) > 0
    assert trace.plain_in(contents) == []


def assert_gone(world: World, trace: Trace) -> None:
    """After it nothing of all that is anywhere."""
    contents = everywhere(world.path.parent)
    assert trace.key_in(contents) == []
    assert trace.tokens_in(contents) == set()
    assert trace.opened_by(world) == 0
    assert trace.plain_in(contents) == []
    assert not [name for name in unlinked(contents) if "projections" in name]


def test_nothing_is_left_while_another_process_holds_everything_open(world: World, erasable, capfd, caplog):
    one, it = erasable
    log = world.path.parent / "other.log"
    with OtherProcess(world, log=log) as other:
        hold(other)
        refused = {"query": FIRST, "purpose_ref": PURPOSE, "page_cursor": "quokkas"}
        assert other.call(SEARCH, refused)["error"]["code"] == "STALE_PAGE"
        assert_there(world, it.trace)
        assert one.code(it.tool, it.arguments) == "gate_failed"
        one.approve()
        value = one.value(it.tool, it.arguments)
        assert not it.is_complete(value), "the other process holds the old generations"
        contents = everywhere(world.path.parent)
        assert it.trace.tokens_in(contents) == it.trace.tokens, "and rightly so: there they are"
        assert it.trace.key_in(contents) == [], "the key waits for nobody"
        assert other.do("finish")
        finish_erasures(one.engine, SCOPE)
        assert it.is_complete(one.value(it.tool, it.arguments))
        hold(other)
        assert_gone(world, it.trace)
    logged = capfd.readouterr()
    assert log.read_bytes(), "there is a log to look into"
    (world.path.parent / "own.log").write_text(logged.out + logged.err + caplog.text)
    assert_gone(world, it.trace)
    assert_sound(world, one.engine)
    world.journal.rotate_keys(SCOPE, HAND)
    world.restart()
    assert_gone(world, it.trace)


def test_a_stopped_process_keeps_complete_from_being_said(world: World, erasable):
    one, it = erasable
    with OtherProcess(world) as other:
        hold(other)
        other.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, other.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert one.code(it.tool, it.arguments) == "gate_failed"
        one.approve()
        assert not finish_erasures(one.engine, SCOPE)
        assert not it.is_complete(one.value(it.tool, it.arguments))
        assert it.trace.key_in(everywhere(world.path.parent)) == []
        # What stands in the way is not told by locks alone: somebody may clear the projections away.
        shutil.rmtree(world.path / "projections")
        assert not finish_erasures(one.engine, SCOPE)
        contents = everywhere(world.path.parent)
        assert unlinked(contents)
        assert it.trace.tokens_in(contents) == it.trace.tokens
        assert not it.is_complete(one.value(it.tool, it.arguments))
        other.process.send_signal(signal.SIGCONT)
        assert other.do("finish")
        assert it.is_complete(one.value(it.tool, it.arguments))
        assert_gone(world, it.trace)


@pytest.mark.parametrize(
    "name",
    [name for name in failpoints.NAMES if not name.startswith(("root.", "backup.", "restore."))],  # these lie beside it
)
def test_nothing_is_left_of_an_erasure_that_was_killed_and_taken_up_again(world: World, erasable, name):
    one, it = erasable
    with OtherProcess(world, log=world.path.parent / "other.log") as other:
        hold(other)
        assert_there(world, it.trace)
        with OtherProcess(world, failpoint=name, log=world.path.parent / "dying.log") as dying:
            dying.call(it.tool, it.arguments)
            if name.startswith("rotate"):
                dying.do("rotate")
            dying.do("approve")
            assert dying.close() == -signal.SIGKILL
        if not one.asked() and not one.call(it.tool, it.arguments)["ok"]:
            assert one.asked(), "it died before the request was written"
        if one.asked():
            one.approve()
        assert one.call(it.tool, it.arguments)["ok"]
        other.do("finish")
        finish_erasures(one.engine, SCOPE)
        assert it.is_complete(one.value(it.tool, it.arguments))
        hold(other)
        assert_gone(world, it.trace)
    assert_sound(world, one.engine)


def test_the_scan_finds_what_is_planted(world: World, erasable):
    """The control: a copy of the store in which the text stands, a digest of it, a word in another encoding."""
    _, it = erasable
    copy = world.path.parent / "copy"
    assert it.trace.plain_in(everywhere(world.path.parent)) == []
    for number, planted in enumerate([
        it.trace.texts[0].encode(), "quokkas".encode("utf-16-le"), "돌하르방길".encode(), it.trace.digests[0],
        it.trace.digests[-1],
    ]):  # fmt: skip
        shutil.copytree(world.path, copy)
        target = copy / "journal" / "data.mdb"
        with target.open("r+b") as file:
            file.seek(-4096, os.SEEK_END)
            file.write(b"\0" + planted + b"\0")
        assert it.trace.plain_in(everywhere(world.path.parent)) == [str(target)], number
        with target.open("rb") as held:
            shutil.rmtree(copy)
            (found,) = it.trace.plain_in(everywhere(world.path.parent))
            assert found == f"{os.getpid()} {target} (deleted)"
            assert held.readable()
