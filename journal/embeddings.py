"""Sealing embeddings: each under its own subject's data key, so that whoever destroys the key destroys it too.

A sealed embedding is bound to the event that brought its subject, as that event's content is: scope, event id, subject.
It is no part of the journal. Where it is kept is the caller's business, and nothing here writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal import limits, sealing
from journal.chain import has_ended
from journal.errors import BlobMissing
from journal.sealing import Purpose

if TYPE_CHECKING:
    from journal.events import Header
    from journal.log import Journal
    from journal.store.port import View


def seal_embedding(journal: Journal, view: View, header: Header, plaintext: bytes) -> bytes | None:
    """Return an embedding sealed under its subject's data key, with a fresh nonce; None where there is no such key.

    ``header`` is that of the capture or of the MESSAGE. A subject that has ended has no key any more, even while its
    destruction is still to come.
    """
    key = _living_key(journal, view, header)
    if key is None:
        return None
    nonce = journal.randomness.draw(header.scope, limits.NONCE_BYTES)
    return sealing.seal(key, Purpose.EMBEDDING, _place(header), plaintext, nonce)


def open_embedding(journal: Journal, view: View, header: Header, part: bytes) -> bytes | None:
    """Return what was sealed, or None where the subject has ended or its key is lost.

    Raises:
        JournalCorrupt: the part is not what was sealed for this subject.
    """
    key = _living_key(journal, view, header)
    return None if key is None else sealing.unseal(key, Purpose.EMBEDDING, _place(header), part)


def _living_key(journal: Journal, view: View, header: Header) -> bytes | None:
    """Return the data key that an event brought, unless its subject has ended or the key is lost."""
    journal.admit(header.scope)
    subject = None if header.subject is None else view.subject(header.subject)
    if subject is None or header.subject is None or has_ended(header.subject, subject.state):
        return None
    try:
        return journal.data_key(view, header.scope, header.key_id, "an embedding")
    except BlobMissing:
        return None


def _place(header: Header) -> bytes:
    return sealing.associated_data(Purpose.EMBEDDING, header.scope, header.event_id, header.subject)
