"""The embeddings of one model of one scope, opened: what an index is built from, and what tells two of them apart.

A row that cannot be opened, or is another model's, counts as absent and is deleted, so that it is embedded again. One
whose text was revised since counts as absent, and is replaced when an embedder next looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from journal import limits
from journal.embeddings import open_embedding
from journal.errors import BlobMissing, JournalCorrupt
from projections.vector.agreement import digest_of
from projections.vector.cache import Cache, Changes, Cursors
from projections.vector.embedding import Embedding, Vectors, text_digest, unpacked
from projections.vector.folders import Folders, folder_name
from projections.vector.standing import Standing, text_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import View


@dataclass(frozen=True, slots=True)
class Loaded:
    """Embeddings by cursor, ascending."""

    cursors: Cursors
    counts: NDArray[np.intp]  # how many vectors each has
    vectors: NDArray[np.float16]  # a row a vector, of length 1 but for the rounding
    texts: list[bytes]  # digest of each one's text


class _Damaged(Exception):
    """A row that can never be used."""


class Embeddings:
    """What is embedded of one scope by one model. Nothing is kept open between two calls."""

    def __init__(self, journal: Journal, scope: Scope, folders: Folders, model: bytes, dimension: int) -> None:
        """Take the model's digest (32 bytes) and its dimension."""
        self.cache = Cache(folders, folder_name(model))
        self.model = model
        self.dimension = dimension
        self._journal = journal
        self._scope = scope

    def stamp(self) -> object | None:
        """Return what moves whenever anything may be loaded that was absent; None where that cannot be told now."""
        return self.cache.stamp()

    def load(self, standing: Standing) -> Loaded:
        """Return the embeddings of those subjects that have one of their newest text.

        Raises:
            ProjectionStale, StoreUnavailable: they cannot be read now.
        """
        vectors: list[Vectors] = [np.zeros((0, self.dimension), np.float16)]
        cursors: list[int] = []
        texts: list[bytes] = []
        damaged: set[int] = set()
        for start in range(0, len(standing.cursors), limits.VECTOR_OPEN_ROWS):
            piece = slice(start, start + limits.VECTOR_OPEN_ROWS)
            births = standing.cursors[piece].tolist()
            parts = self.cache.parts(births)
            with self._journal.store.view(self._scope) as view:
                for cursor, text_cursor in zip(births, standing.texts[piece].tolist(), strict=True):
                    if cursor not in parts:
                        continue
                    try:
                        embedding = self._opened(view, cursor, text_cursor, parts[cursor])
                    except _Damaged:
                        damaged.add(cursor)
                        continue
                    if embedding is not None:
                        vectors.append(embedding.vectors)
                        cursors.append(cursor)
                        texts.append(embedding.text)
        self.cache.change(Changes(delete=damaged))
        counts = np.array([len(rows) for rows in vectors[1:]], np.intp)
        return Loaded(np.array(cursors, np.uint64), counts, np.concatenate(vectors), texts)

    def _opened(self, view: View, cursor: int, text_cursor: int, part: bytes) -> Embedding | None:
        """Return the embedding of one row; None where its subject has ended, or its text was revised since.

        Raises:
            _Damaged: the row can never be used.
        """
        event = view.event(cursor)
        if event is None:
            return None
        try:
            plaintext = open_embedding(self._journal, view, event.header, part)
        except JournalCorrupt as error:
            raise _Damaged from error
        if plaintext is None:
            return None
        embedding = unpacked(plaintext, self.model, self.dimension)
        if embedding is None:
            raise _Damaged
        return embedding if text_cursor == cursor or self._is_of(cursor, text_cursor, embedding) else None

    def _is_of(self, cursor: int, text_cursor: int, embedding: Embedding) -> bool:
        """Whether an embedding is of a message's revised text; one that is lost has none."""
        try:
            text = text_of(self._journal, self._scope, cursor, text_cursor, record=False)
        except (BlobMissing, JournalCorrupt):
            return False
        return text is not None and text_digest(text) == embedding.text

    def digest(self, standing: Standing) -> str:
        """Return ``blake3:`` and 64 hex digits over what is embedded of these subjects.

        It is over (cursor, model digest, text digest) each, in cursor order; the vectors' numbers have no part in it,
        so that two machines agree.
        """
        loaded = self.load(standing)
        return digest_of(self.model, dict(zip(loaded.cursors.tolist(), loaded.texts, strict=True)))
