"""The product takes the steps of the models, in their order: else what is shown of the models is shown of nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from journal import layout, slots
from journal.scopelocks import ScopeLocks
from projections.generations import Generations
from tests.simulator import generation_protocol, slot_protocol
from tests.simulator.cast import PURPOSES, TEXTS, capture_arguments
from tests.simulator.hand import Hand
from tests.tools.memory.world import NOW, key
from tools.host.capabilities import CAPTURE, WITHDRAW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    layout.create(tmp_path / "store", "2026-08-16T12:34:56.789Z")
    opened = Hand(tmp_path / "store", b"seed")
    yield opened
    opened.close()


def _told(monkeypatch: pytest.MonkeyPatch, steps: list[str], owner: type, method: str, before: str, after: str) -> None:
    """Note when a lock is had, and when it is given back."""
    real = getattr(owner, method)

    @contextmanager
    def noting(*given: Any) -> Iterator[Any]:
        with real(*given) as held:
            steps.append(before)
            yield held
            steps.append(after)

    monkeypatch.setattr(owner, method, noting)


def _noted(monkeypatch: pytest.MonkeyPatch, steps: list[str], owner: Any, method: str, name: Any) -> None:
    """Note each call, by a name or by what is made of its arguments."""
    real = getattr(owner, method)

    def noting(*given: Any) -> Any:
        noted = name(*given) if callable(name) else name
        if noted:
            steps.append(noted)
        return real(*given)

    monkeypatch.setattr(owner, method, noting)


def _call(hand: Hand, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return hand.carry_out({"do": "call", "who": 0, "now": NOW, "tool": tool, "arguments": arguments})


def test_keys_are_written_and_destroyed_in_the_order_of_the_model(hand, monkeypatch):
    steps: list[str] = []
    _told(monkeypatch, steps, ScopeLocks, "files", "lock keys", "unlock keys")
    _noted(monkeypatch, steps, slots, "_write_all", lambda fd, raw, at: "write slot" if at else "raise generation")
    _noted(
        monkeypatch, steps, slots, "_flush",
        lambda fd: "flush slots" if steps[-1] == "write slot" else "flush header",
    )  # fmt: skip
    _noted(monkeypatch, steps, hand.journal.store, "_failpoint", lambda name: "commit" * (name == "commit.before"))
    captured = _call(hand, CAPTURE, capture_arguments(key(), TEXTS[0], PURPOSES[0], NOW))
    expected = [step.name for step in slot_protocol.capturing("one") if step.name != "count slots"]
    assert steps == [*expected[:-1], "commit"]

    candidate_id = captured["value"]["candidate_id"]
    arguments = {"candidate_id": candidate_id, "reason_ref": "reason:mistaken", "idempotency_key": key()}
    assert _call(hand, WITHDRAW, arguments)["code"] == "gate_failed"
    [(confirmation_id, *_)] = hand.carry_out({"do": "requests", "who": 0, "now": NOW})["value"]
    steps.clear()
    hand.carry_out({"do": "approve", "who": 0, "now": NOW, "confirmation_id": confirmation_id})
    ended = ["commit", *(step.name for step in slot_protocol.finishing("one")[1:-1]), "commit"]
    overwritten = [name for name in steps if name != "write slot"]
    assert overwritten == [name for name in ended if name != "overwrite slots"]
    assert steps.index("lock keys") < steps.index("write slot") < steps.index("flush slots")
    assert steps.count("write slot") == 2  # the candidate's own key, and the request's


def test_generations_come_and_go_in_the_order_of_the_model(hand, monkeypatch):
    steps: list[str] = []
    hand.carry_out({"do": "rebuild", "who": 0, "now": NOW, "name": "tags", "copying": False})
    _told(monkeypatch, steps, Generations, "locked", "lock", "unlock")
    for method, name in (("_begin", "begin"), ("name_locked", "adopt"), ("_remove_under", "remove what nobody holds")):
        _noted(monkeypatch, steps, Generations, method, name)
    done = hand.carry_out({"do": "rebuild", "who": 0, "now": NOW, "name": "tags", "copying": False})
    assert done["code"] == "ok"
    modelled = [*generation_protocol.building("one"), *generation_protocol.sweeping("one")]
    unseen = {"read the head", "fold", "let go"}
    expected = [
        step.name.split()[0] if "lock" in step.name.split()[0] else step.name
        for step in modelled
        if step.name not in unseen
    ]
    assert steps[: len(expected)] == expected
    assert steps[len(expected) :] in ([], expected[-3:])  # whoever lets go of the old one sweeps too
