"""What a batch of events does to the index: the one reading of events, for disk and for memory alike.

The net effect alone counts: a document that enters and leaves within the batch is never opened, one that leaves and
comes back stays where it is. So batches of any size lead to the same content.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from journal import limits
from journal.errors import JournalCorrupt
from journal.events import EventType, Header
from projections.lexical.documents import Document, Weighed
from projections.lexical.prepared import NAME, arrived, opened_document
from projections.lexical.standing import ALONE, Standing
from projections.lexical.tables import IndexTables
from projections.lexical.weighing import Together
from projections.port import FoldEvent

# Types as plain numbers: to make a header's one an enumeration's member takes longer than to look it up.
_CAPTURE: Final = int(EventType.CAPTURE)
_REWIND: Final = int(EventType.REWIND)
_ENTERS: Final = frozenset(map(int, (EventType.ACCEPT, EventType.RESOLVE_DISPUTE, EventType.REWIND)))
_LEAVES: Final = frozenset(
    map(
        int,
        (
            EventType.DISPUTE,
            EventType.SUPERSEDE,
            EventType.MARK_NON_CURRENT,
            EventType.EXPIRE,
            EventType.TRUST_INVALIDATE,
            EventType.TOMBSTONE,
        ),
    )
)
_ENDS: Final = frozenset(map(int, (EventType.REJECT, EventType.WITHDRAW, EventType.TOMBSTONE)))
_RECORD_PREFIX: Final = "mem_"
_DIGEST_BYTES: Final = 32
_BASE32: Final = re.compile("[A-Za-z2-7]{52}")
_TO_DIGITS: Final = str.maketrans(
    string.ascii_letters + "234567", (string.digits + string.ascii_lowercase)[:26] * 2 + "qrstuv"
)
_PADDING_BITS: Final = 52 * 5 - _DIGEST_BYTES * 8


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """A document that comes into force."""

    cursor: int  # of its capture
    digest: bytes  # of its record, 32 bytes
    document: Weighed
    standing: Standing = ALONE


@dataclass(slots=True)
class Delta:
    """The net effect of a batch on one generation."""

    captured: dict[str, int] = field(default_factory=dict)  # candidate id -> capture cursor
    ended: list[str] = field(default_factory=list)  # candidates that became terminal
    added: list[Arrival] = field(default_factory=list)
    removed: list[tuple[int, int]] = field(default_factory=list)  # capture cursor, ordinal


class _Wish(NamedTuple):
    """What the batch's last word on a document is."""

    enters: FoldEvent | None  # the event that brings it into force, or None
    left: bool  # whether it left within the batch


def read_delta(tables: IndexTables, weigher: Together, events: Sequence[FoldEvent]) -> Delta:
    """Return the net effect of events, in cursor order, on the generation as it stands.

    Raises:
        JournalCorrupt: a transition of a candidate that was never captured, or an acceptance without a record id.
    """
    delta = Delta()
    wishes: dict[int, _Wish] = {}
    for event in events:
        header = event.header
        if header.type == _CAPTURE:
            delta.captured[_subject(header.subject)] = header.cursor
        for subject, enters in _moves(header):
            cursor = _captured_at(tables, delta, subject)
            before = wishes.get(cursor)
            left = not enters or (before is not None and before.left)
            wishes[cursor] = _Wish(event if enters else None, left)
        if header.type in _ENDS:
            delta.ended.append(_subject(header.subject))
    _grant(tables, weigher, delta, wishes)
    return delta


def _moves(header: Header) -> Iterator[tuple[str, bool]]:
    """Give each candidate that an event moves, and whether it comes into force."""
    if header.type in _LEAVES:
        yield _subject(header.subject), False
    if header.type == _REWIND:
        yield _subject(header.related), False
    if header.type in _ENTERS:
        yield _subject(header.subject), True


def _grant(tables: IndexTables, weigher: Together, delta: Delta, wishes: dict[int, _Wish]) -> None:
    """Add to the delta what the wishes change, by capture cursor."""
    entering: list[tuple[int, FoldEvent, Document | None]] = []
    characters = 0
    for cursor, wish in wishes.items():
        event = _entering(tables, delta, cursor, wish)
        if event is None:
            continue
        document = None
        if NAME not in event.prepared:
            document = opened_document(event)
            if document is None:
                continue
            characters += document.characters
        entering.append((cursor, event, document))
        if characters > limits.LEXICAL_TOGETHER_CHARACTERS:
            _weigh(weigher, delta, entering)
            entering, characters = [], 0
    _weigh(weigher, delta, entering)


def _weigh(weigher: Together, delta: Delta, entering: Sequence[tuple[int, FoldEvent, Document | None]]) -> None:
    """Add documents that come into force; one that is None was prepared before."""
    weighed = iter(weigher.arriving([(document, cursor) for cursor, _, document in entering if document is not None]))
    for cursor, event, document in entering:
        found = next(weighed) if document is not None else arrived(event.prepared[NAME], cursor)
        delta.added.append(Arrival(cursor, _record_digest(event.header), *found))


def _entering(tables: IndexTables, delta: Delta, cursor: int, wish: _Wish) -> FoldEvent | None:
    """Return the event that tells what is to be added; what is to be removed is added to the delta here."""
    ordinal = tables.ordinal(cursor)
    if ordinal is None:
        return wish.enters
    if wish.enters is None:
        delta.removed.append((cursor, ordinal))
    elif wish.left and opened_document(wish.enters) is None:
        delta.removed.append((cursor, ordinal))  # its key was destroyed since, lawfully or not: it cannot come back
    return None  # else it left and returned, and its content is what it was


def _captured_at(tables: IndexTables, delta: Delta, subject: str) -> int:
    """Return the capture cursor of a candidate, captured in this batch or before."""
    cursor = delta.captured.get(subject)
    if cursor is None:
        cursor = tables.subject(subject)
    if cursor is None:
        raise JournalCorrupt("a transition of a candidate that was never captured")
    return cursor


def _subject(subject: str | None) -> str:
    """Return a subject that must be there."""
    if subject is None:
        raise JournalCorrupt("a lifecycle event without its subject")
    return subject


def _record_digest(header: Header) -> bytes:
    """Return the 32 bytes that a record id is the base32 of."""
    return digest_of_record(header.record_id or "")


def digest_of_record(record_id: str) -> bytes:
    """Return the 32 bytes that a record id is the base32 of.

    Raises:
        JournalCorrupt: it is none.
    """
    encoded = record_id.removeprefix(_RECORD_PREFIX)
    if not record_id.startswith(_RECORD_PREFIX) or _BASE32.fullmatch(encoded) is None:
        raise JournalCorrupt("an acceptance without a record id")
    number = int(encoded.translate(_TO_DIGITS), 32) >> _PADDING_BITS  # some ten times as fast as base64.b32decode
    return number.to_bytes(_DIGEST_BYTES, "big")
