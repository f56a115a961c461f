"""That the simulator can fail: with each of these faults planted in the product, a row of its operations does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from journal.keyring import Keyring
from journal.store.lmdb.engine import LmdbStore
from projections.catchup import Projections
from tests.simulator.cast import PURPOSES, TEXTS
from tests.simulator.machine import Simulation
from tests.simulator.second import SecondProcess
from tests.simulator.simulating import simulated
from tests.tools.memory.world import NOW
from tools.host import confirmation, outside
from tools.memory import approval, maintenance, reading
from tools.memory.admission import Admission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.scope import Scope
    from journal.store.port import Head


@pytest.fixture(scope="module")
def second() -> Iterator[SecondProcess]:
    process = SecondProcess()
    yield process
    process.close()


@pytest.fixture
def simulation(second: SecondProcess) -> Simulation:
    """Return a simulation whose operations the test gives."""
    Simulation.second, Simulation.seen = second, Counter()
    made = Simulation()
    made.begin()
    return made


def _forgets_and_captures_again(simulation: Simulation) -> None:
    simulation.forget_for_good(who=0, place=2, second=False, trouble=None)
    simulation.capture_and_admit(who=0, text=TEXTS[1], second=True)


def _reads_after_expiry(simulation: Simulation) -> None:
    simulation._captured(0, TEXTS[2], PURPOSES[0], False, None, expires=1_000)
    simulation.admit(who=0, place=4, second=False, trouble=None)
    simulation.time_passes(1_000)
    simulation.get(who=0, place=2, purpose=PURPOSES[0], second=False)


def _approves_late(simulation: Simulation) -> None:
    simulation.forget(who=0, place=2, second=False, trouble=None)
    simulation.time_passes(360_000)
    simulation.decide(place=0, second=False, trouble=None, approves=True)


def _orders_twice(simulation: Simulation) -> None:
    simulation.order(who=0, place=4, other=0, second=True, trouble=None, operation="DISPUTE")


def _keeps_something(simulation: Simulation) -> None:
    simulation.keep(who=0, text=TEXTS[2], second=False)


def _keeps_another(simulation: Simulation) -> None:
    simulation.seen_at_once()
    simulation.keep(who=0, text=TEXTS[2], second=False)
    simulation.seen_at_once()


def _erases(simulation: Simulation) -> None:
    simulation.erase(who=0, place=2, second=False, trouble=None)
    simulation.decide(place=0, second=False, trouble=None, approves=True)


class _Forgetful:
    """A view that knows of nothing forgotten."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return (lambda guard: False) if name == "tombstoned" else getattr(self._view, name)


def _forgotten_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Admission.drafts
    monkeypatch.setattr(Admission, "drafts", lambda self, view: real(self, _Forgetful(view)))


def _expired_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    real = reading.is_eligible
    monkeypatch.setattr(reading, "is_eligible", lambda payload, call, of: real(payload, replace(call, now=NOW), of))


def _old_request_is_approved(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (confirmation, approval):
        monkeypatch.setattr(module, "is_over", lambda request, now: False)


def _order_is_done_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_carried_out", lambda view, subject, order: None)


def _acknowledged_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def lossy(self: Any, txn: Any, begun: Any, *, wrote: bool) -> bool:
        txn.abort()
        return True

    monkeypatch.setattr(LmdbStore, "_finish", lossy)


def _key_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keyring, "destroy", lambda self, scope, doomed, at_least=0: self.generation(scope))


class _OneBefore:
    """A journal, or its store, whose head is the one before."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return _OneBefore(self._real.store) if name == "store" else getattr(self._real, name)

    def head(self, scope: Scope) -> Head:
        head = self._real.head(scope)
        newest = self._real.read(scope, head.cursor - 1, 1)[0]
        return replace(head, cursor=head.cursor - 1, hash=newest.header.prev)


def _one_event_behind_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Projections._begin

    def begin(self: Any, members: Any, deadline: float | None) -> Any:
        journal, head = self.journal, self.journal.store.head(self.scope).cursor
        if all(member.shown == head - 1 > 0 for member in members):
            self.journal = _OneBefore(journal)
        try:
            return real(self, members, deadline)
        finally:
            self.journal = journal

    monkeypatch.setattr(Projections, "_begin", begin)


def _nothing_is_noted_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "note", lambda journal, points: None)


PLANTED: dict[str, tuple[Any, Any]] = {
    "forgotten content comes back unseen": (_forgotten_comes_back, _forgets_and_captures_again),
    "a record is read after its expiry": (_expired_is_read, _reads_after_expiry),
    "a request is approved after its time": (_old_request_is_approved, _approves_late),
    "an order that was carried out is refused": (_order_is_done_twice, _orders_twice),
    "what was acknowledged is lost": (_acknowledged_is_lost, _keeps_something),
    "the key of what was erased is left": (_key_is_left, _erases),
    "projections are served one event behind": (_one_event_behind_is_served, _keeps_another),
    "a key is destroyed before that is noted outside": (_nothing_is_noted_outside, _erases),
}


def _played(simulation: Simulation, operations: Any) -> None:
    operations(simulation)
    simulation.look(False)
    simulation._sound()


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(fault, simulation, monkeypatch):
    plant, operations = PLANTED[fault]
    plant(monkeypatch)
    try:
        with pytest.raises(AssertionError):
            _played(simulation, operations)
        assert simulation.is_broken
    finally:
        simulation.is_broken = True  # nothing more is to be looked at
        simulation.teardown()


def test_what_is_served_one_event_behind_is_found_by_chance_too(monkeypatch):
    """What the rows above do by plan, the short form does by chance; it was blind to it while it looked seldom."""
    _one_event_behind_is_served(monkeypatch)
    with pytest.raises(AssertionError):
        simulated(1, 600, shrinks=False)


@pytest.mark.parametrize("fault", PLANTED)
def test_without_it_nothing_is(fault, simulation):
    PLANTED[fault][1](simulation)
    simulation.teardown()
