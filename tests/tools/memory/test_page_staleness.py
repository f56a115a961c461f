"""STALE_PAGE exactly when the searchable set changed: random lives of records against a plain reckoning of the set."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest

from journal.clock import instant
from journal.lifecycle import Operation
from tests.tools.memory.world import PURPOSE, SECOND, Caller, World, key
from tools.host.capabilities import SEARCH

WORD = "harvest"


@dataclass
class Life:
    """What is known of one record, beside the engine."""

    candidate_id: str
    record_id: str
    purpose_ref: str
    start: int
    stop: int | None  # the first millisecond at which it is no longer readable
    current: bool = True

    def readable(self, now: int) -> bool:
        return self.current and self.start <= now and (self.stop is None or now < self.stop)


class Reckoning:
    """A store, its records as they must be, and whether the set changed since the page that is held."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.agent: Caller = world.caller()
        self.chance = random.Random(seed)
        self.lives: list[Life] = []
        self.lasting = {self.agent.remember(f"{WORD} lasting {number}") for number in range(2)}
        self.changed = False

    def readable(self) -> set[str]:
        now = self.world.clock.now()
        return self.lasting | {life.record_id for life in self.lives if life.readable(now)}

    def act(self) -> None:
        """Do something at random, and note whether it changed the set."""
        before = self.readable()
        acts = [self.capture, self.admit, self.admit, self.end, self.tick, self.tick, self.dispute, self.resolve]
        self.chance.choice(acts)()
        self.changed |= self.readable() != before

    def capture(self) -> None:
        self.agent.capture(f"{WORD} pending {key()}")

    def admit(self) -> None:
        chance, now = self.chance, self.world.clock.now()
        start = now + chance.choice([-10, -1, 0, 1, 5, 30])
        end = start + chance.choice([0, 1, 10, 40]) if chance.random() < 0.5 else None
        expires_at = now + chance.choice([1, 7, 60]) if chance.random() < 0.5 else None
        changes: dict[str, Any] = {
            "valid_time": {"t": start} if end is None else {"t": start, "t_end": end},
            "retention": None if expires_at is None else {"expires_at": instant(expires_at)},
            "purpose_ref": chance.choice([PURPOSE, PURPOSE, SECOND]),
        }
        candidate_id = self.agent.capture(f"{WORD} {key()}", **changes)
        record_id = self.agent.admit(candidate_id)["record_id"]
        stops = [end + 1 if end is not None else None, expires_at]
        stop = min((each for each in stops if each is not None), default=None)
        self.lives.append(Life(candidate_id, record_id, changes["purpose_ref"], start, stop))

    def chosen(self, *, current: bool) -> Life | None:
        fitting = [life for life in self.lives if life.current is current]
        return self.chance.choice(fitting) if fitting else None

    def dispute(self) -> None:
        if life := self.chosen(current=True):
            self.agent.transit(life.candidate_id, Operation.DISPUTE)
            life.current = False

    def resolve(self) -> None:
        if life := self.chosen(current=False):
            self.agent.transit(life.candidate_id, Operation.RESOLVE_DISPUTE)
            life.current = True

    def end(self) -> None:
        if life := self.chosen(current=self.chance.random() < 0.5):
            operation = self.chance.choice([Operation.EXPIRE, Operation.TOMBSTONE, Operation.TRUST_INVALIDATE])
            self.agent.transit(life.candidate_id, operation)
            self.lives.remove(life)

    def tick(self) -> None:
        """Let time pass, a millisecond at a time: what came and went in between has changed the set too."""
        for _ in range(self.chance.choice([1, 1, 3, 20])):
            before = self.readable()
            self.world.clock.advance(milliseconds=1)
            self.changed |= self.readable() != before

    def page(self, cursor: str | None = None) -> dict[str, Any]:
        arguments = {"query": WORD, "purpose_ref": PURPOSE, "limit": 1}
        return self.agent.call(SEARCH, {**arguments, "page_cursor": cursor} if cursor else arguments)

    def found(self) -> set[str]:
        bound = {"limit": 50, "max_packet_bytes": 1 << 20}
        return {each for purpose in (PURPOSE, SECOND) for each in self.agent.found(WORD, purpose_ref=purpose, **bound)}


@pytest.mark.parametrize("seed", range(5))
def test_a_page_is_stale_exactly_when_the_set_changed(world, seed):
    reckoning = Reckoning(world, seed)
    cursor = None
    verdicts = {"ok": 0, "STALE_PAGE": 0}
    for _ in range(50):
        if cursor is None:
            cursor = reckoning.page()["output"]["value"].get("next_page_cursor")
            reckoning.changed = False
        reckoning.act()
        assert reckoning.found() == reckoning.readable()
        if cursor is None:
            continue
        document = reckoning.page(cursor)
        verdict = "ok" if document["ok"] else document["error"]["code"]
        assert verdict == ("STALE_PAGE" if reckoning.changed else "ok")
        verdicts[verdict] += 1
        if reckoning.changed or reckoning.chance.random() < 0.1:
            cursor = None
    assert all(verdicts.values()), verdicts
