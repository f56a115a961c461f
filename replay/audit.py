"""The audit: every scope walked from its first event to its head, and nothing written.

Two passes a scope. The first reads headers alone: chain, legality, identities, Merkle root. The second opens the
sealed parts, knowing by then which subjects have ended. Both stop at the head that the first one saw, so that an audit
beside a live server ends. Memory is bounded: pages of events, and about 20 bytes for each event and each subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import (
    BlobMissing,
    CursorGap,
    DigestConflict,
    EngramError,
    JournalCorrupt,
    RegistryVersionUnavailable,
)
from journal.frames import GENESIS, frame_hash, leaf_hash
from journal.merkle import Tree
from replay.bodies import Bodies, Verdict
from replay.compact import RepeatFinder
from replay.comparison import Compared, Make, compare
from replay.indexes import check_indexes
from replay.legality import States

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.events import Header
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, Head

Progress = Callable[[int, int], None]
"""Told (events done, events in all), each pass over them counted."""

_PASSES = 3  # headers, sealed parts, and the fold that the projections are compared with


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong. ``detail`` names what and where, and never holds content."""

    code: str
    cursor: int | None
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the command line prints it."""
        cursor = None if self.cursor is None else str(self.cursor)
        return {"code": self.code, "cursor": cursor, "detail": self.detail}


@dataclass(slots=True)
class ScopeReport:
    """What the audit saw of one scope."""

    scope: Scope
    head: Head
    events: int = 0
    root: bytes | None = None  # RFC 6962, over all frames; None where one of them cannot be read
    bodies: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    findings: list[Finding] = field(default_factory=list)
    unlisted: int = 0

    def find(self, error: EngramError, cursor: int | None) -> None:
        """Note a finding; beyond a bound only their number."""
        if len(self.findings) < limits.AUDIT_FINDINGS_MAX:
            self.findings.append(Finding(error.code, cursor, error.detail or error.message()))
        else:
            self.unlisted += 1

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command line prints it."""
        findings = [finding.as_json() for finding in self.findings]
        if self.unlisted:
            findings.append(Finding("JOURNAL_CORRUPT", None, f"{self.unlisted} further findings").as_json())
        return {
            "tenant_id": self.scope.tenant_id,
            "workspace_id": self.scope.workspace_id,
            "events": self.events,
            "head_cursor": str(self.head.cursor),
            "head_hash": self.head.hash.hex(),
            "root": None if self.root is None else self.root.hex(),
            "bodies": {verdict.value: count for verdict, count in self.bodies.items()},
            "findings": findings,
        }


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What the audit saw of a store."""

    scopes: list[ScopeReport]
    projections: list[Compared]

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not any(scope.findings for scope in self.scopes) and all(one.ok for one in self.projections)

    def as_json(self) -> dict[str, Any]:
        """Return the report as the command line prints it."""
        return {
            "ok": self.ok,
            "scopes": [scope.as_json() for scope in self.scopes],
            "projections": [one.as_json() for one in self.projections],
        }


def audit(journal: Journal, projections_path: Path, make: Make, progress: Progress = _silent) -> AuditReport:
    """Walk every scope of a store and compare its live projections; nothing is written.

    Args:
        journal: the store, open for reading.
        projections_path: the store's ``projections`` directory.
        make: makes a scope's projections, with their keys.
        progress: told how far it is.

    Raises:
        StoreUnavailable: the store cannot be read at all. JournalCorrupt: not even its list of scopes can.
    """
    scopes = journal.store.scopes()
    heads = [journal.store.head(scope).cursor for scope in scopes]
    total, done = _PASSES * sum(heads), 0
    reports, compared = [], []

    def advance(at: int, _total: int = 0) -> None:
        progress(done + at, total)

    for scope, cursor in zip(scopes, heads, strict=True):
        reports.append(audit_scope(journal, scope, advance))
        done += 2 * cursor
        compared += compare(journal, scope, projections_path, make, advance)
        done += cursor
    advance(0)
    return AuditReport(reports, compared)


def audit_scope(journal: Journal, scope: Scope, progress: Progress = _silent) -> ScopeReport:
    """Walk one scope up to its head as it stands now, and report.

    Raises:
        StoreUnavailable: the store cannot be read at all.
    """
    report = ScopeReport(scope, journal.store.head(scope))
    walk = _Walk(journal, report, progress)
    walk.read_headers()
    legal = not report.findings
    walk.open_bodies()
    walk.check_indexes(legal=legal)
    return report


class _Walk:
    """The two passes over one scope."""

    def __init__(self, journal: Journal, report: ScopeReport, progress: Progress) -> None:
        self._journal = journal
        self._report = report
        self._progress = progress
        self._states = States()
        self._identities = RepeatFinder()
        self._tree = Tree()
        self._last: Committed | None = None  # the last event that could be read
        self._recorded_at = 0
        self._done = 0

    # --- first pass ------------------------------------------------------------------------------

    def read_headers(self) -> None:
        """Check chain, order, legality and identities, and grow the tree."""
        report, head = self._report, self._report.head
        for page, whole in self._pages(report.find):
            for event in page:
                if not whole:
                    self._check_chain(event)
                self._check_event(event.header)
                self._tree.append(leaf_hash(event.frame))
            self._last = page[-1] if page else self._last
        report.events = self._tree.size
        report.root = self._tree.root() if self._tree.size == head.cursor else None
        last = self._last
        if last is not None and last.header.cursor == head.cursor and frame_hash(last.frame) != head.hash:
            report.find(JournalCorrupt("the last event is not the one that the commit record names"), head.cursor)
        repeated = self._identities.repeated()
        if repeated:
            self._name_repeated(repeated)

    def _pages(self, find: Callable[[EngramError, int], None]) -> Iterator[tuple[list[Committed], bool]]:
        """Yield the readable events in pages, and whether the engine vouches for a page's chain.

        Where it does not, each of the page's events is tried alone.
        """
        store, scope, last = self._journal.store, self._report.scope, self._report.head.cursor
        for after in range(0, last, limits.READ_PAGE_EVENTS):
            upto = min(after + limits.READ_PAGE_EVENTS, last)
            try:
                yield store.read(scope, after, upto - after), True
            except _BROKEN:
                yield self._one_by_one(after, upto, find), False
            self._done += upto - after
            self._progress(self._done, 2 * last)

    def _one_by_one(self, after: int, upto: int, find: Callable[[EngramError, int], None]) -> list[Committed]:
        events: list[Committed] = []
        with self._journal.store.view(self._report.scope) as view:
            for cursor in range(after + 1, upto + 1):
                try:
                    event = view.event(cursor)
                except _BROKEN as error:
                    find(error, cursor)
                    continue
                if event is None:
                    find(CursorGap(f"the event at cursor {cursor} is missing"), cursor)
                else:
                    events.append(event)
        return events

    def _check_chain(self, event: Committed) -> None:
        header, last = event.header, self._last
        # Behind a hole, which was reported, there is no predecessor to compare with.
        follows = header.cursor == (1 if last is None else last.header.cursor + 1)
        if follows and header.prev != (GENESIS if last is None else frame_hash(last.frame)):
            self._report.find(JournalCorrupt("the event does not follow its predecessor"), header.cursor)
        self._last = event

    def _check_event(self, header: Header) -> None:
        if header.recorded_at < self._recorded_at:
            self._report.find(JournalCorrupt("recorded_at goes back"), header.cursor)
        self._recorded_at = header.recorded_at
        self._identities.add(header.event_id)
        try:
            self._states.apply(header)
        except EngramError as error:
            self._report.find(error, header.cursor)

    def _name_repeated(self, repeated: frozenset[int]) -> None:
        """Report events that share an identity. Hashes may have met, so the identities are looked up in full."""
        first: dict[bytes, int] = {}
        for page, _ in self._pages(_ignore):
            for header in (event.header for event in page if hash(event.header.event_id) in repeated):
                if header.event_id in first:
                    detail = f"the identity of the event at cursor {first[header.event_id]} again"
                    self._report.find(DigestConflict(detail), header.cursor)
                first.setdefault(header.event_id, header.cursor)

    # --- second pass -----------------------------------------------------------------------------

    def open_bodies(self) -> None:
        """Check every sealed part against its digest, and open it."""
        self._check_slots()
        report = self._report
        bodies = Bodies(self._journal, self._states, report.head.cursor)
        for page, _ in self._pages(_ignore):
            with self._journal.store.view(report.scope) as view:
                bodies.begin_page(view)
                for event in page:
                    for found in bodies.judge(view, event.header):
                        report.bodies[found.verdict] += 1
                        if found.error is not None:
                            report.find(found.error, event.header.cursor)

    def check_indexes(self, *, legal: bool) -> None:
        """Compare the indexes with the events; ``legal`` is whether those were found to be."""
        try:
            for error in check_indexes(self._journal, self._report.scope, legal=legal):
                self._report.find(error, None)
        except _BROKEN as error:
            if legal and not self._report.findings:
                self._report.find(error, None)

    def _check_slots(self) -> None:
        """An older slot file put back would hold keys that were destroyed since."""
        head = self._report.head
        try:
            generation = self._journal.keyring.generation(self._report.scope)
        except _BROKEN as error:
            self._report.find(error, None)
            return
        if generation < head.slot_generation:
            detail = (
                f"the slot file is older than the journal: generation {generation}, mirrored {head.slot_generation}"
            )
            self._report.find(JournalCorrupt(detail), None)


_BROKEN = (BlobMissing, CursorGap, JournalCorrupt, RegistryVersionUnavailable)


def _ignore(_error: EngramError, _cursor: int) -> None:
    """Pass over what the first pass reported."""
