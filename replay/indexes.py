"""The journal's indexes beside its events, as far as an audit's memory allows.

Every scope is held to the sums and counts that each commit keeps: they betray a row that was changed, added or lost
behind the engine's back, and a commit record that was. Row by row is the better look besides, and takes memory in
proportion to the events: it is taken where the events are legal and not too many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import JournalCorrupt
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.lmdb.indexcheck import IndexFinding, broken_sums_of
from journal.store.lmdb.rowcheck import RowFinding, check_rows

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Store


def check_indexes(journal: Journal, scope: Scope, *, legal: bool) -> Iterator[JournalCorrupt]:
    """Yield what is wrong with a scope's indexes; nothing for an engine whose indexes cannot be looked at.

    Args:
        journal: the store.
        scope: the scope.
        legal: whether its events were found to be; rows can be derived from no others.

    Raises:
        CursorGap, JournalCorrupt, StoreUnavailable: the events or the keys themselves cannot be read.
    """
    store = journal.store
    if not isinstance(store, LmdbStore):
        return
    found = list(_sums(store, scope))
    if legal and store.head(scope).cursor <= limits.AUDIT_INDEX_EVENTS_MAX:
        found += store.check_indexes(scope, journal.keyring.located(scope))
    for finding in found:
        yield JournalCorrupt(f"the index {finding.table}: {finding.rows} {_KINDS.get(finding.kind, finding.kind)}")


def misplaced_rows(store: Store, parts: Mapping[bytes, bytes], *, events_alone: bool = False) -> list[RowFinding]:
    """Return what is wrong with the keys of the tables (journal.store.lmdb.rowcheck); nothing for another engine.

    Args:
        store: the store.
        parts: by scope tag, which parts the header at each cursor names.
        events_alone: leave out what no header is read from.

    Raises:
        StoreUnavailable: the store cannot be read.
    """
    if not isinstance(store, LmdbStore):
        return []
    with store.environment.reading() as (txn, databases):
        return list(check_rows(txn, databases, parts, events_alone=events_alone))


_KINDS = {
    "missing": "rows missing",
    "wrong": "rows wrong",
    "surplus": "rows too many",
    "sum": "scope whose rows do not add up to what the commit record says",
    "names": "scope whose commit record names a table that there is not",
}


def _sums(store: LmdbStore, scope: Scope) -> list[IndexFinding]:
    with store.environment.reading() as (txn, databases):
        sum_key = tables.get(txn, databases[tables.STORE], tables.SUM_KEY)
        if sum_key is None:
            return [IndexFinding(tables.STORE.decode(), "missing", 1)]
        return list(broken_sums_of(txn, databases, sum_key, scope))
