"""The stage of the simulation: one store, two processes, and how an operation is given to one of them.

Every answer is compared with the model's. A process may die at a failpoint, or the medium fail, within an operation;
what then stands is decided by where it was, and the operation is given again to the other process.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from journal import layout
from journal.lifecycle import State
from journal.messages import MessageState
from projections.serving import make_projections
from replay.audit import audit
from replay.rebuild import verify
from tests.simulator.cast import PEOPLE, PURPOSES, WORDS
from tests.simulator.hand import FAULTS, Hand
from tests.simulator.model import Model
from tests.simulator.second import SecondProcess
from tests.simulator.standing import Call
from tests.tools.memory.world import NOW
from tools.host.capabilities import (
    CAPTURE,
    GET,
    REQUEST_ADMISSION,
    SEARCH,
    SEARCH_MEMORY,
)

MEMORY = Path("/dev/shm")  # noqa: S108 - each example makes a directory of its own there
DEATHS = {  # failpoint -> whether the operation stands although its process died there
    "slot.written": False,
    "commit.before": False,
    "commit.after": True,
    "destroy.before": True,
    "destroy.after": True,
    "erasure.compacted": True,
}
_WHO_SEES = {person.workspace: who for who, person in enumerate(PEOPLE)}.values()
_WORDS: list[dict[str, Any]] = [{"query": word, "limit": 50} for word in WORDS]
_ALL: list[dict[str, Any]] = [{"limit": 50}, {"limit": 50, "include_archived": True}]
LOOKS = [(who, SEARCH, [{**word, "purpose_ref": one} for one in PURPOSES for word in _WORDS]) for who in _WHO_SEES] + [
    (who, SEARCH_MEMORY, _ALL + _WORDS) for who in range(len(PEOPLE))
]
"""Whatever can be found, by somebody who may find it."""
UNSURE = {"STORE_UNAVAILABLE", "MUTATION_OUTCOME_UNKNOWN", "PROJECTION_STALE"}


def shown(value: dict[str, Any], tool: str) -> dict[str, Any]:
    """Return of a value what the model can know."""
    if tool == SEARCH:
        return {"found": sorted(packet["record"]["record_id"] for packet in value["records"])}
    if tool == SEARCH_MEMORY:
        return {"found": sorted(found["id"] for found in value["results"])}
    if tool == GET:
        record = value["record"]
        return {"record_id": record["record_id"], "text": record["components"][0]["text"]}
    if tool == REQUEST_ADMISSION:
        return {"record_id": None, **value["outcome"], "replayed": value["replayed"]}
    return value


class Stage(RuleBasedStateMachine):
    """The store, its two processes, and how an operation is given to one of them and its answer looked at."""

    second: ClassVar[SecondProcess]
    seen: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        where = MEMORY if os.access(MEMORY, os.W_OK) else None
        self._directory = tempfile.TemporaryDirectory(prefix="engram-simulator-", dir=where)
        self.path = Path(self._directory.name) / "store"
        layout.create(self.path, "2026-08-16T12:34:56.789Z")
        self.openings = 1
        self.first = Hand(self.path, b"first-1")
        self.second.open(self.path, "second")
        self.now, self.skew = NOW, 0
        self.model = Model()
        self.sent: list[tuple[int, str, dict[str, Any]]] = []
        self.keys = 0
        self.heads: dict[tuple[int, str], int] = {}  # of who looked last, and for what
        self.told: dict[tuple[int, str, int], dict[str, Any]] = {}  # and what was to be found then
        self.is_broken = False
        self.seen["stores"] += 1
        self.seen["operations"] -= 1  # what a store begins with is looked at too, and is none

    # --- giving orders ------------------------------------------------------------------------------

    def must(self, holds: bool, *what: object) -> None:
        """Fail the example unless something holds."""
        if not holds:
            self.is_broken = True
            self.seen["wrong"] += 1
            raise AssertionError(what)

    def clock(self, second: bool) -> int:
        return self.now + (self.skew if second else 0)

    def carry_out(self, do: str, who: int, second: bool, trouble: str | None = None, **more: Any) -> Any:
        """Give an order; return what came of it, or None where its process died."""
        order = {"do": do, "who": who, "now": self.clock(second), **more}
        self.seen["orders"] += 1
        if trouble in FAULTS:
            order["fault"] = trouble
            self.seen["faults set"] += 1
        if second:
            if trouble in DEATHS:
                order["failpoint"] = trouble
            answered = self.second.carry_out(order)
        else:
            answered = json.loads(json.dumps(self.first.carry_out(order)))
        if answered is None:
            self.seen["deaths"] += 1
            self.must(trouble in DEATHS, "the second process died by itself", order, self.second.last_words())
            return None
        self.seen[answered["code"]] += 1
        self.must(not answered["code"].startswith("broken"), answered, order)
        return answered

    def call(self, who: int, tool: str, second: bool, trouble: str | None = None, **arguments: Any) -> Any:
        """Make an agent's call, and hold its answer beside the model's; return the value."""
        now, scope = self.clock(second), self.first.speakers[who].scope
        asked = Call(who, tool, arguments)
        code, told, steps = self.model.answer(asked, now)
        if second:
            self.second.stand_ready()  # what opening writes is not the call's
        head = self.first.journal.store.head(scope).cursor
        answered = self.carry_out("call", who, second, trouble, tool=tool, arguments=arguments)
        if answered is None:
            if not DEATHS[str(trouble)]:
                return self.call(who, tool, False, **arguments)
            return self._stands_all_the_same(asked, (code, told, steps), now)
        if trouble in FAULTS and answered["code"] in UNSURE:
            self.seen["faults felt"] += 1
            return self.call(who, tool, not second, **arguments)
        self.must(answered["code"] == code, "code", code, answered, tool, arguments)
        if code == "gate_failed":
            self._waits(asked, now)
        elif code != "ok":
            self.must(self.first.journal.store.head(scope).cursor == head, "a refused call wrote", tool, arguments)
        else:
            value = shown(answered["value"], tool)
            self.must({name: value.get(name) for name in told} == told, "value", told, value, tool, arguments)
            self.model.take(steps, value)
        return answered["value"]

    def _stands_all_the_same(self, call: Call, expected: Any, now: int) -> None:
        """After a death behind the commit: the other process must be told what the dead one did, as a replay."""
        code, told, steps = expected
        if code == "gate_failed":
            self._waits(call, now)
            return
        self.must(code == "ok", "a call died that was to be refused", code, call)
        again = self.carry_out("call", call.who, False, tool=call.tool, arguments=call.arguments)
        self.must(again["code"] == "ok", "not clear", again, call)
        value = shown(again["value"], call.tool)
        told_now = {**told, "status": "duplicate_exact"} if call.tool == CAPTURE else {**told, "replayed": True}
        self.must({name: value.get(name) for name in told_now} == told_now, "replay", told_now, value, call)
        self.model.take(steps, value)

    def _waits(self, call: Call, now: int) -> None:
        asked = {"do": "requests", "who": call.who, "now": now}
        wanted = (PEOPLE[call.who].principal, json.dumps(call.arguments, sort_keys=True))
        found = [one for one, *other in self.first.carry_out(asked)["value"] if tuple(other) == wanted]
        self.must(len(found) == 1, "one request waits", found, call)
        known = self.model.ask(call, now, found[0])
        self.must(known.confirmation_id == found[0], "another request", known, found)

    def host(self, do: str, who: int, second: bool, trouble: str | None, **more: Any) -> str | None:
        """Give a person's order; return its code: ``stood`` after a death behind its commit, None if nothing stands."""
        answered = self.carry_out(do, who, second, trouble, **more)
        if answered is None:
            return "stood" if DEATHS[str(trouble)] else None
        if trouble in FAULTS and answered["code"] in UNSURE:
            self.seen["faults felt"] += 1
            return None
        return str(answered["code"])

    def key(self) -> str:
        self.keys += 1
        return f"key-of-the-simulator-{self.keys:06}"

    # --- looking ----------------------------------------------------------------------------------

    @invariant()
    def seen_at_once(self) -> None:
        """Directly after each event both processes are asked for what it changed: none may serve what was before.

        Of what it did not change one search of each kind is asked, so that the next event too meets projections that
        stand just before it.
        """
        self.seen["operations"] += 1
        for who, tool, looks in LOOKS:
            head = self.first.journal.store.head(self.first.speakers[who].scope).cursor
            if self.heads.get((who, tool)) == head:
                continue
            self.heads[who, tool] = head
            asked = []
            for number, arguments in enumerate(looks):
                told = self.model.answer(Call(who, tool, arguments), self.now)[1]
                if number == 0 or self.told.get((who, tool, number)) != told:
                    self.told[who, tool, number] = told
                    asked.append(arguments)
            for second in (head % 2 == 0, head % 2 == 1):  # who is asked first folds for the other, so each is in turn
                for arguments in asked:
                    self.call(who, tool, second, **arguments)

    def look(self, second: bool) -> None:
        """Hold everything that one process can see beside the model."""
        for who in range(len(PEOPLE)):
            for purpose in PURPOSES:
                for word in WORDS:
                    self.call(who, SEARCH, second, query=word, purpose_ref=purpose, limit=50)
            self.call(who, SEARCH_MEMORY, second, limit=50)
            self.call(who, SEARCH_MEMORY, second, limit=50, include_archived=True)
            self._look_at_states(who, second)

    def _look_at_states(self, who: int, second: bool) -> None:
        workspace = PEOPLE[who].workspace
        stands = self.carry_out("states", who, second)["value"]["subjects"]
        labels: dict[str, Any] = {"candidate": State, "message": MessageState}
        states = {
            name: labels[kind](state).label
            for name, (state, _) in stands.items()
            if (kind := name.partition("_")[0]) in labels
        }
        here = [each for each in self.model.things if each.workspace == workspace]
        expected = {each.name: each.state for each in here}
        self.must(states == expected, "states", workspace, states, expected)
        now = self.clock(second)
        waiting = sorted(one for one, *_ in self.carry_out("requests", who, second)["value"])
        open_ones = sorted(each.confirmation_id for each in self.model.asked if each.workspace == workspace
                           and each.is_open and now < each.expires_at)  # fmt: skip
        self.must(waiting == open_ones, "requests", workspace, waiting, open_ones)
        for each in here:  # an id is known from acceptance on, by a person too
            if each.payload and each.state not in ("pending", "rejected", "withdrawn"):
                each.record_id = each.record_id or stands[each.name][1]
                self.must(each.record_id == stands[each.name][1], "record id", each)

    def teardown(self) -> None:
        """End the example: nothing is wrong in the whole store, and each projection is what a replay makes of it."""
        try:
            if not self.is_broken:
                self.look(False)
                self.look(True)
                self._sound()
        finally:
            self.second.leave()
            self.first.close()
            self._directory.cleanup()

    def _sound(self) -> None:
        for who, person in enumerate(PEOPLE):
            self.carry_out("finish", who, False)
            engine = self.first.speakers[who].engine
            differing = [one.name for one in verify(engine.projections(engine.binding.scope)) if not one.ok]
            self.must(not differing, "projections differ from a replay", person.workspace, differing)
        report = audit(self.first.journal, self.path / layout.PROJECTIONS, make_projections)
        self.must(report.ok, "audit", report)
        self.seen["events"] += sum(scope.events for scope in report.scopes)
