"""Running checks: each with a deadline and a failure of its own, so that one that hangs or fails stops no other.

A check runs in a thread of its own. Python cannot end a thread, so one that is late is left behind and ends with the
process; what can really hang or die, the reading of maps, is done by a child process (``tools.cli.checkup.child``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from journal import limits
from tools.cli.checkup.finding import Finding, ok, warning


@dataclass(frozen=True, slots=True)
class Check:
    """A check: the code of its all-clear, what it is about, and the function that yields what is wrong."""

    code: str
    subject: str
    all_clear: str
    look: Callable[[], Iterable[Finding]]
    deadline_seconds: float = limits.CHECK_DEADLINE_SECONDS


def run(check: Check) -> list[Finding]:
    """Run a check; return what it found, its all-clear where it found nothing, or that it failed or was late."""
    found: list[Finding] = []
    failure: list[Exception] = []

    def look() -> None:
        try:
            found.extend(check.look())
        except Exception as error:  # noqa: BLE001 - whatever it was, the other checks go on
            failure.append(error)

    thread = threading.Thread(target=look, name=f"check-{check.code.lower()}", daemon=True)
    thread.start()
    thread.join(check.deadline_seconds)
    if thread.is_alive():
        return [*found, late(check.code, check.subject, check.deadline_seconds)]
    if failure:
        return [*found, failed(check.code, check.subject, failure[0])]
    return found or [ok(check.code, check.subject, check.all_clear)]


def late(code: str, subject: str, deadline_seconds: float) -> Finding:
    """Return that a check had no answer in time."""
    return warning(
        "CHECK_TIMED_OUT", subject, f"the check {code} had no answer within {deadline_seconds:g} s",
        "see whether the disk, a key command or a stopped process keeps it waiting, then run engram doctor again",
    )  # fmt: skip


def failed(code: str, subject: str, error: Exception) -> Finding:
    """Return that a check could not be made. Of the error only what cannot quote content is told."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return warning(
        "CHECK_FAILED", subject, f"the check {code} could not be made: {why}",
        "mend what the other findings name first, then run engram doctor again",
    )  # fmt: skip
