"""Ctrl-C at any moment: exit code 130, and not a word about it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.tools.cli.desk import Desk, environment
from tools.cli import interrupts

HANG = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background job is started without it
    "def rest():\n    for _ in range(6000):\n        time.sleep(0.01)\n"  # one long sleep may miss a signal just before
    "def hang():\n    print('ready', flush=True)\n    rest()\n"
)
RUN = "sys.argv[0] = 'engram'\nfrom tools.cli.main import main\nmain()\n"
IMPORTED = (
    "import importlib.abc\n"
    "class Slow(importlib.abc.MetaPathFinder):\n"
    "    def find_spec(self, name, path, target=None):\n"
    "        if name == {name!r}:\n"
    "            try:\n                hang()\n"
    "            except KeyboardInterrupt:\n                raise ImportError('made of it by somebody') from None\n"
    "sys.meta_path.insert(0, Slow())\n"
)
MADE = "import journal.log\ndef opened(*a, **k):\n    hang_{how}()\njournal.log.Journal.open = opened\n"
HOWS = (
    "def hang_raised():\n    hang()\n"
    "def hang_caused():\n"
    "    try:\n        hang()\n    except KeyboardInterrupt as error:\n        raise SystemError('x') from error\n"
    "def hang_suppressed():\n"
    "    try:\n        hang()\n    except KeyboardInterrupt:\n        raise ImportError('x') from None\n"
    "def hang_grouped():\n"
    "    try:\n        hang()\n"
    "    except KeyboardInterrupt as error:\n        raise BaseExceptionGroup('x', [error])\n"
    "def hang_swallowed():\n"
    "    class Dying:\n        def __del__(self):\n            hang()\n"
    "    dying = Dying()\n    del dying\n    rest()\n"
)


def _interrupted(script: str, desk: Desk, *words: str) -> tuple[int, bytes, bytes]:
    """Run a script that says "ready" and hangs, interrupt it there, and return how it ended."""
    with subprocess.Popen(
        [sys.executable, "-c", script, *words, "--config", str(desk.host_file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize("name", ["click", "tools.cli.lazy", "tools.cli.audit", "journal.layout"])
def test_in_the_middle_of_an_import(desk, name):
    assert _interrupted(HANG + IMPORTED.format(name=name) + RUN, desk, "audit") == (130, b"", b"")


@pytest.mark.parametrize("how", ["raised", "caused", "suppressed", "grouped", "swallowed"])
def test_in_the_middle_of_a_command_whatever_others_make_of_it(desk, how):
    assert _interrupted(HANG + HOWS + MADE.format(how=how) + RUN, desk, "audit") == (130, b"", b"")


def test_after_the_command(desk):
    script = "import atexit\n" + HANG + "atexit.register(hang)\n" + RUN
    code, out, err = _interrupted(script, desk, "nonsense")
    assert (code, out, err.count(b"\n")) == (130, b"", 1)


def test_a_command_undoes_what_is_half_done(bare_desk):
    script = HANG + "import tools.cli.init as init\ninit.create_root_key_file = lambda _: hang()\n" + RUN
    before = sorted(bare_desk.place.iterdir())
    words = ("init", "--store", str(bare_desk.store))
    assert _interrupted(script, bare_desk, *words) == (130, b"", b"")
    assert sorted(bare_desk.place.iterdir()) == before


def test_whoever_imports_the_command_line_keeps_their_own_way():
    for handler in ("signal.default_int_handler", "signal.SIG_IGN", "print"):
        script = (
            f"import signal\nsignal.signal(signal.SIGINT, {handler})\nimport tools.cli.main\n"
            f"tools.cli.main.run(['--version'])\nassert signal.getsignal(signal.SIGINT) is {handler}"
        )
        subprocess.run([sys.executable, "-c", script], check=True, env=environment(), stdout=subprocess.DEVNULL)


def test_imported_in_a_thread_it_touches_no_signal():
    script = (
        "import threading\nfailed = []\nthreading.excepthook = failed.append\n"
        "thread = threading.Thread(target=lambda: __import__('tools.cli.main'))\n"
        "thread.start()\nthread.join()\nassert not failed, failed"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=environment())


def test_what_is_behind_an_exception():
    def chained(cause: BaseException | None, context: BaseException | None) -> BaseException:
        error = RuntimeError("x")
        error.__cause__, error.__context__ = cause, context
        return error

    stopped = KeyboardInterrupt()
    assert interrupts.is_behind(stopped)
    assert interrupts.is_behind(chained(None, chained(stopped, None)))
    assert interrupts.is_behind(BaseExceptionGroup("x", [ValueError(), chained(None, stopped)]))
    assert not interrupts.is_behind(chained(ValueError(), ValueError()))
    looped = RuntimeError()
    looped.__context__ = chained(looped, None)
    assert not interrupts.is_behind(looped)
