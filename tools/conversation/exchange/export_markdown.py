"""The export for people: profile, pinned messages, then everything by day and session, as markdown.

What was said stands between fences that are longer than any in it, as it was said: whatever it holds, it is shown and
cannot become a heading, a link or a fence of the document. Names, which stand outside of fences, are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any, Final

from journal.messages import MessageState

if TYPE_CHECKING:
    from tools.conversation.exchange.standing import Standing, StandingMemory

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS: Final = re.compile("`+")
_MARKED: Final = re.compile(r"([\\`*_{}\[\]()<>#!|~&$@:/])")
_LEAST_FENCE: Final = 3


def markdown_export(memory: StandingMemory, now: int, zone: tzinfo | None) -> Iterator[str]:
    """Yield the export piece by piece.

    Args:
        memory: whose it is.
        now: epoch milliseconds.
        zone: whose days and hours are meant; None is the machine's.
    """
    yield f"# Conversation memory\n\nExported {_local(now, zone):%Y-%m-%d %H:%M:%S %z}.\n"
    yield from _profile(memory, zone)
    yield from _project_tags(memory)
    yield from _pinned(memory, zone)
    yield from _days(memory, zone)


def fenced(text: str) -> str:
    """Return a text between fences, followed by one line end that is not the text's own."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n"


def inline(text: str) -> str:
    """Return a name on one line, its punctuation escaped where markdown would heed it."""
    return _MARKED.sub(r"\\\1", " ".join(text.split()))


def _profile(memory: StandingMemory, zone: tzinfo | None) -> Iterator[str]:
    revisions = memory.profile()
    if not revisions:
        return
    newest = revisions[-1]
    yield f"\n## Profile\n\nAs of {_local(newest.recorded_at, zone):%Y-%m-%d %H:%M}.\n"
    parts = (("Name", newest.user_name), ("Core", newest.core_profile), ("Other", newest.sub_profile))
    for name, text in parts:
        if text:
            yield f"\n### {name}\n\n{fenced(text)}"


def _project_tags(memory: StandingMemory) -> Iterator[str]:
    tags = memory.project_tags()
    if tags:
        yield "\n## Projects\n"
    for tag in tags:
        stands_for = f", stands for {inline(tag.alias_of)}" if tag.alias_of is not None else ""
        yield f"\n### {inline(tag.name)}{stands_for}\n"
        if tag.description:
            yield f"\n{fenced(tag.description)}"


def _pinned(memory: StandingMemory, zone: tzinfo | None) -> Iterator[str]:
    is_begun = False
    for message in memory.pinned():
        if not is_begun:
            yield "\n## Pinned\n"
        is_begun = True
        moment = _local(message.content["created_at"], zone)
        yield f"\n{_said(message, f'{moment:%Y-%m-%d %H:%M:%S}')}"


def _days(memory: StandingMemory, zone: tzinfo | None) -> Iterator[str]:
    day = session = ""
    for message in memory.messages():
        moment = _local(message.content["created_at"], zone)
        if (this_day := moment.date().isoformat()) != day:
            yield f"\n## {this_day}\n"
            day, session = this_day, ""
        if (this_session := _session(message.content)) != session:
            yield f"\n### {this_session}\n"
            session = this_session
        yield f"\n{_said(message, f'{moment:%H:%M:%S}')}"


def _session(content: dict[str, Any]) -> str:
    """Return the heading of the messages of one session that follow each other."""
    told = [inline(content["agent_platform"])]
    told += [f"{word} {inline(content[name])}" for name, word in _OF_SESSION if name in content]
    return ", ".join(told)


_OF_SESSION: Final = (("device_name", "on"), ("cwd", "in"), ("session_id", "session"))
_OF_MESSAGE: Final = (
    ("agent_model", "model"), ("agent_key", "as"), ("subagent_role", "subagent"), ("subagent_model", "its model"),
)  # fmt: skip


def _said(message: Standing, when: str) -> str:
    """Return one message: who said it and when, then the text, then the texts that it had before."""
    content, tags = message.content, message.tags or {}
    told = [when, f"**{content['role']}**"]
    told += [f"{word} {inline(content[name])}" for name, word in _OF_MESSAGE if name in content]
    told += [message.state.label] if message.state is not MessageState.ACTIVE else []
    told += [f"project {inline(tags['p_tag'])}"] if tags.get("p_tag") else []
    told += ["tags " + "; ".join(map(inline, tags["d_tags"]))] if tags.get("d_tags") else []
    text = f"{', '.join(told)}\n\n{fenced(content['message'])}"
    for number, earlier in enumerate(message.earlier, 1):
        text += f"\nBefore, text {number}:\n\n{fenced(earlier)}"
    return text


def _local(epoch_milliseconds: int, zone: tzinfo | None) -> datetime:
    moment = _EPOCH + timedelta(milliseconds=epoch_milliseconds)
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError, OSError):  # the first or last day that can be reckoned, in a zone beyond it
        return moment
