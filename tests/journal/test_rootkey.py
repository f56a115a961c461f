"""Where the root key comes from, and that no error ever shows it."""

from __future__ import annotations

import base64
import os
import sys
import types

import pytest

from journal.errors import StoreUnavailable
from journal.rootkey import RootKeySource, create_root_key_file, load_root_key

KEY = bytes(range(32))
TEXT = base64.b64encode(KEY).decode()


def from_file(path):
    return load_root_key(RootKeySource("file", (str(path),)))


def refusal(source):
    """Return the refusal's detail, having looked for the key in everything that hangs on the exception."""
    with pytest.raises(StoreUnavailable) as refused:
        load_root_key(source)
    told: list[str] = []
    error: BaseException | None = refused.value
    while error is not None:
        told += [str(error), repr(error), *(repr(value) for value in vars(error).values())]
        error = error.__context__
    assert not any(TEXT[:12] in text or repr(KEY[:8])[2:-1] in text for text in told)
    return refused.value.detail


def test_a_made_file_is_private_whole_and_new(tmp_path):
    path = tmp_path / "root.key"
    create_root_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    key = from_file(path)
    assert len(key) == 32
    with pytest.raises(FileExistsError):
        create_root_key_file(path)
    assert from_file(path) == key
    assert [name.name for name in tmp_path.iterdir()] == ["root.key"]
    create_root_key_file(tmp_path / "other.key")
    assert from_file(tmp_path / "other.key") != key


@pytest.mark.parametrize("text", [TEXT, TEXT + "\n", f"  {TEXT}\r\n"])
def test_a_file_is_read_with_its_line_end(tmp_path, text):
    path = tmp_path / "root.key"
    path.write_text(text)
    path.chmod(0o600)
    assert from_file(path) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o610, 0o644])
def test_a_file_open_to_others_is_refused(tmp_path, mode):
    path = tmp_path / "root.key"
    path.write_text(TEXT)
    path.chmod(mode)
    assert "chmod 600" in refusal(RootKeySource("file", (str(path),)))


def test_a_missing_file_is_refused_by_its_path(tmp_path):
    assert str(tmp_path / "none.key") in refusal(RootKeySource("file", (str(tmp_path / "none.key"),)))


@pytest.mark.parametrize(
    "text",
    ["", "not base64!", TEXT[:-4], TEXT + "AAAA", TEXT.replace("=", ""), TEXT + "\n" + TEXT, KEY.hex(), TEXT * 200],
)
def test_what_is_not_the_base64_of_32_bytes_is_refused(tmp_path, text, monkeypatch):
    path = tmp_path / "root.key"
    path.write_text(text)
    path.chmod(0o600)
    assert "32 bytes" in refusal(RootKeySource("file", (str(path),)))
    monkeypatch.setenv("TEST_ROOT_KEY", text)
    assert "32 bytes" in refusal(RootKeySource("env", ("TEST_ROOT_KEY",)))


def test_an_environment_variable(monkeypatch):
    monkeypatch.setenv("TEST_ROOT_KEY", TEXT)
    assert load_root_key(RootKeySource("env", ("TEST_ROOT_KEY",))) == KEY
    monkeypatch.delenv("TEST_ROOT_KEY")
    assert "TEST_ROOT_KEY" in refusal(RootKeySource("env", ("TEST_ROOT_KEY",)))


def test_a_command(tmp_path):
    assert load_root_key(RootKeySource("command", ("/bin/echo", TEXT))) == KEY


@pytest.mark.parametrize("tail", ["exit 3", "kill -9 $$", "echo more"])
def test_a_command_that_fails_after_it_printed_the_key(tmp_path, tail):
    script = tmp_path / "command"
    script.write_text(f"#!/bin/sh\necho {TEXT}\n{tail}\n")
    script.chmod(0o700)
    assert refusal(RootKeySource("command", (str(script),)))


def test_a_command_that_is_not_there():
    assert "FileNotFoundError" in refusal(RootKeySource("command", ("/nonexistent/command",)))


def test_a_command_gets_no_shell_and_no_input():
    assert refusal(RootKeySource("command", ("/bin/echo", "$(cat /etc/hostname)")))
    assert load_root_key(RootKeySource("command", ("/bin/sh", "-c", f"cat; echo {TEXT}"))) == KEY


@pytest.fixture
def keyring(monkeypatch):
    module = types.ModuleType("keyring")
    monkeypatch.setitem(sys.modules, "keyring", module)
    return module


def test_an_os_keyring(keyring):
    keyring.get_password = lambda service, user: TEXT if (service, user) == ("engram", "me") else None
    assert load_root_key(RootKeySource("keyring", ("engram", "me"))) == KEY
    assert refusal(RootKeySource("keyring", ("engram", "you")))


def test_an_os_keyring_that_fails(keyring):
    def locked(service, user):
        raise OSError(TEXT)

    keyring.get_password = locked
    with pytest.raises(StoreUnavailable, match="OSError"):
        load_root_key(RootKeySource("keyring", ("engram", "me")))


def test_an_os_keyring_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "engram-journal[keyring]" in refusal(RootKeySource("keyring", ("engram", "me")))


def test_the_files_directory_entry_is_private_whatever_the_umask(tmp_path):
    old = os.umask(0)
    try:
        create_root_key_file(tmp_path / "root.key")
    finally:
        os.umask(old)
    assert (tmp_path / "root.key").stat().st_mode & 0o777 == 0o600
