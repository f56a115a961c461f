"""A notice tells the human that something waits: a confirmation, a candidate to adjudicate.

It says how many, never what: the sentence holds numbers and two constant nouns. It never blocks a call and never fails
one; where nothing can show it, nothing happens.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping

from journal import limits
from tools.host.programs import ENVIRONMENT
from tools.host.sections import ConfirmationSection

_KINDS: dict[str, tuple[str, str, str]] = {
    "confirmation": ("confirmation waits", "confirmations wait", "engram confirm list"),
    "proposal": ("proposal waits", "proposals wait", "engram records proposals list"),
    "candidate": ("candidate waits", "candidates wait", "engram candidates list"),
}
_ENVIRONMENT = (
    *ENVIRONMENT,
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
)
_SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")


def sentence(kind: str, count: int | None = None) -> str:
    """Return what a notice says, such as ``2 confirmations wait: engram confirm list``."""
    one, several, command = _KINDS[kind]
    said = f"a {one}" if count is None else f"{count} {one if count == 1 else several}"
    return f"{said}: {command}"


class Notice:
    """Tells the human, at most once a kind and half minute. Safe to use from several threads."""

    def __init__(
        self,
        confirmation: ConfirmationSection,
        environ: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command = _command(confirmation, environ)
        self._environment = {name: environ[name] for name in _ENVIRONMENT if name in environ}
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._told: dict[str, float] = {}

    def tell(self, kind: str, count: int | None = None) -> None:
        """Say that something of a kind waits, or how many. Returns at once; a failure of it is nobody's."""
        if self._command is None or kind not in _KINDS or count == 0 or not self._due(kind):
            return
        words = self._command(sentence(kind, count))
        threading.Thread(target=self._show, args=(words,), name="engram-notice", daemon=True).start()

    def _due(self, kind: str) -> bool:
        now = self._monotonic()
        with self._lock:
            last = self._told.get(kind)
            if last is not None and now - last < limits.NOTICE_INTERVAL_SECONDS:
                return False
            self._told[kind] = now
            return True

    def _show(self, words: list[str]) -> None:
        try:
            # A session of its own: a terminal's Ctrl-C is the server's business. No shell sees the words.
            process = subprocess.Popen(  # noqa: S603 - the host file names the program, or it is the desktop's own
                words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError):
            return
        try:
            process.wait(limits.NOTICE_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _command(confirmation: ConfirmationSection, environ: Mapping[str, str]) -> Callable[[str], list[str]] | None:
    """Return how a sentence becomes a command line, or None where nobody could see it."""
    if not confirmation.notify:
        return None
    if confirmation.notify_command is not None:
        own = list(confirmation.notify_command)
        return lambda text: [*own, text]
    path = environ.get("PATH")
    if sys.platform == "darwin" and (program := shutil.which("osascript", path=path)):
        # The text holds digits and constant words only, so that no quote can end the script's string.
        return lambda text: [program, "-e", f'display notification "{text}" with title "engram"']
    if any(environ.get(name) for name in _SESSION) and (program := shutil.which("notify-send", path=path)):
        return lambda text: [program, "--app-name=engram", "engram", text]
    return None
