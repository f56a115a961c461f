"""engram replay: events, and answers of then."""

from __future__ import annotations

import time

import pytest

from journal import limits
from journal.clock import instant, parse_instant
from tests.tools.memory.world import PURPOSE, SECOND


@pytest.fixture
def told(open_desk):
    """A desk with a story: (desk, first record, second record, cursor after the first, cursor after the second)."""
    with open_desk.agent() as agent:
        first = agent.remember("The release train leaves on Tuesday.")
        after_first = agent.head
        second = agent.remember("The release train leaves on Friday since May.")
        after_second = agent.head
    return open_desk, first, second, after_first, after_second


def _ids(value):
    return [packet["record"]["record_id"] for packet in value["records"]]


def test_events_are_the_default_and_complete(told):
    desk, *_, head = told
    events = desk.json("replay")
    assert events == desk.json("replay", "--events")
    assert [event["cursor"] for event in events] == [str(cursor) for cursor in range(1, head + 1)]
    assert [event["type"] for event in events] == ["capture", "accept"] * 2
    assert events[0]["to_state"] == "pending"
    assert events[1]["from_state"] == "pending"
    assert desk.ok("replay").out.count("\n") == head


def test_events_hold_no_content(told):
    desk, *_ = told
    assert "train" not in desk.ok("replay", "--events", "--json").out
    assert "train" not in desk.ok("replay", "--events").out


def test_events_up_to_a_cursor(told):
    desk, *_ = told
    assert [event["cursor"] for event in desk.json("replay", "--to", "3")] == ["1", "2", "3"]
    assert desk.json("replay", "--to", "0") == []


def test_events_as_of_an_instant(told):
    desk, _, _, after_first, _ = told
    events = desk.json("replay")
    moment = events[after_first - 1]["recorded_at"]
    seen = desk.json("replay", "--as-of", moment)
    assert [event for event in events if event["recorded_at"] <= moment] == seen
    before_all = instant(parse_instant(events[0]["recorded_at"]) - 1)
    assert desk.json("replay", "--as-of", before_all) == []


def test_an_instant_as_a_person_writes_it(told, monkeypatch):
    desk, *_ = told
    monkeypatch.setenv("TZ", "Asia/Seoul")
    time.tzset()
    try:
        count = len(desk.json("replay"))
        assert len(desk.json("replay", "--as-of", "2999-01-01 09:00")) == count
        assert desk.json("replay", "--as-of", "1999-01-01 09:00") == []
        value = desk.json("replay", "--as-of", "2999-01-01T09:00", "--query", "train")
        assert value["valid_as_of"] == "2999-01-01T00:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_query_of_now_is_what_the_tool_answers(told):
    desk, *_ = told
    with desk.agent() as agent:
        expected = agent.found("release train")
    value = desk.json("replay", "--query", "release train")
    assert _ids(value) == expected
    assert value["response_digest"].startswith("sha256:")
    assert value["erased_since"] == []


def test_a_query_of_then(told):
    desk, first, second, after_first, after_second = told
    assert _ids(desk.json("replay", "--to", str(after_first), "--query", "release train")) == [first]
    assert set(_ids(desk.json("replay", "--to", str(after_second), "--query", "release train"))) == {first, second}
    assert _ids(desk.json("replay", "--to", "1", "--query", "release train")) == []
    assert _ids(desk.json("replay", "--to", "0", "--query", "release train")) == []
    value = desk.json("replay", "--to", str(after_first), "--query", "release train")
    assert value["system_as_of"] == str(after_first)
    assert value["rank_receipt"]["system_as_of"] == str(after_first)
    assert value["valid_as_of"] == desk.json("replay")[after_first - 1]["recorded_at"]


def test_a_record_of_then(told):
    desk, first, second, after_first, _ = told
    value = desk.json("replay", "--to", str(after_first), "--record", first)
    assert value["record"]["record_id"] == first
    assert value["read_receipt"]["system_as_of"] == str(after_first)
    ended = desk.run("replay", "--to", str(after_first), "--record", second)
    assert (ended.code, ended.out) == (1, "")
    assert "Tuesday" in desk.ok("replay", "--record", first).out
    assert "Tuesday" in desk.ok("replay", "--record", first[:12]).out


def test_what_was_erased_since_is_named_and_left_out(told):
    desk, first, second, _, after_second = told
    with desk.agent() as agent:
        agent.forget(first)
    value = desk.json("replay", "--to", str(after_second), "--query", "release train")
    assert _ids(value) == [second]
    assert value["erased_since"] == [first]
    assert first in desk.ok("replay", "--to", str(after_second), "--query", "release train").out
    ended = desk.run("replay", "--to", str(after_second), "--record", first)
    assert ended.code == 1
    assert "erased since" in ended.err
    assert desk.json("replay", "--query", "release train")["erased_since"] == []


def test_a_record_that_was_pending_then_was_not_readable_then(desk):
    (candidate,) = desk.captured("A slow decision.")
    record = desk.json("candidates", "accept", candidate)["record_id"]
    assert desk.run("replay", "--to", "1", "--record", record).code == 1
    assert desk.json("replay", "--to", "2", "--record", record)["record"]["record_id"] == record


def test_the_purpose_counts(told):
    desk, first, *_ = told
    assert _ids(desk.json("replay", "--query", "release train", "--purpose", SECOND)) == []
    assert first in _ids(desk.json("replay", "--query", "release train", "--purpose", PURPOSE))
    ended = desk.run("replay", "--query", "release train", "--purpose", "purpose:unbound")
    assert ended.code == 1
    assert ended.err.count("\n") == 1


def test_asking_the_past_writes_nothing(told):
    desk, *_ = told
    before = {path: path.read_bytes() for path in (desk.store / "journal").glob("data.mdb")}
    desk.ok("replay", "--query", "train")
    desk.ok("replay", "--to", "2", "--query", "train")
    desk.ok("replay")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "words",
    [
        ["--to", "-1"],
        ["--to", "01"],
        ["--to", "1.0"],
        ["--to", "١"],
        ["--to", str(2**64)],
        ["--to", ""],
        ["--to", "5"],
        ["--to", str(2**64 - 1)],
        ["--as-of", "yesterday"],
        ["--as-of", "2026-11-29"],
        ["--as-of", "2026-13-01T00:00:00.000Z"],
        ["--as-of", ""],
        ["--to", "1", "--as-of", "2026-11-29T00:00:00.000Z"],
        ["--events", "--query", "x"],
        ["--query", "x", "--record", "mem_a"],
        ["--purpose", PURPOSE],
        ["--events", "--purpose", PURPOSE],
        ["--query", ""],
        ["--query", "x" * 8_193],
        ["--record", "nonsense"],
        ["--receipt", "file"],
        ["--receipt", "file", "--query", "x"],
        ["--receipt", ".", "--to", "1"],
        ["--receipt", ".", "--as-of", "2026-11-29T00:00:00.000Z"],
        ["--receipt", ".", "--events"],
        ["--messages"],
        ["--messages", "--record", "mem_a"],
        ["--messages", "--query", "x", "--purpose", PURPOSE],
        ["surplus"],
        ["--nonsense"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_wrong_use_is_one_line_and_exit_code_2(told, words):
    ended = told[0].run("replay", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("engram: ")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("page", [1, 2, 3, 4, 5])
def test_events_of_many_pages_are_one_document(told, monkeypatch, page):
    desk, *_, head = told
    whole = desk.json("replay")
    monkeypatch.setattr(limits, "READ_PAGE_EVENTS", page)
    assert desk.json("replay") == whole
    assert desk.ok("replay").out.count("\n") == head
