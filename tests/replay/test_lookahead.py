"""Rebuilding with a second process that weighs ahead: the same content."""

from __future__ import annotations

import pytest

from projections.catchup import Projections
from projections.lexical.ahead import Ahead
from projections.serving import make_chosen
from replay.lookahead import Lookahead
from replay.rebuild import rebuild_all
from tests.projections.histories import SCOPE, payload_of
from tests.replay.rebuilds import served

NAMES = ("current", "lexical")


@pytest.fixture
def served_twice(author, path):
    for number in range(1_000, 1_030):
        author.accepted(number, payload_of(f"note {number} of 알림"))
    with Projections(author.journal, SCOPE, path, lambda journal, scope: make_chosen(journal, scope, NAMES)) as opened:
        yield opened


def test_a_page_is_told_of_before_the_one_before_it_is_folded(author, monkeypatch):
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 5)
    told: list[int] = []
    tail = Lookahead(author.journal, SCOPE, lambda events: told.extend(event.header.cursor for event in events))
    assert tail.page(0).last == 5
    assert told == list(range(1, 11))
    assert tail.page(5).last == 10
    assert told == list(range(1, 16))
    assert tail.page(20).last == 25  # who jumps is told of that page too
    assert told[15:] == list(range(21, 31))


@pytest.mark.parametrize("ahead", [False, True])
def test_it_leads_to_the_same_content(served_twice, monkeypatch, ahead):
    monkeypatch.setattr("journal.limits.AHEAD_MIN_EVENTS", 1)
    monkeypatch.setattr("journal.limits.CATCHUP_PAGE_EVENTS", 7)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 9.0, 9.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    taken = []
    take = Ahead.take

    def watched(self, document, order):
        found = take(self, document, order)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(Ahead, "take", watched)
    before = served(served_twice)
    rebuild_all(served_twice, NAMES, ahead=ahead)
    assert served(served_twice) == before
    assert any(taken) is ahead


@pytest.mark.parametrize(("least", "load"), [(1_000_000, 0.0), (1, 1.5)])
def test_a_short_journal_and_a_busy_machine_leave_it_to_one_process(served_twice, monkeypatch, least, load):
    monkeypatch.setattr("journal.limits.AHEAD_MIN_EVENTS", least)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(Ahead, "__init__", None)
    assert [one.name for one in rebuild_all(served_twice, NAMES, ahead=True)] == list(NAMES)
