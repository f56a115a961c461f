"""What engram doctor says of a desk, and another process that has the desk's store open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from journal.clock import Clock
from journal.events import Actor, Draft, EventType
from journal.log import Journal
from journal.rootkey import load_root_key
from journal.scope import Scope
from tests.tools.cli.desk import Desk, environment
from tools.host.file import load_host_file

SCOPE = Scope.of("default", "default")  # what engram init makes, unless told otherwise

SEVERITIES = {"ok", "note", "warning", "fault"}
OF_THE_MACHINE = {"CORE_DUMPS_ENABLED", "UMASK_OPEN", "FILE_SYSTEM_COPY_ON_WRITE", "DISK_NEARLY_FULL"}
"""Findings that depend on where the tests run."""

_OTHER = """
import itertools, os, signal, sys
from pathlib import Path
from tests.tools.memory import world
from tests.tools.memory.world import Caller
from tools.host.binding import bind
from tools.host.file import load_host_file
from tools.memory.engine import Engine
world._numbers = itertools.count(os.getpid() * 1_000_000)  # idempotency keys of its own
host_file = load_host_file(Path(sys.argv[1]))
engine = Engine.open(host_file, bind(host_file))
agent = Caller(engine)
exec(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
engine.close()
"""


def examined(desk: Desk, *words: str) -> dict[str, dict[str, Any]]:
    """Return what doctor finds, by code, what is well left out; of several with one code the first."""
    ended = desk.run("doctor", "--json", *words)
    return judged(ended.code, ended.json)


def judged(code: int, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert set(document) == {"ok", "checks"}
    faults = [each for each in document["checks"] if each["severity"] == "fault"]
    assert document["ok"] == (not faults)
    assert code == (1 if faults else 0)
    found: dict[str, dict[str, Any]] = {}
    for each in document["checks"]:
        assert set(each) == {"code", "severity", "subject", "detail", "mend"}
        assert each["severity"] in SEVERITIES
        assert bool(each["mend"]) == (each["severity"] != "ok"), each
        if each["severity"] != "ok" and each["code"] not in OF_THE_MACHINE:
            found.setdefault(each["code"], each)
    return found


@contextmanager
def another(desk: Desk, does: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that has the store open and has done something with ``agent`` and ``engine``."""
    process = subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(desk.host_file), does], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert b"ready\n" in iter(process.stdout.readline, b"")
        yield process
        if process.poll() is None:
            os.kill(process.pid, signal.SIGCONT)
    finally:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, and wait until it stands."""
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return every file under a folder with its bytes and its mode; LMDB's lock files hold the readers and are left."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock.mdb"
    }


def severities(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the severity of each code."""
    return {code: each["severity"] for code, each in found.items()}


@contextmanager
def opened_journal(desk: Desk, clock: Clock | None = None) -> Iterator[Journal]:
    """Yield the journal of a desk's store, open for writing."""
    root_key = load_root_key(load_host_file(desk.host_file).root_key)
    journal = Journal.open(desk.store, root_key, clock=clock)
    try:
        yield journal
    finally:
        journal.close()


def invalidation(journal: Journal) -> Draft:
    """Return an event that changes nothing."""
    event_id = journal.random_event_id(SCOPE)
    return Draft(
        type=EventType.PROJECTION_INVALIDATED, event_id=event_id, actor=Actor("operator:tests"), related="none"
    )
