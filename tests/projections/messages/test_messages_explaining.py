"""Why a message was found: shares that add up to the score, owner by owner."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from projections.lexical.question import Question
from tests.projections.messages.conversations import ME
from tests.projections.messages.test_messages_projection import OWNERS_ASKED, QUERIES, YOU, opened, steps, written


@given(steps)
@settings(max_examples=30)
def test_the_shares_add_up_to_the_score(steps):
    conversation = written(steps)
    with opened() as index:
        index.fold_in_batches(conversation.events, [3])
        for query in QUERIES:
            for owners in OWNERS_ASKED:
                scores = dict(index.search(query, 50, owners))
                with index.reader() as reader:
                    for message in conversation.messages:
                        score = scores.get(message.cursor, 0)
                        told = reader.explain(owners, Question.of(query), message.cursor, score)
                        assert told.own == sum(share.share for share in told.terms)
                        if score:
                            assert told.score == score


def test_every_term_is_told_with_its_frequency(conversation, index):
    first = conversation.say("cache cache deploy")
    conversation.say("deploy")
    conversation.say("deploy cache", owner=YOU)
    index.fold(conversation.events)
    with index.reader() as reader:
        told = {
            share.term: share
            for share in reader.explain({ME}, Question.of("cache deploy deploy zebra"), first.cursor, 1).terms
        }
        assert {term: (share.times, share.containing) for term, share in told.items()} == {
            "cach": (1, 1), "deploy": (2, 2), "zebra": (1, 0),
        }  # fmt: skip
        assert (told["zebra"].weight, told["zebra"].share) == (0, 0)
        assert all(share.share == share.weight * share.impact for share in told.values())
        together = {
            share.term: share.containing
            for share in reader.explain({ME, YOU}, Question.of("cache"), first.cursor, 1).terms
        }
    assert together == {"cach": 2}


@pytest.mark.parametrize("query", ["the", "the of"])
def test_a_stop_word_is_told_without_its_mark(conversation, index, query):
    message = conversation.say("the end of the line")
    index.fold(conversation.events)
    with index.reader() as reader:
        terms = [share.term for share in reader.explain({ME}, Question.of(query), message.cursor, 1).terms]
    assert sorted(terms) == sorted(query.split())
