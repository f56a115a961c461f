"""Whether embeddings agree with the journal: by their digest, which leaves the numbers out, so that machines agree too.

blake3:<64 hex digits>   over (cursor of the birth, model digest, digest of the text) each, in cursor order
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType
from projections.rows import cursor_key
from projections.vector.embedding import text_digest
from projections.vector.standing import Standing, text_of

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from projections.vector.opened import Embeddings

_DIGEST_CONTEXT: Final = "engram projection vector digest v1"


@dataclass(frozen=True, slots=True)
class Compared:
    """What is embedded beside what the journal says of the same subjects: equal digests where it agrees."""

    cursors: list[int]  # of what is embedded
    live_digest: str
    replayed_digest: str


def digest_of(model: bytes, texts: Mapping[int, bytes]) -> str:
    """Return the digest of embeddings: of their model, and of each one's text by cursor, ascending."""
    hasher = blake3(derive_key_context=_DIGEST_CONTEXT)
    for cursor, text in texts.items():
        hasher.update(cursor_key(cursor) + model + text)
    return "blake3:" + hasher.hexdigest()


def compared(journal: Journal, scope: Scope, embeddings: Embeddings, standing: Standing) -> Compared:
    """Return what is embedded of some subjects beside what the journal says.

    Raises:
        ProjectionStale, StoreUnavailable: they cannot be read now.
    """
    loaded = embeddings.load(standing)
    cursors: list[int] = loaded.cursors.tolist()
    text_cursors = dict(zip(standing.cursors.tolist(), standing.texts.tolist(), strict=True))
    replayed = {cursor: _text_digest(journal, scope, cursor, text_cursors[cursor]) for cursor in cursors}
    live = dict(zip(cursors, loaded.texts, strict=True))
    return Compared(cursors, digest_of(embeddings.model, live), digest_of(embeddings.model, replayed))


def _text_digest(journal: Journal, scope: Scope, cursor: int, text_cursor: int) -> bytes:
    """Return the digest of a subject's text as the journal has it; of one that is erased or lost, nothing."""
    with journal.store.view(scope) as view:
        event = view.event(cursor)
    try:
        is_record = event is not None and event.header.type == EventType.CAPTURE
        text = text_of(journal, scope, cursor, text_cursor, record=is_record)
    except (BlobMissing, JournalCorrupt):
        return b""
    return b"" if text is None else text_digest(text)
