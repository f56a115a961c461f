"""What is to be embedded: the subjects in force, and the one text of each that counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from journal import limits
from journal.lifecycle import TERMINAL
from journal.messages import MessageState

if TYPE_CHECKING:
    from journal.scope import Scope
    from projections.current_reader import CurrentReader
    from projections.tail import JournalSource
    from projections.timeline_reader import TimelineReader

Cursors = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Standing:
    """Subjects in force at one cursor of the journal, by the cursors of their birth, ascending.

    ``texts`` has the cursor of the event whose text counts: the birth itself, or the newest MESSAGE_REVISION.
    """

    cursors: Cursors
    texts: Cursors

    def joined(self, other: Standing) -> Standing:
        """Return both; no subject is in both."""
        cursors, texts = np.concatenate((self.cursors, other.cursors)), np.concatenate((self.texts, other.texts))
        order = np.argsort(cursors)
        return Standing(cursors[order], texts[order])


def records_standing(reader: CurrentReader) -> Standing:
    """Return the records that are accepted_current; neither the clock nor a purpose counts here."""
    cursors = reader.in_force()
    return Standing(cursors, cursors)


def messages_standing(reader: TimelineReader, owners: frozenset[str] | None = None) -> Standing:
    """Return the messages of some owners, or of all, that are neither erased nor lost."""
    cursors, texts = reader.in_force(owners)
    return Standing(cursors, texts)


def ended(current: CurrentReader | None, timeline: TimelineReader | None, cursors: Collection[int]) -> set[int]:
    """Return those of some births whose subject is terminal, or that are no birth at all."""
    found = set()
    for cursor in cursors:
        record = None if current is None else current.at(cursor)
        message = None if timeline is None or record is not None else timeline.at(cursor)
        stands = (record is not None and record.state not in TERMINAL) or (
            message is not None and message.state != MessageState.ERASED
        )
        if not stands:
            found.add(cursor)
    return found


def record_text(payload: dict[str, Any]) -> str:
    """Return the text of a record that is embedded: its primary component, then decisions and evidence, a line each.

    Context is left to the words: names, dates and places are found by them, and make all that they stand beside alike.
    """
    primary = payload["primary_component_id"]
    ordered = sorted(payload["components"], key=lambda component: component["component_id"] != primary)
    said = [each["text"] for each in ordered if each["component_id"] == primary or each["kind"] != "context"]
    return "\n".join(said)[: limits.VECTOR_TEXT_MAX_CHARACTERS]


def message_text(said: dict[str, Any]) -> str:
    """Return the text of a message, or of its revision, that is embedded."""
    text: str = said["message"]
    return text[: limits.VECTOR_TEXT_MAX_CHARACTERS]


def text_of(journal: JournalSource, scope: Scope, cursor: int, text_cursor: int, *, record: bool) -> str | None:
    """Return the text of a subject in force; None where it was erased since.

    Raises:
        BlobMissing: it is lost. JournalCorrupt: it is not what the journal says.
    """
    if record:
        payload = journal.payload(scope, cursor)
        return None if payload is None else record_text(payload)
    said = journal.said(scope, text_cursor)
    return None if said is None else message_text(said)
