"""The journal's indexes beside its events, as far as an audit's memory allows.

Row by row is the better look, and takes memory in proportion to the events. A larger scope, and one whose events are
not legal, is held to the sums that each commit keeps: they betray a row that was changed, added or lost behind the
engine's back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from journal import limits
from journal.errors import JournalCorrupt
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.lmdb.indexcheck import IndexFinding, broken_sums

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope


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
    if legal and store.head(scope).cursor <= limits.AUDIT_INDEX_EVENTS_MAX:
        found = store.check_indexes(scope, journal.keyring.located(scope))
    else:
        found = _sums(store)
    for finding in found:
        yield JournalCorrupt(f"the index {finding.table}: {finding.rows} {_KINDS.get(finding.kind, finding.kind)}")


_KINDS = {
    "missing": "rows missing",
    "wrong": "rows wrong",
    "surplus": "rows too many",
    "sum": "scopes whose rows do not add up",
}


def _sums(store: LmdbStore) -> list[IndexFinding]:
    with store.environment.reading() as (txn, databases):
        sum_key = tables.get(txn, databases[tables.STORE], tables.SUM_KEY)
        if sum_key is None:
            return [IndexFinding(tables.STORE.decode(), "missing", 1)]
        return broken_sums(txn, databases, sum_key)
