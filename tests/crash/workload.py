"""What a store lives through while its system calls are recorded: every kind of write that the engine makes.

    python -m tests.crash.workload DIRECTORY

Makes a store in ``DIRECTORY/store``. After each step it says on stdout, in one write, what is promised from now on: a
line of JSON behind "ack ". Clock and randomness stand still, so that two runs write alike.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from journal import layout
from journal.checkpointing import Checkpoints, folder_of
from journal.events import Actor, EventType
from journal.rootchange import plan_for
from journal.rootkey import RootKeySource, write_root_key_file
from journal.scope import Scope
from replay.rebuild import invalidate, rebuild
from tests.crash.tracedisk import ACK
from tests.tools.conversation.talks import Speaker, speaker
from tests.tools.memory.world import OTHER, ROOT_KEY, SCOPE, Caller, World, binding
from tools.memory.erasure import finish_erasures

STORE, ROOT_FILE = "store", "root.key"
_CALLERS = 6  # captures at once
_OPERATOR = Actor("operator:rig")
_LONG = "보리 창고의 기록은 매일 저녁 새로 쓴다. The granary ledger is written anew each evening. " * 40


class Promises:
    """What was acknowledged, told step by step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.retired: list[str] = []  # root keys that were replaced
        self._gone: set[str] = set()
        self._complete: set[tuple[str, int]] = set()

    def close(self) -> None:
        """Say that the store is about to be closed."""
        os.write(1, ACK + b"null\n")

    def tell_of(self, candidate_id: str) -> None:
        """Acknowledge a capture alone."""
        os.write(1, ACK + json.dumps({"captured": [candidate_id]}).encode() + b"\n")

    def tell(self) -> None:
        """Acknowledge what stands now: heads, destroyed keys, erasures that are complete, and their generations."""
        store = self._world.journal.store
        told: dict[str, Any] = {"retired": self.retired, "captured": []}
        told |= {name: {} for name in ("heads", "epochs", "generations")}
        told |= {name: [] for name in ("destroyed", "erased", "checkpoints")}
        for scope in store.scopes():
            head = store.head(scope)
            told["heads"][scope.tag.hex()] = [head.cursor, head.hash.hex()]
            told["epochs"][scope.tag.hex()] = self._world.journal.keyring.epoch(scope)
            sizes = folder_of(self._world.path, scope.tag).sizes()
            told["checkpoints"] += [(scope.tag.hex(), size) for size in sizes]
            told["destroyed"] += self._destroyed(scope)
            told["erased"] += self._erased(scope)
            for projection in (self._world.path / layout.PROJECTIONS / scope.tag.hex()).glob("*"):
                numbers = sorted(each.name for each in projection.iterdir() if each.name.isdigit())
                told["generations"][f"{scope.tag.hex()}/{projection.name}"] = numbers
        os.write(1, ACK + json.dumps(told).encode() + b"\n")

    def _destroyed(self, scope: Scope) -> Iterator[str]:
        journal = self._world.journal
        with journal.store.view(scope) as view:
            waiting = {key_id for _, key_id in view.pending_destructions()}
            rows = [row for _, row in view.subjects() if row.key_id is not None and row.key_id not in waiting]
            slots = [(row.key_id, view.slot(row.key_id)) for row in rows if row.key_id is not None]
        for key_id, slot in slots:
            if key_id.hex() not in self._gone and journal.keyring.is_destroyed(scope, key_id, slot):
                self._gone.add(key_id.hex())
                yield key_id.hex()

    def _erased(self, scope: Scope) -> Iterator[tuple[str, int]]:
        """Yield the cursors of ends that nothing in the projections tells of any more."""
        with self._world.journal.store.view(scope) as view:
            waiting = {cursor for cursor, _ in view.pending_erasures()}
        for event in self._world.journal.store.read(scope, 0, 100_000):
            header = event.header
            ends = header.kind in (EventType.TOMBSTONE, EventType.MESSAGE_ERASED)
            place = (scope.tag.hex(), header.cursor)
            if ends and header.cursor not in waiting and place not in self._complete:
                self._complete.add(place)
                yield place


def _agents(world: World) -> tuple[Speaker, Caller]:
    """Return an agent of either scope, over one engine: one that others hold open beside it would keep generations."""
    agent = speaker(world)
    return agent, Caller(agent.engine.bound_to(binding(OTHER)))


def live(world: World, promises: Promises) -> Iterator[None]:
    """Let everything happen, yielding after each step."""
    agent, other = _agents(world)
    records = [agent.remember(f"The mill {number} grinds wheat; 방앗간 {number}.") for number in range(4)]
    yield
    other.remember("The harbour opens at six.")
    for number in range(3):
        agent.capture(f"A pending note {number}. {_LONG}")
        yield
    yield from _speak(agent)
    _at_once(agent, promises)
    yield
    agent.forget(records[0])
    yield
    agent.withdraw(agent.capture("A mistake that is taken back."))
    yield
    _checkpoint(world, SCOPE)
    yield
    world.journal.rotate_keys(SCOPE, _OPERATOR)
    yield
    yield from _more(world, promises, agent, other)


def _at_once(agent: Speaker, promises: Promises) -> None:
    """Let several callers capture at once; each acknowledges its own."""

    def capture(number: int) -> None:
        promises.tell_of(agent.capture(f"One of many at once, {number}."))

    threads = [threading.Thread(target=capture, args=(number,)) for number in range(_CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _speak(agent: Speaker) -> Iterator[None]:
    kept = [agent.save(f"메시지 {number}: the ferry leaves at {number}.") for number in range(5)]
    yield
    agent.know("add", content="The harbour master drinks tea.")
    agent.tag(kept[1], None, ["ferry"])
    yield
    agent.erase(kept[0])
    yield


def _more(world: World, promises: Promises, agent: Speaker, other: Caller) -> Iterator[None]:
    """What comes after a rotation: a second forgetting, a rebuild, a restart, another root key."""
    projections = agent.engine.projections(SCOPE)
    rebuild(projections, "lexical")
    yield
    invalidate(projections, ["messages"])
    agent.ids("ferry")
    yield
    record = agent.remember(f"To be forgotten after the rotation. {_LONG}")
    yield
    agent.forget(record)
    finish_erasures(agent.engine, SCOPE)
    yield
    promises.close()
    world.restart()
    agent, other = _agents(world)
    for number in range(6):
        agent.capture(f"After the restart, {number}.")
        agent.save(f"그리고 {number}")
        yield
    gone = other.remember("The lighthouse keeper's secret.")
    yield
    other.forget(gone)
    yield
    world.journal.rotate_keys(OTHER, _OPERATOR)
    yield
    agent.found("wheat")
    agent.ids("ferry")
    _checkpoint(world, OTHER)
    yield
    agent.withdraw(agent.capture("A second mistake."))
    yield
    retired = (world.path.parent / ROOT_FILE).read_text(encoding="ascii").strip()
    world.journal.replace_root_key(plan_for(root_source(world.path.parent), None), _OPERATOR)
    promises.retired.append(retired)
    yield
    other.remember("The last word.")
    yield


def root_source(directory: Path) -> RootKeySource:
    """Return where the store's root key stands."""
    return RootKeySource("file", (str(directory / ROOT_FILE),))


def _checkpoint(world: World, scope: Scope) -> None:
    Checkpoints(world.journal).write(scope)


def main(directory: Path) -> None:
    """Live through everything, then close the store."""
    os.environ["XDG_STATE_HOME"] = str(directory / "state")
    write_root_key_file(directory / ROOT_FILE, ROOT_KEY)
    world = World(directory / STORE)
    promises = Promises(world)
    promises.tell()
    for _ in live(world, promises):
        promises.tell()
    promises.close()
    world.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
