"""One process's hand on the store: it carries out orders, which are plain JSON, and says what came of each.

    {"do": NAME, "who": index of a person, "now": epoch milliseconds, "fault": NAME?, ...}  ->  {"code", "value"}

``code`` is ``ok``, the contract's code, ``refused`` for what only the command line refuses, or ``broken: TYPE`` for an
exception that should have been none of an order's answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from journal import layout
from journal.errors import EngramError
from journal.events import Actor, EventType
from journal.keyring import Keyring
from journal.lifecycle import Operation
from journal.log import Journal
from journal.scope import Scope
from journal.testing import ManualClock, SeededRandomness
from projections import marks
from replay.known import Point
from replay.rebuild import invalidate, rebuild, sweep
from tests.simulator.cast import PEOPLE
from tests.tools.conversation.talks import CLIENT, Speaker
from tests.tools.memory.world import NOW, ROOT_KEY, binding
from tools.cli.adjudication import Adjudication
from tools.cli.failures import Refused
from tools.conversation import upkeep
from tools.host import confirmation
from tools.host.outside import outside, tell_outside
from tools.memory import approval, maintenance
from tools.memory.engine import Engine
from tools.memory.erasure import finish_erasures
from tools.memory.expiry import expire_records
from tools.server.service import CallContext

Order = dict[str, Any]
_OPERATOR = "hand"


class Hand:
    """An open store, and the engine of each person."""

    def __init__(self, path: Path, seed: bytes) -> None:
        self.clock = ManualClock(NOW)
        self.journal = Journal.open(path, ROOT_KEY, clock=self.clock, randomness=SeededRandomness(seed))
        tell_outside(self.journal)
        self.unnoted: list[str] = []
        setattr(self.journal.keyring, "destroy", self._destroying)  # noqa: B010 - mypy knows a method
        self.speakers = [self._speaker(index) for index in range(len(PEOPLE))]
        for scope in dict.fromkeys(speaker.scope for speaker in self.speakers):
            self.journal.admit(scope)

    def _speaker(self, index: int) -> Speaker:
        who = PEOPLE[index]
        scope = Scope.of("tenant", who.workspace)
        bound = binding(scope, principal=who.principal, policy=who.policy, destroy_expired=who.destroy_expired)
        speaker = Speaker(Engine(self.journal, bound))
        speaker.client = CLIENT
        return speaker

    def _destroying(self, scope: Scope, doomed: Any, at_least: int = 0) -> int:
        """Look, before a key is destroyed, whether the event that demands it is noted outside."""
        noted = outside(None).points(layout.store_id(self.journal.path)).get(scope.tag.hex(), Point(0)).cursor
        ends = {key_id for key_id, _ in doomed}
        with self.journal.store.view(scope) as view:
            late = [cursor for cursor, key_id in view.pending_destructions() if key_id in ends and cursor > noted]
        self.unnoted += [f"the end at {cursor} is not noted outside: {noted} is" for cursor in late]
        return Keyring.destroy(self.journal.keyring, scope, doomed, at_least)

    def carry_out(self, order: Order) -> dict[str, Any]:
        """Carry out an order, whatever comes of it."""
        self.clock.set(order["now"])
        speaker = self.speakers[order["who"]]
        with faulty(self.journal, order.get("fault")):
            try:
                value = getattr(self, f"_{order['do']}")(speaker, speaker.engine, order)
            except EngramError as error:
                return {"code": error.code, "value": None}
            except Refused:
                return {"code": "refused", "value": None}
            except Exception as error:  # noqa: BLE001 - the simulator has to see it, in whichever process it was
                return {"code": f"broken: {type(error).__name__}: {error}", "value": None}
        if self.unnoted:
            return {"code": f"broken: {self.unnoted}", "value": None}
        return value if order["do"] == "call" else {"code": "ok", "value": value}

    # --- an agent ---------------------------------------------------------------------------------

    def _call(self, speaker: Speaker, engine: Engine, order: Order) -> dict[str, Any]:
        document = speaker.call(order["tool"], order["arguments"])
        if document["ok"]:
            return {"code": "ok", "value": document["output"]["value"]}
        return {"code": document["error"]["code"], "value": None}

    # --- a person ---------------------------------------------------------------------------------

    def _requests(self, speaker: Speaker, engine: Engine, order: Order) -> list[tuple[str, str, str]]:
        """Return (id, principal, arguments) of each open request."""
        return [
            (each.confirmation_id, each.principal, json.dumps(each.arguments, sort_keys=True))
            for each in confirmation.list_requests(engine, speaker.scope)
        ]

    def _approve(self, speaker: Speaker, engine: Engine, order: Order) -> None:
        approval.approve(engine, speaker.scope, order["confirmation_id"], _OPERATOR)

    def _deny(self, speaker: Speaker, engine: Engine, order: Order) -> None:
        confirmation.deny(engine, speaker.scope, order["confirmation_id"], _OPERATOR)

    def _adjudicate(self, speaker: Speaker, engine: Engine, order: Order) -> dict[str, Any]:
        before = Adjudication(engine, speaker.scope, order["candidate_id"], _OPERATOR)
        return before.decide(order["decision"], anyway=order["anyway"]).as_json()

    def _order(self, speaker: Speaker, engine: Engine, order: Order) -> dict[str, Any]:
        made = maintenance.Order(
            operation=Operation[order["operation"]], candidate_id=order["candidate_id"],
            successor_id=order["successor_id"],
        )  # fmt: skip
        return maintenance.carry_out(engine, speaker.scope, _OPERATOR, made).as_json()

    # --- conversation upkeep ----------------------------------------------------------------------

    def _person_call(self, speaker: Speaker) -> Any:
        import threading
        import time

        context = CallContext(
            client_name=None, session_id="terminal", protocol_version="", deadline=time.monotonic() + 30,
            cancelled=threading.Event(), progress=lambda *_: None,
        )  # fmt: skip
        return speaker.service._speaking(context, "audit")

    def _move(self, speaker: Speaker, engine: Engine, order: Order) -> int:
        kind = EventType[f"MESSAGE_{order['operation']}"]
        return len(upkeep.move(engine, self._person_call(speaker), kind, order["message_id"]))

    def _tag(self, speaker: Speaker, engine: Engine, order: Order) -> dict[str, Any]:
        wanted = upkeep.Tagging(project=order["tag"])
        return upkeep.tag_message(engine, self._person_call(speaker), order["message_id"], wanted)

    def _add_tag(self, speaker: Speaker, engine: Engine, order: Order) -> Any:
        return upkeep.add_tag(engine, self._person_call(speaker), order["tag"], None)

    def _alias(self, speaker: Speaker, engine: Engine, order: Order) -> Any:
        return upkeep.alias_tag(engine, self._person_call(speaker), order["tag"], order["of"])

    # --- maintenance ------------------------------------------------------------------------------

    def _expire(self, speaker: Speaker, engine: Engine, order: Order) -> bool:
        return expire_records(engine, speaker.scope)

    def _expire_requests(self, speaker: Speaker, engine: Engine, order: Order) -> int:
        return confirmation.expire_requests(engine, speaker.scope)

    def _finish(self, speaker: Speaker, engine: Engine, order: Order) -> bool:
        return finish_erasures(engine, speaker.scope)

    def _rotate(self, speaker: Speaker, engine: Engine, order: Order) -> int:
        return self.journal.rotate_keys(speaker.scope, Actor(f"operator:{_OPERATOR}"))

    def _rebuild(self, speaker: Speaker, engine: Engine, order: Order) -> int:
        projections = engine.projections(speaker.scope)
        return rebuild(projections, order["name"], wait=True, copying=order["copying"]).cursor

    def _invalidate(self, speaker: Speaker, engine: Engine, order: Order) -> None:
        invalidate(engine.projections(speaker.scope), [order["name"]])

    def _sweep(self, speaker: Speaker, engine: Engine, order: Order) -> list[str]:
        return sweep(engine.projections(speaker.scope))

    # --- what stands ------------------------------------------------------------------------------

    def _states(self, speaker: Speaker, engine: Engine, order: Order) -> dict[str, Any]:
        """Return the head's cursor, and the state of each subject that ever was."""
        with self.journal.store.view(speaker.scope) as view:
            rows = {name: (row.state, row.record_id) for name, row in view.subjects()}
            return {"head": view.head.cursor, "subjects": rows}

    def close(self) -> None:
        """Close the engines and the store."""
        for speaker in self.speakers:
            speaker.engine.close()


FAULTS = ("journal.flush", "keys.flush", "generation.rename")


@contextmanager
def faulty(journal: Journal, fault: str | None) -> Iterator[None]:
    """Let the medium fail once, at the next step of this kind."""
    import errno

    from journal import failpoints, slots

    def once(real: Callable[..., Any], number: int) -> Callable[..., Any]:
        left = [1]

        def acting(*given: Any) -> Any:
            if left and (fault != "journal.flush" or given == ("commit.before",)):
                left.clear()
                raise OSError(number, "injected")
            return real(*given)

        return acting

    store: Any = journal.store
    place, name, number = {
        None: (None, "", 0),
        "journal.flush": (store, "_failpoint", errno.EIO),
        "keys.flush": (slots, "_flush", errno.EIO),
        "generation.rename": (marks, "replace", errno.ENOSPC),
    }[fault]
    if place is None:
        yield
        return
    real = failpoints.reach if fault == "journal.flush" else getattr(place, name)
    setattr(place, name, once(real, number))
    try:
        yield
    finally:
        setattr(place, name, real)
