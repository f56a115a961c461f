"""What the server asks of the memory service behind it, and what it tells it of each call.

Nothing of the protocol library is imported here, so that a service can be written and tested without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from tools.server.envelope import Envelope

INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Progress = Callable[[float, float | None, str | None], None]


class ProtocolRefusal(Exception):  # the contract's word for it; it is answered, it does not fail
    """A call that is answered by a protocol error, not by an envelope (CONTRACT §1).

    The message is constant; ``detail`` goes to the log only.
    """

    code: int
    message: str

    def __init__(self, detail: str = "", audit_id: str | None = None) -> None:
        super().__init__(detail or self.message)
        self.detail = detail
        self.audit_id = audit_id  # for the log: the answer has none
        self.is_logged = False


class UntrustedContext(ProtocolRefusal):
    """The host's context is missing or not trusted, or purpose, principal, tenant or provenance do not match."""

    code = INTERNAL_ERROR
    message = "trusted invocation context unavailable"


class UnknownTool(ProtocolRefusal):
    """No such tool is listed: it does not exist, or it is not granted."""

    code = INVALID_PARAMS
    message = "unknown tool"


@dataclass(frozen=True, slots=True)
class Form:
    """What the client's user is asked before an operation is run."""

    confirmation_id: str  # of the request that the answer decides, and no other
    message: str  # lines; what is to be done


class FormAnswer(Enum):
    """How a client's user answered a form. Who declined, cancelled or went away decided nothing."""

    APPROVED = "approved"
    DENIED = "denied"
    DECLINED = "declined"
    CANCELLED = "cancelled"
    UNREADABLE = "unreadable"  # accepted, with another content than the form asks for
    UNANSWERED = "unanswered"  # the client gave an error in its place

    @property
    def decides(self) -> bool:
        """Whether the request is decided by it."""
        return self in (FormAnswer.APPROVED, FormAnswer.DENIED)


class FormNeeded(ProtocolRefusal):
    """A call that is answered by a form, for the client to come again with what its user answered."""

    code = 0  # no error goes on the wire
    message = "input required"

    def __init__(self, form: Form) -> None:
        super().__init__(form.confirmation_id)
        self.form = form


class Asking(Protocol):
    """How the user of a client is asked; there is one a call, and it asks once."""

    @property
    def answers(self) -> str | None:
        """The confirmation request to which this call brings an answer; None: it brings none."""
        ...

    def ask(self, form: Form) -> None:
        """Show a form, or take the answer that the call brings. Returns at once; safe from any thread.

        Raises:
            FormNeeded: the answer comes with another call.
        """
        ...

    def answer(self) -> FormAnswer | None:
        """Return what was answered, once; None: nothing yet, or nothing any more."""
        ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the server knows about one call. None of it comes from the tool's arguments."""

    client_name: str | None  # as the client calls itself, in either protocol era
    session_id: str  # of this connection
    protocol_version: str
    deadline: float  # seconds of time.monotonic(); a wait for a human's confirmation has its own bound
    cancelled: threading.Event  # set when nobody waits any more; a commit that began is finished all the same
    progress: Progress  # (done, total, message), from any thread; does nothing where the client asked for none
    asking: Asking | None = None  # None: the client shows no form
    ending: threading.Event = field(
        default_factory=threading.Event
    )  # set before ``cancelled`` where the server gives up
    trace_parent: str | None = None  # the client's own span, as it names it (W3C Trace Context); None: it names none


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an agent is told of the user before it calls anything."""

    core_profile: str  # lines; "" for none
    pinned: Sequence[str]  # messages, in the order in which they are to be kept


class Listing(Protocol):
    """What can be said before any store is open."""

    def purposes(self) -> Sequence[str]:
        """Return the purposes that the host bound, in the host file's order."""
        ...

    def listed_tools(self) -> Sequence[str]:
        """Return the names of the tools that are granted and enabled now. It may wait; it runs in a worker thread."""
        ...

    def remembered(self, timeout_seconds: float) -> Remembered | None:
        """Return what is known of the user, or None where that takes longer or nothing is remembered here.

        It is asked where a conversation tool is listed, in a worker thread, before the first call.
        """
        ...


class Service(Listing, Protocol):
    """The memory service of one connection. Its methods are called from several worker threads at once."""

    def call(self, tool_name: str, arguments: dict[str, Any], context: CallContext) -> Envelope:
        """Run one call of a listed tool and return its answer.

        Raises:
            EngramError: answered as a failure envelope.
            ProtocolRefusal: answered as a protocol error.
        """
        ...

    def stop(self) -> None:
        """Let go of what a call may wait for elsewhere, for the server ends: it must not wait too. Never blocks."""
        ...

    def close(self) -> None:
        """Let go of everything. No call is running, and none will come."""
        ...
