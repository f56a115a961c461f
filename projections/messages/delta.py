"""What a batch of events does to the messages: the one reading of events, for disk and for memory alike.

The net effect alone counts: of texts and tags only the newest are opened, of an erased message nothing is. So batches
of any size lead to the same content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from journal.errors import BlobMissing, JournalCorrupt
from journal.events import EventType, Header
from projections.environment import Unusable
from projections.lexical.delta import Arrival, Delta
from projections.lexical.tables import IndexTables
from projections.lexical.tokens import Tokenizer
from projections.lexical.traits import traits_of
from projections.messages.owners import OwnerKeys, Owners
from projections.messages.parts import Parts, set_tags, set_text, set_who, standing_of
from projections.messages.signatures import Hashes, text_hashes
from projections.messages.tables import MessageRow, MessageTables, created_at, document_digest
from projections.port import FoldEvent

_CHANGES: Final = frozenset(
    {EventType.MESSAGE, EventType.MESSAGE_REVISION, EventType.MESSAGE_TAG, EventType.MESSAGE_ERASED}
)
_TEXTS: Final = frozenset({EventType.MESSAGE, EventType.MESSAGE_REVISION})


@dataclass(frozen=True, slots=True)
class Written:
    """A message as it is from now on."""

    cursor: int
    owner: bytes
    created_at: int
    length: int  # of its text, in terms
    counts: bytes  # by part
    hashes: Hashes | None  # of its text's grams; None where the text is what it was
    before: MessageRow | None


@dataclass(slots=True)
class Changes:
    """The net effect of a batch on one generation."""

    index: Delta = field(default_factory=Delta)
    written: list[Written] = field(default_factory=list)
    gone: list[tuple[int, MessageRow]] = field(default_factory=list)


@dataclass(slots=True)
class _Wish:
    """What the batch's last words on a message are."""

    message: FoldEvent | None = None
    text: FoldEvent | None = None  # the message itself, or its newest revision
    tags: FoldEvent | None = None
    erased: bool = False


class Reader:
    """Reads batches of events for one generation as it stands."""

    def __init__(self, index: IndexTables, messages: MessageTables, owners: Owners, tokenizer: Tokenizer) -> None:
        self._index = index
        self._messages = messages
        self._owners = owners
        self._tokenizer = tokenizer

    def changes(self, events: Sequence[FoldEvent]) -> Changes:
        """Return the net effect of events, in cursor order.

        Raises:
            JournalCorrupt: an event of a message that was never written, or is erased.
        """
        changes = Changes()
        wishes: dict[int, _Wish] = {}
        for event in events:
            kind = event.header.kind
            if kind not in _CHANGES:
                continue
            wish = wishes.setdefault(self._cursor(changes.index, event.header), _Wish())
            if kind is EventType.MESSAGE:
                wish.message = event
            if kind in _TEXTS:
                wish.text = event
            if kind is EventType.MESSAGE_TAG:
                wish.tags = event
            if kind is EventType.MESSAGE_ERASED:
                wish.erased = True
                changes.index.ended.append(event.header.subject or "")
        for cursor, wish in wishes.items():
            self._grant(changes, cursor, wish)
        return changes

    def _cursor(self, delta: Delta, header: Header) -> int:
        """Return the cursor of the message that an event is about, written in this batch or before."""
        subject = header.subject
        if subject is None:
            raise JournalCorrupt(f"the event at cursor {header.cursor} names no message")
        if header.kind is EventType.MESSAGE:
            delta.captured[subject] = header.cursor
            return header.cursor
        cursor = None if subject in delta.ended else delta.captured.get(subject, self._index.subject(subject))
        if cursor is None:
            raise JournalCorrupt(f"the event at cursor {header.cursor} is about no message that is there")
        return cursor

    def _grant(self, changes: Changes, cursor: int, wish: _Wish) -> None:
        """Add to the changes what a wish does."""
        before = self._messages.row(cursor)
        if before is None and wish.message is None:  # its key was destroyed before it could be read
            return
        opened = None if wish.erased else _opened(wish)
        if opened is not None:
            self._write(changes, cursor, before, wish, opened)
        elif before is not None:
            changes.gone.append((cursor, before))
            changes.index.removed.append((cursor, self._ordinal(cursor)))

    def _write(
        self, changes: Changes, cursor: int, before: MessageRow | None, wish: _Wish, opened: dict[int, dict[str, Any]]
    ) -> None:
        """Write a message, for the first time or again."""
        ordinal = None if before is None else self._ordinal(cursor)
        old = None if ordinal is None else self._index.forward(ordinal)
        if wish.message is not None:
            owner = self._owners.tag(wish.message.header.actor.principal)
            digest = _digest(wish.message, opened[cursor])
            standing = standing_of(self._owners.keys(owner).words, self._tokenizer, opened[cursor], created_at(digest))
        elif before is not None and ordinal is not None:
            owner = before.owner
            digest = self._index.rows(np.array([ordinal], np.uint32))[0]["digest"].tobytes()
            standing = self._index.standing(ordinal)
        else:
            raise Unusable("a message in force has no document")
        parts = Parts() if before is None or old is None else Parts.of(old, before.length, before.counts)
        hashes = self._set(parts, self._owners.keys(owner), wish, opened)
        if wish.text is not None:
            standing = standing._replace(traits=traits_of(opened[wish.text.header.cursor].get("message", "")))
        document, counts = parts.weighed()
        if old is None or ordinal is None or document != old or standing != self._index.standing(ordinal):
            if ordinal is not None:
                changes.index.removed.append((cursor, ordinal))
            changes.index.added.append(Arrival(cursor, digest, document, standing))
        changes.written.append(Written(cursor, owner, created_at(digest), parts.length, counts, hashes, before))

    def _set(self, parts: Parts, keys: OwnerKeys, wish: _Wish, opened: dict[int, dict[str, Any]]) -> Hashes | None:
        """Set the parts that a wish brings; return the hashes of the text, None where it brings none."""
        if wish.message is not None:
            set_who(parts, self._tokenizer, keys.words, opened[wish.message.header.cursor])
        if wish.tags is not None:
            set_tags(parts, self._tokenizer, keys.words, opened[wish.tags.header.cursor])
        if wish.text is None:
            return None
        content = opened[wish.text.header.cursor]
        set_text(parts, self._tokenizer, keys.words, content)
        return text_hashes(keys.grams, content.get("message", ""))

    def _ordinal(self, cursor: int) -> int:
        """Return the ordinal of a message in force.

        Raises:
            Unusable: it has none.
        """
        ordinal = self._index.ordinal(cursor)
        if ordinal is None:
            raise Unusable("a message in force has no document")
        return ordinal


def _opened(wish: _Wish) -> dict[int, dict[str, Any]] | None:
    """Return the contents of a wish's events by cursor, or None where the message's key is destroyed.

    A lost content is an empty one: the rest of the message is found all the same.
    """
    opened: dict[int, dict[str, Any]] = {}
    for event in (wish.message, wish.text, wish.tags):
        if event is None or event.header.cursor in opened:
            continue
        try:
            content = event.payload()
        except BlobMissing:
            content = {}
        if content is None:
            return None
        opened[event.header.cursor] = content
    return opened


def _digest(event: FoldEvent, content: dict[str, Any]) -> bytes:
    """Return the document digest of a new message."""
    return document_digest(content.get("created_at", event.header.recorded_at), event.header.event_id)
