"""One call: what the host bound to it, its one instant, and how long it may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from journal.errors import Cancelled, DeadlineExceeded, GateFailed
from journal.events import Actor
from journal.scope import Scope
from tools.host.binding import Binding
from tools.server.service import Asking


def _silent(_done: float, _total: float | None, _message: str) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A bound call. ``now`` is its one instant: valid_as_of, issued_at and the clock of every check are the same."""

    binding: Binding
    actor: Actor
    now: int  # epoch milliseconds
    deadline: float  # time.monotonic seconds
    progress: Callable[[float, float | None, str], None] = _silent
    cancelled: threading.Event = field(default_factory=threading.Event)
    ending: threading.Event = field(default_factory=threading.Event)  # the server's; set before ``cancelled``
    client_name: str | None = None  # as the client calls itself
    session_id: str | None = None  # of the connection
    audit_id: str | None = None  # of the answer's envelope
    asking: Asking | None = None  # where the client can show its user a form

    @property
    def form_asking(self) -> Asking | None:
        """How the client's user is asked to approve; None: it shows no form, or the host does not trust it so far."""
        return self.asking if self.binding.elicits(self.client_name) else None

    @property
    def scope(self) -> Scope:
        """The one scope that the call is bound to."""
        return self.binding.scope

    def refuse_late(self) -> None:
        """Stop a call that was given up or whose time is over, while nothing is written.

        Raises:
            Cancelled: nobody waits for it any more. DeadlineExceeded: its time is over.
        """
        self.refuse_cancelled()
        if time.monotonic() >= self.deadline:
            raise DeadlineExceeded("the call's time is over")

    def refuse_cancelled(self, *, waiting: bool = False) -> None:
        """Stop a call that its client gave up, or that the server ends, while nothing of its operation is written.

        Raises:
            Cancelled: nobody waits for it any more. GateFailed: the server ends while the call is ``waiting`` for a
            person: what asks the person is written, and serves the same call later.
        """
        if self.ending.is_set():
            refusal = GateFailed if waiting else Cancelled
            raise refusal("it is served no more: the server ends, or its principal lost access")
        if self.cancelled.is_set():
            raise Cancelled("the client cancelled the call")
