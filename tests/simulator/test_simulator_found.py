"""What the simulator found, each as the shortest row of orders that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from journal import layout
from projections import marks
from tests.simulator.cast import PURPOSES, TEXTS, capture_arguments
from tests.simulator.hand import Hand
from tests.tools.memory.world import NOW, forgetting, key
from tools.host.capabilities import CAPTURE, FORGET, GET, REQUEST_ADMISSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    layout.create(tmp_path / "store", "2026-08-16T12:34:56.789Z")
    opened = Hand(tmp_path / "store", b"seed")
    yield opened
    opened.close()


def carried_out(hand: Hand, do: str, **more: Any) -> Any:
    answered = hand.carry_out({"do": do, "who": 0, "now": NOW, **more})
    assert answered["code"] == "ok", answered
    return answered["value"]


def recorded(hand: Hand) -> str:
    captured = carried_out(
        hand, "call", tool=CAPTURE, arguments=capture_arguments(key(), TEXTS[0], PURPOSES[0], NOW)
    )  # fmt: skip
    asked = {"candidate_id": captured["candidate_id"], "idempotency_key": key()}
    return str(carried_out(hand, "call", tool=REQUEST_ADMISSION, arguments=asked)["outcome"]["record_id"])


def test_a_full_disk_under_a_compaction_is_no_failure_of_the_forgetting(hand):
    """It was answered with an exception that no code stands for: the forgetting was committed, and nobody told so."""
    record_id = recorded(hand)
    arguments = forgetting(record_id)
    assert hand.carry_out({"do": "call", "who": 0, "now": NOW, "tool": FORGET, "arguments": arguments})["code"] == (
        "gate_failed"
    )
    [(confirmation_id, *_)] = carried_out(hand, "requests")
    carried_out(hand, "approve", confirmation_id=confirmation_id, fault="generation.rename")
    assert carried_out(hand, "call", tool=FORGET, arguments=arguments)["projection_invalidation"] == "pending"
    assert carried_out(hand, "finish") is True
    assert carried_out(hand, "call", tool=FORGET, arguments=arguments)["projection_invalidation"] == "complete"


@pytest.mark.parametrize("name", ["MARK", "CURRENT"])
def test_a_generation_that_could_not_be_begun_keeps_nothing_from_being_built(hand, monkeypatch, name):
    """What was left of it was held open by the very process that gave it up, so that it found itself busy for ever."""
    record_id = recorded(hand)
    carried_out(hand, "call", tool=GET, arguments={"record_id": record_id, "purpose_ref": PURPOSES[0]})
    real = marks.replace

    def full(directory_fd: int, replaced: str, content: bytes) -> None:
        if replaced == name:
            raise OSError(28, "No space left on device")
        real(directory_fd, replaced, content)

    with monkeypatch.context() as patched:
        patched.setattr(marks, "replace", full)
        order = {"do": "rebuild", "who": 0, "now": NOW, "name": "lexical", "copying": False}
        assert hand.carry_out(order)["code"] == "STORE_UNAVAILABLE"
    carried_out(hand, "rebuild", name="lexical", copying=False)
    assert carried_out(hand, "sweep") == []
    carried_out(hand, "call", tool=GET, arguments={"record_id": record_id, "purpose_ref": PURPOSES[0]})
