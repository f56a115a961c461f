"""The sealed parts of events: there, lawfully erased, or lost (CONTRACT §4).

A part is checked against the digest in its header and opened with its key. What it says is not looked at here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from journal.errors import BlobMissing, EngramError, JournalCorrupt, RegistryVersionUnavailable
from journal.foreign import UNREADABLE
from journal.frames import part_digest
from journal.store.port import Part

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.store.port import View


_LOST = (BlobMissing, JournalCorrupt, RegistryVersionUnavailable)
"""What a part or its key may be; anything else says that the store cannot be read now."""


class Verdict(Enum):
    """What became of a sealed part. The value is its name in the report."""

    PRESENT = "present"  # it is what its header names, and opens
    ERASED = "erased"  # its subject has ended, and its key with it
    MISSING = "missing"  # it should open and does not


@dataclass(frozen=True, slots=True)
class BodyFinding:
    """A part, what became of it, and what is wrong, if anything."""

    verdict: Verdict
    error: EngramError | None = None


class Ended(Protocol):
    """Knows which subjects have ended."""

    def ended(self, header: Header) -> bool:
        """Whether the subject of an event is in a terminal state, so that its content is lawfully erased."""
        ...


class Bodies:
    """The parts of one scope's events, judged by the states at a pinned cursor."""

    def __init__(self, journal: Journal, states: Ended, pinned_cursor: int) -> None:
        """Judge with the states that the events up to ``pinned_cursor`` lead to."""
        self._journal = journal
        self._states = states
        self._pinned_cursor = pinned_cursor
        self._doomed: frozenset[bytes] = frozenset()
        self.content: Any = None  # what the event judged last holds, as far as it opens
        self.ledger: Any = None

    def begin_page(self, view: View) -> None:
        """Note which keys still await their lawful destruction: they may open for a while."""
        self._doomed = frozenset(key_id for _, key_id in view.pending_destructions())

    def judge(self, view: View, header: Header) -> Iterator[BodyFinding]:
        """Yield a verdict for each part that the header names."""
        self.content = self.ledger = None
        if header.content_digest is not None:
            yield self._content(view, header)
        if header.ledger_digest is not None:
            yield self._ledger(view, header)

    def _content(self, view: View, header: Header) -> BodyFinding:
        if self._states.ended(header):
            return self._erased(view, header)
        found = self._opened(view, header)
        if found.error is not None and self._journal.store.head(header.scope).cursor > self._pinned_cursor:
            with self._journal.store.view(header.scope) as fresh:
                found = self._opened(fresh, header)  # it may have ended, and its key be gone, since this page began
        return found

    def _opened(self, view: View, header: Header) -> BodyFinding:
        try:
            content = self._journal.content(view, header)
        except _LOST as error:
            return BodyFinding(Verdict.MISSING, error)
        except UNREADABLE:
            return BodyFinding(Verdict.MISSING, JournalCorrupt("a sealed content is not JSON"))
        if content is not None:
            self.content = content
            return BodyFinding(Verdict.PRESENT)
        if view.head.cursor > self._pinned_cursor:
            return BodyFinding(Verdict.ERASED)  # ended since the states were taken
        return BodyFinding(Verdict.MISSING, JournalCorrupt("the index takes a live subject for an ended one"))

    def _erased(self, view: View, header: Header) -> BodyFinding:
        """Content whose subject has ended: its sealed bytes may stay for ever, its key may not."""
        part = view.body(header.cursor, Part.CONTENT)
        if part is not None and part_digest(part) != header.content_digest:
            return BodyFinding(Verdict.ERASED, JournalCorrupt("an erased content is not what its header names"))
        if header.key_id is None or header.key_id in self._doomed:
            return BodyFinding(Verdict.ERASED)
        slot = view.slot(header.key_id)
        if slot is None:
            return BodyFinding(Verdict.ERASED)
        try:
            key = self._journal.keyring.open(header.scope, header.key_id, slot)
        except _LOST:
            return BodyFinding(Verdict.ERASED)  # nothing opens it: for an ended subject a lost key is no loss
        if key is not None:
            return BodyFinding(
                Verdict.PRESENT, JournalCorrupt("the key of a content that was to be erased still opens")
            )
        return BodyFinding(Verdict.ERASED)

    def _ledger(self, view: View, header: Header) -> BodyFinding:
        try:
            self.ledger = self._journal.ledger(view, header)
        except _LOST as error:
            return BodyFinding(Verdict.MISSING, error)
        except UNREADABLE:
            return BodyFinding(Verdict.MISSING, JournalCorrupt("a sealed ledger is not JSON"))
        return BodyFinding(Verdict.PRESENT)
