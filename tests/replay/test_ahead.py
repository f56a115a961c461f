"""A rebuild with a second process that prepares pages: the same content, whatever becomes of that process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from journal import layout, limits
from journal.lifecycle import Operation
from projections.catchup import Projections
from projections.serving import make_projections
from projections.tail import Tail
from replay import ahead
from replay.rebuild import rebuild_all
from tests.projections.histories import SCOPE
from tests.projections.processes import Process
from tests.projections.stores import ROOT_KEY, Store, created

PAGE = 8
RECORDS = ["current", "lexical"]
TEXTS = [f"문장 {number}: the harbour of {number % 7} boats, 배가 들어온다" for number in range(40)]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CATCHUP_PAGE_EVENTS", PAGE)
    monkeypatch.setattr(limits, "REBUILD_PAGES", 1)
    monkeypatch.setattr(limits, "REBUILD_SECOND_MIN_PAGES", 2)
    monkeypatch.setattr(ahead, "_processors", lambda: 2)
    with Store(created(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def filled(store):
    """A history in which records are accepted late, leave, come back and are forgotten."""
    waiting = []
    for number, text in enumerate(TEXTS):
        if number % 5 == 4:
            waiting.append(store.capture(text)[0])
            continue
        subject, _ = store.accepted(text)
        if number % 6 == 1:
            store.move(subject, Operation.DISPUTE)
        if number % 12 == 7:
            store.move(subject, Operation.RESOLVE_DISPUTE)
        if number % 9 == 2:
            store.forget(subject)
    for number, subject in enumerate(waiting):
        store.move(subject, Operation.ACCEPT if number % 2 else Operation.REJECT)
    return store


@pytest.fixture
def begun(monkeypatch):
    """The second processes that are started, as they are."""
    processes = []
    begin = ahead._Second.__init__

    def noted(self, opening):
        begin(self, opening)
        processes.append(self._process)

    monkeypatch.setattr(ahead._Second, "__init__", noted)
    return processes


def projections_of(store):
    return Projections(store.journal, SCOPE, store.path / layout.PROJECTIONS, make_projections)


def digests(projections):
    with projections.snapshot(None, RECORDS) as snapshot:
        return {name: snapshot.digest(name) for name in RECORDS}


def pages_of(store):
    return range(0, store.journal.store.head(SCOPE).cursor, PAGE)


def chosen(store):
    return [each for each in make_projections(store.journal, SCOPE) if each.name in RECORDS]


def read_all(tail, store):
    """Read every page; return the events that came prepared, by cursor, and all cursors."""
    prepared, cursors = {}, []
    for after in pages_of(store):
        for event in tail.page(after).events:
            cursors.append(event.header.cursor)
            if event.prepared:
                prepared[event.header.cursor] = dict(event.prepared)
    return prepared, cursors


def test_a_rebuild_with_a_second_process_gives_the_same_content(filled, begun):
    with projections_of(filled) as projections:
        before = digests(projections)
        done = rebuild_all(projections, RECORDS, ahead=filled.journal)
        assert [(one.name, one.generation) for one in done] == [(name, "00000002") for name in RECORDS]
        assert digests(projections) == before
    [process] = begun
    assert process.returncode is not None, "the second process is still there"


def test_every_acceptance_comes_prepared_and_most_from_the_other_process(filled, monkeypatch):
    monkeypatch.setattr(limits, "REBUILD_PAGES_AHEAD", 1)  # so that this process may prepare little
    tail = ahead.AheadTail(filled.journal, SCOPE, chosen(filled), pages_of(filled))
    try:
        prepared, cursors = read_all(tail, filled)
    finally:
        tail.end()
    assert cursors == list(range(1, filled.journal.store.head(SCOPE).cursor + 1))
    accepted = len(TEXTS) * 4 // 5 + 4
    forgotten = len([number for number in range(len(TEXTS)) if number % 5 != 4 and number % 9 == 2])
    assert len(prepared) == accepted - forgotten
    assert all(set(made) == set(RECORDS) for made in prepared.values())
    assert tail.prepared_there > len(pages_of(filled)) // 2


def test_nothing_of_a_payload_is_in_what_is_prepared(filled):
    page = ahead.prepare(Tail(filled.journal, SCOPE, PAGE), chosen(filled), 0)
    assert "harbour" not in repr(page)
    assert "배" not in repr(page)
    assert any(row is not None for row in page.rows["lexical"])


@pytest.mark.parametrize("pages_before", [0, 1, 3])
def test_a_second_process_that_dies_is_done_without(filled, begun, pages_before):
    with projections_of(filled) as projections:
        before = digests(projections)

        def progress(cursor, head):
            if cursor >= pages_before * PAGE:
                for process in begun:
                    process.kill()

        rebuild_all(projections, RECORDS, progress=progress, ahead=filled.journal)
        assert begun
        assert digests(projections) == before


def test_a_second_process_that_is_silent_is_done_without(filled, begun, monkeypatch):
    monkeypatch.setattr(limits, "REBUILD_SECOND_MAX_SECONDS", 0.2)
    monkeypatch.setattr(limits, "REBUILD_PAGES_AHEAD", 1)
    tail = ahead.AheadTail(filled.journal, SCOPE, chosen(filled), pages_of(filled))
    try:
        os.kill(begun[0].pid, signal.SIGSTOP)
        _, cursors = read_all(tail, filled)
    finally:
        tail.end()
    assert cursors == list(range(1, filled.journal.store.head(SCOPE).cursor + 1))
    assert tail.prepared_there <= 1  # it may have answered before it was stopped


def test_a_second_process_that_cannot_be_started_is_done_without(filled, monkeypatch):
    def refused(*_arguments, **_options):
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refused)
    with projections_of(filled) as projections:
        before = digests(projections)
        rebuild_all(projections, RECORDS, ahead=filled.journal)
        assert digests(projections) == before


def test_what_was_prepared_of_other_events_is_not_taken(filled):
    tail = Tail(filled.journal, SCOPE, PAGE)
    page, other = tail.read(0), ahead.prepare(tail, chosen(filled), PAGE)
    assert ahead._joined(page, other) is page
    assert any(event.prepared for event in ahead._joined(tail.read(PAGE), other).events)


def test_the_other_process_ends_with_the_one_that_asks(filled, begun):
    second = ahead._Second(ahead.Opening(str(filled.path), ROOT_KEY, SCOPE, {"lexical": 2}, PAGE))
    second.ask(0)
    answer = second.answer(wait=True)
    assert answer is not None
    assert answer.rows["lexical"]
    [process] = begun
    process.stdin.close()
    assert process.wait(30) == 0
    second.end()


PARENT = """
from pathlib import Path
from replay import ahead
from tests.projections.histories import SCOPE
from tests.projections.processes import Process
from tests.projections.stores import ROOT_KEY
second = ahead._Second(ahead.Opening(sys.argv[1], ROOT_KEY, SCOPE, {"lexical": 2}, 8))
second.ask(0)
second.answer(wait=True)
say(second._process.pid)
wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends a stopped child with its parent")
def test_a_stopped_second_process_does_not_outlive_the_one_that_asks(filled):
    with Process(PARENT, filled.path) as parent:
        pid = int(parent.hear())
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
    deadline = time.monotonic() + 30
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_wrong_root_key_prepares_nothing(filled):
    second = ahead._Second(ahead.Opening(str(filled.path), bytes(32), SCOPE, {"lexical": 2}, PAGE))
    second.ask(0)
    with pytest.raises(EOFError):
        second.answer(wait=True)
    second.end()


def test_few_pages_are_read_by_one_process(filled, monkeypatch):
    monkeypatch.setattr(limits, "REBUILD_SECOND_MIN_PAGES", len(pages_of(filled)) + 1)
    with ahead.tail_ahead(filled.journal, SCOPE, chosen(filled), pages_of(filled)) as tail:
        assert type(tail) is Tail


def test_an_acceptance_whose_text_is_beyond_the_bound_is_left_to_the_fold(filled, monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_PREPARED_CHARACTERS", 50)
    page = ahead.prepare(Tail(filled.journal, SCOPE, PAGE), chosen(filled), 0)
    assert [row for row in page.rows["lexical"] if row is not None] == page.rows["lexical"][1:2]
    assert len([row for row in page.rows["current"] if row is not None]) > 1
