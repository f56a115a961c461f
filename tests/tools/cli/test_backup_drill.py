"""The drill of docs/backup.md, block by block, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.tools.cli.desk import ROOT, environment
from tests.tools.memory.world import Caller
from tools.host.binding import bind
from tools.host.capabilities import FORGET
from tools.host.file import load_host_file
from tools.memory.engine import Engine

PURPOSE = "purpose:memory"


def blocks():
    text = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home in which ``engram`` is installed and nothing else is set."""
    for name in [name for name in os.environ if name.startswith(("XDG_", "ENGRAM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    engram = tmp_path / "bin" / "engram"
    engram.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tools.cli.main "$@"\n', encoding="utf-8")
    engram.chmod(0o755)
    monkeypatch.setenv("PATH", f"{engram.parent}:{os.environ['PATH']}")
    return tmp_path


def run(block, home):
    """Run a block as a person would, and stop where a command fails."""
    return subprocess.run(
        ["/bin/sh", "-e", "-c", block], cwd=home, env=environment(), capture_output=True, text=True, check=False
    )


@contextmanager
def agent(home):
    host_file = load_host_file(home / ".config" / "engram" / "engram.toml")
    engine = Engine.open(host_file, bind(host_file))
    try:
        yield Caller(engine)
    finally:
        engine.close()


def test_the_drill(home):
    init, back_up, keep_forgotten, lose, restore, again = blocks()
    assert run(init, home).returncode == 0
    host_file = home / ".config" / "engram" / "engram.toml"
    text = host_file.read_text(encoding="utf-8").replace("wait_seconds = 50", "wait_seconds = 0")
    host_file.write_text(text.replace('"adjudicate"\n', '"accept-asserted"\n'), encoding="utf-8")
    with agent(home) as caller:
        kept = caller.remember("Words of copper that stay.", purpose_ref=PURPOSE)
        gone = caller.remember("Words of silver that go.", purpose_ref=PURPOSE)
    done = run(back_up, home)
    assert (done.returncode, done.stderr) == (0, "")
    assert "engram-recipient-" in done.stdout
    with agent(home) as caller:
        caller.confirmed(FORGET, {"record_id": gone, "idempotency_key": "key-of-the-drill-1", "reason_ref": "reason:x"})
    assert run(keep_forgotten, home).returncode == 0
    lost = run(lose, home)
    assert lost.returncode == 1
    assert "[RESTORE_REFUSED]" in lost.stderr
    assert not (home / ".local" / "share" / "engram").exists()
    done = run(restore, home)
    assert done.returncode == 0, done.stderr
    assert "again now: 1" in done.stdout
    assert "\nclean\n" in done.stdout
    with agent(home) as caller:
        assert caller.get(kept, purpose_ref=PURPOSE)["ok"] is True
        assert caller.get(gone, purpose_ref=PURPOSE)["error"]["code"] == "NOT_FOUND"
    assert run(again, home).returncode == 0
