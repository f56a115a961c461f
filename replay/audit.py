"""The audit: every scope walked from its first event to its head, and nothing written.

Two passes a scope. The first reads headers alone: chain, legality, identities, Merkle root, checkpoints. The second
opens the sealed parts, knowing by then which subjects have ended. Both stop at the head that the first one saw, so that
an audit beside a live server ends. Memory is bounded: pages of events, and about 20 bytes for each event and each
subject. The first pass alone needs no key, nor does the look at every table's keys that ends an audit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from journal.errors import JournalCorrupt, Unauthorized
from replay.authority import Receipts
from replay.bodies import Bodies
from replay.claims import Claim, Claims
from replay.comparison import Make, compare
from replay.headers import BROKEN, HeaderWalk, pages, passed_over
from replay.indexes import check_indexes, misplaced_rows
from replay.report import AuditReport, Finding, ScopeReport

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Store

__all__ = ["AuditReport", "Finding", "ScopeReport", "audit", "audit_all_headers", "audit_headers", "audit_scope"]

Progress = Callable[[int, int], None]
"""Told (events done, events in all), each pass over them counted."""
ClaimsOf = Callable[["Scope"], Sequence[Claim]]
"""Gives what checkpoints say of a scope."""

_PASSES = 3  # headers, sealed parts, and the fold that the projections are compared with


def _silent(_done: int, _total: int) -> None:
    """Report no progress."""


def _none_claimed(_scope: Scope) -> Sequence[Claim]:
    return ()


def audit(
    journal: Journal,
    projections_path: Path,
    make: Make,
    progress: Progress = _silent,
    claims_of: ClaimsOf = _none_claimed,
    more_scopes: Sequence[Scope] = (),
) -> AuditReport:
    """Walk every scope of a store and compare its live projections; nothing is written.

    Args:
        journal: the store, open for reading.
        projections_path: the store's ``projections`` directory.
        make: makes a scope's projections, with their keys.
        progress: told how far it is.
        claims_of: what checkpoints say of a scope.
        more_scopes: scopes that must be there, whether or not the journal has an event of them.

    Raises:
        StoreUnavailable: the store cannot be read at all. JournalCorrupt: not even its list of scopes can.
    """
    scopes = _all_scopes(journal.store, more_scopes)
    heads = [journal.store.head(scope).cursor for scope in scopes]
    total, done = _PASSES * sum(heads), 0
    reports, compared, parts = [], [], dict[bytes, bytes]()

    def advance(at: int, _total: int = 0) -> None:
        progress(done + at, total)

    for scope, cursor in zip(scopes, heads, strict=True):
        report, parts[scope.tag] = _scope_audited(journal, scope, advance, claims_of(scope))
        reports.append(report)
        done += 2 * cursor
        compared += compare(journal, scope, projections_path, make, advance) if cursor else []
        done += cursor
    elsewhere = _check_rows(journal.store, reports, parts)
    advance(0)
    return AuditReport(reports, compared, elsewhere)


def audit_all_headers(
    store: Store, progress: Progress = _silent, claims_of: ClaimsOf = _none_claimed, more_scopes: Sequence[Scope] = ()
) -> AuditReport:
    """Walk the headers of every scope, without a key; see ``audit``."""
    scopes = _all_scopes(store, more_scopes)
    heads = [store.head(scope).cursor for scope in scopes]
    total, done = sum(heads), 0
    reports, parts = [], dict[bytes, bytes]()

    def advance(at: int, _total: int) -> None:
        progress(done + at, total)

    for scope, cursor in zip(scopes, heads, strict=True):
        report, parts[scope.tag] = _headers_audited(store, scope, advance, claims_of(scope))
        reports.append(report)
        done += cursor
    elsewhere = _check_rows(store, reports, parts, events_alone=True)
    progress(total, total)
    return AuditReport(reports, [], elsewhere)


def _all_scopes(store: Store, more: Sequence[Scope]) -> list[Scope]:
    present = store.scopes()
    return [*present, *(scope for scope in more if scope not in present)]


def audit_headers(
    store: Store, scope: Scope, progress: Progress = _silent, claims: Sequence[Claim] = ()
) -> ScopeReport:
    """Walk one scope's headers up to its head as it stands now, and report. Needs no key.

    Raises:
        StoreUnavailable: the store cannot be read at all.
    """
    return _headers_audited(store, scope, progress, claims)[0]


def _headers_audited(
    store: Store, scope: Scope, progress: Progress, claims: Sequence[Claim]
) -> tuple[ScopeReport, bytes]:
    """Return a scope's report, and which parts its headers name (``HeaderWalk.parts``)."""
    report = ScopeReport(scope, store.head(scope), bodies=None)
    headers = HeaderWalk(store, report, Claims(claims), lambda done: progress(done, report.head.cursor))
    headers.run()
    return report, bytes(headers.parts)


def audit_scope(
    journal: Journal, scope: Scope, progress: Progress = _silent, claims: Sequence[Claim] = ()
) -> ScopeReport:
    """Walk one scope up to its head as it stands now, and report.

    Raises:
        StoreUnavailable: the store cannot be read at all.
    """
    return _scope_audited(journal, scope, progress, claims)[0]


def _scope_audited(
    journal: Journal, scope: Scope, progress: Progress, claims: Sequence[Claim]
) -> tuple[ScopeReport, bytes]:
    report = ScopeReport(scope, journal.store.head(scope))
    total = 2 * report.head.cursor
    headers = HeaderWalk(journal.store, report, Claims(claims), lambda done: progress(done, total))
    headers.run()
    legal = not report.findings
    if report.head.cursor:
        _check_slots(journal, report)
    _open_bodies(journal, report, headers, lambda done: progress(report.head.cursor + done, total))
    _check_indexes(journal, report, legal=legal)
    return report, bytes(headers.parts)


def _open_bodies(journal: Journal, report: ScopeReport, headers: HeaderWalk, told: Callable[[int], None]) -> None:
    """Check every sealed part against its digest, open it, and hold what it says of authority against the header."""
    counts = report.bodies
    assert counts is not None
    bodies, receipts = Bodies(journal, headers.states, report.head.cursor), Receipts(journal)
    for page, _ in pages(journal.store, report.scope, report.head.cursor, passed_over, told):
        with journal.store.view(report.scope) as view:
            bodies.begin_page(view)
            for event in page:
                for found in bodies.judge(view, event.header):
                    counts[found.verdict] += 1
                    if found.error is not None:
                        report.find(found.error, event.header.cursor)
                for words in receipts.take(event.header, bodies.content, bodies.ledger):
                    report.find(Unauthorized(words), event.header.cursor)


def _check_indexes(journal: Journal, report: ScopeReport, *, legal: bool) -> None:
    """Compare the indexes with the events; ``legal`` is whether those were found to be."""
    try:
        for error in check_indexes(journal, report.scope, legal=legal):
            report.find(error, None)
    except BROKEN as error:
        if legal and not report.findings:
            report.find(error, None)


def _check_rows(
    store: Store, reports: Sequence[ScopeReport], parts: dict[bytes, bytes], *, events_alone: bool = False
) -> list[Finding]:
    """Check the keys of every table; what is wrong goes to its scope's report, and is returned where it has none."""
    elsewhere, of_scope = [], {report.scope.tag: report for report in reports}
    for found in misplaced_rows(store, parts, events_alone=events_alone):
        report = None if found.tag is None else of_scope.get(found.tag)
        if report is not None:
            report.find(JournalCorrupt(found.detail), found.cursor)
        else:
            elsewhere.append(Finding(JournalCorrupt.code, None, found.detail))
    return elsewhere


def _check_slots(journal: Journal, report: ScopeReport) -> None:
    """An older slot file put back would hold keys that were destroyed since."""
    head = report.head
    try:
        generation = journal.keyring.generation(report.scope)
    except BROKEN as error:
        report.find(error, None)
        return
    if generation < head.slot_generation:
        detail = f"the slot file is older than the journal: generation {generation}, mirrored {head.slot_generation}"
        report.find(JournalCorrupt(detail), None)
