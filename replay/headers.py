"""The audit's first pass: headers alone. Chain, order, legality, identities, approvals, the tree and its checkpoints.

It needs the events and no key at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import (
    BlobMissing,
    CursorGap,
    DigestConflict,
    EngramError,
    JournalCorrupt,
    RegistryVersionUnavailable,
    Unauthorized,
)
from journal.frames import GENESIS, frame_hash, leaf_hash
from journal.merkle import Tree
from journal.store.lmdb.rowcheck import ANY, CONTENT, LEDGER
from replay.approvals import LOOKED_AT, Approvals, misattributed
from replay.claims import Claims
from replay.compact import RepeatFinder
from replay.legality import States

if TYPE_CHECKING:
    from journal.events import Header
    from journal.scope import Scope
    from journal.store.port import Committed, Store
    from replay.report import ScopeReport

BROKEN = (BlobMissing, CursorGap, JournalCorrupt, RegistryVersionUnavailable)
"""What a stored thing may be; anything else says that the store cannot be read now."""

_KEYED_GENERATION = 2
"""A slot file begins with generation 1 and is at 2 once it holds a key; each event with a key mirrors what it was."""

Told = Callable[[int], None]
"""Told how many events of this pass are done."""
Find = Callable[[EngramError, int], None]


class HeaderWalk:
    """One pass over a scope's headers, up to the head that the report names."""

    def __init__(self, store: Store, report: ScopeReport, claims: Claims, told: Told) -> None:
        self._store = store
        self._report = report
        self._claims = claims
        self._told = told
        self.states = States()
        self._approvals = Approvals()
        self.parts = bytearray([ANY])  # at each cursor, which parts its header names; one byte an event
        self._keyed = False  # whether an event has a data key
        self._identities = RepeatFinder()
        self._tree = Tree()
        self._last: Committed | None = None  # the last event that could be read
        self._recorded_at = 0

    def run(self) -> None:
        """Check the headers and grow the tree."""
        report, head = self._report, self._report.head
        for page, whole in pages(self._store, report.scope, head.cursor, report.find, self._told):
            if not whole:
                for event in page:
                    self._check_chain(event)
            self._check(page)
            self._grow(page)
            self._last = page[-1] if page else self._last
        report.events = self._tree.size
        report.root = self._tree.root() if self._tree.size == head.cursor else None
        self._check_head()
        repeated = self._identities.repeated()
        if repeated:
            self._name_repeated(repeated)
        for error, cursor in self._claims.findings(head.cursor):
            report.find(error, cursor)

    def _check_head(self) -> None:
        """Compare the commit record with what the events say of it."""
        head, last, find = self._report.head, self._last, self._report.find
        if last is not None and last.header.cursor == head.cursor:
            if frame_hash(last.frame) != head.hash:
                find(JournalCorrupt("the last event is not the one that the commit record names"), head.cursor)
            if last.header.recorded_at != head.recorded_at:
                find(JournalCorrupt("the last event is not of the time that the commit record names"), head.cursor)
        if self._keyed and head.slot_generation < _KEYED_GENERATION:
            detail = f"the commit record mirrors slot generation {head.slot_generation}, under which there was no key"
            find(JournalCorrupt(detail), None)

    def _grow(self, page: list[Committed]) -> None:
        tree, append = self._tree, self._tree.append
        due = self._claims.next_size(tree.size)
        for event in page:
            append(leaf_hash(event.frame))
            if tree.size == due:
                if event.header.cursor == due:  # behind a hole, which was reported, sizes say nothing
                    self._claims.meet(tree)
                    self._report.checkpoints += 1
                due = self._claims.next_size(due)

    def _check(self, page: list[Committed]) -> None:
        find, add, apply = self._report.find, self._identities.add, self.states.apply
        before = self._recorded_at
        parts = self.parts
        self._keyed = self._keyed or any(event.header.key_id is not None for event in page)
        for event in page:
            header = event.header
            if header.recorded_at < before:
                find(JournalCorrupt("recorded_at goes back"), header.cursor)
            before = header.recorded_at
            if len(parts) != header.cursor:  # behind a hole, which was reported
                parts.extend(bytes([ANY]) * (header.cursor - len(parts)))
            named = 0 if header.content_digest is None else CONTENT
            parts.append(named if header.ledger_digest is None else named | LEDGER)
            add(header.event_id)
            if header.type in LOOKED_AT:
                for words in (misattributed(header), self._approvals.take(header)[1]):
                    if words is not None:
                        find(Unauthorized(words), header.cursor)
            try:
                apply(header)
            except EngramError as error:
                find(error, header.cursor)
        self._recorded_at = before

    def _check_chain(self, event: Committed) -> None:
        header, last = event.header, self._last
        # Behind a hole, which was reported, there is no predecessor to compare with.
        follows = header.cursor == (1 if last is None else last.header.cursor + 1)
        if follows and header.prev != (GENESIS if last is None else frame_hash(last.frame)):
            self._report.find(JournalCorrupt("the event does not follow its predecessor"), header.cursor)
        self._last = event

    def _name_repeated(self, repeated: frozenset[int]) -> None:
        """Report events that share an identity. Hashes may have met, so the identities are looked up in full."""
        first: dict[bytes, int] = {}
        for page, _ in pages(self._store, self._report.scope, self._report.head.cursor, passed_over):
            for header in _with_hash(page, repeated):
                if header.event_id in first:
                    detail = f"the identity of the event at cursor {first[header.event_id]} again"
                    self._report.find(DigestConflict(detail), header.cursor)
                first.setdefault(header.event_id, header.cursor)


def _with_hash(page: list[Committed], hashes: frozenset[int]) -> Iterator[Header]:
    return (event.header for event in page if hash(event.header.event_id) in hashes)


def pages(
    store: Store, scope: Scope, upto: int, find: Find, told: Told = lambda _: None
) -> Iterator[tuple[list[Committed], bool]]:
    """Yield the readable events up to a cursor in pages, and whether the engine vouches for a page's chain.

    Where it does not, each of the page's events is tried alone, and ``find`` is told what is wrong with it.
    """
    for after in range(0, upto, limits.READ_PAGE_EVENTS):
        end = min(after + limits.READ_PAGE_EVENTS, upto)
        try:
            yield store.read(scope, after, end - after), True
        except BROKEN:
            yield _one_by_one(store, scope, range(after + 1, end + 1), find), False
        told(end)


def _one_by_one(store: Store, scope: Scope, cursors: range, find: Find) -> list[Committed]:
    events: list[Committed] = []
    with store.view(scope) as view:
        for cursor in cursors:
            try:
                event = view.event(cursor)
            except BROKEN as error:
                find(error, cursor)
                continue
            if event is None:
                find(CursorGap(f"the event at cursor {cursor} is missing"), cursor)
            else:
                events.append(event)
    return events


def passed_over(_error: EngramError, _cursor: int) -> None:
    """Pass over what the first pass reported."""
