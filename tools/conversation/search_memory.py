"""search_memory: what was said, found by words and by meaning, by any part of a text in any script, or newest first.

By meaning only where the host names a provider that answers; ``used`` says which channels took part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
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
    from tools.memory.semantic import Meant

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
    meant = meant_by(engine, arguments)  # a provider is asked while nothing is held: it may take its time
    with engine.projections(call.scope).snapshot(call.deadline, MESSAGES) as snapshot:
        found = find(engine, call, snapshot, arguments, days, meant)
    still_permitted(granted, engine.epoch(call.scope))
    return found


def meant_by(engine: Engine, arguments: SearchMemoryArguments) -> Meant | None:
    """Return what is asked for by meaning; None where nothing is, or nothing can be."""
    if engine.semantic is None or arguments.query is UNSET:
        return None
    return engine.semantic.meant(arguments.query)


def find(
    engine: Engine, call: Call, snapshot: Snapshot, arguments: SearchMemoryArguments, days: DateRange,
    meant: Meant | None,
) -> dict[str, Any]:  # fmt: skip
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
            page.add((cursor, {}) for cursor in timeline.newest(chosen, arguments.limit))
            used = "recency"
        elif meant is None:
            _by_text(call, snapshot, page, chosen, arguments.query, arguments.limit)
            used = "lexical"
        else:
            used = _by_meaning(engine, call, snapshot, page, chosen, arguments, meant)
    value: dict[str, Any] = {"used": used if page.results else "none"}
    if similar := [result["similarity"] for result in page.results if "similarity" in result]:
        value["top_similarity"] = max(similar)
    value |= {"count": len(page.results), "results": page.results}
    return {**value, "note": _CUT} if page.is_cut else value


def _by_text(call: Call, snapshot: Snapshot, page: _Page, chosen: Filter, query: str, limit: int) -> None:
    """Fill a page by words, best first; where they find too little, by the query as a part of a text, newest first."""
    eligible = snapshot.reader("timeline").eligible(chosen)
    hits = snapshot.reader("messages").search(chosen.owners, Question.of(query), limit, eligible).hits[:limit]
    page.add((cursor, {"score": score}) for cursor, score in hits)
    if len(hits) < limit:
        parts = _parts(call, snapshot, page, chosen, query, {cursor for cursor, _ in hits})
        page.add((cursor, {"score": 0}) for cursor in islice(parts, limit - len(page.results)))


def _parts(call: Call, snapshot: Snapshot, page: _Page, chosen: Filter, query: str, seen: set[int]) -> Iterator[int]:
    """Give the messages that hold a query as a part of their text and were not seen yet, newest first."""
    part = normalised(query)
    eligible = snapshot.reader("timeline").eligible(chosen)
    for cursor in snapshot.reader("messages").containing(chosen.owners, query, eligible) if part else ():
        call.refuse_cancelled()
        if cursor not in seen and page.holds(cursor, part):
            yield cursor


def _by_meaning(
    engine: Engine, call: Call, snapshot: Snapshot, page: _Page, chosen: Filter, arguments: SearchMemoryArguments,
    meant: Meant,
) -> str:  # fmt: skip
    """Fill a page by words and meaning; return which channels took part.

    Where words find too little, texts that hold the query as a part count as the last that words found. What has
    neither must be meant closely enough.
    """
    from projections.fusion import WINDOW_DOCUMENTS

    assert engine.semantic is not None
    eligible = snapshot.reader("timeline").eligible(chosen)
    hits = snapshot.reader("messages").search(chosen.owners, meant.question, WINDOW_DOCUMENTS, eligible).hits
    hits = hits[:WINDOW_DOCUMENTS]
    if len(hits) < arguments.limit:
        least = hits[-1][1] if hits else 1
        parts = _parts(call, snapshot, page, chosen, str(arguments.query), {cursor for cursor, _ in hits})
        hits += [(cursor, least) for cursor in islice(parts, arguments.limit - len(hits))]
    projections = engine.projections(call.scope)
    ranked = engine.semantic.of_messages(projections, snapshot, chosen.owners, meant, eligible).ranked(hits)
    said, similar = {cursor for cursor, _ in hits}, ranked.window
    found = [
        (cursor, {"score": score, "similarity": similar[cursor] / 1_000_000})
        for cursor, score in ranked.hits
        if cursor in said or similar[cursor] >= limits.MEANT_MILLIONTHS
    ]
    page.add(found[: arguments.limit])
    return "hybrid" if hits else "vector"


@dataclass(slots=True)
class _Page:
    """The results so far, opened one by one from the journal, which alone is the truth."""

    engine: Engine
    view: View
    timeline: TimelineReader
    results: list[dict[str, Any]] = field(default_factory=list)
    is_cut: bool = False  # a further result would have made the answer too large
    size_bytes: int = 0

    def add(self, hits: Iterable[tuple[int, dict[str, Any]]]) -> None:
        """Add messages, named by their cursors, each with what its ranking says of it."""
        for cursor, ranking in hits:
            if self.is_cut:
                return
            result = self._result(cursor, ranking)
            if result is None:
                continue
            size_bytes = len(msgspec.json.encode(result))
            if self.results and self.size_bytes + size_bytes > limits.PACKET_MAX_BYTES:
                self.is_cut = True
                return
            self.size_bytes += size_bytes
            self.results.append(result)

    def holds(self, cursor: int, part: str) -> bool:
        """Whether a message's normalised text holds a part."""
        row = self.timeline.at(cursor)
        said = None if row is None else read_message(self.engine.journal, self.view, row.message_id)
        return said is not None and part in normalised(said["message"])

    def _result(self, cursor: int, ranking: dict[str, Any]) -> dict[str, Any] | None:
        row = self.timeline.at(cursor)
        said = None if row is None else read_message(self.engine.journal, self.view, row.message_id)
        if row is None or said is None:  # erased since it was ranked
            return None
        tags = tags_of(self.engine, self.view, row.tags_cursor)
        return {
            "id": row.message_id, "kind": "message", "role": said["role"], "message": said["message"],
            "agent_platform": said["agent_platform"], "agent_model": said.get("agent_model"),
            "device_name": said.get("device_name"), "p_tag": tags["p_tag"], "d_tags": tags["d_tags"],
            "is_pinned": row.state.label == "pinned", "created_at": instant(row.created_at),
            **ranking,
        }  # fmt: skip


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
