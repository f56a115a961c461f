"""Changing a profile: each revision is the whole profile, made from the newest one under the scope's lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import InvalidSchema, ProjectionStale
from journal.events import EventType
from tools.conversation.platforms import canonical_platform
from tools.conversation.save_message import actor_of
from tools.conversation.utterances import ledger_draft
from tools.conversation.writing import commit_drafts
from tools.host.capabilities import MANAGE_KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from journal.events import Actor, Draft
    from journal.store.port import Committed, View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a user. Empty strings where nothing is."""

    user_name: str = ""
    core_profile: str = ""  # critically important identity; short
    sub_profile: str = ""  # the rest worth keeping


class _Moved(Exception):
    """Another process revised the profile since it was read."""


def change_sub_profile(engine: Engine, call: Call, action: str, content: str) -> dict[str, Any]:
    """Append a line to the sub profile, replace it, or clear it; return the tool's value.

    Raises:
        InvalidSchema: it would get too long.
    """

    def revised(profile: Profile) -> Profile:
        before = profile.sub_profile
        text = {"add": f"{before}\n{content}" if before else content, "update": content, "remove": ""}[action]
        return Profile(profile.user_name, profile.core_profile, text)

    profile = revise(engine, call, MANAGE_KNOWLEDGE, f"sub_profile_{action}", revised)
    return {"stored": True, "sub_profile": profile.sub_profile}


def revise(engine: Engine, call: Call, tool: str | None, action: str, revised: Callable[[Profile], Profile]) -> Profile:
    """Commit what a profile becomes and return it. ``tool`` None: the host's own hand, which no grant concerns.

    Raises:
        InvalidSchema: it is too long. ProjectionStale: it was revised faster than it could be read.
    """
    actor = actor_of(call, canonical_platform(call.client_name))
    by = "hand" if tool is None else "agent"
    for _ in range(_ATTEMPTS):
        cursor, before = newest_profile(engine, call)
        profile = _checked(revised(before))
        said = {
            "user_name": profile.user_name, "core_profile": profile.core_profile, "sub_profile": profile.sub_profile,
            "action": action, "by": by,
        }  # fmt: skip
        try:
            commit_unless_moved(engine, call, tool, EventType.PROFILE, cursor, actor, said)
        except _Moved:
            continue
        return profile
    raise ProjectionStale("the profile was revised faster than it could be read")


def newest_profile(engine: Engine, call: Call) -> tuple[int, Profile]:
    """Return the cursor of the state that was read, and the profile in force there."""
    with engine.projections(call.scope).snapshot(call.deadline, ["profile"]) as snapshot:
        found = snapshot.reader("profile").newest(call.binding.conversation.user)
        if found is None:
            return snapshot.cursor, Profile()
        return snapshot.cursor, Profile(found.user_name, found.core_profile, found.sub_profile)


def commit_unless_moved(
    engine: Engine, call: Call, tool: str | None, kind: EventType, cursor: int, actor: Actor, said: dict[str, Any]
) -> Committed:
    """Commit what rests on a state read at a cursor, unless an event of the same kind came after it.

    Raises:
        _Moved: one did.
    """
    drafts = [ledger_draft(engine.journal, call.scope, actor, kind, said)]

    def decide(view: View) -> Sequence[Draft]:
        if any_since(view, cursor, {kind}):
            raise _Moved
        return drafts

    if tool is None:
        return engine.journal.commit(call.scope, decide, deadline=call.deadline)[0]
    return commit_drafts(engine, call, tool, decide)[0]


def any_since(view: View, cursor: int, kinds: Collection[EventType]) -> bool:
    """Whether an event of these kinds stands after a cursor."""
    later = (view.event(number) for number in range(cursor + 1, view.head.cursor + 1))
    return any(event is not None and event.header.type in kinds for event in later)


def _checked(profile: Profile) -> Profile:
    bounds = (
        (profile.user_name, limits.USER_NAME_MAX_CHARACTERS),
        (profile.core_profile, limits.PROFILE_CORE_MAX_CHARACTERS),
        (profile.sub_profile, limits.PROFILE_SUB_MAX_CHARACTERS),
    )
    if any(len(text) > most for text, most in bounds):
        raise InvalidSchema("the profile would get too long")
    return profile
