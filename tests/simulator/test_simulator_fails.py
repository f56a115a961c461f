"""That the simulator can fail: with each of these faults planted in the product, a row of its operations does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from journal.keyring import Keyring
from journal.store.lmdb.engine import LmdbStore
from tests.simulator.cast import PURPOSES, TEXTS
from tests.simulator.machine import Simulation
from tests.simulator.second import SecondProcess
from tests.tools.memory.world import NOW
from tools.host import confirmation
from tools.memory import approval, maintenance, reading
from tools.memory.admission import Admission

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def _erases(simulation: Simulation) -> None:
    simulation.erase(who=0, place=7, second=False, trouble=None)
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


PLANTED: dict[str, tuple[Any, Any]] = {
    "forgotten content comes back unseen": (_forgotten_comes_back, _forgets_and_captures_again),
    "a record is read after its expiry": (_expired_is_read, _reads_after_expiry),
    "a request is approved after its time": (_old_request_is_approved, _approves_late),
    "an order that was carried out is refused": (_order_is_done_twice, _orders_twice),
    "what was acknowledged is lost": (_acknowledged_is_lost, _keeps_something),
    "the key of what was erased is left": (_key_is_left, _erases),
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


@pytest.mark.parametrize("fault", PLANTED)
def test_without_it_nothing_is(fault, simulation):
    PLANTED[fault][1](simulation)
    simulation.teardown()
