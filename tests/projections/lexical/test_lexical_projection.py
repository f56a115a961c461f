"""The lexical projection as a whole: whatever the batches, merges and order, it ranks as a plain scan does."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import JournalCorrupt
from journal.lifecycle import LEGAL, Operation, State
from tests.projections.lexical.indexes import Index, Journal, payload_of, record_digest, scanned, small_limits

WORDS = [
    "알림",
    "알림을",
    "서버",
    "서버에서",
    "배포",
    "cache",
    "caches",
    "deploy",
    "the",
    "getUserName",
    "v1.2.3",
    "물",
]
QUERIES = ["알림", "서버 배포", "deploy cache", "the", "user name", "알림을 서버에서 cache deploy v1.2.3", "nothing"]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
payloads = st.builds(
    payload_of,
    texts,
    others=st.lists(st.tuples(st.sampled_from(["context", "decision", "evidence"]), texts), max_size=2),
    source=st.sampled_from(["source:deploy", "알림"]),
)
moves = st.tuples(st.integers(0, 30), st.sampled_from([*Operation]), st.integers(0, 30))
steps = st.lists(st.one_of(payloads, moves), max_size=40)


def written(steps):
    """Return the journal of steps: payloads are captured and accepted, moves are made where they are legal."""
    journal = Journal()
    for step in steps:
        if isinstance(step, dict):
            journal.add(step)
            continue
        subjects = list(journal.states)
        if not subjects:
            continue
        which, operation, other = step
        subject, related = subjects[which % len(subjects)], subjects[other % len(subjects)]
        needs_other = operation in (Operation.SUPERSEDE, Operation.REWIND)
        if (operation, journal.states[subject]) not in LEGAL:
            continue
        if needs_other and (subject == related or journal.states[related] is not State.ACCEPTED_CURRENT):
            continue
        journal.move(subject, operation, related if needs_other else None)
    return journal


@contextmanager
def opened():
    """Give a new index."""
    with tempfile.TemporaryDirectory() as path:
        index = Index(path)
        try:
            yield index
        finally:
            index.close()


def rankings(index, tail=()):
    return [index.search(query, limit, tail=tail) for query in QUERIES for limit in (1, 3, 50)]


def expected(journal):
    return [scanned(journal, query, limit) for query in QUERIES for limit in (1, 3, 50)]


@given(steps, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans())
@settings(max_examples=60)
def test_any_batches_and_merges_give_one_content_and_one_ranking(steps, sizes, upkeep):
    journal = written(steps)
    with small_limits(), opened() as whole, opened() as pieces:
        whole.fold(journal.events)
        pieces.fold_in_batches(journal.events, sizes)
        if upkeep:
            pieces.upkeep()
        assert whole.digest() == pieces.digest()
        assert rankings(whole) == rankings(pieces) == expected(journal)


@given(steps, steps)
@settings(max_examples=40)
def test_a_tail_in_memory_equals_the_tail_folded(before, after):
    journal = written([*before, *after])
    cut = len(written(before).events)
    with small_limits(), opened() as index:
        index.fold(journal.events[:cut])
        tail = journal.events[cut:]
        in_memory = rankings(index, tail), index.digest(tail)
        index.fold(tail)
        assert in_memory == (rankings(index), index.digest())


@given(steps)
@settings(max_examples=40)
def test_what_was_forgotten_leaves_nothing_whether_or_not_it_was_ever_open(steps):
    journal = written(steps)
    erased, journal.erased = journal.erased, set()
    with small_limits(), opened() as earlier, opened() as later:
        earlier.fold_in_batches(journal.events, [1])  # every payload still opens
        journal.erased = erased
        later.fold_in_batches(journal.events, [1])
        assert earlier.digest() == later.digest()
        assert rankings(earlier) == rankings(later)


def shuffled_but_for_sources(documents, random):
    """Return the numbers of documents in another order; those of one source keep theirs, which is what they say."""
    sources = [document["citations"][0]["source_ref"] for document in documents]
    waiting = {source: [at for at, other in enumerate(sources) if other == source] for source in sources}
    return [waiting[source].pop(0) for source in random.sample(sources, len(sources))]


@given(st.lists(payloads, min_size=2, max_size=12), st.randoms(use_true_random=False), st.data())
@settings(max_examples=40)
def test_the_order_of_adding_does_not_matter(documents, random, data):
    def ranked(order, gone):
        journal = Journal()
        for number in order:
            journal.add(documents[number], name=str(number))
        for number in gone:
            journal.move(list(journal.states)[order.index(number)], Operation.TOMBSTONE)
        names = {journal.cursor(subject): record_digest(subject) for subject in journal.states}
        with small_limits(), opened() as index:
            index.fold_in_batches(journal.events, [3])
            return [[(names[cursor], score) for cursor, score in hits] for hits in rankings(index)]

    order = list(range(len(documents)))
    gone = data.draw(st.lists(st.sampled_from(order), unique=True, max_size=4))
    shuffled = shuffled_but_for_sources(documents, random)
    assert ranked(order, gone) == ranked(shuffled, gone[::-1])


@given(steps, st.integers(1, 12))
@settings(max_examples=40)
def test_the_top_k_begins_the_top_2k(steps, k):
    with small_limits(), opened() as index:
        index.fold(written(steps).events)
        for query in QUERIES:
            assert index.search(query, k) == index.search(query, 2 * k)[:k]


@given(steps, st.sets(st.integers(1, 80)), st.integers(1, 5))
@settings(max_examples=40)
def test_what_is_not_eligible_takes_no_place(steps, hidden, limit):
    def eligible(cursors):
        return ~np.isin(cursors, list(hidden))

    journal = written(steps)
    with small_limits(), opened() as index:
        index.fold(journal.events)
        for query in QUERIES:
            assert index.search(query, limit, eligible) == scanned(journal, query, limit, eligible)


@pytest.fixture
def index(tmp_path):
    index = Index(tmp_path / "index")
    yield index
    index.close()


def found(journal, index, query):
    """Return the candidates that a query finds, best first."""
    subjects = {journal.cursor(subject): subject for subject in journal.states}
    return [subjects[cursor] for cursor, _ in index.search(query, 50)]


def test_a_pending_candidate_is_not_found(index):
    journal = Journal()
    pending = journal.capture("알림을 보낸다")
    index.fold(journal.events)
    assert found(journal, index, "알림") == []
    journal.move(pending, Operation.ACCEPT)
    index.fold(journal.events[1:])
    assert found(journal, index, "알림") == [pending]


def test_what_leaves_is_not_found_and_what_returns_is(index):
    journal = Journal()
    old, new = journal.add("the cache is warm"), journal.add("the cache is cold")
    journal.move(old, Operation.SUPERSEDE, new)
    index.fold(journal.events)
    assert found(journal, index, "cache") == [new]
    at = len(journal.events)
    journal.move(old, Operation.REWIND, new)
    index.fold(journal.events[at:])
    assert found(journal, index, "cache") == [old]


def test_leaving_and_returning_many_times_counts_once(index):
    journal = Journal()
    subject, other = journal.add("cache deploy"), journal.add("deploy")
    for _ in range(5):
        journal.move(subject, Operation.DISPUTE)
        journal.move(subject, Operation.RESOLVE_DISPUTE)
    index.fold_in_batches(journal.events, [1])
    assert index.search("deploy cache") == scanned(journal, "deploy cache")
    assert found(journal, index, "deploy") == found(journal, index, "deploy")
    assert set(found(journal, index, "deploy")) == {subject, other}


def test_what_leaves_within_a_batch_is_never_opened(index):
    journal = Journal()
    kept, gone = journal.add("cache"), journal.add("cache")
    journal.move(gone, Operation.EXPIRE)
    index.fold(journal.events)
    assert journal.opened == [kept]


def test_an_erased_payload_is_skipped(index):
    journal = Journal()
    erased, kept = journal.add("cache deploy"), journal.add("cache")
    journal.erased.add(erased)
    index.fold(journal.events)
    assert found(journal, index, "cache deploy") == [kept]


@pytest.mark.parametrize("sizes", [[1], [9]])
def test_what_was_erased_while_it_was_out_does_not_return(index, sizes):
    journal = Journal()
    subject, kept = journal.add("cache deploy"), journal.add("cache")
    index.fold(journal.events)
    at = len(journal.events)
    journal.move(subject, Operation.DISPUTE)
    journal.move(subject, Operation.RESOLVE_DISPUTE)
    journal.erased.add(subject)  # forgotten by an event that is not read yet
    index.fold_in_batches(journal.events[at:], sizes)
    assert found(journal, index, "cache deploy") == [kept]


def test_terms_are_kept_under_the_key_alone(tmp_path, index):
    journal = Journal()
    journal.add("zanzibar 알림을 getUserName")
    index.fold(journal.events)
    index.env.sync(True)
    raw = (tmp_path / "index" / "data.mdb").read_bytes()
    for term in ("zanzibar", "알림", "getusernam", "user"):
        assert term.encode() not in raw
    other = Index(tmp_path / "other", key=bytes(32))
    other.fold(journal.events)
    assert other.digest() != index.digest()
    assert other.search("알림") == index.search("알림")
    other.close()


def test_a_move_of_an_unknown_candidate_is_corrupt(index):
    journal = Journal()
    journal.add("cache")
    with pytest.raises(JournalCorrupt):
        index.fold(journal.events[1:])


def test_a_text_without_a_term_counts_as_a_document(index):
    journal = Journal()
    journal.add(payload_of("...", source="!", value="-"))
    journal.add("cache")
    index.fold(journal.events)
    assert index.search("cache") == scanned(journal, "cache")
    assert index.search("...") == []


def test_the_primary_component_counts_most(index):
    journal = Journal()
    beside = journal.add(payload_of("server", others=[("context", "cache")]))
    within = journal.add(payload_of("cache", others=[("context", "server")]))
    index.fold(journal.events)
    assert found(journal, index, "cache") == [within, beside]


def test_a_citation_is_found(index):
    journal = Journal()
    subject = journal.add(payload_of("cache", source="source:handbook", value="src/main.py#L10"))
    index.fold(journal.events)
    assert found(journal, index, "main.py") == [subject]
    assert found(journal, index, "handbook") == [subject]


def test_nothing_is_found_in_nothing(index):
    assert index.search("cache") == []
    assert len(index.digest()) == 32
