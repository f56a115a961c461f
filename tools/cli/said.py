"""Messages as a person sees them: rows of a list, and one whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal.clock import instant
from journal.errors import BlobMissing, JournalCorrupt
from journal.messages import MessageState
from tools.cli import subjects, terminal
from tools.conversation.brief import when

if TYPE_CHECKING:
    from datetime import tzinfo

    from projections.timeline_reader import MessageRow, TimelineReader
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_SHOWN_WHOLE = (
    "client_name", "agent_key", "agent_model", "subagent", "subagent_model", "subagent_role", "device_name",
    "session_id", "cwd", "external_id",
)  # fmt: skip
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Said:
    """One message: its row, and what it says now."""

    row: MessageRow
    content: dict[str, Any]  # empty where it was erased or cannot be opened
    tags: dict[str, Any]
    instead: str = ""  # what stands in the place of words that are not there

    def as_json(self) -> dict[str, Any]:
        """Return every field; what is not known is null."""
        return {
            "id": self.row.message_id,
            "cursor": str(self.row.cursor),
            "state": self.row.state.label,
            "is_pinned": self.row.state is MessageState.PINNED,
            "created_at": instant(self.row.created_at) if self.content else None,
            "role": self.content.get("role"),
            "message": self.content.get("message"),
            "agent_platform": self.content.get("agent_platform"),
            **{name: self.content.get(name) for name in _SHOWN_WHOLE},
            "p_tag": self.tags.get("p_tag"),
            "d_tags": self.tags.get("d_tags", []),
        }

    @property
    def who(self) -> str:
        """Who spoke, in a word."""
        if self.content.get("role") == "user":
            return "user"
        if self.content.get("subagent"):
            return f"{self.content['agent_platform']}/{self.content.get('subagent_role', 'subagent')}"
        model = self.content.get("agent_model", UNKNOWN)
        return str(self.content.get("agent_key") or (self.content.get("role", "") if model == UNKNOWN else model))

    @property
    def by(self) -> str:
        """Who spoke, as what and where; empty where that is not known any more."""
        if not self.content:
            return ""
        role = self.content["role"]
        return f"{role if self.who == role else f'{self.who} ({role})'}, on {self.content['agent_platform']}"

    @property
    def words(self) -> str:
        """The beginning of what it says, on one line and safe."""
        return subjects.beginning(self.content["message"]) if self.content else self.instead


def opened(engine: Engine, call: Call, row: MessageRow) -> Said:
    """Return a message with what it says now; what is lost is said in its place, for a list must show the others."""
    from tools.conversation.search_memory import tags_of
    from tools.conversation.utterances import read_message

    with engine.journal.store.view(call.scope) as view:
        try:
            content = read_message(engine.journal, view, row.message_id)
            tags = tags_of(engine, view, row.tags_cursor) if content is not None else {}
        except (BlobMissing, JournalCorrupt) as error:
            return Said(row, {}, {}, subjects.unopened(error))
    return Said(row, {}, {}, subjects.ERASED) if content is None else Said(row, content, tags)


def listed(engine: Engine, call: Call, timeline: TimelineReader, cursors: Iterable[int]) -> Iterator[Said]:
    """Yield the messages at these cursors; one that is not there is passed over."""
    for cursor in cursors:
        row = timeline.at(cursor)
        if row is not None:
            yield opened(engine, call, row)


def table(messages: Iterable[Said], zone: tzinfo | None) -> str:
    """Return the messages as a person reads them: when, who, where, which project, its state, what, and the id."""
    cells = [
        (
            when(each.row.created_at, zone) if each.content else "-",
            each.who,
            each.content.get("agent_platform", ""),
            each.content.get("device_name", ""),
            each.tags.get("p_tag") or "-",
            "" if each.row.state is MessageState.ACTIVE else each.row.state.label,
            each.words,
            each.row.message_id,
        )
        for each in messages
    ]
    return terminal.table(("said", "who", "platform", "device", "project", "state", "says", "message"), cells)


def told(said: Said, zone: tzinfo | None) -> Iterator[str]:
    """Yield the lines that show a message whole."""
    content = said.content
    yield terminal.fields(
        [
            ("message", said.row.message_id),
            ("state", said.row.state.label),
            *([("said", when(said.row.created_at, zone))] if content else []),
            *([("by", said.by)] if content else []),
            *((name, _value(content[name])) for name in _SHOWN_WHOLE if name in content),
            *([("project", said.tags["p_tag"])] if said.tags.get("p_tag") else []),
            *([("keywords", ", ".join(said.tags["d_tags"]))] if said.tags.get("d_tags") else []),
        ]
    )
    yield ""
    yield subjects.indented(content["message"]) if content else said.instead


def _value(value: object) -> str:
    return "yes" if value is True else str(value)
