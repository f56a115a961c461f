"""Notices: what a human is told, that it is not much, and that nothing waits for it."""

import json
import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from journal import limits
from tools.host.notice import Notice, sentence
from tools.host.sections import ConfirmationSection

WRITES = """#!{python}
import json, os, sys
with open({out!r}, "a") as out:
    out.write(json.dumps([sys.argv[1:], sorted(os.environ)]) + "\\n")
"""


def program(folder: Path, name: str) -> tuple[Path, Path]:
    path, out = folder / name, folder / f"{name}.out"
    path.write_text(WRITES.format(python=sys.executable, out=str(out)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path, out


def settle() -> None:
    """Wait until every notice was shown."""
    for thread in threading.enumerate():
        if thread.name == "engram-notice":
            thread.join(30)


def told(out: Path) -> list[list[list[str]]]:
    settle()
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def test_the_sentence_has_a_number_and_constant_words():
    assert sentence("confirmation") == "a confirmation waits: engram confirm list"
    assert sentence("confirmation", 1) == "1 confirmation waits: engram confirm list"
    assert sentence("confirmation", 3) == "3 confirmations wait: engram confirm list"
    assert sentence("candidate", 2) == "2 candidates wait: engram candidates list"


def test_the_hosts_own_command_gets_the_sentence_as_its_last_word_and_no_secret(tmp_path):
    path, out = program(tmp_path, "tell")
    notices = Notice(
        ConfirmationSection(notify_command=(str(path), "--to", "me; rm x")),
        {**os.environ, "ENGRAM_ROOT_KEY": "k3y", "LANG": "C.UTF-8"},
    )
    notices.tell("confirmation", 2)
    [[words, environment]] = told(out)
    assert words == ["--to", "me; rm x", "2 confirmations wait: engram confirm list"]
    assert "ENGRAM_ROOT_KEY" not in environment
    assert "PATH" in environment


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has its own notifier")
def test_a_desktop_notification_needs_a_session(tmp_path):
    _, out = program(tmp_path, "notify-send")
    Notice(ConfirmationSection(), {"PATH": str(tmp_path)}).tell("candidate", 1)
    assert told(out) == []
    Notice(ConfirmationSection(), {"PATH": str(tmp_path), "WAYLAND_DISPLAY": "wayland-0"}).tell("candidate", 1)
    [[words, _]] = told(out)
    assert words[-1] == "1 candidate waits: engram candidates list"


def test_no_notice_where_the_host_wants_none_or_nothing_waits(tmp_path):
    path, out = program(tmp_path, "tell")
    Notice(ConfirmationSection(notify=False, notify_command=(str(path),))).tell("candidate", 1)
    Notice(ConfirmationSection(notify_command=(str(path),))).tell("candidate", 0)
    Notice(ConfirmationSection(notify_command=(str(path),))).tell("something else")
    assert told(out) == []


def test_a_kind_is_told_once_in_half_a_minute(tmp_path):
    path, out = program(tmp_path, "tell")
    now = [1000.0]
    notices = Notice(ConfirmationSection(notify_command=(str(path),)), monotonic=lambda: now[0])
    notices.tell("confirmation", 1)
    notices.tell("confirmation", 2)
    notices.tell("candidate", 5)  # another kind
    now[0] += limits.NOTICE_INTERVAL_SECONDS
    notices.tell("confirmation", 3)
    sentences = sorted(words[-1] for words, _ in told(out))
    assert [text[0] for text in sentences] == ["1", "3", "5"]


@pytest.mark.parametrize("command", [("/nonexistent/program",), ("bad\0name",), (str(Path(__file__)),)])
def test_a_command_that_cannot_run_fails_nothing(command):
    Notice(ConfirmationSection(notify_command=command)).tell("candidate", 1)
    settle()


def test_a_command_that_hangs_holds_nobody_up_and_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "NOTICE_TIMEOUT_SECONDS", 0.2)
    script = f"import pathlib, time; pathlib.Path({str(tmp_path / 'began')!r}).touch(); time.sleep(600)"
    Notice(ConfirmationSection(notify_command=(sys.executable, "-c", script))).tell("candidate", 1)
    shown = [thread for thread in threading.enumerate() if thread.name == "engram-notice"]
    assert shown  # tell has returned while the command still runs
    settle()
    assert not any(thread.is_alive() for thread in shown)  # each waits for the end of its process
