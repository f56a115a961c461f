"""engram export and engram import: files, refusals, exit codes, and a store that another begins with."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess

import pytest

from tests.tools.cli.desk import command_line, environment, ready
from tests.tools.cli.talking import say
from tools.cli import main
from tools.host.capabilities import MANAGE_KNOWLEDGE, SAVE_MESSAGE

NOTHING = {
    "imported": 0, "duplicates": 0, "skipped": 0, "aliases_left_out": 0, "revisions_left_out": 0, "tags": 0,
    "profile": "none",
}  # fmt: skip
SAID = ["야간 빌드를 옮기자 \U0001f642", "```\n# not a heading\x1b[31m"]


def told(desk, *texts):
    """Have an agent save texts, and one memory."""
    with desk.agent() as agent:
        for text in texts:
            agent.value(SAVE_MESSAGE, {"role": "user", "message": text})
        agent.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "memory", "content": "kept"})
        agent.value(MANAGE_KNOWLEDGE, {"action": "add", "target": "sub_profile", "content": "coffee"})


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def elsewhere(tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    return ready(tmp_path / "elsewhere", capsys)


def test_from_one_store_to_another(desk, elsewhere, tmp_path):
    told(desk, *SAID)
    path = tmp_path / "memory.jsonl"
    assert desk.json("export", str(path)) == {"file": str(path), "format": "jsonl", "messages": 3, "lost": 0}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line["message"] for line in lines(path)[2:]] == [*SAID, "kept"]
    summary = {**NOTHING, "imported": 3, "profile": "imported"}
    assert elsewhere.json("import", "jsonl", str(path)) == summary
    again = {**summary, "imported": 0, "duplicates": 3, "profile": "kept"}
    ended = elsewhere.ok("import", "jsonl", str(path), "--json")
    assert ended.json == again
    assert "profile of the file was left out" in ended.err
    elsewhere.ok("export", str(tmp_path / "back.jsonl"))
    assert [line["message"] for line in lines(tmp_path / "back.jsonl")[2:]] == [*SAID, "kept"]
    assert "3 were here already" in desk.ok("import", "jsonl", str(tmp_path / "back.jsonl")).out
    elsewhere.ok("audit")


def test_a_file_is_replaced_only_by_force(desk, tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_text("precious")
    ended = desk.run("export", str(path))
    assert (ended.code, path.read_text()) == (1, "precious")
    assert "--force" in ended.err
    desk.ok("export", str(path), "--force")
    assert lines(path)[0]["kind"] == "engram-export"
    assert sorted(child.name for child in tmp_path.iterdir() if child.name.startswith(".")) == []


@pytest.mark.parametrize("kind", ["directory", "link", "pipe", "nowhere"])
def test_what_is_no_file_is_never_replaced(desk, tmp_path, kind):
    path = tmp_path / "place"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "target")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "no" / "such"
    assert desk.run("export", str(path), "--force").code == 2
    assert not (tmp_path / "target").exists()


def test_stdout_is_the_export_alone(desk):
    told(desk, *SAID)
    ended = desk.process("export", "-")
    assert ended.code == 0
    assert [json.loads(line)["kind"] for line in ended.out.splitlines()] == [
        "engram-export",
        "profile",
        *["message"] * 3,
    ]
    assert "3 messages" in ended.err
    assert "```text\n" in desk.ok("export", "-", "--format", "markdown").out
    assert desk.run("export", "-", "--json").code == 2


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_a_terminal_is_not_commanded(desk, form):
    told(desk, SAID[1])
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        command_line("export", "-", "--format", form, "--config", str(desk.host_file)), stdout=follower,
        stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 4_096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    assert done.wait(60) == 0
    assert b"not a heading" in shown
    assert b"\x1b" not in shown


def test_lost_messages_are_an_error_unless_skipped(desk, tmp_path, monkeypatch):
    told(desk, *SAID)
    from journal.keyring import Keyring

    opened = Keyring.open
    doomed: set[bytes] = set()

    def losing(keyring, scope, key_id, slot):
        doomed.add(min(doomed, default=key_id))  # the first that is asked for
        return None if key_id in doomed else opened(keyring, scope, key_id, slot)

    monkeypatch.setattr(Keyring, "open", losing)
    path = tmp_path / "memory.jsonl"
    ended = desk.run("export", str(path))
    assert ended.code == 1
    assert "1 message, revision or tag is lost" in ended.err
    assert "--skip-lost" in ended.err
    assert [child.name for child in tmp_path.iterdir() if "memory" in child.name] == []
    assert desk.json("export", str(path), "--skip-lost")["lost"] == 1
    assert [line["message"] for line in lines(path)[2:]] == [SAID[1], "kept"]


def test_a_wrong_line_is_named_and_not_quoted(desk, tmp_path):
    path = tmp_path / "memory.jsonl"
    header = '{"kind":"engram-export","version":1,"exported_at":"2026-01-02T03:04:05.006Z"}'
    path.write_text(header + '\n{"kind":"message","planted words":1}\n')
    ended = desk.run("import", "jsonl", str(path))
    assert ended.code == 1
    assert "line 2: a field that is not known" in ended.err
    assert "nothing was imported" in ended.err
    assert "planted" not in ended.err + ended.out


def test_the_reference_memory_servers_file(desk, tmp_path):
    path = tmp_path / "memory.json"
    entity = {"type": "entity", "name": "Kim", "entityType": "person", "observations": ["tea", "차"], "createdAt": "x"}
    path.write_text(json.dumps(entity) + "\n")
    ended = desk.ok("import", "server-memory", str(path), "--pin", "--json")
    assert ended.json == {**NOTHING, "imported": 2}
    assert "1 line has fields" in ended.err
    desk.ok("export", str(tmp_path / "out.jsonl"))
    assert [(line["message"], line["state"]) for line in lines(tmp_path / "out.jsonl")[1:]] == [
        ("Kim (person): tea", "pinned"), ("Kim (person): 차", "pinned"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["transcripts", "mcp-agents-memory", "mem0"])
def test_kinds_of_a_later_release_are_refused_by_name(desk, tmp_path, kind):
    (tmp_path / "a").write_text("")
    ended = desk.run("import", kind, str(tmp_path / "a"))
    assert ended.code == 2
    assert f"{kind} is imported by a later release" in ended.err


def test_the_kind_is_named_before_the_file_is_looked_for(desk):
    ended = desk.run("import", "codex", "nowhere")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no kind codex; there are jsonl and server-memory" in ended.err
    assert "no such file" in desk.run("import", "jsonl", "nowhere").err


def test_what_is_left_out_is_counted_by_what_it_is(desk, tmp_path):
    (message, _) = say(desk, "goes", "stays")
    for name in ("one", "two", "three"):
        desk.ok("tags", "add", name)
    desk.ok("tags", "alias", "one", "--of", "two")
    desk.ok("export", str(tmp_path / "a.jsonl"))
    desk.ok("messages", "erase", message, "--yes")
    desk.ok("tags", "alias", "one", "--of", "three")
    ended = desk.run("import", "jsonl", str(tmp_path / "a.jsonl"), "--json")
    assert (ended.json["skipped"], ended.json["aliases_left_out"], ended.json["revisions_left_out"]) == (1, 1, 0)
    assert "1 left out: messages that were erased here\n" in ended.err
    assert "1 left out: aliases of project tags that are set otherwise here\n" in ended.err
    assert "revisions" not in ended.err


def test_wrong_use(desk, tmp_path):
    path = tmp_path / "a"
    path.write_text("")
    assert desk.run("import", "else", str(path)).code == 2
    assert desk.run("import", "jsonl", str(tmp_path / "nowhere")).code == 2
    assert desk.run("import", "jsonl", str(tmp_path)).code == 2
    assert desk.run("import", "jsonl", str(path), "--pin").code == 2
    os.mkfifo(tmp_path / "pipe")
    assert desk.run("import", "jsonl", str(tmp_path / "pipe")).code == 2
    assert desk.run("export", str(tmp_path / "b"), "--format", "xml").code == 2


@pytest.mark.parametrize("name", ["export", "import"])
def test_help(name, capsys):
    assert main.run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--config FILE" in out
    assert "--json" in out
    assert "--workspace NAME" in out


def test_a_store_in_which_nothing_was_said(desk, tmp_path):
    path = tmp_path / "memory.jsonl"
    assert desk.json("export", str(path))["messages"] == 0
    assert [line["kind"] for line in lines(path)] == ["engram-export"]
    assert desk.json("import", "jsonl", str(path))["imported"] == 0


@pytest.mark.parametrize(("failpoint", "there"), [("commit.before", 0), ("commit.after", 256)])
def test_an_import_that_is_killed_is_run_again(desk, tmp_path, failpoint, there):
    path = tmp_path / "memory.jsonl"
    said = [
        {
            "kind": "message", "external_id": f"x:{number}", "created_at": "2026-01-02T03:04:05.006Z", "role": "user",
            "state": "active", "message": f"message {number}", "agent_platform": "codex",
        }
        for number in range(300)
    ]  # fmt: skip
    header = {"kind": "engram-export", "version": 1, "exported_at": "2026-01-02T03:04:05.006Z"}
    path.write_text("".join(json.dumps(line) + "\n" for line in [header, *said]))
    assert desk.process("import", "jsonl", str(path), env={"ENGRAM_FAILPOINT": failpoint}).code != 0
    summary = desk.json("import", "jsonl", str(path))
    assert (summary["imported"], summary["duplicates"]) == (300 - there, there)
    desk.ok("export", str(tmp_path / "out.jsonl"))
    assert [line["message"] for line in lines(tmp_path / "out.jsonl")[1:]] == [f"message {n}" for n in range(300)]
    desk.ok("audit")
