"""The projection ``messages`` of one scope: the fold, and the reader that searches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from journal.identity import normalised
from projections.lexical.collection import Collection, TermLists
from projections.lexical.context import Ranked, ranked
from projections.lexical.explaining import Asked, Explanation, explained, shares
from projections.lexical.maxscore import Eligible
from projections.lexical.phrases import Cursors, documents_with, phrase_terms
from projections.lexical.question import Question
from projections.lexical.scoring import term_weight
from projections.lexical.surroundings import Surroundings, surroundings
from projections.lexical.tables import IndexTables, WritableIndexTables
from projections.lexical.tokens import Tokenizer
from projections.lexical.writing import merge_once, purge, write_delta
from projections.messages import contents
from projections.messages.delta import Reader
from projections.messages.owners import Owners
from projections.messages.shelves import ROW, WritableShelf, shelf_names, shelves
from projections.messages.signatures import query_hashes
from projections.messages.tables import DATABASES, MessageTables, WritableMessageTables
from projections.messages.writing import write_changes
from projections.port import FoldEvent, Reading, Tables, Writing

NAME: Final = "messages"
VERSION: Final = 3


class MessagesReader:
    """Searches the messages in force at one cursor. Good while its transaction is.

    A question names the owners whose messages it is about. Nothing of another owner shows: no message, no count, no
    weight. A message is named by the cursor of its MESSAGE event.
    """

    def __init__(self, owners: Owners, txn: Reading, databases: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._owners = owners
        self._txn = txn
        self._databases = databases
        self._tables = IndexTables(txn, databases)

    @cached_property
    def _collection(self) -> Collection:
        """What is in force, and what was looked up of it before."""
        return Collection(self._tables)

    def search(self, owners: Iterable[str], question: Question, limit: int, eligible: Eligible | None = None) -> Ranked:
        """Return the eligible messages that a question finds: the window, and ``limit`` at least where so many match.

        The order is by score descending, the newest first among equals, so that the best k are the beginning of the
        best 2k. ``eligible`` tells of cursors which may be answered with; it is asked before the cut.
        """
        times = Counter(question.terms)
        tags = self._tags(owners)
        collection = self._collection
        question = replace(question, tokens=list(self._tokens(tags, times)))
        return ranked(collection, self._term_lists(collection, tags, times), question, limit, eligible)

    def with_words_of(self, owners: Iterable[str], phrases: Sequence[str]) -> Cursors:
        """Return the cursors of the messages of these owners that hold every word of these phrases, ascending."""
        collection, terms = self._collection, phrase_terms(phrases)
        keys = [self._owners.keys(tag).words for tag in self._tags(owners)]
        found = [documents_with(collection, list(dict.fromkeys(key.tokens(terms)))) for key in keys]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.uint64)

    def surroundings(
        self, owners: Iterable[str], question: Question, cursors: Sequence[int], reach: int
    ) -> Surroundings:
        """Return what stands around messages of these owners, up to ``reach`` on either side."""
        asked = replace(question, tokens=list(self._tokens(self._tags(owners), Counter(question.terms))))
        return surroundings(self._collection, cursors, asked, reach, None)

    def explain(self, owners: Iterable[str], question: Question, cursor: int, score: int) -> Explanation:
        """Return how the score came about that ``search`` gives the message at a cursor.

        Terms that add nothing are told too, the greatest shares come first. A message of none of these owners has
        nothing but such.
        """
        times, tags = Counter(question.terms), self._tags(owners)
        tables = self._tables
        term_of = self._tokens(tags, times)
        asked = {token: Asked(term, times[term], 0, 0) for token, term in term_of.items()}
        collection = self._collection
        held = self._weighed(collection, tags, times)
        weighed = {term: Asked(term, times[term], containing, lists.weight) for lists, term, containing in held}
        told = shares(tables, cursor, {token: weighed.get(one.term, one) for token, one in asked.items()})
        question = replace(question, tokens=list(term_of))
        return explained(collection, [lists for lists, _, _ in held], told, question, cursor, score)

    def _term_lists(self, collection: Collection, tags: Sequence[bytes], times: Counter[str]) -> list[TermLists]:
        """Return the weighed lists of all terms, rarest first; one an owner, since no message is on two of them."""
        return [lists for lists, _, _ in self._weighed(collection, tags, times)]

    def _weighed(
        self, collection: Collection, tags: Sequence[bytes], times: Counter[str]
    ) -> list[tuple[TermLists, str, int]]:
        """Return the weighed lists of all terms, with the term and how many messages of these owners hold it."""
        term_of = self._tokens(tags, times)
        held = collection.held(list(term_of))
        containing: Counter[str] = Counter()
        for lists, documents in held:
            containing[term_of[lists.token]] += documents
        messages = MessageTables(self._txn, self._databases)
        total = sum(messages.owned(tag) for tag in tags)
        for lists, _ in held:
            term = term_of[lists.token]
            lists.weight = term_weight(total, containing[term], times[term])
        return [(lists, term_of[lists.token], containing[term_of[lists.token]]) for lists, _ in held]

    def _tokens(self, tags: Sequence[bytes], times: Counter[str]) -> dict[bytes, str]:
        """Return the term of each token: a term has one an owner."""
        term_of: dict[bytes, str] = {}
        for tag in tags:
            term_of.update(zip(self._owners.keys(tag).words.tokens(times), times, strict=True))
        return term_of

    def containing(self, owners: Iterable[str], text: str, eligible: Eligible | None = None) -> Iterator[int]:
        """Yield the cursors of the eligible messages that may hold the text, newest first by (created_at, cursor).

        What holds the text, both normalised (``journal.identity.normalised``), is always among them. Whether one does
        only its own text tells. A text that normalises to nothing yields nothing.
        """
        wanted = normalised(text)
        if not wanted:
            return
        found = [np.zeros(0, ROW)]
        for tag in self._tags(owners):
            hashes = query_hashes(self._owners.keys(tag).grams, wanted)
            found += [shelf.matching(hashes) for shelf in shelves(self._txn, self._databases, tag)]
        rows = np.concatenate(found)
        if eligible is not None and rows.size:
            rows = rows[eligible(rows["cursor"].astype(np.uint64))]
        order = np.lexsort((rows["cursor"], rows["created_at"]))[::-1]
        yield from rows["cursor"][order].tolist()

    def _tags(self, owners: Iterable[str]) -> list[bytes]:
        """Return the tags of distinct owners."""
        return [self._owners.tag(owner) for owner in sorted(set(owners))]


class MessagesProjection:
    """Keyed postings and signatures of messages. One instance serves one scope, and any number of threads."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = DATABASES

    def __init__(self, key: bytes) -> None:
        """Take the scope's 32-byte key for this projection's version.

        Raises:
            ValueError: not 32 bytes.
        """
        self._owners = Owners(key)
        self._tokenizer = Tokenizer()

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            JournalCorrupt: an event of a message that was never written, or is erased.
        """
        index, messages = WritableIndexTables(txn, databases), WritableMessageTables(txn, databases)
        changes = Reader(index, messages, self._owners, self._tokenizer).changes(events)
        write_delta(index, changes.index)
        write_changes(txn, databases, messages, changes)

    def upkeep(self, txn: Writing, databases: Tables) -> bool:
        """Do one merge that folds leave undone; return whether there was one.

        It takes up to some tenths of a second, so it belongs in the background. No answer and no digest depends on it.
        """
        return merge_once(WritableIndexTables(txn, databases), inline=False)

    def purge(self, txn: Writing, databases: Tables) -> None:
        """Drop what is still kept of messages that are erased, and of texts and tags that were replaced."""
        purge(WritableIndexTables(txn, databases))
        for owner, size in list(shelf_names(txn, databases)):
            WritableShelf(txn, databases, owner, size).purge()

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of the logical content: independent of batches, segments and places (``contents``)."""
        return contents.content_digest(txn, databases)

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> MessagesReader:
        """Return what searches the state at ``cursor``."""
        return MessagesReader(self._owners, txn, databases, cursor)
