"""The export for machines, and the way back: everything, of this user alone, once."""

from __future__ import annotations

import msgspec
import pytest

from journal import limits
from journal.clock import instant
from journal.errors import BlobMissing
from journal.events import EventType
from tests.tools.conversation.exchanging import comparable, exported, imported, written
from tests.tools.conversation.talks import ONE, TWO, assert_sound, speaker, story
from tests.tools.memory.world import NOW, SCOPE, World
from tools.conversation.exchange.export_jsonl import jsonl_export
from tools.conversation.exchange.export_markdown import markdown_export
from tools.conversation.exchange.standing import standing_memory

TEXTS = [
    "야간 빌드를 오전 두 시 반으로 옮기자 \U0001f642",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 mixed \u0645\u0631\u062d\u0628\u0627 \u202eשלום, 漢字かな",
    '\x00\x1b[31m"quoted" \\ \u2028 line\r\n\ttab ',
    "한" * 1_000,
]


@pytest.fixture
def one(world):
    return speaker(world)


@pytest.fixture
def elsewhere(directory):
    made = World(directory / "elsewhere", seed=b"another")
    yield made
    made.close()


def filled(one):
    """Let one's memory hold one of everything; return the ids."""
    one.profile("개발자, 서울", "커피를 좋아한다", "이름")
    one.profile("개발자, 부산", "커피와 차", "이름")
    one.project("engram", "기억 저장소")
    one.project("엔그램")
    one.alias("엔그램", "engram")
    one.alias("old-engram", "엔그램")
    ids = [one.save(text) for text in TEXTS]
    ids.append(one.save("an assistant's", role="assistant", agent_model="opus", subagent=True, subagent_model="h",
                        subagent_role="review"))  # fmt: skip
    ids += one.tell(["second", "first", "same instant"], at=[-1, -2, -1], external_id="x:1", cwd="/srv/한글")
    kept = one.keep("고정된 기억")
    one.know("update", memory_id=kept, content="고친 기억")
    one.know("update", memory_id=kept, content="다시 고친 기억")
    one.tag(ids[0], "engram", ["빌드", "야간"])
    one.tag(ids[1], None, [])
    one.tag(ids[2], None, ["a b"])
    one.know("remove", memory_id=ids[3])
    return [*ids, kept]


def test_every_line_says_what_stands(one, tmp_path):
    ids = filled(one)
    lines = exported(one, tmp_path / "a.jsonl")
    kinds = [line["kind"] for line in lines]
    assert kinds == ["engram-export", *["profile"] * 2, *["project_tag"] * 3, *["project_alias"] * 2, *["message"] * 9]
    assert lines[0] == {"kind": "engram-export", "version": 1, "exported_at": instant(NOW)}
    assert [line["core_profile"] for line in lines[1:3]] == ["개발자, 서울", "개발자, 부산"]
    assert {(line["name"], line["alias_of"]) for line in lines[6:8]} == {("엔그램", "engram"), ("old-engram", "엔그램")}
    said = {line["id"]: line for line in lines[8:]}
    assert list(said)[:3] == [ids[6], ids[5], ids[7]]  # by time, and at one instant by their order
    assert [said[one_id]["message"] for one_id in ids[:4]] == TEXTS
    assert said[ids[0]]["tags"] == {"p_tag": "engram", "d_tags": ["빌드", "야간"]}
    assert said[ids[1]]["tags"] == {}
    assert "tags" not in said[ids[3]]
    assert [said[one_id]["state"] for one_id in (ids[0], ids[3], ids[8])] == ["active", "archived", "pinned"]
    assert said[ids[8]]["message"] == "다시 고친 기억"
    assert said[ids[8]]["earlier"] == ["고정된 기억", "고친 기억"]
    assert said[ids[4]]["subagent_role"] == "review"
    assert said[ids[5]]["created_at"] == "1969-12-31T23:59:59.999Z"


def test_a_round_trip_loses_nothing(one, elsewhere, tmp_path):
    filled(one)
    lines = exported(one, tmp_path / "a.jsonl")
    # the three external ids of the same name are one message; so give them their own
    for number, line in enumerate(line for line in lines if line.get("external_id")):
        line["external_id"] = f"x:{number}"
    path = tmp_path / "a.jsonl"
    written(path, *lines)
    other = speaker(elsewhere, "principal:other")
    summary = imported(other, path)
    assert (summary.imported, summary.duplicates, summary.skipped) == (9, 0, 0)
    assert (summary.tags, summary.profile) == (3, "imported")
    again = exported(other, tmp_path / "b.jsonl")
    assert comparable(again) == comparable(lines)
    assert {line["id"] for line in again[8:]}.isdisjoint(line["id"] for line in lines[8:])
    assert_sound(elsewhere, other.engine)
    assert other.ids("고친") == [again[-1]["id"]]
    assert other.ids(p_tag="old-engram") == [line["id"] for line in again if line.get("tags", {}).get("p_tag")]


def test_a_second_import_changes_nothing(one, elsewhere, tmp_path):
    filled(one)
    exported(one, tmp_path / "a.jsonl")
    other = speaker(elsewhere)
    first = imported(other, tmp_path / "a.jsonl")
    assert (first.imported, first.duplicates) == (7, 2)  # three messages have one external id
    before = exported(other, tmp_path / "b.jsonl")
    head = elsewhere.journal.store.head(other.told_in).cursor
    second = imported(other, tmp_path / "a.jsonl")
    assert (second.imported, second.duplicates, second.tags, second.profile) == (0, 9, 0, "kept")
    assert elsewhere.journal.store.head(other.told_in).cursor == head
    assert exported(other, tmp_path / "c.jsonl") == before


def test_what_went_to_another_store_and_comes_back_is_known(one, elsewhere, tmp_path):
    one.save("there and back again")
    exported(one, tmp_path / "a.jsonl")
    other = speaker(elsewhere)
    imported(other, tmp_path / "a.jsonl")
    other.save("said there")
    exported(other, tmp_path / "b.jsonl")
    summary = imported(one, tmp_path / "b.jsonl")
    assert (summary.imported, summary.duplicates) == (1, 1)
    assert [found["message"] for found in one.look()["results"]] == ["said there", "there and back again"]


def test_a_store_takes_its_own_export_for_known(one, world, tmp_path):
    filled(one)
    exported(one, tmp_path / "a.jsonl")
    head = world.journal.store.head(one.told_in).cursor
    summary = imported(one, tmp_path / "a.jsonl")
    assert (summary.imported, summary.duplicates) == (0, 9)
    assert world.journal.store.head(one.told_in).cursor == head


def test_what_was_erased_is_neither_exported_nor_brought_back(one, elsewhere, tmp_path):
    gone = one.save("the erased words")
    exported(one, tmp_path / "before.jsonl")
    one.erase(gone)
    assert [line["kind"] for line in exported(one, tmp_path / "after.jsonl")] == ["engram-export"]
    assert imported(one, tmp_path / "before.jsonl").skipped == 1
    assert one.look()["results"] == []
    other = speaker(elsewhere)
    imported(other, tmp_path / "before.jsonl")
    other.erase(other.ids()[0])
    assert imported(other, tmp_path / "before.jsonl").skipped == 1
    assert other.look()["results"] == []


def test_nothing_of_another_user_is_exported(world, one, tmp_path):
    two = speaker(world, TWO)
    two.save("two's words")
    two.project("twos")
    two.profile("two")
    one.save("one's words")
    assert [line.get("message") for line in exported(one, tmp_path / "a.jsonl")] == [None, "one's words"]


def test_principals_of_one_user_are_exported_together_and_known(world, one, tmp_path):
    one.save("one's words")
    both = speaker(world, TWO, talk={"user": [ONE]})
    both.save("two's words")
    assert len(exported(both, tmp_path / "a.jsonl")) == 3
    assert imported(both, tmp_path / "a.jsonl").duplicates == 2


def test_anothers_message_of_the_same_id_hides_nothing(world, one, tmp_path):
    one.save("one's words")
    exported(one, tmp_path / "a.jsonl")
    two = speaker(world, TWO)
    assert imported(two, tmp_path / "a.jsonl").imported == 1
    assert [found["message"] for found in two.look()["results"]] == ["one's words"]
    assert one.look()["count"] == 1


def test_more_than_one_batch_with_revisions_and_tags(one, elsewhere, tmp_path):
    ids = one.tell([f"message {n}" for n in range(600)], at=list(range(600)))
    for n in range(limits.BATCH_MAX_EVENTS + 3):
        one.know("update", memory_id=ids[300], content=f"text {n}")
    one.move(EventType.MESSAGE_PIN, ids[1])
    lines = exported(one, tmp_path / "a.jsonl")
    other = speaker(elsewhere)
    assert imported(other, tmp_path / "a.jsonl").imported == 600
    assert comparable(exported(other, tmp_path / "b.jsonl")) == comparable(lines)


def test_a_client_without_a_name_is_no_hindrance(one, elsewhere, tmp_path):
    one.client = ""
    one.save("said by nobody")
    lines = exported(one, tmp_path / "a.jsonl")
    assert lines[1]["client_name"] == ""
    other = speaker(elsewhere)
    assert imported(other, tmp_path / "a.jsonl").imported == 1
    assert comparable(exported(other, tmp_path / "b.jsonl")) == comparable(lines)


def test_tags_are_marked_as_imported(one, elsewhere, tmp_path):
    one.tag(one.save("tagged"), "engram", ["a"])
    exported(one, tmp_path / "a.jsonl")
    other = speaker(elsewhere)
    imported(other, tmp_path / "a.jsonl")
    kind, _, said = story(elsewhere, other.ids()[0])[1]
    assert (kind, said) == ("message_tag", {"p_tag": "engram", "d_tags": ["a"], "by": "import"})


# --- what is lost -----------------------------------------------------------------------------------


def losing(world, monkeypatch, *message_ids):
    """Let the keys of messages be lost from now on."""
    with world.journal.store.view(SCOPE) as view:
        doomed = {view.subject(message_id).key_id for message_id in message_ids}
    opened = world.journal.keyring.open
    monkeypatch.setattr(
        world.journal.keyring, "open", lambda scope, key, slot: None if key in doomed else opened(scope, key, slot)
    )


@pytest.mark.parametrize("is_folded", [True, False])
def test_lost_messages_are_counted_and_the_rest_is_there(world, one, monkeypatch, is_folded):
    """Whether the projections knew the message before it was lost, or never did."""
    one.save("kept")
    gone = [one.keep("gone"), one.save("gone as well")]
    if is_folded:
        assert one.look()["count"] == 3
    losing(world, monkeypatch, *gone)
    with standing_memory(one.engine, one.engine.binding.conversation) as memory:
        lines = list(jsonl_export(memory, NOW))
        assert [msgspec.json.decode(line)["message"] for line in lines[1:]] == ["kept"]
        assert (memory.lost, memory.read) == (2, 1)
        assert "gone" not in "".join(markdown_export(memory, NOW, None))
        assert memory.lost == 2


def test_a_lost_earlier_text_is_counted_and_the_message_is_there(world, one, monkeypatch):
    kept = one.keep("first")
    one.know("update", memory_id=kept, content="second")
    one.know("update", memory_id=kept, content="third")
    cursor = story_cursor(world, kept, 1)
    content = world.journal.content

    def losing_one(view, header):
        if header.cursor == cursor:
            raise BlobMissing
        return content(view, header)

    monkeypatch.setattr(world.journal, "content", losing_one)
    with standing_memory(one.engine, one.engine.binding.conversation) as memory:
        [standing] = list(memory.messages())
        assert (standing.content["message"], standing.earlier, memory.lost) == ("third", ("first",), 1)


def story_cursor(world, message_id, number):
    found = [event.header for event in world.journal.store.read(SCOPE, 0, 1_000)]
    return [header.cursor for header in found if header.subject == message_id][number]


def test_a_message_erased_during_the_export_is_not_in_it(one):
    ids = [one.save("first"), one.save("second")]
    with standing_memory(one.engine, one.engine.binding.conversation) as memory:
        messages = memory.messages()
        assert next(messages).message_id == ids[0]
        one.erase(ids[1])
        assert list(messages) == []
        assert memory.lost == 0
