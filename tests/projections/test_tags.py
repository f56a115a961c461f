"""The projection ``tags``: what is known to whom, chains of aliases, circles, and words at rest."""

from __future__ import annotations

import pytest

from projections.environment import Unusable
from projections.tags import ProjectTag, Tags
from tests.projections.conversations import ALICE, ALICE_TOO, BOB, KEY, Talk, Told, only

_MINE = only(ALICE)
_BOTH = only(ALICE, ALICE_TOO)


@pytest.fixture
def talk():
    return Talk()


@pytest.fixture
def told(talk, tmp_path):
    return Told(tmp_path, talk, Tags(KEY))


def test_tags_are_known_to_their_owners_alone(talk, told):
    talk.project("engram", "기억 저장소")
    talk.project("other", "Bob's", owner=BOB)
    talk.alias("hidden", "other", owner=BOB)
    with told.fold().reader() as reader:
        assert reader.tags(_MINE) == [ProjectTag("engram", "기억 저장소", None, "engram")]
        assert [tag.name for tag in reader.tags(only(BOB))] == ["hidden", "other"]
        assert (reader.known(_MINE, "engram"), reader.known(_MINE, "other")) == (True, False)
        assert reader.family(_MINE, "other") is None
        assert reader.family(only(BOB), "other") == only("hidden", "other")
        assert reader.tags(frozenset()) == []
        assert [tag.name for tag in reader.tags(only(ALICE, BOB))] == ["engram", "hidden", "other"]


def test_a_message_makes_no_tag_known(talk, told):
    talk.tag(talk.say(), "engram")
    with told.fold().reader() as reader:
        assert not reader.known(_MINE, "engram")


def test_a_chain_of_aliases_ends_in_one_representative(talk, told):
    talk.project("c", "the project")
    talk.alias("a", "b")
    talk.alias("b", "c")
    talk.project("lone")
    with told.fold().reader() as reader:
        assert reader.tags(_MINE) == [
            ProjectTag("a", "", "b", "c"), ProjectTag("b", "", "c", "c"), ProjectTag("c", "the project", None, "c"),
            ProjectTag("lone", "", None, "lone"),
        ]  # fmt: skip
        for name in "abc":
            assert reader.family(_MINE, name) == only("a", "b", "c")
        assert reader.family(_MINE, "lone") == only("lone")
    talk.alias("b", None)
    with told.fold().reader() as reader:
        assert reader.family(_MINE, "a") == only("a", "b")
        assert reader.family(_MINE, "c") == only("c")


def test_the_newest_statement_is_in_force_and_the_other_kind_stays(talk, told):
    talk.project("a", "old")
    talk.alias("a", "b")
    talk.project("a", "new")
    talk.alias("a", "c")
    with told.fold().reader() as reader:
        assert reader.tags(_MINE)[0] == ProjectTag("a", "new", "c", "c")
        assert [tag.name for tag in reader.tags(_MINE)] == ["a", "b", "c"]


def test_what_would_close_a_circle_is_told_beforehand(talk, told):
    talk.alias("a", "b")
    talk.alias("b", "c")
    talk.alias("x", "a", owner=BOB)
    with told.fold().reader() as reader:
        assert reader.would_cycle(_MINE, "c", "a")
        assert reader.would_cycle(_MINE, "c", "b")
        assert reader.would_cycle(_MINE, "a", "a")
        assert reader.would_cycle(_MINE, "new", "new")
        assert not reader.would_cycle(_MINE, "a", "c")
        assert not reader.would_cycle(_MINE, "c", "d")
        assert not reader.would_cycle(_MINE, "new", "a")
        assert not reader.would_cycle(_MINE, "a", "x")
        assert reader.would_cycle(only(ALICE, BOB), "a", "x")


def test_a_circle_that_was_written_all_the_same_is_passed_over(talk, told):
    talk.alias("a", "b")
    talk.alias("b", "c")
    talk.alias("c", "a")
    talk.alias("d", "d")
    with told.fold().reader() as reader:
        assert {tag.name: tag.representative for tag in reader.tags(_MINE)} == {"a": "c", "b": "c", "c": "c", "d": "d"}
        assert reader.tags(_MINE)[2].alias_of is None
    talk.alias("a", None)
    with told.fold().reader() as reader:
        assert {tag.name: tag.representative for tag in reader.tags(_MINE)} == {"a": "a", "b": "a", "c": "a", "d": "d"}


def test_the_owners_of_one_user_are_joined(talk, told):
    talk.project("a", "desk")
    talk.alias("a", "b")
    talk.alias("b", "c", owner=ALICE_TOO)
    talk.project("a", "laptop", owner=ALICE_TOO)
    talk.alias("c", "a")  # a circle only together with the laptop's
    with told.fold().reader() as reader:
        assert reader.family(_BOTH, "a") == only("a", "b", "c")
        assert reader.tags(_BOTH)[0] == ProjectTag("a", "laptop", "b", "c")
        assert reader.tags(_MINE)[0] == ProjectTag("a", "desk", "b", "b")
        assert reader.family(_MINE, "c") == only("a", "b", "c")
        assert reader.family(only(ALICE_TOO), "c") == only("b", "c")
    talk.alias("a", None, owner=ALICE_TOO)
    with told.fold().reader() as reader:
        assert {tag.name: tag.representative for tag in reader.tags(_BOTH)} == {"a": "a", "b": "a", "c": "a"}


def test_a_lost_statement_is_counted_and_passed_over(talk, told):
    talk.project("a", "kept")
    talk.project("a", "gone", lost=True)
    with told.fold().reader() as reader:
        assert reader.tags(_MINE) == [ProjectTag("a", "kept", None, "a")]
        assert (reader.lost(_MINE), reader.lost(only(BOB))) == (1, 0)


def test_nothing_is_in_clear_and_nonces_do_not_show_in_the_digest(talk, told, tmp_path):
    talk.project("engram-tag", "some description")
    talk.alias("short-name", "engram-tag")
    raw = told.fold().raw()
    words = (b"engram-tag", b"some description", b"short-name", ALICE.encode())
    assert len(raw) == 2
    assert not [row for row in raw for word in words if word in row]
    again = Told(tmp_path / "again", talk, Tags(KEY)).fold()
    assert again.raw() != raw
    assert again.digest() == told.digest()
    talk.project("engram-tag", "another description")
    assert again.fold().digest() != told.digest()


def test_a_value_that_was_moved_or_changed_does_not_open(talk, told):
    talk.project("a", "one")
    talk.project("b", "two")
    told.fold()
    with told.env.begin(write=True) as txn:
        (first, one), (second, two) = txn.cursor(db=told.tables[b"tags"]).iternext()
        txn.put(first, two, db=told.tables[b"tags"])
        txn.put(second, one, db=told.tables[b"tags"])
    with told.reader() as reader, pytest.raises(Unusable):
        reader.tags(_MINE)
    with told.env.begin(write=True) as txn:
        txn.put(first, b"short", db=told.tables[b"tags"])
    with pytest.raises(Unusable):
        told.digest()
