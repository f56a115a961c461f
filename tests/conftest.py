"""Settings for all tests: none reads or writes the person's own configuration, and none depends on its own speed."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING

import hypothesis
import pytest
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# No deadline: a slow machine is no fault of the code. The blob lets a failure be repeated elsewhere.
hypothesis.settings.register_profile("engram", deadline=None, print_blob=True)
hypothesis.settings.load_profile("engram")


def pytest_configure():
    """Have TERM end a run as Ctrl-C does, so that what it started ends and what it made is removed.

    What a shell runs in the background ignores Ctrl-C, and so would all that the tests start and send it to.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def tell(request: pytest.FixtureRequest, record_property, capsys) -> Callable[[str], None]:
    """Have figures printed: at once where the terminal is this process's own, else at the end of the run."""

    def say(text: str) -> None:
        if hasattr(request.config, "workerinput"):
            record_property("told", text)
            return
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return say


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    """Print what tests told in other processes, and how a failing order is repeated: the quiet run has no header."""
    reports = [each for every in terminalreporter.stats.values() for each in every if hasattr(each, "user_properties")]
    for text in dict.fromkeys(value for each in reports for name, value in each.user_properties if name == "told"):
        terminalreporter.write_line(text)
    if exitstatus:
        terminalreporter.write_line(f"this order again: --randomly-seed={config.getoption('randomly_seed')}")


@pytest.fixture(autouse=True)
def _log_as_at_first() -> None:
    """Undo what a command that ran in this process said of the log."""
    structlog.reset_defaults()


@pytest.fixture(scope="session", autouse=True)
def _away_from_home() -> Iterator[None]:
    """Point every place that a person's configuration could come from at an empty directory."""
    kept = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("ENGRAM_")]:
        del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="engram-tests-") as home:
        os.environ["HOME"] = home
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
            os.environ[name] = os.path.join(home, name.lower())  # noqa: PTH118 - a string goes into the environment
        yield
    os.environ.clear()
    os.environ.update(kept)
