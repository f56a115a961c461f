"""The assertions of a scope's records, kept in memory by what they are about: a fold of the journal, made when asked.

Only a record that opted into a family asks for it, so most processes never make it. It holds words, and those of a
forgotten record until it is brought forward the next time; nothing of it is ever written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType
from tools.memory.families import Assertion, Matter, assertion_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, View


class Assertions:
    """What the records of one scope assert. Safe to use from several threads."""

    def __init__(self, journal: Journal, scope: Scope) -> None:
        self._journal = journal
        self._scope = scope
        self._mutex = threading.Lock()
        self._cursor = 0
        self._matters: dict[Matter, dict[str, Assertion]] = {}
        self._matter_of: dict[str, Matter] = {}

    def about(self, matter: Matter) -> tuple[dict[str, Assertion], int]:
        """Return the assertions about a matter by candidate id, of records ever accepted, and up to which cursor."""
        with self._mutex:
            self._bring_forward()
            return dict(self._matters.get(matter, {})), self._cursor

    def _bring_forward(self) -> None:
        last = self._journal.store.head(self._scope).cursor
        while self._cursor < last:
            page = self._journal.store.read(
                self._scope, self._cursor, min(limits.READ_PAGE_EVENTS, last - self._cursor)
            )
            if not page:
                return
            with self._journal.store.view(self._scope) as view:
                for event in page:
                    self._take(view, event)
            self._cursor = page[-1].header.cursor

    def _take(self, view: View, event: Committed) -> None:
        header = event.header
        if header.subject is None:
            return
        if header.type == EventType.ACCEPT and (found := accepted(self._journal, view, event)) is not None:
            self._matters.setdefault(found.matter, {})[header.subject] = found
            self._matter_of[header.subject] = found.matter
        elif header.type == EventType.TOMBSTONE and (matter := self._matter_of.pop(header.subject, None)) is not None:
            del self._matters[matter][header.subject]
            if not self._matters[matter]:
                del self._matters[matter]


def accepted(journal: Journal, view: View, event: Committed) -> Assertion | None:
    """Return what a record asserts that an event accepted; None also where its content is gone, or lost."""
    assert event.header.subject is not None
    subject = view.subject(event.header.subject)
    born = None if subject is None else view.event(subject.born)
    if born is None:
        return None
    try:
        content = journal.content(view, born.header)
    except (BlobMissing, JournalCorrupt):
        return None  # the audit tells of it
    return None if content is None else assertion_of(content)
