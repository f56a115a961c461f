"""The projection of messages as a whole: whatever the batches, merges and owners, it ranks as a plain scan does."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal.errors import JournalCorrupt
from journal.events import EventType
from projections.lexical.tables import FORWARD, IndexTables
from projections.messages.tables import MESSAGES, OWNERS
from tests.projections.messages.conversations import ME, NOON, Conversation, Index, holding, scanned, small_limits

YOU = "principal:you"
WORDS = ["알림", "알림을", "서버에서", "배포", "cache", "caches", "the", "getUserName", "東京都", "👍🏽", "user", "물"]
QUERIES = ["알림", "서버 배포", "cache", "the", "user name", "알림을 서버에서 cache user", "東京", "nothing"]
PIECES = ["알", "알림", "cache", "e", "👍", "京都", "r n", "서버에서 배포", "\u200b", "물"]
OWNERS_ASKED = [(ME,), (YOU,), (ME, YOU), (), ("principal:nobody",)]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
says = st.tuples(st.just("say"), texts, st.sampled_from([ME, YOU]), st.sampled_from([None, NOON, NOON + 1]))
revises = st.tuples(st.just("revise"), st.integers(0, 30), texts)
tags = st.tuples(st.just("tag"), st.integers(0, 30), texts, st.lists(st.sampled_from(WORDS), max_size=3))
erases = st.tuples(st.just("erase"), st.integers(0, 30))
pins = st.tuples(st.just("pin"), st.integers(0, 30))
steps = st.lists(st.one_of(says, says, revises, tags, erases, pins), max_size=40)


def written(steps):
    """Return the conversation of steps; those about no message that is there are left out."""
    conversation = Conversation()
    for step in steps:
        if step[0] == "say":
            conversation.say(step[1], step[2], step[3], agent_key="cache")
            continue
        there = conversation.in_force({ME, YOU})
        if not there:
            continue
        message = there[step[1] % len(there)]
        if step[0] == "revise":
            conversation.revise(message, step[2])
        elif step[0] == "tag":
            conversation.tag(message, step[2] or None, step[3])
        elif step[0] == "erase":
            conversation.erase(message)
        else:
            conversation.mark(message, EventType.MESSAGE_PIN)
    return conversation


@contextmanager
def opened():
    with tempfile.TemporaryDirectory() as path:
        index = Index(path)
        try:
            yield index
        finally:
            index.close()


def rankings(index, tail=()):
    return [
        index.search(query, limit, owners, tail=tail)
        for query in QUERIES
        for limit in (1, 3, 50)
        for owners in OWNERS_ASKED
    ]


def expected(conversation):
    return [
        scanned(conversation, query, limit, owners)
        for query in QUERIES
        for limit in (1, 3, 50)
        for owners in OWNERS_ASKED
    ]


def candidates(index, tail=()):
    return [index.containing(piece, owners, tail=tail) for piece in PIECES for owners in OWNERS_ASKED]


@given(steps, st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans())
@settings(max_examples=40)
def test_any_batches_and_merges_give_one_content_and_one_ranking(steps, sizes, upkeep):
    conversation = written(steps)
    with small_limits(), opened() as whole, opened() as pieces:
        whole.fold(conversation.events)
        pieces.fold_in_batches(conversation.events, sizes)
        if upkeep:
            pieces.upkeep()
        assert whole.digest() == pieces.digest()
        assert rankings(whole) == rankings(pieces) == expected(conversation)
        assert candidates(whole) == candidates(pieces)


@given(steps, steps)
@settings(max_examples=30)
def test_a_tail_in_memory_equals_the_tail_folded(before, after):
    conversation = written([*before, *after])
    cut = len(written(before).events)
    with small_limits(), opened() as index:
        index.fold(conversation.events[:cut])
        tail = conversation.events[cut:]
        in_memory = rankings(index, tail), candidates(index, tail), index.digest(tail)
        index.fold(tail)
        assert in_memory == (rankings(index), candidates(index), index.digest())


@given(steps)
@settings(max_examples=30)
def test_what_was_erased_leaves_nothing_whether_or_not_it_was_ever_open(steps):
    conversation = written(steps)
    with small_limits(), opened() as earlier, opened() as later:
        conversation.is_erased_readable = True
        earlier.fold_in_batches(conversation.events, [1])
        conversation.is_erased_readable = False
        later.fold_in_batches(conversation.events, [1])
        assert earlier.digest() == later.digest()
        assert rankings(earlier) == rankings(later)
        assert candidates(earlier) == candidates(later)


@given(steps)
@settings(max_examples=30)
def test_no_message_that_holds_a_text_is_ever_missed(steps):
    conversation = written(steps)
    with small_limits(), opened() as index:
        index.fold_in_batches(conversation.events, [2])
        for piece in [*PIECES, *WORDS]:
            for owners in OWNERS_ASKED:
                found = index.containing(piece, owners)
                holds = set(holding(conversation, piece, owners))
                assert [cursor for cursor in found if cursor in holds] == holding(conversation, piece, owners)
                assert set(found) <= {message.cursor for message in conversation.in_force(owners)}


@given(steps, st.sets(st.integers(1, 40)), st.integers(1, 5))
@settings(max_examples=30)
def test_what_is_not_eligible_takes_no_place(steps, hidden, limit):
    def eligible(cursors):
        assert cursors.dtype == np.uint64
        return ~np.isin(cursors, list(hidden))

    conversation = written(steps)
    with small_limits(), opened() as index:
        index.fold(conversation.events)
        for query in QUERIES:
            assert index.search(query, limit, (ME, YOU), eligible) == scanned(
                conversation, query, limit, (ME, YOU), eligible
            )
        for piece in PIECES:
            whole = index.containing(piece, (ME, YOU))
            assert index.containing(piece, (ME, YOU), eligible) == [one for one in whole if one not in hidden]


def test_another_owner_changes_nothing(tmp_path):
    alone, beside = Conversation(), Conversation()
    for number in range(300):
        text = f"서버 {number % 7} 배포 cache {'deploy ' * (number % 5)}{'알림' * (number % 3)}"
        for conversation in (alone, beside):
            conversation.say(text, created_at=NOON + number % 11)
    names = {message.cursor: number for number, message in enumerate(alone.messages)}
    first = Index(tmp_path / "alone")
    first.fold(alone.events)
    second = Index(tmp_path / "beside")
    second.fold(beside.events)
    for number in range(1_000):
        beside.say(f"서버 배포 cache deploy 알림 {number}", YOU, created_at=NOON + number)
    for message in beside.messages[300:700]:
        beside.tag(message, "cache", ["deploy"])
    for message in beside.messages[300:500]:
        beside.erase(message)
    second.fold_in_batches(beside.events[300:], [97])
    for query in ("서버 배포", "cache deploy 알림", "3", "deploy deploy cache"):
        for limit in (1, 10, 50, 300):
            hits = first.search(query, limit)
            assert len(hits) >= min(limit, 40)
            assert second.search(query, limit) == hits
    for piece in ("알림", "배", "ache de", "서버 3"):
        assert [names[cursor] for cursor in first.containing(piece)] == [
            names[cursor] for cursor in second.containing(piece)
        ]
    first.close()
    second.close()


def test_several_owners_are_searched_as_one(conversation, index):
    for number in range(60):
        conversation.say(
            "cache " * (number % 4 + 1) + "deploy" * (number % 2), (ME, YOU, "principal:other")[number % 3]
        )
    index.fold_in_batches(conversation.events, [7])
    for query in ("cache", "cache deploy", "deploy deploy"):
        assert index.search(query, 50, (ME, YOU)) == scanned(conversation, query, 50, (ME, YOU))


def test_fifty_results_come_without_a_repeat_and_newest_first(conversation, index):
    for number in range(120):
        conversation.say("배포 상태", created_at=NOON - number, session_id=None)
    index.fold_in_batches(conversation.events, [11])
    found = [cursor for cursor, _ in index.search("배포", 50)]
    assert found == list(range(1, 51))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("오늘 회의에서 배포를 미루기로 했다", "회의"),
        ("오늘회의에서 배포를 미루기로 했다", "배포"),
        ("来週の東京出張を確認しました", "東京"),
        ("来週の東京出張を確認しました", "出張"),
        ("잘했어 👍🏽", "👍🏽"),
        ("k8s에서 Pod가 OOMKilled 됐다", "oomkilled"),
        ("Срок сдачи перенесли", "сдачи"),
        ("getUserName returned null", "return name"),
    ],
)
def test_words_are_found_in_every_script(conversation, index, text, query):
    said = conversation.say(text)
    conversation.say("something else 다른 것 別の話")
    index.fold(conversation.events)
    assert [cursor for cursor, _ in index.search(query)] == [said.cursor]


def test_a_revision_takes_the_place_of_the_text(conversation, index):
    said = conversation.say("cache를 켠다")
    conversation.tag(said, "engram-store", ["배포"])
    index.fold(conversation.events)
    conversation.revise(said, "서버를 끈다", by=YOU)
    index.fold(conversation.events[-1:])
    assert index.search("cache") == []
    assert index.containing("켠다") == []
    for query in ("서버", "engram", "배포"):
        assert index.search(query) == scanned(conversation, query)
        assert [cursor for cursor, _ in index.search(query)] == [said.cursor]
    assert index.containing("서버를 끈다") == [said.cursor]
    assert index.search("서버", owners=(YOU,)) == []


def test_tags_take_the_place_of_tags(conversation, index):
    said = conversation.say("cache를 켠다")
    conversation.tag(said, "project-a", ["alpha"])
    index.fold(conversation.events)
    assert [cursor for cursor, _ in index.search("alpha")] == [said.cursor]
    conversation.tag(said, None, ["beta"])
    index.fold(conversation.events[-1:])
    assert index.search("alpha") == []
    assert index.search("beta cache") == scanned(conversation, "beta cache") != []


def test_a_token_that_several_parts_hold_weighs_the_same_in_any_order(tmp_path):
    digests, hits = set(), []
    for order in (True, False):
        conversation = Conversation()
        said = conversation.say("cache deploy", agent_key="cache")
        for is_revision in (order, not order):
            if is_revision:
                conversation.revise(said, "cache cache")
            else:
                conversation.tag(said, "cache", ["cache"])
        index = Index(tmp_path / str(order))
        index.fold_in_batches(conversation.events, [1])
        digests.add(index.digest())
        hits.append(index.search("cache"))
        index.close()
    assert len(digests) == 1
    assert hits[0] == hits[1] != []


def test_who_said_it_is_found_and_its_platform_is_not(conversation, index):
    said = conversation.say("좋아", agent_key="archivist", subagent_role="reviewer", agent_platform="codex")
    index.fold(conversation.events)
    assert [cursor for cursor, _ in index.search("archivist")] == [said.cursor]
    assert [cursor for cursor, _ in index.search("reviewer")] == [said.cursor]
    assert index.search("codex") == []


@pytest.mark.parametrize("kind", [EventType.MESSAGE_PIN, EventType.MESSAGE_UNPIN, EventType.MESSAGE_ARCHIVE])
def test_what_is_pinned_or_archived_stays_as_it_is(conversation, index, kind):
    said = conversation.say("cache")
    index.fold(conversation.events)
    before = index.digest()
    conversation.mark(said, kind)
    index.fold(conversation.events[-1:])
    assert index.digest() == before


def test_an_erased_message_leaves_no_row(conversation, index):
    empty = index.digest()
    said = conversation.say("cache 알림")
    conversation.tag(said, "secret")
    index.fold(conversation.events)
    conversation.erase(said)
    index.fold(conversation.events[-1:])
    index.upkeep()
    assert index.search("cache secret") == index.containing("알림") == []
    with index.env.begin() as txn:
        for name in (MESSAGES, OWNERS, FORWARD):
            assert txn.stat(index.databases[name])["entries"] == 0
        assert IndexTables(txn, index.databases).state().documents == 0
    assert index.digest() == empty


def test_of_what_is_erased_or_replaced_within_a_batch_nothing_is_opened(conversation, index):
    kept, gone = conversation.say("cache"), conversation.say("secret")
    conversation.revise(kept, "first")
    conversation.revise(kept, "second")
    conversation.tag(gone, "secret")
    conversation.erase(gone)
    index.fold(conversation.events)
    assert conversation.opened == [kept.cursor, 4]


def test_what_was_erased_since_does_not_come_back_by_a_revision(conversation, index):
    said = conversation.say("secret")
    conversation.revise(said, "still secret")
    conversation.tag(said, "secret")
    said.erased = True  # by an event that is not read yet
    index.fold_in_batches(conversation.events, [1])
    assert index.search("secret") == index.containing("secret") == []


def test_a_key_destroyed_between_two_folds_takes_the_message_out(conversation, index):
    said, kept = conversation.say("cache one"), conversation.say("cache two")
    index.fold(conversation.events)
    conversation.tag(said, "late")
    said.erased = True
    index.fold(conversation.events[-1:])
    assert index.search("cache") == scanned(conversation, "cache")
    assert [cursor for cursor, _ in index.search("cache")] == [kept.cursor]
    conversation.erase(said)
    index.fold(conversation.events[-1:])
    assert index.search("cache") == scanned(conversation, "cache")


@pytest.mark.parametrize("sizes", [[1], [9]])
def test_a_lost_text_keeps_the_rest_from_nothing(conversation, index, sizes):
    lost, kept = conversation.say("lost words"), conversation.say("kept words")
    conversation.tag(lost, "project")
    conversation.lost = {lost.cursor}
    index.fold_in_batches(conversation.events, sizes)
    assert [cursor for cursor, _ in index.search("words")] == [kept.cursor]
    assert [cursor for cursor, _ in index.search("project")] == [lost.cursor]
    assert index.containing("lost") == []


def test_words_are_kept_under_the_key_alone(tmp_path, conversation, index):
    said = conversation.say("zanzibar 알림을 getUserName", agent_key="archivist")
    conversation.tag(said, "projectile")
    index.fold(conversation.events)
    index.env.sync(True)
    raw = (tmp_path / "index" / "data.mdb").read_bytes()
    for term in ("zanzibar", "알림", "getusernam", "archivist", "projectil", ME):
        assert term.encode() not in raw
    other = Index(tmp_path / "other", key=bytes(32))
    other.fold(conversation.events)
    assert other.digest() != index.digest()
    assert other.search("알림") == index.search("알림") != []
    other.close()


def test_an_event_of_no_message_is_corrupt(conversation, index):
    said = conversation.say("cache")
    conversation.revise(said, "cache")
    with pytest.raises(JournalCorrupt):
        index.fold(conversation.events[1:])


@pytest.mark.parametrize("sizes", [[1], [9]])
def test_an_event_after_the_erasure_is_corrupt(conversation, index, sizes):
    said = conversation.say("cache")
    conversation.erase(said)
    conversation.revise(said, "cache")
    with pytest.raises(JournalCorrupt):
        index.fold_in_batches(conversation.events, sizes)


@pytest.mark.parametrize("created_at", [-1, 0, 2**63, 2**80])
def test_no_instant_stops_the_fold(conversation, index, created_at):
    said = conversation.say("cache", created_at=created_at)
    index.fold(conversation.events)
    assert [cursor for cursor, _ in index.search("cache")] == index.containing("cach") == [said.cursor]


def test_nothing_is_found_in_nothing(index):
    assert index.search("cache") == index.containing("cache") == index.containing("") == []
    assert len(index.digest()) == 32
