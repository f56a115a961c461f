"""Damage that keeps a service from telling what is granted is logged, as damage in a call is."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest
import structlog

from journal.errors import JournalCorrupt, StoreUnavailable
from tools.damage import DO, DamageTold
from tools.lazylog import LazyLog
from tools.server.serve import Handlers
from tools.server.service import CallContext, Service


class Unlisted:
    """A service that cannot tell what is granted."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def purposes(self):
        return ()

    def listed_tools(self):
        raise self.error

    def stop(self):
        """Nothing to let go of."""


@pytest.mark.parametrize(("error", "lines"), [(JournalCorrupt("a page"), 1), (StoreUnavailable("busy"), 0)])
def test_a_refused_call_is_told(error, lines, capfd):
    handlers = Handlers(cast("Service", Unlisted(error)))
    call = CallContext(
        client_name=None, session_id="s", protocol_version="2025-06-18", deadline=time.monotonic() + 5,
        cancelled=threading.Event(), ending=threading.Event(), progress=lambda *_: None,
    )  # fmt: skip
    with structlog.testing.capture_logs() as log:
        for _ in range(2):
            answer = handlers._call("engram_memory_get", {}, call)
            assert isinstance(answer, dict)
            assert answer["structuredContent"]["error"]["code"] == error.code
    handlers.close()
    told = [each for each in log if each["event"] == "store damaged"]
    assert [(each["code"], each["detail"], each["do"]) for each in told] == [(error.code, error.detail, DO)] * lines
    assert capfd.readouterr().err.count('"event": "refused"') == 2


def test_each_kind_is_told_once():
    with structlog.testing.capture_logs() as log:
        told = DamageTold(LazyLog())
        for detail in ("one", "two", "one"):
            told.tell(JournalCorrupt(detail))
        told.tell(StoreUnavailable("no damage"))
    assert [each["detail"] for each in log] == ["one", "two"]
