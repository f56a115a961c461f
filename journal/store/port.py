"""The storage port: what the engine asks of whatever keeps the journal.

One writing verb, ``commit(scope, decide)``; reading verbs ``head``, ``read``, ``body``, ``watch`` and a snapshot
``view`` of the indexes. Nothing else may be assumed of an engine: no sequence, no transaction spanning scopes, no
particular order between scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import msgspec

from journal.events import Draft, Header
from journal.scope import Scope


class Part(Enum):
    """A sealed part of an event. The value is the table's name."""

    CONTENT = b"content"
    LEDGER = b"ledger"


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a scope's journal. ``cursor`` is 0 and ``hash`` is 32 zero bytes before the first event."""

    cursor: int
    hash: bytes  # BLAKE3 of the last frame
    recorded_at: int  # epoch ms of the last event; 0 before the first
    slot_generation: int  # generation of the scope's slot file, as last mirrored


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """What the subject index knows of a candidate, a record, a confirmation request or a message."""

    state: int  # journal.lifecycle.State; RequestState for a confirmation, journal.messages.MessageState for a message
    born: int  # cursor of the capture, request or message: where the content stands
    decided: int  # cursor of the accept, reject, approval or denial, of a message's newest revision; 0: none
    changed: int  # cursor of the newest event about it
    key_id: bytes | None
    record_id: str | None
    related: str | None


class Committed(msgspec.Struct, frozen=True, gc=False):
    """An event with its place in the chain."""

    header: Header
    frame: bytes


class View(Protocol):
    """The indexes and events of one scope at one head. Short-lived: it may hold a read transaction."""

    @property
    def head(self) -> Head:
        """The head that this view shows."""
        ...

    def outcome(self, event_id: bytes) -> Committed | None:
        """Return the event that reserved this identity."""
        ...

    def event(self, cursor: int) -> Committed | None:
        """Return the event at a cursor."""
        ...

    def body(self, cursor: int, part: Part) -> bytes | None:
        """Return a sealed part's bytes, or None where the event has none."""
        ...

    def subject(self, subject_id: str) -> Subject | None:
        """Return what is known of a candidate or confirmation."""
        ...

    def candidate_of(self, record_id: str) -> str | None:
        """Return the candidate that became this record."""
        ...

    def tombstoned(self, guard: bytes) -> bool:
        """Whether a forgotten record of this scope had this guard digest."""
        ...

    def open_request(self, request_id: bytes) -> str | None:
        """Return the id of the open confirmation request of an operation, by the keyed digest in its header."""
        ...

    def open_requests(self) -> list[str]:
        """Return the ids of all open confirmation requests, oldest first."""
        ...

    def pending_candidates(self) -> list[str]:
        """Return the ids of all pending candidates, oldest first."""
        ...

    def pending_destructions(self) -> list[tuple[int, bytes]]:
        """Return (cursor of the terminal event, key_id) of keys that still await destruction."""
        ...

    def pending_erasures(self) -> list[tuple[int, str]]:
        """Return (cursor of the terminal event, candidate or message id) of erasures without an erasure-done event."""
        ...

    def slot(self, key_id: bytes) -> int | None:
        """Return the slot number of a data key."""
        ...

    def subjects(self, prefix: str = "") -> list[tuple[str, Subject]]:
        """Return every subject of the scope whose id begins so, with its id."""
        ...


Decide = Callable[[View], Sequence[Draft]]
"""A pure function of the view at the head: events to append (none is allowed), or a raised refusal. May run again."""


class Store(Protocol):
    """A storage engine."""

    def commit(
        self, scope: Scope, decide: Decide, *, deadline: float | None = None, leading: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> list[Committed]:  # fmt: skip
        """Append what ``decide`` returns, all or nothing, durable on return.

        ``deadline`` is in ``time.monotonic`` seconds; without one the call waits as long as it must. A caller that is
        ``leading`` may be made to do the writing itself, which is sooner done, and cannot be left once it began.
        ``prepare`` is run once before ``decide``, not under the lock, by the caller or by whoever writes: it computes
        and never waits for anybody. What it raises is the answer; it may still be running when the deadline passes.

        Raises:
            EngramError: whatever ``decide`` refused with; the journal did not grow.
            DeadlineExceeded: the deadline passed before the command began.
            MutationOutcomeUnknown: the commit may or may not have happened.
            StoreUnavailable: the store cannot be written; nothing was.
        """
        ...

    def head(self, scope: Scope) -> Head:
        """Return the head of a scope's journal."""
        ...

    def read(self, scope: Scope, after: int, limit: int) -> list[Committed]:
        """Return at most ``limit`` events with cursors over ``after``, in order, each verified against the chain.

        Raises:
            CursorGap: a cursor is missing. JournalCorrupt: a frame or its hash is broken.
        """
        ...

    def body(self, scope: Scope, cursor: int, part: Part) -> bytes | None:
        """Return a sealed part's bytes, or None where there are none."""
        ...

    def view(self, scope: Scope) -> AbstractContextManager[View]:
        """Return a snapshot of a scope's indexes."""
        ...

    def watch(self, scope: Scope, after: int, timeout_seconds: float) -> int:
        """Wait until the head is over ``after`` or the time is up; return the head's cursor."""
        ...

    def scopes(self) -> list[Scope]:
        """Return every scope that has an event."""
        ...

    def close(self) -> None:
        """Release everything; waiting commands are answered."""
        ...
