"""Importing the file of the reference memory server of MCP: a graph of entities and relations, one JSON object a line.

    {"type": "entity", "name": ..., "entityType": ..., "observations": [...]}
    {"type": "relation", "from": ..., "to": ..., "relationType": ...}

Each observation, each relation, and each entity without observations becomes a message. Forks of that server write
further fields, which are counted and left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from journal import limits
from journal.canonical import canonical_json
from journal.errors import InvalidSchema
from journal.messages import MessageState
from tools.conversation.arguments import keyword
from tools.conversation.exchange.bringing import Bringing, Fate, Incoming
from tools.conversation.exchange.lines import decoded, text_within
from tools.conversation.exchange.reading import NumberedLine, WrongLine, numbered_lines
from tools.conversation.exchange.summary import Summary
from tools.conversation.save_message import UNKNOWN_MODEL
from tools.conversation.utterances import content_of

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine

PLATFORM: Final = "server-memory"


class _Entity(msgspec.Struct, frozen=True, tag="entity"):
    name: str
    entity_type: str = msgspec.field(name="entityType")
    observations: tuple[str, ...]


class _Relation(msgspec.Struct, frozen=True, tag="relation"):
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    relation_type: str = msgspec.field(name="relationType")


_FIELDS: Final = {
    "entity": {"type", "name", "entityType", "observations"},
    "relation": {"type", "from", "to", "relationType"},
}


def check_server_memory(path: Path, progress: Callable[[int, int], None]) -> int:
    """Read a file whole and return how many of its lines have fields that are left out.

    Raises:
        WrongLine: the first line that cannot be imported.
    """
    partly = 0
    for line in numbered_lines(path, progress):
        value, messages = _read(line, MessageState.ACTIVE)
        del messages
        partly += bool(set(value) - _FIELDS[value["type"]])
    return partly


def import_server_memory(
    engine: Engine, call: Call, path: Path, progress: Callable[[int, int], None], *, pin: bool
) -> Summary:
    """Bring a checked file in and return what became of it; with ``pin`` everything new is pinned.

    Raises:
        WrongLine: the file is no longer what was checked; what was written before stays, and is not written twice.
        EngramError: the store cannot be written.
    """
    state = MessageState.PINNED if pin else MessageState.ACTIVE
    fates = Bringing(engine, call).bring(
        message for line in numbered_lines(path, progress) for message in _read(line, state)[1]
    )
    return Summary(
        imported=fates[Fate.IMPORTED], duplicates=fates[Fate.DUPLICATE], skipped=fates[Fate.ERASED], tags=0,
        profile="none",
    )  # fmt: skip


def _read(line: NumberedLine, state: MessageState) -> tuple[dict[str, Any], list[Incoming]]:
    """Return a line's value and the messages that it becomes."""
    value: Any = decoded(line)
    try:
        found: _Entity | _Relation = msgspec.convert(value, _Entity | _Relation, strict=True)
    except msgspec.ValidationError:
        raise WrongLine(line.number, "neither an entity nor a relation of the memory server") from None
    try:
        return value, list(_messages(found, state))
    except InvalidSchema as error:
        raise WrongLine(line.number, error.detail) from error


def _messages(found: _Entity | _Relation, state: MessageState) -> Iterator[Incoming]:
    if isinstance(found, _Relation):
        part: dict[str, str] = {"from": found.source, "to": found.target, "relationType": found.relation_type}
        text = f"{found.source} {found.relation_type} {found.target}"
        yield _message(text, part, (found.source, found.target), state)
        return
    named = f"{found.name} ({found.entity_type})"
    part = {"name": found.name, "entityType": found.entity_type}
    words = (found.entity_type, found.name)
    if not found.observations:
        yield _message(named, part, words, state)
    for observation in found.observations:
        yield _message(f"{named}: {observation}", {**part, "observation": observation}, words, state)


def _message(text: str, part: dict[str, str], words: tuple[str, ...], state: MessageState) -> Incoming:
    text_within(text, "message")
    digest = hashlib.sha256(canonical_json(part)).hexdigest()
    keywords = _keywords(words)
    return Incoming(
        content=content_of(
            message=text, role="assistant", agent_platform=PLATFORM, agent_model=UNKNOWN_MODEL,
            external_id=f"{PLATFORM}:{digest}",
        ),
        state=state,
        tags={"p_tag": None, "d_tags": keywords} if keywords else None,
    )  # fmt: skip


def _keywords(words: tuple[str, ...]) -> list[str]:
    """Return those of the words that are possible keywords, each once."""
    found: dict[str, None] = {}
    for word in words:
        if len(word) > 4 * limits.KEYWORD_MAX_CHARACTERS:  # no spelling of a keyword; folding it would be for nothing
            continue
        try:
            found[keyword(word)] = None
        except InvalidSchema:
            continue
    return list(found)
