"""Another process, really stopped, that holds a scope's key lock: calls end by their deadline, other scopes go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from journal.lifecycle import Operation, State
from journal.scope import Scope
from tests.journal.peers import Peer
from tests.tools.memory.world import OTHER, SCOPE, Caller, World, capture_arguments, key, withdrawal
from tools.host.capabilities import CAPTURE, REQUEST_ADMISSION, WITHDRAW

_HOLDS = """
from pathlib import Path
from journal.filelock import FileLock
lock = FileLock(Path(sys.argv[1]))
assert lock.acquire(None)
say("held")
hear()
"""
SOON_SECONDS = 0.2


@contextmanager
def stopped_with(*paths: Path) -> Iterator[None]:
    """Have processes hold locks, and stop them."""
    peers = [Peer(_HOLDS, path) for path in paths]
    try:
        for peer in peers:
            assert peer.hear() == "held"
            peer.process.send_signal(signal.SIGSTOP)
        yield
    finally:
        for peer in peers:
            peer.process.send_signal(signal.SIGCONT)
            with peer:
                peer.end()


def key_lock(world: World, scope: Scope = SCOPE) -> Path:
    return world.path / "keys" / f"{scope.tag.hex()}.lock"


def use_up(world: World, scope: Scope = SCOPE) -> None:
    """Take all the keys that are at hand: the next call needs the scope's key lock."""
    opened = world.journal.keyring._opened(scope)
    opened.ahead.clear()


class Late:
    """A capture under way, in a thread of its own."""

    def __init__(self, caller: Caller, seconds: float = 30) -> None:
        self.answers: list[str] = []
        self._thread = threading.Thread(
            target=lambda: self.answers.append(caller.code(CAPTURE, capture_arguments("late"), seconds=seconds))
        )
        self._thread.start()

    def answer(self) -> str:
        """Wait for its answer."""
        self._thread.join()
        return self.answers[0]


def goes_on_beside(world: World, elsewhere: Caller, late: list[Late]) -> None:
    """Capture in another scope, with keys at hand and without, before any of the late ones is answered."""
    for _ in range(4):
        elsewhere.capture("beside")
        use_up(world, OTHER)
    assert not any(each.answers for each in late)


def test_a_call_ends_by_its_deadline_and_reads_need_no_lock(world, agent):
    record_id = agent.remember("harvest")
    capture = capture_arguments("late")
    use_up(world)
    with stopped_with(key_lock(world)):
        for _ in range(3):
            assert agent.code(CAPTURE, capture, seconds=SOON_SECONDS) == "DEADLINE_EXCEEDED"
        assert agent.found("harvest") == [record_id]
        assert agent.get(record_id)["ok"]
    assert agent.value(CAPTURE, capture)["status"] == "committed_pending"


@pytest.mark.parametrize("count", [1, 8])
def test_calls_of_another_scope_never_wait(world, agent, count):
    elsewhere = world.caller(OTHER)
    elsewhere.capture("before")
    agent.capture("first")
    use_up(world)
    with stopped_with(key_lock(world)):
        late = [Late(agent) for _ in range(count)]
        goes_on_beside(world, elsewhere, late)
    assert {each.answer() for each in late} == {"ok"}, "they go on when the lock is given back"


def test_many_at_once_end_each_by_its_deadline(world, agent):
    agent.capture("first")
    use_up(world)
    with stopped_with(key_lock(world)):
        late = [Late(agent, SOON_SECONDS) for _ in range(8)]
        assert {each.answer() for each in late} == {"DEADLINE_EXCEEDED"}


@pytest.mark.parametrize("tool", [REQUEST_ADMISSION, WITHDRAW])
def test_no_other_call_needs_the_lock(world, agent, tool):
    candidate_id = agent.capture("pending")
    use_up(world)
    with stopped_with(key_lock(world)):
        arguments = (
            {"candidate_id": candidate_id, "idempotency_key": key()}
            if tool == REQUEST_ADMISSION
            else withdrawal(candidate_id)
        )
        # A withdrawal is confirmed, and a request has a key of its own.
        assert agent.code(tool, arguments, seconds=SOON_SECONDS) in {"ok", "DEADLINE_EXCEEDED"}


def test_a_scope_is_taken_into_use_without_the_lock(world, agent):
    """Reads go on, in a process that starts while the lock is held, though a rotation left something over."""
    record_id = agent.remember("harvest")
    left = world.path / "keys" / f"{SCOPE.tag.hex()}.7.slots"
    left.write_bytes(b"left over")
    world.restart()
    again = world.caller()
    with stopped_with(key_lock(world)):
        assert again.found("harvest") == [record_id]
        assert left.exists()
    world.journal.finish_destructions(SCOPE)
    assert not left.exists()


def test_what_a_dead_process_left_to_destroy_holds_a_read_for_a_moment_only(world, agent, monkeypatch):
    monkeypatch.setattr("journal.log._ADMISSION_SECONDS", SOON_SECONDS)
    record_id = agent.remember("harvest")
    candidate_id = agent.capture("left over")
    agent.transit(candidate_id, Operation.WITHDRAW)
    world.restart()
    again = world.caller()
    with stopped_with(key_lock(world)):
        assert again.found("harvest") == [record_id]
        assert again.state(candidate_id) is State.WITHDRAWN
    assert world.journal.finish_destructions(SCOPE)
    assert world.journal.key_is_destroyed(SCOPE, candidate_id)


def test_a_scope_without_keys_is_made_by_the_deadline_or_not(world, agent):
    agent.capture("first")
    third = Scope.of("tenant", "third")
    newcomer = world.caller(third)
    elsewhere = world.caller(OTHER)
    with stopped_with(key_lock(world, third)):
        assert newcomer.code(CAPTURE, capture_arguments("late"), seconds=SOON_SECONDS) == "DEADLINE_EXCEEDED"
        late = Late(newcomer)
        goes_on_beside(world, elsewhere, [late])
    assert late.answer() == "ok"
    assert newcomer.code(CAPTURE, capture_arguments("later")) == "ok"


def test_a_root_key_that_is_being_replaced_holds_who_makes_keys_until_the_deadline(world, agent):
    agent.capture("first")
    newcomer = world.caller(Scope.of("tenant", "third"))
    with stopped_with(world.path / "keys" / "root.lock"):
        assert newcomer.code(CAPTURE, capture_arguments("late"), seconds=SOON_SECONDS) == "DEADLINE_EXCEEDED"
        assert agent.code(CAPTURE, capture_arguments("beside")) == "ok"


def test_who_waits_while_the_store_is_closed_is_answered(world, agent):
    agent.capture("first")
    use_up(world)
    with stopped_with(key_lock(world)):
        late = Late(agent, 2 * SOON_SECONDS)
        world.restart()
        assert late.answer() in {"DEADLINE_EXCEEDED", "STORE_UNAVAILABLE"}
