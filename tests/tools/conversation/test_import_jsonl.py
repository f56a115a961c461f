"""What an import refuses, where it says so, and what is left when it is interrupted."""

from __future__ import annotations

import pytest

from journal import limits
from journal.errors import MutationOutcomeUnknown, StoreUnavailable
from journal.events import EventType
from tests.tools.conversation.exchanging import HEADER, SAID, exported, imported, person, silent, written
from tests.tools.conversation.talks import ONE, TWO, speaker
from tools.conversation.exchange.bringing import Bringing
from tools.conversation.exchange.import_jsonl import check_jsonl, import_jsonl
from tools.conversation.exchange.reading import WrongLine, numbered_lines

PLANTED = "the planted words"
PROFILE = {
    "kind": "profile", "user_name": "", "core_profile": PLANTED, "sub_profile": "", "action": "update", "by": "hand",
    "recorded_at": "2026-01-02T03:04:05.006Z",
}  # fmt: skip
TAG = {"kind": "project_tag", "name": "engram", "description": ""}
WRONG = [
    (b"", 1, "not the header of an export"),
    (SAID, 1, "not the header of an export"),
    ({**HEADER, "version": 2}, 1, "an export of version 2, which this release does not read"),
    ({**HEADER, "exported_at": "yesterday"}, 1, "exported_at is no instant as YYYY-MM-DDTHH:mm:ss.sssZ"),
]
WRONG_AFTER_THE_HEADER = [
    (HEADER, "a second header"),
    (b"{", "not JSON"),
    (b"[]", "not an object of the right shape"),
    (b"\xff", "not UTF-8"),
    (b'{"kind":"project_tag","name":"a","name":"b","description":""}', "a key stands twice"),
    (b'{"kind":"project_tag","name":"a","description":"\\ud800"}', "an unpaired surrogate"),
    (b'{"kind":"project_tag","name":"a","description":NaN}', "NaN or Infinity"),
    ({"kind": PLANTED}, "a kind that is not known"),
    ({**SAID, PLANTED: 1}, "a field that is not known"),
    ({**SAID, "message": None}, "message does not fit"),
    ({**SAID, "message": ""}, "a message is empty or too long"),
    ({**SAID, "message": "x" * (limits.MESSAGE_MAX_BYTES + 1)}, "a message is empty or too long"),
    ({**SAID, "earlier": [""]}, "a message is empty or too long"),
    ({**SAID, "role": "system"}, "role does not fit"),
    ({**SAID, "state": "erased"}, "state does not fit"),
    ({**SAID, "created_at": "2026-02-30T00:00:00.000Z"}, "created_at is no instant as YYYY-MM-DDTHH:mm:ss.sssZ"),
    ({**SAID, "id": "message_ABC"}, "id is no message's"),
    ({**SAID, "external_id": "x" * 513}, "external_id is too long"),
    ({**SAID, "agent_platform": ""}, "agent_platform or external_id is empty"),
    ({**SAID, "external_id": ""}, "agent_platform or external_id is empty"),
    ({**SAID, "subagent": True}, "a subagent's model and role come with it, and never without it"),
    ({**SAID, "tags": {"p_tag": "Not A Slug"}}, "a project tag's name holds another character"),
    ({**SAID, "tags": {"p_tag": "Engram"}}, "a project tag's name is not in its one form"),
    ({**SAID, "tags": {"d_tags": ["a", "a"]}}, "d_tags are too many, or one stands twice"),
    ({**SAID, "tags": {"d_tags": list("abcdef")}}, "d_tags are too many, or one stands twice"),
    ({**SAID, "tags": {"d_tags": [" a"]}}, "a d_tag is not in its one form"),
    ({name: value for name, value in SAID.items() if name != "id"}, "neither id nor external_id"),
    ({name: value for name, value in SAID.items() if name != "role"}, "a field is absent"),
    ({**PROFILE, "core_profile": "x" * 1_001}, "a text of the profile is too long"),
    ({**TAG, "description": "x" * 1_001}, "a description is too long"),
    ({"kind": "project_alias", "name": "a", "alias_of": "a"}, "an alias that closes a circle"),
]


@pytest.fixture
def one(world):
    return speaker(world)


@pytest.mark.parametrize(("line", "number", "reason"), WRONG)
def test_a_file_that_does_not_begin_as_an_export(one, tmp_path, line, number, reason):
    with pytest.raises(WrongLine) as refused:
        imported(one, written(tmp_path / "a.jsonl", line))
    assert (refused.value.number, refused.value.reason) == (number, reason)


@pytest.mark.parametrize(("line", "reason"), WRONG_AFTER_THE_HEADER)
def test_the_first_wrong_line_is_named_and_not_quoted_and_nothing_is_written(world, one, tmp_path, line, reason):
    good = {**SAID, "id": "message_" + "cd" * 16}
    path = written(tmp_path / "a.jsonl", HEADER, PROFILE, TAG, good, b"", line, b"{")
    with pytest.raises(WrongLine) as refused:
        imported(one, path)
    assert (refused.value.number, refused.value.reason) == (6, reason)
    assert PLANTED not in str(refused.value)
    assert world.journal.store.head(one.told_in).cursor == 0


def test_names_stand_once(one, tmp_path):
    with pytest.raises(WrongLine, match=r"^line 3: a name that was given before$"):
        imported(one, written(tmp_path / "a.jsonl", HEADER, TAG, TAG))
    alias = {"kind": "project_alias", "name": "a", "alias_of": "b"}
    back = {"kind": "project_alias", "name": "b", "alias_of": "a"}
    with pytest.raises(WrongLine, match=r"^line 3: an alias that closes a circle$"):
        imported(one, written(tmp_path / "b.jsonl", HEADER, alias, back))


def test_a_line_has_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "EXCHANGE_LINE_MAX_BYTES", 10)
    path = written(tmp_path / "a", b"123456789", b"1234567890")
    with pytest.raises(WrongLine, match=r"^line 2: too long$"):
        list(numbered_lines(path, silent))


def test_a_line_by_hand_needs_few_fields(one, tmp_path):
    line = {
        "kind": "message", "external_id": "notes:1", "created_at": "2020-01-01T00:00:00.000Z", "state": "pinned",
        "role": "user", "message": "by hand", "agent_platform": "Codex_CLI",
    }  # fmt: skip
    assert imported(one, written(tmp_path / "a.jsonl", HEADER, line)).imported == 1
    found = one.look(agent_platform="codex")["results"]
    assert [(each["message"], each["is_pinned"], each["created_at"]) for each in found] == [
        ("by hand", True, "2020-01-01T00:00:00.000Z")
    ]


# --- beside what is here ----------------------------------------------------------------------------


def test_the_stores_own_tags_aliases_and_profile_stay(one, tmp_path):
    one.project("engram", "as it is called here")
    one.alias("old", "engram")
    one.profile("the profile here")
    lines = [
        {**TAG, "description": "as it is called there"}, {**TAG, "name": "new"}, PROFILE,
        {"kind": "project_alias", "name": "old", "alias_of": "new"},
        {"kind": "project_alias", "name": "engram", "alias_of": "old"},
        {"kind": "project_alias", "name": "newer", "alias_of": "new"},
    ]  # fmt: skip
    summary = imported(one, written(tmp_path / "a.jsonl", HEADER, *lines))
    assert (summary.tags, summary.skipped, summary.profile) == (2, 2, "kept")
    after = exported(one, tmp_path / "b.jsonl")
    assert [line["core_profile"] for line in after if line["kind"] == "profile"] == ["the profile here"]
    told = {line["name"]: line["description"] for line in after if line["kind"] == "project_tag"}
    assert told == {"engram": "as it is called here", "old": "", "new": "", "newer": ""}
    aliases = {line["name"]: line["alias_of"] for line in after if line["kind"] == "project_alias"}
    assert aliases == {"old": "engram", "newer": "new"}


def test_an_empty_description_is_filled(one, tmp_path):
    one.project("engram")
    summary = imported(one, written(tmp_path / "a.jsonl", HEADER, {**TAG, "description": "what it is"}))
    assert summary.tags == 1
    assert exported(one, tmp_path / "b.jsonl")[1]["description"] == "what it is"


def test_anothers_profile_is_nobodys_here(world, one, tmp_path):
    speaker(world, TWO).profile("two's")
    assert imported(one, written(tmp_path / "a.jsonl", HEADER, PROFILE)).profile == "imported"


def test_of_a_long_history_the_newest_revisions_come(one, tmp_path):
    revisions = [{**PROFILE, "core_profile": f"{n}"} for n in range(limits.BATCH_MAX_EVENTS + 2)]
    summary = imported(one, written(tmp_path / "a.jsonl", HEADER, *revisions))
    assert (summary.profile, summary.skipped) == ("imported", 2)
    assert exported(one, tmp_path / "b.jsonl")[-1]["core_profile"] == f"{limits.BATCH_MAX_EVENTS + 1}"


def test_what_one_principal_of_a_user_brought_is_not_brought_by_another(world, tmp_path):
    path = written(tmp_path / "a.jsonl", HEADER, SAID)
    assert imported(speaker(world, TWO, talk={"user": [ONE]}), path).imported == 1
    assert imported(speaker(world, ONE, talk={"user": [TWO]}), path).duplicates == 1
    assert imported(speaker(world, "principal:three"), path).imported == 1


# --- once, whatever happens -------------------------------------------------------------------------


def many(path, number=600):
    lines = [{**SAID, "id": f"message_{n:032x}", "message": f"message {n}"} for n in range(number)]
    return written(path, HEADER, *lines)


def test_every_decision_is_a_batch_of_at_most_256_events(world, one, tmp_path, monkeypatch):
    sizes = []
    commit = world.journal.commit

    def counted(scope, decide, **how):
        done = commit(scope, decide, **how)
        sizes.append(len(done))
        return done

    monkeypatch.setattr(world.journal, "commit", counted)
    imported(one, many(tmp_path / "a.jsonl"))
    assert sizes == [256, 256, 88]


@pytest.mark.parametrize("is_written", [False, True])
def test_an_import_that_ends_in_the_middle_is_run_again(world, one, tmp_path, monkeypatch, is_written):
    path = many(tmp_path / "a.jsonl")
    commit, calls = world.journal.commit, []

    def failing(scope, decide, **how):
        calls.append(1)
        if len(calls) == 2:
            if is_written:
                commit(scope, decide, **how)
                raise MutationOutcomeUnknown
            raise StoreUnavailable
        return commit(scope, decide, **how)

    monkeypatch.setattr(world.journal, "commit", failing)
    with pytest.raises((StoreUnavailable, MutationOutcomeUnknown)):
        imported(one, path)
    there = 512 if is_written else 256
    summary = imported(one, path)
    assert (summary.imported, summary.duplicates) == (600 - there, there)
    lines = exported(one, tmp_path / "b.jsonl")
    assert [line["message"] for line in lines[1:]] == [f"message {n}" for n in range(600)]


def test_keys_of_duplicates_are_given_back(world, one, tmp_path, monkeypatch):
    """Another process brings half of a batch between the look and the decision."""
    path = many(tmp_path / "a.jsonl", 64)
    half = many(tmp_path / "half.jsonl", 32)
    commit, given = world.journal.commit, []
    give_back = world.journal.keyring.give_back

    def overtaken(scope, decide, **how):
        monkeypatch.setattr(world.journal, "commit", commit)
        imported(speaker(world), half)
        return commit(scope, decide, **how)

    monkeypatch.setattr(world.journal, "commit", overtaken)

    def counted(scope, key):
        given.append(key.key_id)
        give_back(scope, key)

    monkeypatch.setattr(world.journal.keyring, "give_back", counted)
    summary = imported(one, path)
    assert (summary.imported, summary.duplicates) == (32, 32)
    assert len(set(given)) == 32
    fresh = [world.journal.take_key(one.told_in).key_id for _ in range(32)]
    assert set(fresh) == set(given)
    assert len(exported(one, tmp_path / "b.jsonl")) == 65


def test_keys_are_given_back_where_nothing_was_written(world, one, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise StoreUnavailable

    path = many(tmp_path / "a.jsonl", 3)
    first = world.journal.take_key(one.told_in)
    world.journal.keyring.give_back(one.told_in, first)
    with monkeypatch.context() as patched:
        patched.setattr(world.journal, "commit", refused)
        with pytest.raises(StoreUnavailable):
            imported(one, path)
    assert world.journal.take_key(one.told_in).key_id == first.key_id


def test_a_file_that_changes_after_the_check_is_noticed(one, tmp_path):
    path = written(tmp_path / "a.jsonl", HEADER, SAID)
    checked = check_jsonl(path, silent)
    written(path, HEADER, SAID, b"{")
    with pytest.raises(WrongLine):
        import_jsonl(one.engine, person(one), path, checked, silent)


def test_the_owner_is_the_bound_principal(world, one, tmp_path):
    imported(one, written(tmp_path / "a.jsonl", HEADER, SAID, TAG, PROFILE))
    headers = [event.header for event in world.journal.store.read(one.told_in, 0, 100)]
    assert {header.actor.principal for header in headers} == {ONE}
    assert {header.actor.agent_id for header in headers} == {"operator:tests"}
    assert {header.type for header in headers} == {EventType.MESSAGE, EventType.PROJECT_TAG, EventType.PROFILE}
    assert Bringing(one.engine, person(one)).bring([]) == {}
