"""Programs that the host file names: what they may know, print and take."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tools.host.programs import ENVIRONMENT, ProgramFailed, answer_of


def run(program: str, said: bytes = b"", *, seconds: float = 20, max_bytes: int = 1_000) -> bytes:
    words = [sys.executable, "-c", program]
    return answer_of(words, said, os.environ, seconds=seconds, max_bytes=max_bytes)


def test_a_program_reads_what_is_said_and_its_output_comes_back():
    assert run("import sys; print(sys.stdin.read()[::-1], end='')", b"abc") == b"cba"


def test_a_program_need_not_listen():
    assert run("import os; os.close(0); print('ok', end='')", b"x" * 4_000) == b"ok"


def test_no_shell_sees_the_words():
    assert answer_of(["echo", "$HOME;id"], b"", os.environ, seconds=20, max_bytes=100) == b"$HOME;id\n"


def test_a_program_knows_little_of_the_environment(monkeypatch):
    monkeypatch.setenv("ENGRAM_ROOT_KEY", "planted")
    names = run("import os; print(*os.environ, sep='\\n')", max_bytes=10_000).decode().split()
    assert "PATH" in names
    assert set(names) - set(ENVIRONMENT) <= {"LC_CTYPE"}  # which the interpreter sets by itself


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "exit code -15"),
        ("print('x' * 1001)", "over 1000 bytes"),
        ("while True: print('x' * 10_000)", "over 1000 bytes"),
    ],
)
def test_a_program_that_fails_or_prints_too_much(program, said):
    with pytest.raises(ProgramFailed, match=said):
        run(program)


@pytest.mark.parametrize("words", [["/no/such/program"], [os.devnull], ["a\0b"]])
def test_a_program_that_cannot_be_started(words):
    with pytest.raises(ProgramFailed, match="does not start"):
        answer_of(words, b"", os.environ, seconds=20, max_bytes=100)


def test_what_is_printed_is_in_no_refusal():
    with pytest.raises(ProgramFailed) as caught:
        run("import sys; print('planted'); print('planted', file=sys.stderr); sys.exit(1)")
    assert "planted" not in str(caught.value)


SLOW = {
    "says nothing": "import time; time.sleep(600)",
    "closes its output and stays": "import os, time; os.close(1); time.sleep(600)",
    "trickles": "import time\nwhile True: print('x', end='', flush=True); time.sleep(0.05)",
}


@pytest.mark.parametrize("how", SLOW)
def test_a_slow_program_is_ended(how):
    with pytest.raises(ProgramFailed, match="time is over"):
        run(SLOW[how], seconds=0.5, max_bytes=100_000)


def test_what_a_slow_program_started_is_ended_too(tmp_path):
    pid = tmp_path / "pid"
    child = "import time; time.sleep(600)"
    program = (
        "import subprocess, sys, pathlib\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"
        "raise SystemExit(0)\n"  # the child holds the output open
    )
    with pytest.raises(ProgramFailed, match="time is over"):
        run(program, seconds=2)
    number = int(pid.read_text())
    ends = time.monotonic() + 10
    while time.monotonic() < ends and _runs(number):
        time.sleep(0.01)
    assert not _runs(number)


def test_what_left_the_group_is_not_ended_and_keeps_nobody_waiting(tmp_path):
    pid = tmp_path / "pid"
    child = "import time; time.sleep(60)"
    program = (
        "import subprocess, sys, pathlib\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"  # which holds the output open, too
    )
    with pytest.raises(ProgramFailed, match="time is over"):
        run(program, seconds=2)
    number = int(pid.read_text())
    try:
        assert _runs(number), "docs/admission.md and docs/threats.md say so"
    finally:
        os.kill(number, signal.SIGKILL)
    for page in ("admission.md", "threats.md"):
        assert "`setsid`" in (Path(__file__).parents[3] / "docs" / page).read_text(encoding="utf-8")


def _runs(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
