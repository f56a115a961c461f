"""Importing an export: checked whole before anything is written, then read again and brought in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from journal import limits
from journal.clock import parse_instant
from journal.messages import MessageState
from tools.conversation.exchange.bringing import EXTERNAL_PREFIX, Bringing, Fate, Incoming
from tools.conversation.exchange.ledgers import Ledgers, leads_to
from tools.conversation.exchange.lines import (
    SAID,
    HeaderLine,
    Line,
    MessageLine,
    ProfileLine,
    ProjectAliasLine,
    ProjectTagLine,
    read_line,
)
from tools.conversation.exchange.reading import WrongLine, numbered_lines
from tools.conversation.exchange.summary import Summary
from tools.conversation.platforms import canonical_platform
from tools.conversation.utterances import content_of

if TYPE_CHECKING:
    from tools.memory.call import Call
    from tools.memory.engine import Engine

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Checked:
    """What a whole file says beside its messages."""

    profile: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=limits.BATCH_MAX_EVENTS))
    descriptions: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    profile_left_out: int = 0  # revisions older than one decision holds


def check_jsonl(path: Path, progress: Progress) -> Checked:
    """Read a file whole and return what it says beside its messages.

    Raises:
        WrongLine: the first line that cannot be imported.
    """
    checked = Checked()
    for number, line in _lines(path, progress):
        match line:
            case ProfileLine():
                checked.profile_left_out += len(checked.profile) == checked.profile.maxlen
                checked.profile.append(_profile(line))
            case ProjectTagLine():
                _add(checked.descriptions, line.name, line.description, number)
            case ProjectAliasLine():
                if line.name == line.alias_of or leads_to(checked.aliases, line.alias_of, line.name):
                    raise WrongLine(number, "an alias that closes a circle")
                _add(checked.aliases, line.name, line.alias_of, number)
            case _:
                pass
    return checked


def import_jsonl(engine: Engine, call: Call, path: Path, checked: Checked, progress: Progress) -> Summary:
    """Bring a checked file in and return what became of it.

    Raises:
        WrongLine: the file is no longer what was checked; what was written before stays, and is not written twice.
        EngramError: the store cannot be written.
    """
    ledgers = Ledgers(engine, call)
    profile = ledgers.bring_profile(list(checked.profile))
    tags, left_out = ledgers.bring_tags(checked.descriptions, checked.aliases)
    if profile == "imported":
        left_out += checked.profile_left_out
    fates = Bringing(engine, call).bring(
        _incoming(line) for _, line in _lines(path, progress) if isinstance(line, MessageLine)
    )
    return Summary(
        imported=fates[Fate.IMPORTED], duplicates=fates[Fate.DUPLICATE], skipped=fates[Fate.ERASED] + left_out,
        tags=tags, profile=profile,
    )  # fmt: skip


def _lines(path: Path, progress: Progress) -> Iterator[tuple[int, Line]]:
    """Yield the lines after the header, numbered."""
    is_begun = False
    for numbered in numbered_lines(path, progress):
        line = read_line(numbered)
        if isinstance(line, HeaderLine) is is_begun:
            raise WrongLine(numbered.number, "a second header" if is_begun else "not the header of an export")
        if is_begun:
            yield numbered.number, line
        is_begun = True
    if not is_begun:
        raise WrongLine(1, "not the header of an export")


def _add(table: dict[str, str], name: str, value: str, number: int) -> None:
    if name in table:
        raise WrongLine(number, "a name that was given before")
    table[name] = value


def _profile(line: ProfileLine) -> dict[str, Any]:
    """Return the ledger of a revision. When it was made, only the file knows."""
    return {
        "user_name": line.user_name, "core_profile": line.core_profile, "sub_profile": line.sub_profile,
        "action": line.action, "by": line.by,
    }  # fmt: skip


def _incoming(line: MessageLine) -> Incoming:
    told = {name: value for name in SAID if (value := getattr(line, name)) is not UNSET}
    told["agent_platform"] = canonical_platform(line.agent_platform)
    told.setdefault("external_id", f"{EXTERNAL_PREFIX}{line.id}")
    if not line.subagent:
        told.pop("subagent", None)
    tags = line.tags
    return Incoming(
        content=content_of(message=line.message, role=line.role, created_at=parse_instant(line.created_at), **told),
        earlier=line.earlier or (),
        state=MessageState[line.state.upper()],
        tags=None if tags is UNSET else {"p_tag": tags.p_tag or None, "d_tags": list(tags.d_tags or ())},
        known_as=line.id or None,
    )
