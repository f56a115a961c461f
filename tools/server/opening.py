"""A service that opens behind the server's back.

A client waits for the first ``tools/list`` before it does anything, and some give up within seconds; a store, its keys
and the libraries behind them take their time. So what the host file says is listed at once, and the rest is opened in a
thread of its own: a moment after the list was asked for, or when the first call needs it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from journal.errors import Cancelled, DeadlineExceeded, EngramError, StoreUnavailable
from journal.limits import LISTING_WAIT_SECONDS
from tools.server.envelope import Envelope
from tools.server.logs import note, warn
from tools.server.service import CallContext, Listing, Remembered, Service

_AFTER_LIST_SECONDS: Final = 0.05  # the list is on its way by then
_LOOK_SECONDS: Final = 0.1  # how often a waiting call looks whether it was cancelled

ServiceFactory = Callable[[], Service]
Tell = Callable[[Exception], None]


class OpeningService:
    """Answers from ``listing`` until ``factory`` has made the service, then passes everything on to it.

    A factory that fails is tried again by the next call, so that a store which comes back is found.
    """

    def __init__(
        self, listing: Listing, factory: ServiceFactory, *, list_once_open: bool = False, tell: Tell | None = None
    ) -> None:  # fmt: skip
        """``list_once_open``: what is granted stands in the store too, so that no list is made before it is open.

        ``tell`` says why an opening failed, in place of a line of the log for each.
        """
        self._listing = listing
        self._list_once_open = list_once_open
        self._factory = factory
        self._tell = tell or _warn
        self._lock = threading.Lock()
        self._attempt: _Attempt | None = None
        self._service: Service | None = None

    def purposes(self) -> Sequence[str]:
        """See :class:`Listing`."""
        return self._listing.purposes()

    def listed_tools(self) -> Sequence[str]:
        """See :class:`Listing`. The first question also sets the opening going."""
        if self._service:
            return self._service.listed_tools()
        if self._list_once_open:
            return self._service_in(LISTING_WAIT_SECONDS).listed_tools()
        listed = self._listing.listed_tools()
        self._begin(_AFTER_LIST_SECONDS)
        return listed

    def open_ahead(self) -> None:
        """Set the opening going now, because the greeting is to carry what is remembered."""
        self._begin(0)

    def remembered(self, timeout_seconds: float) -> Remembered | None:
        """See :class:`Listing`. Opens the service, and waits for that too within ``timeout_seconds``."""
        give_up_at = time.monotonic() + timeout_seconds
        if self._service is None and not self._begin(0).ended.wait(timeout_seconds):
            return None
        service, left_seconds = self._service, give_up_at - time.monotonic()
        return service.remembered(left_seconds) if service and left_seconds > 0 else None

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        """See :class:`Service`. Waits for the service within the call's deadline.

        Raises:
            EngramError: what kept the service from opening; StoreUnavailable where that was no error of the contract.
        """
        service = self._service or self._opened(context)
        return service.call(tool_name, arguments, context)

    def stop(self) -> None:
        """See :class:`Service`."""
        if self._service:
            self._service.stop()

    def close(self) -> None:
        """See :class:`Service`. Waits for an opening that began, and opens nothing more."""
        with self._lock:
            attempt, self._attempt = self._attempt, _Attempt()
        if attempt:
            attempt.cancel()
            attempt.ended.wait()
        if self._service:
            self._service.close()

    def _opened(self, context: CallContext) -> Service:
        attempt = self._begin(0)
        while not attempt.ended.wait(_LOOK_SECONDS):
            if context.cancelled.is_set():
                raise Cancelled("the server ends" if context.ending.is_set() else "while the service opened")
            if time.monotonic() > context.deadline:
                raise DeadlineExceeded("while the service opened")
        if self._service:
            return self._service
        self._give_up(attempt)
        raise attempt.error or StoreUnavailable("the service did not open")

    def _service_in(self, timeout_seconds: float) -> Service:
        """Return the service, opened within a time.

        Raises:
            EngramError: what kept it from opening; StoreUnavailable where it did not in time.
        """
        attempt = self._begin(0)
        if attempt.ended.wait(timeout_seconds) and self._service is None:
            self._give_up(attempt)
        if self._service is None:
            raise attempt.error or StoreUnavailable("the service did not open")
        return self._service

    def _give_up(self, attempt: _Attempt) -> None:
        """Let the next call try again."""
        with self._lock:
            if self._attempt is attempt:
                self._attempt = None

    def _begin(self, delay_seconds: float) -> _Attempt:
        """Return the attempt to open that is under way, or begin one."""
        with self._lock:
            if self._attempt is None:
                self._attempt = _Attempt()
                threading.Thread(target=self._open, args=(self._attempt,), name="engram-open", daemon=True).start()
            attempt = self._attempt
        if not delay_seconds:
            attempt.now.set()
        return attempt

    def _open(self, attempt: _Attempt) -> None:
        attempt.now.wait(_AFTER_LIST_SECONDS)
        fault: Exception | None = None
        try:
            if not attempt.cancelled:
                self._service = self._factory()
        except Exception as error:  # noqa: BLE001 - whatever it is, calls must learn that there is no service
            fault = error
            attempt.error = error if isinstance(error, EngramError) else None
        finally:
            attempt.ended.set()  # before anything is logged: the first line of a log takes its time
        if fault is not None:
            self._tell(fault)
        elif self._service is not None:
            note("service opened")


def _warn(fault: Exception) -> None:
    if isinstance(fault, EngramError):
        warn("service did not open", error=fault.code, detail=fault.detail)
    else:
        warn("service did not open", error=type(fault).__name__)


class _Attempt:
    """One attempt to open the service."""

    def __init__(self) -> None:
        self.now = threading.Event()  # somebody waits for it
        self.ended = threading.Event()
        self.cancelled = False
        self.error: EngramError | None = None

    def cancel(self) -> None:
        """Open nothing, if that did not begin yet."""
        self.cancelled = True
        self.now.set()
