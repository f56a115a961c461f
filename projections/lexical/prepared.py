"""What a fold of records needs of their payloads, made before the fold and by any process: documents already weighed.

A prepared document is (tokens, impacts, group, label, traits), as ``documents.Weighed`` and ``standing.Standing`` have
them; its order is that of its capture, which the fold knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from journal import limits
from journal.errors import BlobMissing
from journal.events import EventType
from projections.lexical.documents import Document, Weighed, record_document
from projections.lexical.standing import Standing
from projections.lexical.weighing import Together
from projections.port import FoldEvent

NAME: Final = "lexical"
"""The projection's name."""

Prepared = tuple[bytes, bytes, bytes, int, int]

_ACCEPT: Final = int(EventType.ACCEPT)


def opened_document(event: FoldEvent) -> Document | None:
    """Return a record's document, None where it is erased or lost; the projection ``current`` counts the lost ones."""
    try:
        payload = event.payload()
    except BlobMissing:
        return None
    return None if payload is None else record_document(payload)


def prepare(weigher: Together, events: Sequence[FoldEvent]) -> list[Prepared | None]:
    """Return for each event that accepts a record its document, prepared; None for the others, and after too many.

    Raises:
        JournalCorrupt: a payload is not what the journal says.
    """
    prepared: list[Prepared | None] = [None] * len(events)
    for places, documents in _portions(events):
        weighed = weigher.arriving([(document, 0) for document in documents])
        for place, (document, standing) in zip(places, weighed, strict=True):
            prepared[place] = (document.tokens, document.impacts, standing.group, standing.label, standing.traits)
    return prepared


def arrived(prepared: Prepared, order: int) -> tuple[Weighed, Standing]:
    """Return what ``Together.arriving`` gives of a document that was prepared."""
    tokens, impacts, group, label, traits = prepared
    return Weighed(tokens, impacts), Standing(group, order, label, traits)


def _portions(events: Sequence[FoldEvent]) -> Iterator[tuple[list[int], list[Document]]]:
    """Give the documents of accepted records, so many at once as are weighed together, with their places."""
    places: list[int] = []
    documents: list[Document] = []
    characters = total = 0
    for place, event in enumerate(events):
        document = opened_document(event) if event.header.type == _ACCEPT else None
        if document is None:
            continue
        places.append(place)
        documents.append(document)
        characters += document.characters
        total += document.characters
        if total > limits.LEXICAL_PREPARED_CHARACTERS:
            break
        if characters > limits.LEXICAL_TOGETHER_CHARACTERS:
            yield places, documents
            places, documents, characters = [], [], 0
    if documents:
        yield places, documents
