"""search_memory: what was said, found by words and by meaning, by any part of a text in any script, or newest first.

By meaning only where the host names a provider that answers; ``used`` says which channels took part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from journal import limits
from journal.clock import instant
from journal.errors import BlobMissing, InvalidSchema
from projections.serving import MESSAGES
from projections.timeline_reader import Filter
from tools.conversation.arguments import SearchMemoryArguments, project_tag_name, search_memory_arguments
from tools.conversation.dates import DateRange, parse_date_range
from tools.conversation.finding import Found, Search
from tools.conversation.platforms import canonical_platform, is_wildcard
from tools.conversation.utterances import read_message
from tools.host.capabilities import SEARCH_MEMORY

if TYPE_CHECKING:
    from journal.store.port import View
    from projections.snapshot import Snapshot
    from projections.timeline_reader import TimelineReader
    from tools.memory.by_meaning import ByMeaning
    from tools.memory.call import Call
    from tools.memory.engine import Engine
    from tools.memory.semantic import Meant

UNKNOWN_TAG = "no project tag of this name"
_CUT = "further results did not fit: lower the limit or narrow the search"


def search_memory(engine: Engine, call: Call, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tool's value: {used, top_similarity?, count, results[], note?}; each result as CONVERSATION §3 says.

    Raises:
        InvalidSchema: the arguments or the date range do not fit. Unauthorized, AuthorizationRevoked: not granted.
        BlobMissing: a message of this user is lost, so that no answer could be whole.
        ProjectionStale: the projections could not be brought to the head before the deadline.
    """
    arguments = search_memory_arguments(raw)
    days = days_of(arguments, call)
    granted = engine.authority.permitted(call.binding, SEARCH_MEMORY, call.now)
    meant = meant_by(engine, arguments)  # a provider is asked while nothing is held: it may take its time
    with engine.projections(call.scope).snapshot(call.deadline, MESSAGES) as snapshot:
        found = find(engine, call, snapshot, arguments, days, meant)
    engine.authority.still_permitted(call.binding, SEARCH_MEMORY, granted, engine.clock.now())
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
    page = look(engine, call, snapshot, arguments, days, meant)
    return nothing_of_that_tag() if page is None else page.value()


def nothing_of_that_tag() -> dict[str, Any]:
    """Return the tool's value where the project tag is unknown."""
    return {"used": "none", "count": 0, "results": [], "note": UNKNOWN_TAG}


def look(
    engine: Engine, call: Call, snapshot: Snapshot, arguments: SearchMemoryArguments, days: DateRange,
    meant: Meant | None,
) -> Page | None:  # fmt: skip
    """Return what is found over one snapshot; None where the project tag is unknown."""
    chosen = _filter(call, snapshot, arguments, days)
    if chosen is None:
        return None
    timeline: TimelineReader = snapshot.reader("timeline")
    lost = timeline.lost_of(chosen.owners)
    if lost:  # what cannot be found must not look as if it were not there
        raise BlobMissing(f"{lost} messages are lost: engram audit names them, and erasing them mends it")
    with engine.journal.store.view(call.scope) as view:
        page = Page(engine, call, view, timeline)
        if arguments.query is UNSET:
            newest = (Found(cursor) for cursor in timeline.newest(chosen, arguments.limit))
            page.fill("recency", newest, arguments.limit)
            return page
        search = Search(snapshot, chosen, arguments.query, page.text_of)
        if meant is not None and engine.semantic is not None:
            page.by_both = search.ranker(engine.semantic, engine.projections(call.scope), meant)
        if meant is None or page.by_both is None:
            page.fill("lexical", search.by_words(arguments.limit), arguments.limit)
        else:
            page.fill(*search.by_meaning(page.by_both, meant.question), arguments.limit)
        page.notes += search.notes
        return page


@dataclass(slots=True)
class Page:
    """The results so far, opened one by one from the journal, which alone is the truth."""

    engine: Engine
    call: Call
    view: View
    timeline: TimelineReader
    used: str = "none"
    by_both: ByMeaning | None = None  # what ranked by meaning too, if anything did
    found: list[Found] = field(default_factory=list)  # of each result
    results: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what whoever asks should know of the answer

    def fill(self, used: str, found: Iterable[Found], limit: int) -> None:
        """Add what was found, up to ``limit``; ``used``: which channels took part."""
        size_bytes = 0
        for each in found:
            result = self._result(each)
            if result is None:
                continue
            size_bytes += len(msgspec.json.encode(result))
            if self.results and size_bytes > limits.PACKET_MAX_BYTES:
                self.notes.append(_CUT)
                break
            self.used = used
            self.found.append(each)
            self.results.append(result)
            if len(self.results) == limit:
                break

    def value(self) -> dict[str, Any]:
        """Return the tool's value."""
        value: dict[str, Any] = {"used": self.used}
        similar = [result.get("similarity") for result in self.results]
        if known := [each for each in similar if each is not None]:
            value["top_similarity"] = max(known)
        value |= {"count": len(self.results), "results": self.results}
        return {**value, "note": "; ".join(self.notes)} if self.notes else value

    def text_of(self, cursor: int) -> str:
        """Return a message's text; nothing of one that is erased."""
        self.call.refuse_late()
        row = self.timeline.at(cursor)
        said = None if row is None else read_message(self.engine.journal, self.view, row.message_id)
        return "" if said is None else str(said["message"])

    def _result(self, found: Found) -> dict[str, Any] | None:
        row = self.timeline.at(found.cursor)
        said = None if row is None else read_message(self.engine.journal, self.view, row.message_id)
        if row is None or said is None:  # erased since it was ranked
            return None
        tags = tags_of(self.engine, self.view, row.tags_cursor)
        return {
            "id": row.message_id, "kind": "message", "role": said["role"], "message": said["message"],
            "agent_platform": said["agent_platform"], "agent_model": said.get("agent_model"),
            "device_name": said.get("device_name"), "p_tag": tags["p_tag"], "d_tags": tags["d_tags"],
            "is_pinned": row.state.label == "pinned", "created_at": instant(row.created_at),
            **found.ranking(),
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
