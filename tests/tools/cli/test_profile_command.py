"""engram profile: what is known of the user, and how it came to be so."""

from __future__ import annotations

import io

import pytest

from tests.tools.cli.talking import know


def test_parts_are_set_and_the_rest_stays(desk, tmp_path):
    shown = desk.json("profile", "show")
    assert (shown["user_name"], shown["core_profile"], shown["sub_profile"], shown["cursor"]) == ("", "", "", None)
    know(desk, "add", "sub_profile", content="Likes tea.")
    core = tmp_path / "core.txt"
    core.write_text("Lives in 서울.\nSpeaks Korean.\n", encoding="utf-8")
    desk.ok("profile", "set", "--name", "민수", "--core", f"@{core}")
    shown = desk.json("profile", "show")
    assert (shown["user_name"], shown["core_profile"]) == ("민수", "Lives in 서울.\nSpeaks Korean.")
    assert shown["sub_profile"] == "Likes tea."
    desk.ok("profile", "set", "--sub", "")
    assert desk.json("profile", "show")["sub_profile"] == ""
    assert "Speaks Korean." in desk.ok("brief").out
    assert "Speaks Korean." in desk.ok("profile", "show").out


def test_a_text_comes_from_standard_input(desk, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO("Likes 차.\n".encode()))
    monkeypatch.setattr("sys.stdin", stream)
    desk.ok("profile", "set", "--sub", "-")
    assert desk.json("profile", "show")["sub_profile"] == "Likes 차."


def test_history_tells_who_when_why_and_what_changed(desk):
    know(desk, "add", "sub_profile", content="Likes tea.")
    know(desk, "add", "sub_profile", content="Likes cake.")
    desk.ok("profile", "set", "--sub", "Likes cake.\nLikes rain.")
    newest, middle, first = desk.json("profile", "history")
    assert first["diff"] == ["+ sub_profile: Likes tea."]
    assert middle["diff"] == ["+ sub_profile: Likes cake."]
    assert sorted(newest["diff"]) == ["+ sub_profile: Likes rain.", "- sub_profile: Likes tea."]
    assert (first["action"], first["by"], first["agent_id"]) == ("sub_profile_add", "agent", "tests")
    assert (newest["action"], newest["by"]) == ("set", "hand")
    assert newest["agent_id"].startswith("operator:")
    assert newest["principal"] == first["principal"]
    human = desk.ok("profile", "history").out
    assert human.index("Likes rain.") < human.index("+ sub_profile: Likes tea.")
    assert "sub_profile_add" in human


def test_revert_brings_a_revision_back_as_a_new_one(desk):
    know(desk, "add", "sub_profile", content="Likes tea.")
    desk.ok("profile", "set", "--name", "Kim", "--sub", "Nothing.")
    first = desk.json("profile", "history")[-1]
    desk.ok("profile", "revert", first["cursor"])
    shown = desk.json("profile", "show")
    assert (shown["user_name"], shown["sub_profile"]) == ("", "Likes tea.")
    actions = [each["action"] for each in desk.json("profile", "history")]
    assert actions == [f"revert_to_{first['cursor']}", "set", "sub_profile_add"]
    assert desk.run("profile", "revert", "99").code == 1


@pytest.mark.parametrize(
    "words",
    [
        [], ["--core", "x" * 1_001], ["--sub", "x" * 2_001], ["--name", "x" * 101], ["--core", "-", "--sub", "-"],
        ["--core", "@/no/such/file"], ["--core", "\udcff"],
    ],
)  # fmt: skip
def test_what_cannot_be_set(desk, words):
    ended = desk.run("profile", "set", *words)
    assert (ended.code, ended.out) == (2, "")
    assert desk.json("profile", "history") == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 9_000])
def test_a_file_that_is_no_profile(desk, tmp_path, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    ended = desk.run("profile", "set", "--sub", f"@{file}")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
