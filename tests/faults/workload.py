"""What a process does while a fault meets it: every way of writing and reading that the Python API has, once.

Each step is tried until it is answered or refused ``TRIES`` times. What has an idempotency key is said under the same
key each time, also by the process that comes after. Everything that happens is told, a line of JSON each:

    {"begun": step}                        before each try
    {"done": step, "value": ..., "promised": ...}     what it came to, and what is promised from now on
    {"refused": step, "code": ...}         the contract's code of a try
    {"wrong": step, "error": ...}          an error that is none of the contract's
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from journal import layout
from journal.errors import EngramError
from journal.events import Actor
from journal.log import Journal
from journal.testing import ManualClock
from replay.backup import write as write_backup
from replay.rebuild import invalidate, rebuild
from tests.tools.conversation.talks import Speaker, conversation, erasing
from tests.tools.memory.world import (
    NOW,
    PURPOSE,
    ROOT_KEY,
    SCOPE,
    binding,
    capture_arguments,
    forgetting,
    key,
    withdrawal,
)
from tools.host.capabilities import (
    CAPTURE,
    FORGET,
    MANAGE_KNOWLEDGE,
    REQUEST_ADMISSION,
    SAVE_MESSAGE,
    SEARCH,
    SEARCH_MEMORY,
    WITHDRAW,
)
from tools.memory import approval
from tools.memory.engine import Engine
from tools.memory.erasure import finish_erasures

TRIES = 3
_OPERATOR = Actor("operator:rig")
_GATED = "gate_failed"
TEXTS = {
    "a": "The ferry leaves from the northern quay. 나루터는 북쪽이다.",
    "b": "The miller grinds barley on Thursdays.",
    "c": "The lighthouse is painted every spring.",
    "d": "A mistake about the harbour bell.",
    "e": "The granary door sticks in the rain.",
}
SAID = {"m": "메시지: the ferry ticket costs four coins.", "n": "Remember the baker's birthday."}


class Refused(Exception):
    """A call was answered with a code."""


Value = dict[str, Any]


class Life:
    """One process over the store: what it knows, and the steps that it takes."""

    def __init__(self, place: Path, known: Value, tell: Callable[[Value], None]) -> None:
        """``known`` is what earlier processes were told, by step; ``tell`` says what happens."""
        self.place = place
        self.known = known
        self._tell = tell
        self._agent: Speaker | None = None

    # --- the store -------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the store where it is missing, and open it."""
        path = self.place / "store"
        if not (path / layout.STORE_FILE).exists():
            layout.create(path, "2026-08-16T12:34:56.789Z")
        journal = Journal.open(path, ROOT_KEY, clock=ManualClock(NOW))
        self._agent = Speaker(Engine(journal, binding(conversation=conversation())))

    @property
    def agent(self) -> Speaker:
        """Whoever speaks."""
        assert self._agent is not None
        return self._agent

    def close(self) -> None:
        """Close the store."""
        agent, self._agent = self._agent, None
        if agent is not None:
            agent.engine.close()

    # --- steps -----------------------------------------------------------------------------------

    def live(self, steps: Iterable[str]) -> list[str]:
        """Take steps, whatever becomes of them; return those that came to no end. Without a store none can be taken."""
        failed = []
        for name in steps:
            if self._done(name, STEPS[name]):
                continue
            failed.append(name)
            if name == "open":
                break
        return failed

    def _done(self, name: str, step: Callable[[Life, str], Value]) -> bool:
        if name == "open" and self._agent is not None:
            return True
        for _ in range(TRIES):
            self._tell({"begun": name})
            try:
                value = step(self, name.partition(" ")[2])
            except Refused as refused:
                self._tell({"refused": name, "code": str(refused)})
            except EngramError as error:
                self._tell({"refused": name, "code": error.code})
            except Exception as error:  # noqa: BLE001 - what it is is told
                self._tell({"wrong": name, "error": f"{type(error).__name__}: {error}"})
            else:
                self.known[name] = value
                self._tell({"done": name, "value": value, "promised": self._promised()})
                return True
        return False

    def _promised(self) -> Value:
        """Return heads, destroyed keys and epochs as they stand, so far as they can be told."""
        promised: Value = {}
        with suppress(Exception):
            journal = self.agent.engine.journal
            head = journal.store.head(SCOPE)
            promised["heads"] = {SCOPE.tag.hex(): [head.cursor, head.hash.hex()]}
        return promised

    def call(self, tool: str, arguments: Value) -> Value:
        """Return the value of a call, or refuse with its code."""
        envelope = self.agent.call(tool, arguments, seconds=5)
        if not envelope["ok"]:
            raise Refused(envelope["error"]["code"])
        value: Value = envelope["output"]["value"]
        return value

    def confirmed(self, tool: str, arguments: Value) -> Value:
        """Ask, have a person approve what waits, and ask again."""
        try:
            return self.call(tool, arguments)
        except Refused as refused:
            if str(refused) != _GATED:
                raise
        for request in self.agent.requests():
            approval.approve(self.agent.engine, SCOPE, request.confirmation_id, "operator")
        return self.call(tool, arguments)


def _capture(life: Life, name: str) -> Value:
    value = life.call(CAPTURE, capture_arguments(TEXTS[name], key(f"capture {name}")))
    return {"candidate_id": value["candidate_id"]}


def _admit(life: Life, name: str) -> Value:
    candidate_id = life.known[f"capture {name}"]["candidate_id"]
    said = {"candidate_id": candidate_id, "idempotency_key": key(f"admit {name}")}
    outcome = life.call(REQUEST_ADMISSION, said)["outcome"]
    return {"status": outcome["status"], "record_id": outcome.get("record_id"), "cursor": outcome["cursor"]}


def _search(life: Life, query: str) -> Value:
    found = life.call(SEARCH, {"query": query, "purpose_ref": PURPOSE})["records"]
    return {"found": [packet["record"]["record_id"] for packet in found]}


def _withdraw(life: Life, name: str) -> Value:
    candidate_id = life.known[f"capture {name}"]["candidate_id"]
    value = life.confirmed(WITHDRAW, withdrawal(candidate_id, key(f"withdraw {name}")))
    return {"event_id": value["receipt"]["event_id"], "now": value["key_destruction"]}


def _forget(life: Life, name: str) -> Value:
    record_id = life.known[f"admit {name}"]["record_id"]
    value = life.confirmed(FORGET, forgetting(record_id, key(f"forget {name}")))
    return {"event_id": value["receipt"]["event_id"], "now": value["projection_invalidation"]}


def _save(life: Life, name: str) -> Value:
    if f"save {name}" in life.known:
        return life.known[f"save {name}"]  # said twice is stored twice: it is not repeated
    return {"id": life.call(SAVE_MESSAGE, {"role": "user", "message": SAID[name]})["id"]}


def _look(life: Life, query: str) -> Value:
    return {"found": [found["id"] for found in life.call(SEARCH_MEMORY, {"query": query})["results"]]}


def _erase(life: Life, name: str) -> Value:
    value = life.confirmed(MANAGE_KNOWLEDGE, erasing(life.known[f"save {name}"]["id"]))
    return {"now": value["key_destruction"]}


def _rotate(life: Life, _: str) -> Value:
    return {"epoch": life.agent.engine.journal.rotate_keys(SCOPE, _OPERATOR)}


def _rebuild(life: Life, name: str) -> Value:
    rebuild(life.agent.engine.projections(SCOPE), name)
    return {}


def _invalidate(life: Life, name: str) -> Value:
    invalidate(life.agent.engine.projections(SCOPE), [name])
    return {}


def _backup(life: Life, name: str) -> Value:
    with suppress(FileExistsError):
        write_backup(life.agent.engine.journal, life.place / name)
    return {}


def _open(life: Life, _: str) -> Value:
    life.open()
    return {}


def _settle(life: Life, _: str) -> Value:
    """Do what a server's sweeper does, then hear again what became of what was ended."""
    finish_erasures(life.agent.engine, SCOPE)
    _erase(life, "n")
    now = {step(life, name)["now"] for step, name in ((_withdraw, "d"), (_forget, "a"))}
    return {"now": "pending" if "pending" in now else "complete"}


def _restart(life: Life, _: str) -> Value:
    life.close()
    life.open()
    return {}


def _close(life: Life, _: str) -> Value:
    life.close()
    return {}


STEPS: dict[str, Callable[[Life, str], Value]] = {
    "open": _open,
    "capture a": _capture, "admit a": _admit, "capture b": _capture, "admit b": _admit, "capture c": _capture,
    "search ferry": _search, "save m": _save, "save n": _save, "look ferry": _look,
    "capture d": _capture, "withdraw d": _withdraw, "forget a": _forget, "search quay": _search,
    "rotate": _rotate, "capture e": _capture, "admit e": _admit, "rebuild lexical": _rebuild,
    "search granary": _search, "invalidate messages": _invalidate, "look baker": _look, "erase n": _erase,
    "backup one.backup": _backup, "restart": _restart, "admit c": _admit, "search lighthouse": _search,
    "settle": _settle, "close": _close,
}  # fmt: skip


def live(place: Path, known: Value, steps: Iterable[str], said: int) -> list[str]:
    """Take steps in a directory, telling of them on a descriptor; return those that came to no end."""

    def tell(what: Value) -> None:
        os.write(said, json.dumps(what, ensure_ascii=False).encode() + b"\n")

    return Life(place, known, tell).live(steps)
