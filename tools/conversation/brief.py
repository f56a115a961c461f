"""The brief: what an agent should know at the start of a session, in markdown, within a bound of characters.

Core profile first and never cut, sub profile, pinned lines, the window's projects, recent messages. What gives way is
the oldest of the recent messages, then the projects; a profile or a pinned line is never cut. Only where those alone
pass the bound are the oldest pinned ones left out, whole, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.messages import MessageState
from projections.serving import BRIEF
from projections.timeline_reader import Filter
from tools.conversation.utterances import read_message

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

    from journal.store.port import View
    from projections.profile import ProfileRevision
    from projections.snapshot import Snapshot
    from projections.timeline_reader import TimelineReader
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_DAY_MILLISECONDS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Whose session begins, and how far back it looks."""

    platform: str
    days: int
    is_separate: bool = True  # whether this platform's messages stand apart from the others'
    model: str | None = None
    place: str | None = None  # the working directory: the hint that serves until messages have tags


def brief(engine: Engine, call: Call, asked: Asked) -> str:
    """Return the brief, at most ``brief_max_chars`` characters.

    Raises:
        ProjectionStale: the projections could not be brought to the head before the deadline. BlobMissing: what it
        needs is lost.
    """
    with (
        engine.projections(call.scope).snapshot(call.deadline, BRIEF) as snapshot,
        engine.journal.store.view(call.scope) as view,
    ):
        return _Brief(engine, call, asked, snapshot, view).text()


def pinned_texts(engine: Engine, call: Call, snapshot: Snapshot, view: View, most_characters: int) -> list[str]:
    """Return the pinned messages as lines, newest first, until they are over so many characters together.

    One that is longer by itself is left out, so that it keeps no other from being told.
    """
    timeline: TimelineReader = snapshot.reader("timeline")
    chosen = Filter(owners=call.binding.conversation.user, pinned_only=True)
    texts, left = [], most_characters
    for cursor in timeline.newest(chosen, limits.BRIEF_PINNED_MAX):
        row = timeline.at(cursor)
        if left < 0:
            break
        if row is None or row.characters > most_characters:
            continue
        left -= row.characters
        said = read_message(engine.journal, view, row.message_id)
        if said is not None:
            texts.append(one_line(said["message"]))
    return texts


def one_line(text: str, most_characters: int | None = None) -> str:
    """Return a text on one line, cut where it is longer than ``most_characters``."""
    line = " ".join(text.split())
    if most_characters is not None and len(line) > most_characters:
        return line[: most_characters - 1].rstrip() + "\u2026"
    return line


class _Brief:
    """Gathers one brief and lays it out."""

    def __init__(self, engine: Engine, call: Call, asked: Asked, snapshot: Snapshot, view: View) -> None:
        self._engine = engine
        self._call = call
        self._asked = asked
        self._snapshot = snapshot
        self._view = view
        self._bound = call.binding.conversation
        self._timeline: TimelineReader = snapshot.reader("timeline")
        self._since = call.now - asked.days * _DAY_MILLISECONDS

    def text(self) -> str:
        """Return the brief."""
        most = self._bound.brief_max_chars
        kept = self._profile()
        kept += self._pinned(most - len("\n".join(kept)))
        left = most - len("\n".join(kept))
        projects = self._projects()
        recent = self._recent()
        if not kept and not projects and not recent:
            return "Nothing is remembered yet. Save what matters with save_message."
        if (size := len("\n".join(["", *projects]))) <= left:
            left -= size
        else:
            projects = []
        return "\n".join([*kept, *projects, *_fitting(recent, left)]).strip("\n")

    def _profile(self) -> list[str]:
        profile: ProfileRevision | None = self._snapshot.reader("profile").newest(self._bound.user)
        if profile is None:
            return []
        lines = []
        if profile.core_profile or profile.user_name:
            lines += [f"# {one_line(profile.user_name) or 'Who you work for'}", profile.core_profile, ""]
        if profile.sub_profile:
            lines += ["## Profile", profile.sub_profile, ""]
        return lines

    def _pinned(self, left: int) -> list[str]:
        """Return the pinned lines, newest first; where not all fit, how many more there are."""
        total = self._timeline.count(Filter(owners=self._bound.user, pinned_only=True))
        if not total:
            return []
        lines = ["", "## Pinned"]
        room = left - len("\n".join([*lines, _more(total), ""])) - 1
        shown = 0
        for text in pinned_texts(self._engine, self._call, self._snapshot, self._view, max(0, room)):
            line = f"- {text}"
            if len(line) + 1 <= room:
                lines.append(line)
                room -= len(line) + 1
                shown += 1
        return [*lines[1:], *([_more(total - shown)] if shown < total else []), ""]

    def _projects(self) -> list[str]:
        names = [tag.name for tag in self._snapshot.reader("tags").tags(self._bound.user)]
        window = Filter(owners=self._bound.user, since=self._since, archived=True)
        usage = self._timeline.tag_usage(window, names)[: limits.BRIEF_PROJECTS_MAX]
        if not usage:
            return []
        lines = [
            f"- {used.name}: {used.count} messages, last {_when(used.last_used, self._bound.zone)}" for used in usage
        ]
        return [f"## Projects of the last {self._asked.days} days", *lines, ""]

    def _recent(self) -> list[_Section]:
        """Return the recent messages: of the current platform, then of the others."""
        own, others = limits.BRIEF_OWN_MESSAGES, limits.BRIEF_OTHER_MESSAGES
        if not self._asked.is_separate:
            window = Filter(owners=self._bound.user, since=self._since)
            return self._sections([("Recent", self._timeline.newest(window, own + others))])
        mine = self._timeline.short_term(
            self._bound.user, platform=self._asked.platform, model=self._asked.model, tags=self._current_tags(),
            place=self._asked.place, since=self._since, token_limit=self._bound.short_term_tokens,
        )[:own]  # fmt: skip
        elsewhere = Filter(owners=self._bound.user, since=self._since, not_platform=self._asked.platform)
        theirs = [cursor for cursor in self._timeline.newest(elsewhere, own + others) if cursor not in mine][:others]
        return self._sections([(f"Recent on {one_line(self._asked.platform, 60)}", mine), ("Recent elsewhere", theirs)])

    def _current_tags(self) -> frozenset[str]:
        """Return the family of the project that was last worked on in this working directory; empty: not known."""
        if self._asked.place is None:
            return frozenset()
        tags, owners = self._snapshot.reader("tags"), self._bound.user
        here = Filter(owners=owners, since=self._since, place=self._asked.place)
        usage = self._timeline.tag_usage(here, [tag.name for tag in tags.tags(owners)])
        return (tags.family(owners, usage[0].name) or frozenset()) if usage else frozenset()

    def _sections(self, named: Iterable[tuple[str, list[int]]]) -> list[_Section]:
        return [_Section(heading, self._lines(cursors)) for heading, cursors in named if cursors]

    def _lines(self, cursors: Iterable[int]) -> list[tuple[int, str]]:
        """Return (created_at, line) of messages, newest first."""
        lines = []
        for cursor in cursors:
            row = self._timeline.at(cursor)
            said = None if row is None else read_message(self._engine.journal, self._view, row.message_id)
            if row is not None and said is not None and row.state is not MessageState.PINNED:  # it stands above already
                lines.append(
                    (
                        row.created_at,
                        f"- {_when(row.created_at, self._bound.zone)} {_speaker(said)}: "
                        + one_line(said["message"], limits.BRIEF_LINE_MAX_CHARACTERS),
                    )
                )
        return lines


@dataclass(frozen=True, slots=True)
class _Section:
    """Recent messages under a heading: (created_at, line), newest first."""

    heading: str
    lines: list[tuple[int, str]]


def _fitting(sections: list[_Section], left: int) -> list[str]:
    """Return the sections with the newest lines that fit; within one the oldest stands first, as it was said."""
    everything = sorted(
        ((at, line, section.heading) for section in sections for at, line in section.lines), reverse=True
    )
    kept: dict[str, list[str]] = {}
    for _, line, heading in everything:
        size = len(line) + 1 + (0 if heading in kept else len(heading) + 5)
        if size > left:
            break
        left -= size
        kept.setdefault(heading, []).append(line)
    lines = []
    for section in sections:
        if section.heading in kept:
            lines += [f"## {section.heading}", *reversed(kept[section.heading]), ""]
    return lines


def _more(count: int) -> str:
    return f"- and {count} more pinned: search_memory finds them"


def _speaker(said: dict[str, Any]) -> str:
    if said["role"] == "user":
        return f"user ({said['agent_platform']})"
    role = said.get("subagent_role")
    return f"{said['agent_platform']}/{one_line(role, 30)}" if role else str(said["agent_platform"])


def _when(epoch_milliseconds: int, zone: tzinfo | None) -> str:
    """Return a time as the user's clock shows it, to the minute."""
    moment = (
        datetime.fromtimestamp(epoch_milliseconds / 1000, zone)
        if zone
        else datetime.fromtimestamp(epoch_milliseconds / 1000).astimezone()
    )
    return f"{moment:%Y-%m-%d %H:%M}"
