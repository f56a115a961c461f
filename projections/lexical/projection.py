"""The lexical projection of one scope: the fold, and the reader that searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from projections.lexical import contents
from projections.lexical.collection import Collection
from projections.lexical.context import Ranked, ranked
from projections.lexical.delta import read_delta
from projections.lexical.documents import Weigher
from projections.lexical.explaining import Asked, Explanation, explained, shares
from projections.lexical.keyed import TokenKey
from projections.lexical.maxscore import Eligible, own_ranking
from projections.lexical.phrases import Cursors, documents_with, phrase_terms
from projections.lexical.prepared import NAME, Prepared, prepare
from projections.lexical.profile import RECORD_FIELDS
from projections.lexical.question import Question
from projections.lexical.scoring import term_weight
from projections.lexical.surroundings import Surroundings, surroundings
from projections.lexical.tables import DATABASES, IndexTables, WritableIndexTables
from projections.lexical.weighing import Together
from projections.lexical.writing import merge_once, purge, write_delta
from projections.port import FoldEvent, Reading, Tables, Writing

VERSION: Final = 2


class LexicalReader:
    """Searches the records in force at one cursor. Good while its transaction is."""

    def __init__(self, key: TokenKey, txn: Reading, databases: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._tables = IndexTables(txn, databases)

    @cached_property
    def _collection(self) -> Collection:
        """What is in force, and what was looked up of it before."""
        return Collection(self._tables)

    def search(
        self, question: Question, limit: int, eligible: Eligible | None = None, beside: Eligible | None = None
    ) -> Ranked:
        """Return the eligible records that a question finds: the window, and ``limit`` at least where so many match.

        The order is by score descending, then record digest ascending, so that the best k are the beginning of the
        best 2k. ``eligible`` tells of capture cursors which may be answered with; it is asked before the cut.
        ``beside`` tells which may be a neighbour; else what may be answered with.
        """
        tokens = self._key.tokens(question.terms)
        collection = self._collection
        return ranked(
            collection, collection.term_lists(tokens), replace(question, tokens=tokens), limit, eligible,
            beside or eligible,
        )  # fmt: skip

    def with_words_of(self, phrases: Sequence[str]) -> Cursors:
        """Return the capture cursors of the records in force that hold every word of these phrases, ascending."""
        tokens = list(dict.fromkeys(self._key.tokens(phrase_terms(phrases))))
        return documents_with(self._collection, tokens)

    def surroundings(
        self, question: Question, cursors: Sequence[int], reach: int, beside: Eligible | None = None
    ) -> Surroundings:
        """Return what stands around the records captured at cursors, up to ``reach`` on either side.

        ``beside`` tells of capture cursors which may be a neighbour; the others are stepped over.
        """
        asked = replace(question, tokens=self._key.tokens(question.terms))
        return surroundings(self._collection, cursors, asked, reach, beside)

    def matching(self, question: Question, eligible: Eligible | None = None) -> list[int]:
        """Return the capture cursors of all eligible records that hold a term of the question."""
        collection = self._collection
        terms = collection.term_lists(self._key.tokens(question.terms))
        own = own_ranking(collection, terms, collection.documents + 1, eligible)
        cursors: list[int] = own.rows["cursor"].tolist()
        return cursors

    def explain(self, question: Question, cursor: int, score: int, eligible: Eligible | None = None) -> Explanation:
        """Return how the score came about that ``search`` gives the record captured at a cursor.

        Terms that add nothing are told too, the greatest shares come first.
        """
        tables = self._tables
        times = Counter(question.terms)
        tokens = dict(zip(self._key.tokens(times), times, strict=True))
        asked = {token: Asked(term, times[term], 0, 0) for token, term in tokens.items()}
        collection = self._collection
        held = collection.held(list(tokens))
        for lists, containing in held:
            one = asked[lists.token]
            lists.weight = term_weight(collection.documents, containing, one.times)
            asked[lists.token] = one._replace(containing=containing, weight=lists.weight)
        question = replace(question, tokens=list(tokens))
        told = shares(tables, cursor, asked)
        return explained(collection, [lists for lists, _ in held], told, question, cursor, score, eligible)


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
        self._weigher = Together(Weigher(self._key, RECORD_FIELDS))

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            JournalCorrupt: a transition of a candidate that was never captured.
        """
        tables = WritableIndexTables(txn, databases)
        write_delta(tables, read_delta(tables, self._weigher, events))

    def prepare(self, events: Sequence[FoldEvent]) -> list[Prepared | None]:
        """Return each accepted record's document, weighed (``prepared``).

        Raises:
            JournalCorrupt: a payload is not what the journal says.
        """
        return prepare(self._weigher, events)

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
