"""bm25s: every score computed when the index is built, and kept as a sparse matrix in memory."""

from __future__ import annotations

import bm25s
import Stemmer

_STEMMER = Stemmer.Stemmer("english")


class Bm25s:
    """bm25s as it comes, on given terms. It cannot grow."""

    name = "bm25s"

    def __init__(self) -> None:
        self._index = bm25s.BM25()
        self._count = 0

    def build(self, documents: list[list[str]]) -> None:
        """Index the documents."""
        self._count = len(documents)
        self._index.index(documents, show_progress=False)

    def search(self, terms: list[str], k: int) -> list[int]:
        """Return the best documents; it fills up with documents that hold none of the terms, which are left out."""
        known = [term for term in terms if term in self._index.vocab_dict]
        if not known:
            return []
        ids, scores = self._index.retrieve([known], k=min(k, self._count), show_progress=False)
        return [int(number) for number, score in zip(ids[0], scores[0], strict=True) if score > 0]

    def size_bytes(self) -> int:
        """Return the bytes of the matrix; the vocabulary, a dictionary, is not counted."""
        return int(sum(self._index.scores[name].nbytes for name in ("data", "indices", "indptr")))

    def close(self) -> None:
        """Nothing is open."""


def stemmed(text: str) -> list[str]:
    """Return the terms of a text as its users have them: its own words, its English stop words, Snowball's stems."""
    terms: list[list[str]] = bm25s.tokenize(
        [text], stopwords="en", stemmer=_STEMMER, return_ids=False, show_progress=False
    )
    return terms[0]
