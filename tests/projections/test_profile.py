"""The projection ``profile``: revisions by owner, newest first, sealed."""

from __future__ import annotations

import pytest

from projections.profile import Profile, ProfileRevision
from tests.projections.conversations import ALICE, ALICE_TOO, BOB, KEY, Talk, Told, only

_MINE = only(ALICE)
_BOTH = only(ALICE, ALICE_TOO)


@pytest.fixture
def talk():
    return Talk()


@pytest.fixture
def told(talk, tmp_path):
    return Told(tmp_path, talk, Profile(KEY))


def test_revisions_come_newest_first_and_by_owner(talk, told):
    first = talk.profile("의사", "tea")
    bobs = talk.profile("pilot", owner=BOB)
    laptop = talk.profile("doctor", owner=ALICE_TOO)
    last = talk.profile("surgeon")
    with told.fold().reader() as reader:
        assert [revision.cursor for revision in reader.history(_MINE)] == [last, first]
        assert [revision.cursor for revision in reader.history(_BOTH)] == [last, laptop, first]
        assert [revision.cursor for revision in reader.history(only(BOB))] == [bobs]
        assert reader.history(frozenset()) == []
        assert reader.newest(_MINE).core_profile == "surgeon"
        assert reader.newest(only(ALICE_TOO)).core_profile == "doctor"
        assert reader.newest(only("principal:nobody")) is None
        recorded_at = talk.events[first - 1].header.recorded_at
        assert reader.history(_MINE)[1] == ProfileRevision(
            first, recorded_at, ALICE, "A", "의사", "tea", "update", "hand"
        )


def test_the_newest_of_one_user_may_be_another_principals(talk, told):
    talk.profile("desk")
    talk.profile("laptop", owner=ALICE_TOO)
    with told.fold().reader() as reader:
        assert reader.newest(_BOTH).core_profile == "laptop"
        assert reader.newest(_MINE).core_profile == "desk"


def test_a_lost_revision_is_counted_and_passed_over(talk, told):
    talk.profile("kept")
    talk.profile("gone", lost=True)
    talk.profile("gone", lost=True, owner=BOB)
    with told.fold().reader() as reader:
        assert reader.newest(_MINE).core_profile == "kept"
        assert len(reader.history(_MINE)) == 1
        assert (reader.lost(_MINE), reader.lost(only(ALICE, BOB)), reader.lost(only(ALICE_TOO))) == (1, 2, 0)


def test_no_word_is_in_clear_and_nonces_do_not_show_in_the_digest(talk, told, tmp_path):
    talk.profile("a surgeon", "likes green tea")
    raw = told.fold().raw()
    assert len(raw) == 1
    assert not [word for word in (b"surgeon", b"green tea", b"update", ALICE.encode()) if word in raw[0]]
    again = Told(tmp_path / "again", talk, Profile(KEY)).fold()
    assert again.raw() != raw
    assert again.digest() == told.digest()


def test_revisions_are_read_in_memory_as_on_disk(talk, told):
    talk.profile("first")
    told.fold()
    talk.profile("second")
    talk.profile("bob's", owner=BOB)
    with told.in_memory() as (_, reader):
        assert [revision.core_profile for revision in reader.history(_MINE)] == ["second", "first"]
        assert reader.newest(_MINE).core_profile == "second"
