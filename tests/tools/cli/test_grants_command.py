"""engram grants: what an operator grants, revokes and voids, and what the host file does not let them."""

from __future__ import annotations

import pytest

from tests.tools.memory.world import key
from tests.tools.server.http.team import STATIC
from tools.host.capabilities import ALL_TOOLS, FORGET, GET, SAVE_MESSAGE, SEARCH, SEARCH_MEMORY
from tools.server.service import UnknownTool


@pytest.fixture
def somebody(desk) -> str:
    """The host's own principal."""
    return next(row["principal"] for row in desk.json("grants", "list"))


@pytest.fixture
def governed(desk, somebody):
    """A desk where only events grant."""
    change(desk, 'mode = "file"', 'mode = "events"')
    return desk


def change(desk, old, new):
    text = desk.host_file.read_text(encoding="utf-8")
    assert old in text
    desk.host_file.write_text(text.replace(old, new, 1), encoding="utf-8")


def listed(desk, *words):
    return {(row["principal"], row["tool"]): row for row in desk.json("grants", "list", *words)}


def may(desk, *words):
    return {tool for (_, tool), row in listed(desk, *words).items() if row["in_force"]}


def test_without_an_event_the_host_file_grants(desk, somebody):
    rows = desk.json("grants", "list")
    assert [row["tool"] for row in rows] == list(ALL_TOOLS)
    assert {(row["in_force"], row["state"], row["cursor"]) for row in rows} == {(True, "by the host file", None)}
    assert set(rows[0]) == {
        "tenant_id", "workspace_id", "principal", "tool", "in_force", "state", "expires_at", "by", "at", "reason",
        "cursor",
    }  # fmt: skip


def test_a_grant_is_added_once_and_told(governed, somebody):
    assert may(governed) == set()
    words = ("grants", "add", "--principal", somebody, "--tool", SEARCH, "--tool", GET, "--reason", "the night shift")
    done = governed.json(*words)
    assert [(each["operation"], each["cursor"]) for each in done] == [("grant", "1"), ("grant", "2")]
    assert governed.json(*words) == []
    assert "nothing was changed" in governed.ok(*words).out
    assert may(governed) == {SEARCH, GET}
    row = listed(governed)[somebody, SEARCH]
    assert (row["state"], row["reason"], row["by"][:9]) == ("granted", "the night shift", "operator:")
    with governed.agent() as agent:
        assert agent.service.listed_tools() == (SEARCH, GET)


def test_all_means_what_the_host_file_allows(governed, somebody):
    change(governed, f'    "{FORGET}",\n', "")
    governed.ok("grants", "add", "--principal", somebody, "--tool", "all")
    assert may(governed) == set(ALL_TOOLS) - {FORGET}


def test_what_the_host_file_does_not_allow_is_refused_in_plain_words(governed, somebody):
    change(governed, f'    "{FORGET}",\n', "")
    ended = governed.run("grants", "add", "--principal", somebody, "--tool", FORGET)
    assert (ended.code, ended.out) == (1, "")
    assert f"does not allow {FORGET} to that principal" in ended.err
    ended = governed.run("grants", "add", "--principal", "nobody", "--tool", SEARCH)
    assert ended.code == 1
    assert "binds no such principal" in ended.err
    assert governed.json("grants", "list")[0]["cursor"] is None


@pytest.mark.parametrize("end", ["8h", "90m", "30d", "2099-01-01T00:00:00Z", "2099-01-01 12:00"])
def test_a_grant_may_have_an_end(governed, somebody, end):
    governed.ok("grants", "add", "--principal", somebody, "--tool", SEARCH, "--expires", end)
    row = listed(governed)[somebody, SEARCH]
    assert row["in_force"]
    assert row["expires_at"] > row["at"]


@pytest.mark.parametrize(("end", "code"), [
    ("2020-01-01T00:00:00Z", 1), ("tomorrow", 2), ("0h", 2), ("2099-01-01", 2), ("36501d", 2), ("8 h", 2), ("", 2),
])  # fmt: skip
def test_an_end_that_is_none(governed, somebody, end, code):
    ended = governed.run("grants", "add", "--principal", somebody, "--tool", SEARCH, "--expires", end)
    assert (ended.code, ended.out) == (code, "")
    assert may(governed) == set()


def test_what_the_host_file_grants_is_revoked_at_once(desk, somebody):
    done = desk.json("grants", "revoke", "--principal", somebody, "--tool", FORGET)
    assert [each["operation"] for each in done] == ["grant_revoked"]
    assert may(desk) == set(ALL_TOOLS) - {FORGET}
    assert listed(desk)[somebody, FORGET]["state"] == "revoked"
    assert desk.json("grants", "revoke", "--principal", somebody, "--tool", FORGET) == []
    with desk.agent() as agent, pytest.raises(UnknownTool):
        agent.call(FORGET, {"record_id": "mem_" + 52 * "a", "idempotency_key": key(), "reason_ref": "reason:x"})
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", "all")
    assert may(desk) == set()


def test_only_of_what_no_event_is_about_it_is_said_that_the_host_file_grants_it_by_itself(desk, somebody):
    grant = ("grants", "add", "--principal", somebody, "--tool")
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", FORGET)
    assert desk.ok(*grant, FORGET).err == "", "it was revoked, and so the grant was needed"
    desk.ok(*grant, GET, "--expires", "8h")
    assert desk.ok(*grant, GET).err == "", "it would have ended"
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", FORGET)
    said = desk.ok(*grant, FORGET, "--tool", SEARCH).err
    assert f"the host file grants {SEARCH} by itself" in said
    assert may(desk) == set(ALL_TOOLS)


def test_whoever_the_host_file_forgot_is_still_listed_and_revoked(desk, somebody):
    desk.ok("grants", "add", "--principal", somebody, "--tool", SEARCH)
    change(desk, f'principal = "{somebody}"', 'principal = "somebody else"')
    row = listed(desk)[somebody, SEARCH]
    assert (row["in_force"], row["state"]) == (False, "not allowed by the host file")
    assert len(desk.json("grants", "revoke", "--principal", somebody, "--tool", "all")) == 1
    ended = desk.run("grants", "revoke", "--principal", "nobody", "--tool", "all")
    assert ended.code == 1
    assert "knows that principal" in ended.err
    assert "somebody else" in ended.err, "the names that there are"


def test_a_principal_that_is_written_otherwise_is_told_its_name(desk, somebody):
    for words in (("add", "--tool", SEARCH), ("revoke", "--tool", SEARCH)):
        ended = desk.run("grants", *words, "--principal", somebody.upper() + "x")
        assert (ended.code, ended.out) == (1, "")
        assert f"did you mean {somebody}?" in ended.err
        assert f"there are {somebody}" in desk.run("grants", *words, "--principal", "0000").err


def test_rotating_raises_the_epoch_and_takes_nothing(desk, somebody):
    (raised,) = desk.json("grants", "rotate", "--reason", "a laptop was lost")
    assert raised["epoch"] == "1"
    assert may(desk) == set(ALL_TOOLS)
    assert desk.json("grants", "rotate")[0]["epoch"] == "2"


def test_principals_of_http_are_granted_where_they_are_bound(desk, monkeypatch):
    text = desk.host_file.read_text(encoding="utf-8").replace(
        "[[purposes]]", '[[workspaces]]\nname = "side"\n[[purposes]]', 1
    )
    desk.host_file.write_text(text.partition("\n[http]\n")[0] + "\n[http]\n" + STATIC, encoding="utf-8")
    change(desk, 'mode = "file"', 'mode = "events"')
    (done,) = desk.json("grants", "add", "--principal", "Ben", "--tool", SEARCH)
    assert done["workspace_id"] == "side"
    rows = listed(desk)
    assert rows["Ben", SEARCH]["in_force"]
    assert not rows["Ben", SEARCH_MEMORY]["in_force"]
    ended = desk.run("grants", "add", "--principal", "Ben", "--tool", SAVE_MESSAGE)
    assert ended.code == 1
    assert "[[http.principals]]" in ended.err
    assert desk.run("grants", "add", "--principal", "Ben", "--tool", SEARCH, "--workspace", "default").code == 1
    assert desk.run("grants", "add", "--principal", "Ben", "--tool", SEARCH, "--tenant", "other").code == 1


def test_one_who_is_bound_in_several_workspaces_is_granted_in_a_named_one(desk):
    text = desk.host_file.read_text(encoding="utf-8").replace(
        "[[purposes]]", '[[workspaces]]\nname = "side"\n[[purposes]]', 1
    )
    section = STATIC.replace('principal = "Ben"', 'principal = "Anna"')
    desk.host_file.write_text(text.partition("\n[http]\n")[0] + "\n[http]\n" + section, encoding="utf-8")
    ended = desk.run("grants", "add", "--principal", "Anna", "--tool", SEARCH)
    assert ended.code == 1
    assert "name one by --workspace" in ended.err
    (done,) = desk.json("grants", "add", "--principal", "Anna", "--tool", SEARCH, "--workspace", "side")
    assert done["workspace_id"] == "side"
    done = desk.json("grants", "revoke", "--principal", "Anna", "--tool", SEARCH)
    assert len({each["workspace_id"] for each in done}) == 2, "what is taken is taken everywhere"


def test_the_audit_and_a_replay_carry_it(desk, somebody):
    desk.ok("grants", "add", "--principal", somebody, "--tool", SEARCH, "--expires", "8h")
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", SEARCH)
    desk.ok("tenants", "disable")
    assert desk.json("audit")["ok"]
    events = desk.json("replay", "--events")
    assert [event["type"] for event in events] == ["grant", "grant_revoked", "tenant_disabled"]
    assert [event["to_state"] for event in events] == ["standing", "revoked", "disabled"]


def test_the_history_tells_every_change(desk, somebody):
    assert desk.json("grants", "history") == []
    assert "No event" in desk.ok("grants", "history").out
    desk.ok("grants", "add", "--principal", somebody, "--tool", SEARCH, "--expires", "8h", "--reason", "밤 근무")
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", SEARCH)
    desk.ok("grants", "rotate")
    desk.ok("tenants", "disable", "--reason", "the contract ended")
    told = desk.json("grants", "history")
    assert [(each["operation"], each["tool"], each["reason"]) for each in told] == [
        ("grant", SEARCH, "밤 근무"), ("grant_revoked", SEARCH, None), ("epoch", None, None),
        ("tenant_disabled", None, "the contract ended"),
    ]  # fmt: skip
    assert told[0]["expires_at"] > told[0]["at"]
    assert len({each["authorization_receipt_digest"] for each in told}) == 4
    assert "밤 근무" in desk.ok("grants", "history").out


def test_what_a_person_does_at_the_machine_needs_no_grant(open_desk):
    change(open_desk, "[[purposes]]", '[[workspaces]]\nname = "side"\n[[purposes]]')
    change(open_desk, 'mode = "file"', 'mode = "events"')
    principal = open_desk.json("grants", "list")[0]["principal"]
    open_desk.ok("grants", "add", "--principal", principal, "--tool", "all", "--workspace", "default")
    with open_desk.agent() as agent:
        record_id, other, pending = agent.remember("One."), agent.remember("Two."), agent.capture("Three.")
    open_desk.ok("grants", "revoke", "--principal", principal, "--tool", "all")
    copied = open_desk.json("records", "copy", record_id, "--to", "side", "--admit")
    assert copied["state"] == "accepted_current"
    open_desk.ok("records", "supersede", record_id, "--by", other)
    open_desk.ok("candidates", "accept", pending)
    assert may(open_desk) == set()


def test_a_backup_and_its_restoration_carry_it(desk, somebody, tmp_path):
    desk.ok("grants", "revoke", "--principal", somebody, "--tool", SEARCH)
    desk.ok("grants", "add", "--principal", somebody, "--tool", GET, "--expires", "8h")
    before = listed(desk)
    recipient = desk.json("keys", "recipient", str(tmp_path / "identity"))["recipient"]
    desk.ok("backup", str(tmp_path / "backup"))
    desk.ok("keys", "backup", str(tmp_path / "keys"), "--to", recipient)
    desk.store.rename(tmp_path / "lost")
    keys = ("--keys", str(tmp_path / "keys"), "--identity", str(tmp_path / "identity"))
    desk.ok("restore", str(tmp_path / "backup"), *keys)
    assert listed(desk) == before
    assert desk.json("audit")["ok"]


@pytest.mark.parametrize("word", ["list", "add", "revoke", "rotate", "history"])
def test_every_command_says_what_it_does(desk, word):
    assert len(desk.ok("grants", word, "--help").out) > 100
