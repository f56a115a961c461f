"""What a user's conversation memory is at one moment, read as a stream: neither erased messages nor anybody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import BlobMissing
from journal.events import EventType
from journal.messages import MessageState
from projections.serving import BRIEF
from projections.timeline_reader import Filter
from tools.conversation.search_memory import tags_of
from tools.conversation.utterances import read_message

if TYPE_CHECKING:
    from journal.store.port import View
    from projections.profile import ProfileReader, ProfileRevision
    from projections.snapshot import Snapshot
    from projections.tags import ProjectTag, TagsReader
    from projections.timeline_reader import MessageRow, TimelineReader
    from tools.host.conversation import ConversationBinding
    from tools.memory.engine import Engine

_ALL = 2**62


@dataclass(frozen=True, slots=True)
class Standing:
    """A message that stands."""

    message_id: str
    state: MessageState
    content: dict[str, Any]  # with its newest text, and ``created_at``
    earlier: tuple[str, ...]  # its texts before that, the oldest first
    tags: dict[str, Any] | None  # {p_tag, d_tags}, or None where none were ever given


@contextmanager
def standing_memory(engine: Engine, bound: ConversationBinding) -> Iterator[StandingMemory]:
    """Yield a user's memory as it stands now.

    Raises:
        ProjectionStale, StoreUnavailable, JournalCorrupt: it cannot be read.
    """
    with (
        engine.projections(bound.scope).snapshot(None, BRIEF) as snapshot,
        engine.journal.store.view(bound.scope) as view,
    ):
        yield StandingMemory(engine, bound, snapshot, view)


class StandingMemory:
    """One user's memory at one moment."""

    def __init__(self, engine: Engine, bound: ConversationBinding, snapshot: Snapshot, view: View) -> None:
        self._engine = engine
        self._bound = bound
        self._view = view
        self._timeline: TimelineReader = snapshot.reader("timeline")
        self._profile: ProfileReader = snapshot.reader("profile")
        self._tags: TagsReader = snapshot.reader("tags")
        self._lost_at: set[int] = set()  # cursors of what was met as lost
        self._told_lost: int = self._timeline.lost_of(bound.user) + self._profile.lost(bound.user) + self._tags.lost
        self.read = 0  # how many messages were yielded by ``messages``

    @property
    def lost(self) -> int:
        """How much should be there and cannot be had: messages, revisions and statements, as far as they were met."""
        return self._told_lost + len(self._lost_at)

    def count(self) -> int:
        """Return how many messages stand."""
        return self._timeline.count(Filter(owners=self._bound.user, archived=True))

    def profile(self) -> list[ProfileRevision]:
        """Return the profile's revisions, the oldest first."""
        return self._profile.history(self._bound.user)[::-1]

    def project_tags(self) -> list[ProjectTag]:
        """Return the project tags by name."""
        return self._tags.tags(self._bound.user)

    def pinned(self) -> Iterator[Standing]:
        """Yield the pinned messages by time."""
        return self._standing(Filter(owners=self._bound.user, pinned_only=True))

    def messages(self) -> Iterator[Standing]:
        """Yield every message by time, archived ones too."""
        for message in self._standing(Filter(owners=self._bound.user, archived=True)):
            self.read += 1
            yield message

    def _standing(self, chosen: Filter) -> Iterator[Standing]:
        for cursor in reversed(self._timeline.newest(chosen, _ALL)):
            row = self._timeline.at(cursor)
            try:
                found = None if row is None else self._read(row)
            except BlobMissing:
                self._lost_at.add(cursor)
                continue
            if found is not None:
                yield found

    def _read(self, row: MessageRow) -> Standing | None:
        """Return a message; None where it was erased since the snapshot.

        Raises:
            BlobMissing: it is lost.
        """
        content = read_message(self._engine.journal, self._view, row.message_id)
        if content is None:
            return None
        tags = tags_of(self._engine, self._view, row.tags_cursor) if row.tags_cursor else None
        return Standing(row.message_id, row.state, content, tuple(self._earlier(row)), tags)

    def _earlier(self, row: MessageRow) -> Iterator[str]:
        """Yield the texts before the newest; one that is lost is counted and passed over."""
        subject = self._view.subject(row.message_id)
        if subject is None or not subject.decided:
            return
        for cursor in [row.cursor, *self._revisions.get(row.cursor, [])]:
            if cursor == subject.decided:
                continue
            event = self._view.event(cursor)
            try:
                said = None if event is None else self._engine.journal.content(self._view, event.header)
            except BlobMissing:
                self._lost_at.add(cursor)
                continue
            if said is not None:
                yield said["message"]

    @cached_property
    def _revisions(self) -> dict[int, list[int]]:
        """Message cursor -> cursors of its revisions: read once through the journal, and only where there is one."""
        found: dict[int, list[int]] = {}
        after, head = 0, self._view.head.cursor
        while after < head:
            page = self._engine.journal.store.read(self._bound.scope, after, limits.READ_PAGE_EVENTS)
            for event in page:
                header = event.header
                if header.type == EventType.MESSAGE_REVISION and header.subject is not None and header.cursor <= head:
                    subject = self._view.subject(header.subject)
                    if subject is not None:
                        found.setdefault(subject.born, []).append(header.cursor)
            if not page:
                break
            after = page[-1].header.cursor
        return found
