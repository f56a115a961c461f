"""The lexical projection of one scope: the fold, and the reader that searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from projections.lexical import contents, maxscore
from projections.lexical.collection import Collection
from projections.lexical.delta import read_delta
from projections.lexical.documents import Weigher
from projections.lexical.explaining import Asked, Share, shares
from projections.lexical.keyed import TokenKey
from projections.lexical.maxscore import Eligible
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.scoring import term_weight
from projections.lexical.tables import DATABASES, IndexTables, WritableIndexTables
from projections.lexical.writing import merge_once, purge, write_delta
from projections.port import FoldEvent, Reading, Tables, Writing

NAME: Final = "lexical"
VERSION: Final = 1


class LexicalReader:
    """Searches the records in force at one cursor. Good while its transaction is."""

    def __init__(self, key: TokenKey, txn: Reading, databases: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._txn = txn
        self._databases = databases

    def search(self, terms: Sequence[str], limit: int, eligible: Eligible | None = None) -> list[tuple[int, int]]:
        """Return (capture cursor, score in millionths) of the best eligible records for the terms of a query.

        The terms are those of ``tokens.query_terms``. The order is by score descending, then record digest ascending,
        so that the best k are the beginning of the best 2k. ``eligible`` tells of capture cursors which may be
        answered with; it is asked before the cut, best first, until enough are found.
        """
        return maxscore.search(self._txn, self._databases, self._key.tokens(terms), limit, eligible)

    def explain(self, terms: Sequence[str], cursor: int) -> list[Share]:
        """Return what each term adds to the score that ``search`` gives the record captured at a cursor.

        The shares add up to the score. Terms that add nothing are among them, the greatest shares come first.
        """
        tables = IndexTables(self._txn, self._databases)
        times = Counter(terms)
        tokens = dict(zip(self._key.tokens(times), times, strict=True))
        asked = {token: Asked(term, times[term], 0, 0) for token, term in tokens.items()}
        collection = Collection(tables)
        for lists, containing in collection.held(list(tokens)):
            one = asked[lists.token]
            weight = term_weight(collection.documents, containing, one.times)
            asked[lists.token] = one._replace(containing=containing, weight=weight)
        return shares(tables, cursor, asked)


class LexicalProjection:
    """Keyed postings of the records in force. One instance serves one scope, and any number of threads."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = DATABASES

    def __init__(self, token_key: bytes) -> None:
        """Take the scope's 32-byte token key for this projection's version.

        Raises:
            ValueError: not 32 bytes.
        """
        self._key = TokenKey(token_key)
        self._weigher = Weigher(self._key, RECORD_FIELDS)

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            JournalCorrupt: a transition of a candidate that was never captured.
        """
        tables = WritableIndexTables(txn, databases)
        write_delta(tables, read_delta(tables, self._weigher, events))

    def upkeep(self, txn: Writing, databases: Tables) -> bool:
        """Do one merge that folds leave undone; return whether there was one.

        It takes up to some tenths of a second, so it belongs in the background. No answer and no digest depends on it.
        """
        return merge_once(WritableIndexTables(txn, databases), inline=False)

    def purge(self, txn: Writing, databases: Tables) -> None:
        """Drop what is still kept of records that are out of force."""
        purge(WritableIndexTables(txn, databases))

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of the logical content: independent of batches, segments and order (``contents``)."""
        return contents.content_digest(IndexTables(txn, databases))

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> LexicalReader:
        """Return what searches the state at ``cursor``."""
        return LexicalReader(self._key, txn, databases, cursor)
