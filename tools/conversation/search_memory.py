"""search_memory: what was said, found by words, by any part of a text in any script, or newest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from journal import limits
from journal.clock import instant
from journal.errors import BlobMissing, InvalidSchema
from journal.identity import normalised
from projections.lexical.question import Question
from projections.serving import MESSAGES
from projections.timeline_reader import Filter
from tools.conversation.arguments import SearchMemoryArguments, project_tag_name, search_memory_arguments
from tools.conversation.dates import DateRange, parse_date_range
from tools.conversation.platforms import canonical_platform, is_wildcard
from tools.conversation.utterances import read_message
from tools.host.capabilities import SEARCH_MEMORY
from tools.host.grants import permitted, still_permitted

if TYPE_CHECKING:
    from journal.store.port import View
    from projections.snapshot import Snapshot
    from projections.timeline_reader import TimelineReader
    from tools.memory.call import Call
    from tools.memory.engine import Engine

UNKNOWN_TAG = "no project tag of this name"
_CUT = "further results did not fit: lower the limit or narrow the search"


def search_memory(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value: {used, count, results[], note?}; each result as CONVERSATION §3 says.

    Raises:
        InvalidSchema: the arguments or the date range do not fit. Unauthorized, AuthorizationRevoked: not granted.
        BlobMissing: a message of this user is lost, so that no answer could be whole.
        ProjectionStale: the projections could not be brought to the head before the deadline.
    """
    arguments = search_memory_arguments(raw)
    days = days_of(arguments, call)
    granted = permitted(call.binding, SEARCH_MEMORY, engine.epoch)
    with engine.projections(call.scope).snapshot(call.deadline, MESSAGES) as snapshot:
        found = find(engine, call, snapshot, arguments, days)
    still_permitted(granted, engine.epoch(call.scope))
    return found


def find(
    engine: Engine, call: Call, snapshot: Snapshot, arguments: SearchMemoryArguments, days: DateRange
) -> dict[str, Any]:
    """Return the tool's value over one snapshot."""
    chosen = _filter(call, snapshot, arguments, days)
    if chosen is None:
        return {"used": "none", "count": 0, "results": [], "note": UNKNOWN_TAG}
    timeline: TimelineReader = snapshot.reader("timeline")
    lost = timeline.lost_of(chosen.owners)
    if lost:  # what cannot be found must not look as if it were not there
        raise BlobMissing(f"{lost} messages are lost: engram audit names them, and erasing them mends it")
    with engine.journal.store.view(call.scope) as view:
        page = _Page(engine, view, timeline)
        if arguments.query is UNSET:
            page.add((cursor, None) for cursor in timeline.newest(chosen, arguments.limit))
            used = "recency"
        else:
            _by_text(call, snapshot, page, chosen, arguments.query, arguments.limit)
            used = "lexical"
    value = {"used": used if page.results else "none", "count": len(page.results), "results": page.results}
    return {**value, "note": _CUT} if page.is_cut else value


def _by_text(call: Call, snapshot: Snapshot, page: _Page, chosen: Filter, query: str, limit: int) -> None:
    """Fill a page by words, best first; where they find too little, by the query as a part of a text, newest first."""
    timeline, messages = snapshot.reader("timeline"), snapshot.reader("messages")
    eligible = timeline.eligible(chosen)
    hits = messages.search(chosen.owners, Question.of(query), limit, eligible).hits[:limit]
    page.add(hits)
    part = normalised(query)
    if len(hits) >= limit or not part:
        return
    seen = {cursor for cursor, _ in hits}
    for cursor in messages.containing(chosen.owners, query, eligible):
        if len(page.results) >= limit or page.is_cut:
            return
        call.refuse_cancelled()
        if cursor not in seen:
            page.add([(cursor, 0)], part)


@dataclass(slots=True)
class _Page:
    """The results so far, opened one by one from the journal, which alone is the truth."""

    engine: Engine
    view: View
    timeline: TimelineReader
    results: list[dict[str, Any]] = field(default_factory=list)
    is_cut: bool = False  # a further result would have made the answer too large
    size_bytes: int = 0

    def add(self, hits: Any, part: str | None = None) -> None:
        """Add (cursor, score or None) of messages; with ``part`` only one whose normalised text holds it."""
        for cursor, score in hits:
            if self.is_cut:
                return
            result = self._result(cursor, score, part)
            if result is None:
                continue
            size_bytes = len(msgspec.json.encode(result))
            if self.results and self.size_bytes + size_bytes > limits.PACKET_MAX_BYTES:
                self.is_cut = True
                return
            self.size_bytes += size_bytes
            self.results.append(result)

    def _result(self, cursor: int, score: int | None, part: str | None) -> dict[str, Any] | None:
        row = self.timeline.at(cursor)
        said = None if row is None else read_message(self.engine.journal, self.view, row.message_id)
        if row is None or said is None:  # erased since it was ranked
            return None
        if part is not None and part not in normalised(said["message"]):
            return None
        tags = tags_of(self.engine, self.view, row.tags_cursor)
        result = {
            "id": row.message_id, "kind": "message", "role": said["role"], "message": said["message"],
            "agent_platform": said["agent_platform"], "agent_model": said.get("agent_model"),
            "device_name": said.get("device_name"), "p_tag": tags["p_tag"], "d_tags": tags["d_tags"],
            "is_pinned": row.state.label == "pinned", "created_at": instant(row.created_at),
        }  # fmt: skip
        return result if score is None else {**result, "score": score}


def tags_of(engine: Engine, view: View, cursor: int) -> dict[str, Any]:
    """Return the tags {p_tag, d_tags} that an event gave a message; cursor 0: none has."""
    event = view.event(cursor) if cursor else None
    content = None if event is None else engine.journal.content(view, event.header)
    return {"p_tag": None, "d_tags": []} if content is None else content


def days_of(arguments: SearchMemoryArguments, call: Call) -> DateRange:
    """Return the instants of the arguments' date range; InvalidSchema where it has no known form."""
    if arguments.date_range is UNSET:
        return DateRange(None, None)
    return parse_date_range(arguments.date_range, call.now, call.binding.conversation.zone)


def _filter(call: Call, snapshot: Snapshot, arguments: SearchMemoryArguments, days: DateRange) -> Filter | None:
    """Return which messages are meant; None where the project tag is unknown."""
    bound = call.binding.conversation
    tags = None
    if arguments.p_tag is not UNSET:
        tags = _family(snapshot, bound.user, arguments.p_tag)
        if tags is None:
            return None
    platform = None
    if arguments.agent_platform is not UNSET and not is_wildcard(arguments.agent_platform):
        platform = canonical_platform(arguments.agent_platform)
    return Filter(
        owners=bound.user, since=days.since, until=days.until, platform=platform, tags=tags,
        role=None if arguments.role is UNSET else arguments.role,
        device=bound.device if arguments.device_scope == "local" else None, pinned_always=True,
        archived=arguments.include_archived,
    )  # fmt: skip


def _family(snapshot: Snapshot, owners: frozenset[str], text: str) -> frozenset[str] | None:
    """Return the names that a project tag's messages may carry: its own, its aliases' and its representative's."""
    try:
        name = project_tag_name(text)
    except InvalidSchema:  # nobody can have made such a tag
        return None
    found: frozenset[str] | None = snapshot.reader("tags").family(owners, name)
    return found
