"""engram tags: project tags, aliases, tagging by hand."""

from __future__ import annotations

import pytest

from tests.tools.cli.talking import say


def rows(desk):
    return {row["name"]: row for row in desk.json("tags", "list")}


def test_a_tag_is_made_and_described_anew(desk):
    assert desk.json("tags", "list") == []
    assert desk.json("tags", "add", "Atlas", "--description", "Maps of 서울.")["name"] == "atlas"
    assert rows(desk)["atlas"] == {
        "name": "atlas", "description": "Maps of 서울.", "alias_of": None, "representative": "atlas", "count": 0,
        "last_used": None,
    }  # fmt: skip
    desk.ok("tags", "add", "atlas", "--description", "Better.")
    assert rows(desk)["atlas"]["description"] == "Better."
    assert "Better." in desk.ok("tags", "list").out


def test_aliases(desk):
    for name in ("one", "two", "three"):
        desk.ok("tags", "add", name)
    desk.ok("tags", "alias", "one", "--of", "two")
    desk.ok("tags", "alias", "two", "--of", "three")
    assert (rows(desk)["one"]["alias_of"], rows(desk)["one"]["representative"]) == ("two", "three")
    circle = desk.run("tags", "alias", "three", "--of", "one")
    assert (circle.code, circle.out) == (1, "")
    assert desk.run("tags", "alias", "one", "--of", "one").code == 1
    assert rows(desk)["three"]["alias_of"] is None
    desk.ok("tags", "alias", "one", "--none")
    assert rows(desk)["one"]["representative"] == "one"
    assert desk.run("tags", "alias", "one", "--none").code == 1
    assert desk.run("tags", "alias", "one", "--of", "nobody").code == 1


def test_a_message_is_tagged_and_the_project_made_in_one_decision(desk):
    (message,) = say(desk, "deploy the cache")
    assert desk.json("tags", "set", message[:20], "--project", "Atlas", "--keyword", "Cache", "--keyword", "배포") == {
        "id": message, "p_tag": "atlas", "d_tags": ["cache", "배포"], "by": "hand",
    }  # fmt: skip
    assert [event["type"] for event in desk.json("replay")][-2:] == ["project_tag", "message_tag"]
    row = rows(desk)["atlas"]
    assert (row["count"], row["last_used"]) == (1, desk.json("timeline")[0]["created_at"])
    kept = desk.json("tags", "set", message, "--keyword", "tea")
    assert (kept["p_tag"], kept["d_tags"]) == ("atlas", ["tea"])
    assert desk.json("replay")[-1]["type"] == "message_tag"
    assert desk.json("replay")[-2]["type"] == "message_tag"  # the project was known
    cleared = desk.json("tags", "set", message, "--clear")
    assert (cleared["p_tag"], cleared["d_tags"]) == (None, [])
    assert rows(desk)["atlas"]["count"] == 0
    assert desk.json("audit")["ok"]


def test_the_owner_is_the_principal_and_the_agent_the_person(desk):
    (message,) = say(desk, "deploy the cache")
    desk.ok("tags", "set", message, "--project", "atlas")
    said, *written = [event["actor"] for event in desk.json("replay")]
    assert {actor["principal"] for actor in written} == {said["principal"]}
    assert all(actor["agent_id"].startswith("operator:") for actor in written)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["add", "-x"], 2),
        (["add", "a b"], 2),
        (["add", "a", "--description", "two\nlines"], 2),
        (["alias", "a"], 2),
        (["alias", "a", "--of", "b", "--none"], 2),
        (["set", "message_" + 32 * "0"], 2),
        (["set", "message_" + 32 * "0", "--clear"], 1),
        (["set", "ID", "--keyword", ""], 2),
        (["set", "ID", *(f"--keyword={number}" for number in range(6))], 2),
    ],
)
def test_what_cannot_be_done(desk, words, code):
    (message,) = say(desk, "one")
    before = len(desk.json("replay"))
    ended = desk.run("tags", *(message if word == "ID" else word for word in words))
    assert (ended.code, ended.out) == (code, "")
    assert len(desk.json("replay")) == before
