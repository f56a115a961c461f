"""What a rig started ends with the run, by TERM or by KILL, and after TERM nothing of it is left in memory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
_RUN = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", "-k", "closed_store"]
_MARK = "RUN_OF_THIS_TEST"  # no ENGRAM_ variable reaches what a test starts


def _processes(mark: str) -> dict[int, bytes]:
    """Return the command lines of all processes that inherited a mark."""
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"{_MARK}={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found[int(directory.name)] = (directory / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def _place(mark: str) -> Path | None:
    """Return the directory that the workers of a run work in, None before there is one."""
    for words in (line.split(b"\0") for line in _processes(mark).values()):
        if b"tests.corruption.worker" in words:
            return Path(os.fsdecode(words[words.index(b"tests.corruption.worker") + 1])).parent
    return None


def _until(condition, what):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_workers_and_their_place_end_with_the_run(tmp_path, how):
    mark = str(tmp_path)
    environment = {**os.environ, "ENGRAM_CORRUPTION": "long", _MARK: mark, "TMPDIR": str(tmp_path)}
    place = None
    with subprocess.Popen(
        [*_RUN, "tests/corruption/test_corrupted_store.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    ) as run:
        try:
            _until(lambda: _place(mark) is not None, "no worker came")
            place = _place(mark)
            run.send_signal(how)
            assert run.wait(60) != 0
            _until(lambda: not _processes(mark), "a process lives on")
            assert how == signal.SIGKILL or place is None or not place.exists()
        finally:
            run.kill()
            for each in _processes(mark):
                os.kill(each, signal.SIGKILL)
            shutil.rmtree(place or tmp_path / "none", ignore_errors=True)


_LATE = """
import os, signal, sys, tests.workers
signal.signal(signal.SIGTERM, signal.default_int_handler)
os.register_at_fork(after_in_parent=lambda: signal.raise_signal(signal.SIGTERM))
workers = []
try:
    tests.workers.start(workers, ["sleep", "60"], out=sys.stdout, errors=sys.stderr, environment={**os.environ})
except KeyboardInterrupt:
    assert [each.poll() for each in workers] == [None], workers
    workers[0].kill()
    sys.exit(7)
"""


def test_a_signal_that_comes_while_a_worker_is_started_ends_the_run():
    """Python takes what is raised in what it runs around a fork for a mishap, and goes on."""
    assert subprocess.run([sys.executable, "-c", _LATE], cwd=ROOT, check=False).returncode == 7
