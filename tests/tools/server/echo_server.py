"""A small real service behind the real server: it answers what it was asked, and keeps a list in memory."""

import sys
import threading
import time

from journal.errors import Cancelled, NotFound
from tools.server.envelope import random_audit_id, success
from tools.server.schemas import TOOL_NAMES
from tools.server.service import Remembered, UntrustedContext
from tools.server.start import serve_stdio

WAIT_SECONDS = 120  # longer than any test


class EchoService:
    """``get`` asks it for odd things by record_id; every other tool answers its arguments."""

    def __init__(self, listed=TOOL_NAMES, purposes=("purpose:case",), known=""):
        self._listed = listed
        self._purposes = purposes
        self._known = known
        self._finished = []
        self._lock = threading.Lock()

    def purposes(self):
        return self._purposes

    def listed_tools(self):
        return self._listed

    def remembered(self, timeout_seconds):
        """Tell what it was started with; some of that is an errand."""
        if self._known == "slow":
            time.sleep(timeout_seconds + 1)
        if self._known == "broken":
            raise RuntimeError("the text of an exception")
        return Remembered(self._known, ["a pin"]) if self._known else None

    def call(self, tool_name, arguments, context):
        told = {
            "tool": tool_name,
            "arguments": arguments,
            "client": context.client_name,
            "protocol": context.protocol_version,
            "session": context.session_id,
        }
        errand = getattr(self, f"_{arguments.get('record_id', '').removeprefix('mem_')}", None)
        return success(told | (errand(context) or {}) if errand else told, random_audit_id())

    def _missing(self, _context):
        raise NotFound("detail of a missing record")

    def _untrusted(self, _context):
        raise UntrustedContext("detail of a purpose")

    def _broken(self, _context):
        raise RuntimeError("the text of an exception")

    def _print(self, _context):
        print("printed by a service")  # noqa: T201 - that it prints is the point

    def _progress(self, context):
        for step in range(3):
            context.progress(step, 2, f"step {step}")
            time.sleep(0.05)

    def _wait(self, context):
        """Wait until cancelled, then finish all the same."""
        cancelled = context.cancelled.wait(WAIT_SECONDS)
        with self._lock:
            self._finished.append("cancelled" if cancelled else "waited")

    def _give(self, context):
        """Wait until cancelled, and give up."""
        if context.cancelled.wait(WAIT_SECONDS):
            raise Cancelled

    def _finished_calls(self, _context):
        with self._lock:
            return {"finished": list(self._finished)}

    def _large(self, _context):
        return {"text": "x" * 1_000_000}

    def _modules(self, _context):
        return {"modules": [name for name in sys.modules if "." not in name]}

    def _surrogate(self, _context):
        return {"text": "\ud800"}

    def stop(self):
        pass

    def close(self):
        sys.stderr.write("closed\n")  # a whole line at once: other threads log to the same stderr


if __name__ == "__main__":
    serve_stdio(EchoService(known=" ".join(sys.argv[1:])), version="0.0")
