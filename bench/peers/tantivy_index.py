"""tantivy in a folder of its own: one text field with frequencies and no positions, as terms alone are searched."""

from __future__ import annotations

import tempfile
from pathlib import Path

import tantivy

from bench.peers.spelling import spelled, text_of


class Tantivy:
    """tantivy ranked by its BM25, one thread for writing, merging in the background as it sees fit."""

    name = "tantivy"

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="engram-bench-")
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        builder.add_unsigned_field("number", indexed=True, fast=True)
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema, path=self._folder.name)
        self._writer = self._index.writer(num_threads=1)
        self._searcher = self._index.searcher()
        self._count = 0

    def build(self, documents: list[list[str]]) -> None:
        """Index the documents and wait for the merges; the segments are as many as it leaves."""
        self.add(documents)
        self._writer.wait_merging_threads()
        self._writer = self._index.writer(num_threads=1)
        self._seen_anew()

    def add(self, documents: list[list[str]]) -> None:
        """Index more documents with one commit."""
        for number, terms in enumerate(documents, self._count):
            document = tantivy.Document()
            document.add_text("terms", text_of(terms))
            document.add_unsigned("number", number)
            self._writer.add_document(document)
        self._count += len(documents)
        self._writer.commit()
        self._seen_anew()

    def delete(self, ids: list[int]) -> None:
        """Take documents out with one commit."""
        for number in ids:
            self._writer.delete_documents_by_query(tantivy.Query.term_query(self._schema, "number", number))
        self._writer.commit()
        self._seen_anew()

    def _seen_anew(self) -> None:
        """Let the next search see what was committed."""
        self._index.reload()
        self._searcher = self._index.searcher()

    @property
    def segments(self) -> int:
        """How many segments the next search goes through."""
        return int(self._searcher.num_segments)

    def search(self, terms: list[str], k: int) -> list[int]:
        """Return the best documents that hold any of the terms."""
        if not terms:
            return []
        query = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "terms", spelled(term), "freq"))
                for term in terms
            ]
        )
        hits = self._searcher.search(query, k, count=False).hits  # counting all would forbid its pruning
        return list(self._searcher.fast_field_values("number", [address for _, address in hits]))

    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(path.stat().st_size for path in Path(self._folder.name).iterdir())

    def close(self) -> None:
        """Remove the folder, once no thread writes to it."""
        self._writer.wait_merging_threads()
        self._folder.cleanup()
