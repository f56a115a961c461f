"""The projection ``timeline``: filters, order, isolation, and what erasing leaves."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from journal.errors import JournalCorrupt
from journal.events import EventType
from journal.messages import MessageState
from projections.environment import Unusable
from projections.port import FoldEvent
from projections.rows import cursor_key
from projections.timeline import Filter, TagUsage, Timeline
from projections.timeline_reader import SUBJECTS
from tests.projections.conversations import ALICE, ALICE_TOO, BOB, KEY, Talk, Told, only
from tests.projections.histories import NOON

_MINE = only(ALICE)


@pytest.fixture
def talk():
    return Talk()


@pytest.fixture
def told(talk, tmp_path):
    return Told(tmp_path, talk, Timeline(KEY))


def passing(told, limit=100, **asked):
    """The cursors that a filter lets pass, oldest first; every way of asking must agree."""
    chosen = Filter(**{"owners": _MINE, **asked})
    with told.fold().reader() as reader:
        found = sorted(reader.newest(chosen, limit))
        assert np.flatnonzero(reader.mask(chosen)).tolist() == found
        assert reader.count(chosen) == len(found)
        cursors = np.array(found, np.uint64)
        assert reader.eligible(chosen)(cursors).all()
        return found


# --- filters -------------------------------------------------------------------------------------


def test_each_part_of_a_filter_must_be_met(talk, told):
    mine = talk.say(agent_platform="codex", device_name="desk", cwd="place:a")
    other = talk.say(
        role="assistant", agent_platform="claude-code", agent_model="m1", device_name="lap", cwd="place:b", at=NOON - 5
    )
    talk.say(owner=BOB)
    talk.tag(other, "engram")
    assert passing(told) == [mine, other]
    assert passing(told, role="user") == [mine]
    assert passing(told, role="assistant") == [other]
    assert passing(told, platform="codex") == [mine]
    assert passing(told, not_platform="codex") == [other]
    assert passing(told, not_platform="gemini-cli") == [mine, other]
    assert passing(told, models=only("m1", "m2")) == [other]
    assert passing(told, models=frozenset()) == []
    assert passing(told, device="desk") == [mine]
    assert passing(told, place="place:b") == [other]
    assert passing(told, tags=only("engram", "unused")) == [other]
    assert passing(told, tags=only("unused")) == []
    assert passing(told, since=NOON - 5, until=NOON) == [other]
    assert passing(told, until=NOON - 5) == []
    assert passing(told, since=NOON - 4) == [mine]
    assert passing(told, platform="codex", role="assistant") == []


def test_pinned_messages_pass_the_device_where_asked_for(talk, told):
    desk, lap, pinned = talk.say(device_name="desk"), talk.say(device_name="lap"), talk.say(device_name="lap")
    talk.pin(pinned)
    talk.say(device_name="desk", owner=BOB, pinned=True)
    assert passing(told, device="desk") == [desk]
    assert passing(told, device="desk", pinned_always=True) == [desk, pinned]
    assert passing(told, device="desk", pinned_always=True, role="assistant") == []
    assert passing(told, device="lap") == [lap, pinned]
    assert passing(told, pinned_only=True) == [pinned]


def test_states_decide_what_is_shown(talk, told):
    kept, archived, restored, erased = talk.say(), talk.say(), talk.say(), talk.say()
    pinned = talk.say(pinned=True)
    talk.archive(archived)
    talk.archive(restored)
    talk.restore(restored)
    talk.erase(erased)
    assert passing(told) == [kept, restored, pinned]
    assert passing(told, archived=True) == [kept, archived, restored, pinned]
    assert passing(told, archived=True, pinned_only=True) == [pinned]
    talk.unpin(pinned)
    assert passing(told, pinned_only=True) == []


def test_an_owner_sees_nothing_of_another(talk, told):
    mine, bobs, too = talk.say(), talk.say(owner=BOB), talk.say(owner=ALICE_TOO)
    talk.tag(mine, "engram", owner=BOB)
    talk.tag(bobs, "engram", owner=ALICE)
    assert passing(told) == [mine]
    assert passing(told, owners=only(BOB)) == [bobs]
    assert passing(told, owners=only(ALICE, ALICE_TOO)) == [mine, too]
    assert passing(told, owners=frozenset()) == []
    assert passing(told, owners=only(BOB), tags=only("engram")) == [bobs]
    with told.reader() as reader:
        assert [use.count for use in reader.tag_usage(Filter(owners=_MINE), ["engram"])] == [1]
        assert reader.find(_MINE, talk.id_of(mine)).cursor == mine
        assert reader.find(_MINE, talk.id_of(bobs)) is None
        assert reader.find(only(BOB), "message_" + "0" * 32) is None
        assert reader.find(_MINE, "") is None
        assert self_made(reader, bobs) == []


def self_made(reader, cursor):
    """What a short-term load of Alice's holds of a message."""
    found = reader.short_term(
        _MINE, platform="codex", model=None, tags=only("engram"), place=None, since=0, token_limit=10_000
    )
    return [one for one in found if one == cursor]


def test_equal_names_of_two_owners_do_not_show_as_equal(talk, told):
    for owner in (ALICE, BOB):
        talk.tag(talk.say(owner=owner, device_name="desk", cwd="place:a", session_id="s", agent_model="m"), "engram")
    with told.fold().reader() as reader:
        mine, bobs = reader._stored.at(1), reader._stored.at(3)
    for field in ("owner", "platform", "model", "device", "tag", "place", "session"):
        assert mine[field] != 0
        assert mine[field] != bobs[field]
    assert len({int(mine[field]) for field in ("platform", "model", "device", "tag", "place", "session")}) == 6


# --- order ---------------------------------------------------------------------------------------


def test_the_newest_come_by_creation_and_then_by_cursor(talk, told):
    late, early, tie_a, tie_b = (talk.say(at=NOON + at) for at in (9, 1, 5, 5))
    with told.fold().reader() as reader:
        mine = Filter(owners=_MINE)
        assert reader.newest(mine, 9) == [late, tie_b, tie_a, early]
        assert reader.newest(mine, 2) == [late, tie_b]
        assert reader.newest(mine, 0) == []
        assert reader.newest(mine, 2, (NOON + 5, tie_b)) == [tie_a, early]
        assert reader.newest(mine, 1, (NOON + 5, tie_a)) == [early]
        assert reader.newest(mine, 9, (NOON + 1, early)) == []
        assert reader.newest(mine, 9, (NOON + 99, 2**63 - 1)) == [late, tie_b, tie_a, early]


def test_without_a_creation_time_it_is_the_recorded_one(talk, told):
    cursor = talk.say()
    with told.fold().reader() as reader:
        assert reader.at(cursor).created_at == talk.events[cursor - 1].header.recorded_at


def test_tag_usage_counts_what_the_filter_lets_pass(talk, told):
    for at, name, owner in ((1, "a", ALICE), (7, "b", ALICE), (3, "a", ALICE_TOO), (9, "a", BOB), (2, "c", ALICE)):
        talk.tag(talk.say(at=at, owner=owner), name)
    talk.say(at=99)
    both = only(ALICE, ALICE_TOO)
    with told.fold().reader() as reader:
        used = reader.tag_usage(Filter(owners=both), ["a", "b", "unused"])
        assert used == [TagUsage("b", 1, 7), TagUsage("a", 2, 3)]
        assert reader.tag_usage(Filter(owners=both, since=2, until=7), "abc") == [
            TagUsage("a", 1, 3), TagUsage("c", 1, 2)
        ]  # fmt: skip
        assert reader.tag_usage(Filter(owners=both), []) == []
        assert reader.tag_usage(Filter(owners=frozenset()), ["a"]) == []


# --- short term ----------------------------------------------------------------------------------


def loaded(told, *, token_limit=10_000, **changed):
    asked = {"platform": "codex", "model": None, "tags": frozenset(), "place": None, "since": 0, **changed}
    with told.fold().reader() as reader:
        return reader.short_term(_MINE, token_limit=token_limit, **asked)


def test_a_short_term_load_is_of_the_platform_the_projects_and_the_place(talk, told):
    user = talk.say(agent_platform="codex", at=1)
    one = talk.say(agent_platform="codex", role="assistant", agent_model="one", at=2)
    two = talk.say(agent_platform="codex", role="assistant", agent_model="two", at=3)
    tagged = talk.say(agent_platform="claude-code", at=4, cwd="place:a")
    near = talk.say(agent_platform="claude-code", at=5, cwd="place:a")
    talk.say(agent_platform="claude-code", at=6, cwd="place:b")
    archived = talk.say(agent_platform="codex", at=7)
    talk.archive(archived)
    talk.say(agent_platform="codex", at=8, owner=BOB)
    talk.tag(tagged, "engram")
    assert loaded(told) == [two, one, user]
    assert loaded(told, model="one") == [one, user]
    assert loaded(told, tags=only("engram", "x"), model="one") == [tagged, one, user]
    assert loaded(told, place="place:a") == [near, two, one, user]
    assert loaded(told, place="place:a", tags=only("engram")) == [near, tagged, two, one, user]
    assert loaded(told, since=2, model="one") == [one]


@pytest.mark.parametrize(("tokens", "expected"), [(9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (31, 3)])
def test_a_short_term_load_ends_where_the_tokens_do(talk, told, tokens, expected):
    cursors = [talk.say("글" * 17) for _ in range(3)]  # 10 tokens each
    assert loaded(told, token_limit=tokens) == cursors[::-1][:expected]


def test_a_long_message_ends_the_load_and_a_revision_counts_by_its_own_length(talk, told):
    first, long, last = talk.say("a"), talk.say("a" * 1_000), talk.say("a")
    assert loaded(told, token_limit=100) == [last]
    talk.revise(long, "a" * 10)
    assert loaded(told, token_limit=100) == [last, long, first]


# --- rows ----------------------------------------------------------------------------------------


def test_a_row_names_its_newest_text_and_tags(talk, told):
    cursor = talk.say("한글 본문", role="assistant", at=NOON - 7)
    with told.fold().reader() as reader:
        row = reader.at(cursor)
    assert (row.text_cursor, row.tags_cursor, row.characters, row.role) == (cursor, 0, 5, "assistant")
    assert (row.created_at, row.message_id, row.state) == (NOON - 7, talk.id_of(cursor), MessageState.ACTIVE)
    talk.revise(cursor, "old")
    revised, _, tagged = talk.revise(cursor, "newest"), talk.tag(cursor, "a"), talk.tag(cursor, None)
    with told.fold().reader() as reader:
        row = reader.at(cursor)
        assert reader.at(revised) is None
        assert reader.at(99) is None
    assert (row.text_cursor, row.tags_cursor, row.characters) == (revised, tagged, 6)
    assert row.known
    assert passing(told, tags=only("a")) == []


@pytest.mark.parametrize("harm", ["another id", "no id"])
def test_a_message_whose_id_does_not_lead_back_to_it_is_not_passed_over(talk, told, harm):
    """Found by changed bits: hits that were missing without a word."""
    cursor = talk.say("A text.")
    told.fold()
    with told.env.begin(write=True) as txn:
        if harm == "another id":
            txn.put(cursor_key(cursor), b"message_unknown", db=told.tables[SUBJECTS])
        else:
            txn.delete(cursor_key(cursor), db=told.tables[SUBJECTS])
    with told.reader() as reader, pytest.raises(Unusable):
        reader.at(cursor)


def test_a_lost_message_is_passed_over_and_counted(talk, told):
    lost, kept = talk.say(lost=True), talk.say()
    talk.pin(lost)
    talk.tag(lost, "a")
    talk.revise(lost, "a text whose role nobody knows")
    assert passing(told) == [kept]
    assert passing(told, pinned_only=True) == []
    with told.reader() as reader:
        row = reader.at(lost)
        assert (row.state, row.lost, row.known, reader.lost) == (MessageState.PINNED, True, False, 1)
    talk.erase(lost)
    with told.fold().reader() as reader:
        assert (reader.at(lost).lost, reader.lost) == (False, 0)


def test_a_lost_text_is_never_answered_by_an_older_one(talk, told):
    cursor = talk.say("first")
    talk.revise(cursor, "", lost=True)
    talk.revise(cursor, "", lost=True)
    assert passing(told) == []
    with told.reader() as reader:
        assert reader.lost == 1
    talk.revise(cursor, "third")
    assert passing(told) == [cursor]
    with told.reader() as reader:
        assert reader.lost == 0


def test_a_lost_tagging_leaves_the_tags_before_it(talk, told):
    cursor = talk.say()
    tagged = talk.tag(cursor, "a")
    talk.tag(cursor, "b", lost=True)
    assert passing(told, tags=only("a")) == [cursor]
    with told.reader() as reader:
        assert reader.at(cursor).tags_cursor == tagged


def test_erasing_leaves_cursor_id_and_state(talk, told):
    cursor = talk.say("secret", at=0x1122334455, device_name="desk", cwd="place:a", session_id="s", agent_model="m")
    talk.tag(cursor, "engram")
    with told.fold().reader() as reader:
        before = reader._stored.at(cursor).tobytes()
        numbers = [int(reader._stored.at(cursor)[name]) for name in ("owner", "platform", "tag", "place", "session")]
    talk.erase(cursor)
    with told.fold().reader() as reader:
        row = reader.at(cursor)
        assert (row.state, row.message_id) == (MessageState.ERASED, talk.id_of(cursor))
        assert (row.created_at, row.characters, row.text_cursor, row.tags_cursor, row.role) == (0, 0, 0, 0, None)
        assert reader.find(_MINE, talk.id_of(cursor)) is None
        after = reader._stored.at(cursor).tobytes()
    assert after == bytes([MessageState.ERASED]) + bytes(len(before) - 1)
    words = [number.to_bytes(8, "little") for number in numbers] + [(0x1122334455).to_bytes(8, "little")]
    assert not [raw for raw in told.raw() if any(word in raw for word in words)]


def test_no_name_is_in_clear(talk, told):
    talk.tag(
        talk.say("some words", device_name="desk:one", cwd="place:a", session_id="session:a", agent_model="model:a"),
        "engram-tag",
    )
    words = (b"some words", b"desk:one", b"place:a", b"session:a", b"model:a", b"engram-tag", b"codex", ALICE.encode())
    assert not [raw for raw in told.fold().raw() for word in words if word in raw]


# --- what must not be ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"from_state": MessageState.PINNED}, {"to_state": MessageState.ERASED}, {"subject": "message_" + "0" * 32},
        {"subject": None}, {"type": EventType.MESSAGE, "from_state": 0, "to_state": MessageState.ACTIVE},
        {"type": EventType.MESSAGE_RESTORE, "to_state": MessageState.ACTIVE},
        {"type": EventType.MESSAGE, "from_state": 0, "to_state": MessageState.ACTIVE, "subject": None},
    ],
    ids=["from", "to", "unknown", "no subject", "said twice", "illegal", "no id"],
)  # fmt: skip
def test_what_is_not_legal_is_a_corrupt_journal(talk, told, changes):
    talk.archive(talk.say())
    said, archived = talk.page(0, 2)
    forged = FoldEvent(msgspec.structs.replace(archived.header, **changes), said.payload)
    with told.env.begin(write=True) as txn:
        with pytest.raises(JournalCorrupt):
            told.projection.fold(txn, told.tables, [said, forged])
        txn.abort()
