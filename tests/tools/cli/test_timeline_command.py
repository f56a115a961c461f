"""engram timeline: what was said, newest first."""

from __future__ import annotations

import pytest

from tests.tools.cli.talking import elsewhere, know, say, texts


def test_newest_first_with_every_field(desk):
    assert desk.json("timeline") == []
    assert "Nothing was said" in desk.ok("timeline").out
    first, second = say(desk, "하나", "둘")
    newest, oldest = desk.json("timeline")
    assert (newest["id"], oldest["id"]) == (second, first)
    assert newest["message"] == "둘"
    assert (newest["role"], newest["agent_platform"], newest["state"]) == ("user", "tests", "active")
    assert newest["p_tag"] is None
    assert newest["d_tags"] == []
    assert newest["subagent"] is None
    out = desk.ok("timeline").out
    assert out.index("둘") < out.index("하나")
    assert first in out


def test_a_person_sees_pins_projects_and_who_spoke(desk):
    (message,) = say(desk, "I did it.", role="assistant", agent_model="model-one")
    know(desk, "add", "memory", content="Pinned.")
    desk.ok("tags", "set", message, "--project", "atlas")
    pinned, tagged = desk.ok("timeline").out.split("\n")[1:3]
    assert "  pinned  Pinned." in pinned
    assert " model-one " in tagged
    assert " atlas " in tagged


def test_a_subagent_is_its_platform_and_role(desk):
    (message,) = say(desk, "done", role="assistant", subagent=True, subagent_model="m", subagent_role="Reviewer")
    out = desk.ok("timeline").out
    assert " tests/reviewer " in out
    assert "True" not in out
    shown = desk.ok("messages", "show", message).out
    assert "tests/reviewer (assistant), on tests\n" in shown
    assert "True" not in shown


def test_every_column_has_a_heading_and_who_is_said_once(desk):
    (message,) = say(desk, "one")
    assert desk.ok("timeline").out.split()[:8] == [
        "said", "who", "platform", "device", "project", "state", "says", "message",
    ]  # fmt: skip
    assert "user, on tests\n" in desk.ok("messages", "show", message).out


def test_a_narrow_terminal_gets_lines_that_fit(desk, monkeypatch):
    say(desk, "a text of many words " * 5, role="assistant", agent_model="model-of-a-rather-long-name")
    whole = desk.ok("timeline").out
    monkeypatch.setattr("tools.cli.terminal._columns", lambda: 80)
    narrow = desk.ok("timeline").out
    assert max(len(line) for line in whole.split("\n")) > 80
    assert max(len(line) for line in narrow.split("\n")) <= 80
    assert "model-of-a-rather-long-name" in narrow


def test_filters(desk):
    say(desk, "by a user", agent_platform="codex")
    say(desk, "by an assistant", role="assistant", agent_platform="claude-code")
    device = desk.json("timeline")[0]["device_name"]
    assert texts(desk, "--role", "user") == ["by a user"]
    assert texts(desk, "--platform", "codex-cli") == ["by a user"]
    assert len(texts(desk, "--platform", "*")) == 2
    assert len(texts(desk, "--here")) == len(texts(desk, "--device", device)) == 2
    assert texts(desk, "--device", "another") == []
    assert len(texts(desk, "--since", "today")) == 2
    assert texts(desk, "--since", "..2001-01-01") == []


def test_a_tag_means_its_family(desk):
    tagged, _ = say(desk, "tagged", "not tagged")
    desk.ok("tags", "set", tagged, "--project", "atlas")
    desk.ok("tags", "add", "maps")
    desk.ok("tags", "alias", "maps", "--of", "atlas")
    assert texts(desk, "--tag", "Maps") == ["tagged"]
    for unknown in ("nobody", "no name"):
        ended = desk.ok("timeline", "--tag", unknown)
        assert "Nothing was said." in ended.out
        assert "no project tag of this name" in ended.err
        assert "no project tag of this name" in desk.ok("search", "tagged", "--tag", unknown).out


def test_archived_ones_only_where_asked(desk):
    archived, _ = say(desk, "away", "there")
    desk.ok("messages", "archive", archived)
    assert texts(desk) == ["there"]
    assert texts(desk, "--archived") == ["there", "away"]


def test_limit_and_before(desk, monkeypatch):
    ids = say(desk, *(f"number {number}" for number in range(5)))
    assert texts(desk, "--limit", "2") == ["number 4", "number 3"]
    assert texts(desk, "--limit", "2", "--before", ids[3]) == ["number 2", "number 1"]
    assert texts(desk, "--before", ids[1][:20]) == ["number 0"]
    monkeypatch.setattr("journal.limits.TIMELINE_SHOWN", 3)
    ended = desk.ok("timeline")
    assert "number 2" in ended.out
    assert "number 1" not in ended.out
    assert "2 older ones" in ended.err
    assert len(texts(desk)) == 5  # one document, whole


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--since", "soon"], 2),
        (["--limit", "0"], 2),
        (["--role", "nobody"], 2),
        (["--here", "--device", "x"], 2),
        (["--before", "message_" + 32 * "0"], 1),
        (["--before", "x"], 1),
    ],
)
def test_what_cannot_be_meant(desk, words, code):
    say(desk, "one")
    ended = desk.run("timeline", *words)
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("command", [["timeline"], ["search", "one"]])
@pytest.mark.parametrize("text", ["bogus", "0_days_ago", "2026-02-02..2026-01-01"])
def test_a_wrong_range_is_told_by_its_option_with_the_forms(desk, command, text):
    ended = desk.run(*command, "--since", text)
    assert (ended.code, ended.out) == (2, "")
    assert "--since " in ended.err
    assert "last_week" in ended.err
    assert "date_range" not in ended.err


def test_another_principals_messages_are_not_shown(desk):
    (message,) = say(desk, "mine alone")
    text = desk.host_file.read_text(encoding="utf-8")
    line = next(line for line in text.split("\n") if line.startswith("principal = "))
    desk.host_file.write_text(text.replace(line, 'principal = "somebody-else"'), encoding="utf-8")
    assert desk.json("timeline") == []
    assert desk.run("messages", "show", message).code == 1
    assert desk.run("messages", "erase", message, "--yes").code == 1
    assert desk.json("messages", "erase", "--older-than", "0", "--yes")["erased"] == 0


def test_it_looks_where_conversations_lie(desk):
    elsewhere(desk)
    say(desk, "in the other workspace")
    assert texts(desk) == texts(desk, "--workspace", "talk") == ["in the other workspace"]
    assert texts(desk, "--workspace", "default") == []


def test_a_lost_message_hides_no_other(desk):
    import lmdb

    say(desk, "one that is lost", "one that is there")
    env = lmdb.open(str(desk.store / "journal"), max_dbs=32, lib_version=0)
    handle = env.open_db(b"content", create=False)
    with env.begin(write=True) as txn:
        key, _ = next(iter(txn.cursor(handle)))
        txn.delete(key, db=handle)
    env.close()
    ended = desk.ok("timeline")
    assert "one that is there" in ended.out
    assert "1 message is lost" in ended.err
