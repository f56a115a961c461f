"""A thousand answers over a store that never stands still: every one of them is derived again."""

from __future__ import annotations

import pytest

from journal.lifecycle import State
from tests.tools.memory.keeping import Changing, checked, kept_get, shown, value_of
from tools.memory.receipt_check import Verdict

SEARCHES = 1_000


@pytest.fixture
def changing(world):
    return Changing(world, 11)


def _kept(changing, count):
    documents = []
    for _ in range(count):
        for _ in range(changing.rng.randint(0, 2)):
            changing.happen()
        documents.append(changing.search())
    return documents


def test_a_thousand_searches_are_derived_and_after_forgettings_all_that_they_did_not_touch(world, changing):
    documents = _kept(changing, SEARCHES)
    cursors = [value_of(each)["rank_receipt"]["system_as_of"] for each in documents]
    assert len(set(cursors)) > SEARCHES / 2
    assert sum(bool(shown(each)) for each in documents) > SEARCHES / 2
    verdicts = checked(world, documents)
    assert [each.verdict for each in verdicts] == [Verdict.DERIVED] * SEARCHES
    assert [each.verified for each in verdicts] == [len(shown(each)) for each in documents]

    forgotten = changing.records(State.ACCEPTED_CURRENT)[-3:] + changing.records(State.HISTORICAL)[-3:]
    for record_id in forgotten:
        changing.agent.forget(record_id)
    counted = _times_in_force(changing, forgotten)
    touched = 0
    for document, each in zip(documents, checked(world, documents), strict=True):
        cursor = int(value_of(document)["rank_receipt"]["system_as_of"])
        erased = sorted(record_id for record_id in forgotten if cursor in counted[record_id])
        if not erased or not shown(document):
            assert each.verdict is Verdict.DERIVED
            continue
        touched += 1
        assert each.verdict is Verdict.ORDER_UNDERIVABLE
        assert sorted(each.erased) == erased
        assert each.verified == len([record_id for record_id in shown(document) if record_id not in forgotten])
    assert 0 < touched < SEARCHES


def _times_in_force(changing, records):
    """Return for each record the cursors at which it was accepted_current, read from the events' headers alone."""
    agent = changing.agent
    cursors: dict[str, set[int]] = {record_id: set() for record_id in records}
    with agent.engine.journal.store.view(agent.scope) as view:
        names = {view.candidate_of(record_id): record_id for record_id in records}
    states = dict.fromkeys(names, State.ABSENT)
    for event in agent.engine.journal.store.read(agent.scope, 0, 100_000):
        if event.header.subject in states:
            states[event.header.subject] = State(event.header.to_state)
        for name, state in states.items():
            if state == State.ACCEPTED_CURRENT:
                cursors[names[name]].add(event.header.cursor)
    return cursors


def test_gets_are_derived(world, changing):
    for _ in range(40):
        changing.happen()
    documents = [kept_get(changing.agent, found) for found in shown(changing.search())]
    changing.happen()
    assert documents
    assert {each.verdict for each in checked(world, documents)} == {Verdict.DERIVED}
    gone = value_of(documents[0])["record"]["record_id"]
    changing.agent.forget(gone)
    first, *rest = checked(world, documents)
    assert (first.verdict, first.erased, first.verified) == (Verdict.ORDER_UNDERIVABLE, [gone], 0)
    assert {each.verdict for each in rest} <= {Verdict.DERIVED}


def test_the_past_is_gone_through_once(world, changing, monkeypatch):
    documents = _kept(changing, 60)
    head = changing.agent.head
    read, pages = [], world.journal.store.read

    def counting(scope, after, limit):
        found = pages(scope, after, limit)
        read.append(len(found))
        return found

    monkeypatch.setattr(world.journal.store, "read", counting)
    checked(world, reversed(documents))
    assert sum(read) <= 3 * head
