"""A store that is missing, foreign, from the future, unreadable, or open elsewhere: one line, exit code 2."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.tools.cli.desk import command_line, environment, ready

COMMANDS = [
    ["audit"],
    ["replay"],
    ["replay", "--query", "x"],
    ["candidates", "list"],
    ["candidates", "show", "candidate_" + 64 * "0"],
    ["candidates", "accept", "candidate_" + 64 * "0"],
    ["records", "list"],
    ["records", "history", "mem_" + 52 * "a"],
    ["confirm", "list"],
    ["confirm", "approve", "confirmation_" + 32 * "0"],
    ["keys", "rotate"],
    ["projections", "status"],
    ["projections", "rebuild", "--all"],
    ["projections", "invalidate", "--all"],
]
every_command = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "_".join(words)[:30])


def _cannot_run(ended, *hints):
    assert (ended.code, ended.out) == (2, ""), ended
    assert ended.err.startswith("engram: ")
    assert ended.err.count("\n") == 1
    for hint in hints:
        assert hint in ended.err


@every_command
def test_without_a_host_file(bare_desk, words):
    _cannot_run(bare_desk.run(*words), "engram.toml", "engram init")


@every_command
def test_without_a_store(desk, words):
    shutil.rmtree(desk.store)
    _cannot_run(desk.run(*words), "there is no store", "[STORE_UNAVAILABLE]")


@every_command
def test_a_store_from_the_future(desk, words):
    stated = desk.store / "store.toml"
    stated.write_text(stated.read_text(encoding="utf-8").replace("format = 1", "format = 2"), encoding="utf-8")
    _cannot_run(desk.run(*words), "format 2", "[REGISTRY_VERSION_UNAVAILABLE]")


@every_command
def test_a_foreign_folder(desk, words):
    shutil.rmtree(desk.store)
    desk.store.mkdir()
    (desk.store / "store.toml").write_text("hello = 'world'\n", encoding="utf-8")
    _cannot_run(desk.run(*words), "[REGISTRY_VERSION_UNAVAILABLE]")
    (desk.store / "store.toml").write_bytes(b"\xff\x00")
    _cannot_run(desk.run(*words), "store.toml")


@every_command
def test_a_journal_that_is_cut(desk, words):
    data = desk.store / "journal" / "data.mdb"
    data.write_bytes(data.read_bytes()[:5000])
    _cannot_run(desk.run(*words), "[JOURNAL_CORRUPT]")


@every_command
def test_a_journal_that_is_something_else(desk, words):
    (desk.store / "journal" / "data.mdb").write_bytes(b"not a database" * 1000)
    _cannot_run(desk.run(*words), "[JOURNAL_CORRUPT]")


def test_a_journal_that_is_gone_is_not_made_anew_by_looking(desk):
    (desk.store / "journal" / "data.mdb").unlink()
    _cannot_run(desk.run("audit"), "[STORE_UNAVAILABLE]")
    assert not (desk.store / "journal" / "data.mdb").exists()


@every_command
def test_without_the_root_key(desk, words):
    desk.root_key.unlink()
    _cannot_run(desk.run(*words), "root key", str(desk.root_key))


def test_a_root_key_that_others_can_read(desk):
    desk.root_key.chmod(0o644)
    _cannot_run(desk.run("audit"), "chmod 600")


def test_a_root_key_that_is_none_is_not_quoted(desk):
    desk.root_key.write_text("hunter2-hunter2-hunter2", encoding="utf-8")
    ended = desk.run("audit")
    _cannot_run(ended, "root key")
    assert "hunter2" not in ended.err


def test_the_key_of_another_store(desk, tmp_path, capsys):
    desk.captured("Sealed under the first key.")
    (tmp_path / "second").mkdir()
    other = ready(tmp_path / "second", capsys)
    desk.root_key.write_bytes(other.root_key.read_bytes())
    _cannot_run(desk.run("candidates", "list"), "another store")


def test_a_host_file_with_a_mistake(desk):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text.replace("[grants]", "[grantz]"), encoding="utf-8")
    _cannot_run(desk.run("audit"), "grantz", "did you mean grants?")


def test_a_workspace_that_is_not_listed(desk):
    _cannot_run(desk.run("candidates", "list", "--workspace", "other"), "does not list")


def test_workspaces_are_apart(desk, monkeypatch):
    text = desk.host_file.read_text(encoding="utf-8")
    desk.host_file.write_text(text + '\n[[workspaces]]\nname = "side"\n', encoding="utf-8")
    (candidate,) = desk.captured("In the host's own workspace.")
    assert desk.json("candidates", "list")[0]["candidate_id"] == candidate
    assert desk.json("candidates", "list", "--workspace", "side") == []
    assert desk.run("candidates", "show", candidate, "--workspace", "side").code == 1
    project = desk.place / "project"
    project.mkdir()
    (project / ".engram-scope").write_text("side\n", encoding="utf-8")
    monkeypatch.chdir(project)
    assert desk.json("candidates", "list") == []
    assert desk.json("candidates", "list", "--workspace", "default")[0]["candidate_id"] == candidate
    assert desk.json("audit")["scopes"][0]["workspace_id"] == "default"  # the audit walks every scope


def test_looking_and_deciding_beside_another_process(desk):
    (candidate,) = desk.captured("Waits while another process has the store open.")
    with desk.agent() as agent:
        listed = desk.process("candidates", "list", "--json")
        assert listed.code == 0, listed
        decided = desk.process("candidates", "accept", candidate, "--json")
        assert decided.code == 0, decided
        assert agent.found("another process") == [decided.json["record_id"]]


def test_where_nothing_may_be_written(desk, tmp_path):
    (candidate,) = desk.captured("Read where nothing may be written.")
    mount = tmp_path / "mount"
    mount.mkdir()
    if subprocess.run(["mount", "--bind", str(desk.store), str(mount)], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mount)], check=True, capture_output=True)
        text = desk.host_file.read_text(encoding="utf-8").replace(str(desk.store), str(mount))
        other = tmp_path / "other.toml"
        other.write_text(text, encoding="utf-8")
        for words in (
            ["audit"], ["candidates", "list"], ["candidates", "show", candidate], ["records", "list"], ["replay"],
            ["replay", "--query", "written"], ["confirm", "list"], ["projections", "verify"],
        ):  # fmt: skip
            done = subprocess.run(
                command_line(*words, "--json", "--config", str(other)), capture_output=True, text=True, check=False,
                env=environment(),
            )  # fmt: skip
            assert done.returncode == 0, (words, done.stderr)
            told = done.stderr.splitlines()
            assert len(told) == (words == ["audit"]), (words, told)  # which says that it reads without locks
            assert all("without locks" in line for line in told)
        done = subprocess.run(
            command_line("keys", "rotate", "--config", str(other)), capture_output=True, text=True, check=False,
            env=environment(),
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
    finally:
        subprocess.run(["umount", str(mount)], check=True)
