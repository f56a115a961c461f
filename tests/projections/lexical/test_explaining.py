"""Why a record was found: shares that add up to the score."""

from __future__ import annotations

from hypothesis import given, settings

from journal.lifecycle import Operation
from projections.lexical.question import Question
from tests.projections.lexical.indexes import Journal
from tests.projections.lexical.test_lexical_projection import QUERIES, opened, steps, written


def explained(index, query, cursor):
    with index.reading() as txn:
        score = dict(index.search(query, 50)).get(cursor, 0)
        return index.projection.reader(txn, index.databases, 0).explain(Question.of(query), cursor, score)


@given(steps)
@settings(max_examples=30)
def test_the_shares_add_up_to_the_score(steps):
    journal = written(steps)
    with opened() as index:
        index.fold_in_batches(journal.events, [3])
        for query in QUERIES:
            scores = dict(index.search(query, 50))
            for cursor in journal.cursors.values():
                told = explained(index, query, cursor)
                assert told.own == sum(share.share for share in told.terms)
                if cursor in scores:
                    assert told.score == scores[cursor]


def test_what_is_out_of_force_counts_nothing():
    journal = Journal()
    kept = journal.add("deploy the cache")
    gone = journal.add("deploy again")
    with opened() as index:
        index.fold(journal.events)
        assert {share.term: share.containing for share in explained(index, "deploy", journal.cursor(kept)).terms} == {
            "deploy": 2
        }
        journal.move(gone, Operation.TOMBSTONE)
        index.fold(journal.events[-1:])
        assert {share.term: share.containing for share in explained(index, "deploy", journal.cursor(kept)).terms} == {
            "deploy": 1
        }
        assert [share.share for share in explained(index, "deploy", journal.cursor(gone)).terms] == [0]


def test_the_greatest_share_comes_first_and_no_term_is_left_out():
    journal = Journal()
    one = journal.add("rare deploy")
    for number in range(5):
        journal.add(f"deploy number{number}")
    with opened() as index:
        index.fold(journal.events)
        told = explained(index, "nothing deploy rare", journal.cursor(one)).terms
    assert [share.term for share in told] == ["rare", "deploy", "noth"]
    assert told[-1].weight == told[-1].share == 0
