"""Changing a profile: each revision is the whole profile, made from the newest one under the scope's lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import InvalidSchema
from journal.events import EventType
from tools.conversation.platforms import canonical_platform
from tools.conversation.save_message import actor_of
from tools.conversation.utterances import ledger_draft
from tools.conversation.writing import commit_drafts
from tools.host.capabilities import MANAGE_KNOWLEDGE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from journal.events import Draft
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a user. Empty strings where nothing is."""

    user_name: str = ""
    core_profile: str = ""  # critically important identity; short
    sub_profile: str = ""  # the rest worth keeping


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

    ``revised`` may be asked again, with a newer profile.

    Raises:
        InvalidSchema: it is too long. ProjectionStale: the profile could not be read before the deadline.
    """
    actor = actor_of(call, canonical_platform(call.client_name))
    by = "hand" if tool is None else "agent"
    cursor, read = newest_profile(engine, call)
    made: list[Profile] = []

    def decide(view: View) -> Sequence[Draft]:
        profile = _checked(revised(_since(engine, call, view, cursor) or read))
        made[:] = [profile]
        said = {
            "user_name": profile.user_name, "core_profile": profile.core_profile, "sub_profile": profile.sub_profile,
            "action": action, "by": by,
        }  # fmt: skip
        return [ledger_draft(engine.journal, call.scope, actor, EventType.PROFILE, said)]

    if tool is None:
        engine.journal.commit(call.scope, decide, deadline=call.deadline)
    else:
        commit_drafts(engine, call, tool, decide)
    return made[0]


def _since(engine: Engine, call: Call, view: View, cursor: int) -> Profile | None:
    """Return the user's newest profile after a cursor; None where none came.

    Under the scope's lock it is read from the journal itself: so whoever comes at once with others waits for them, and
    never has to begin anew.
    """
    for number in range(view.head.cursor, cursor, -1):
        event = view.event(number)
        if event is None or event.header.type != EventType.PROFILE:
            continue
        if event.header.actor.principal in call.binding.conversation.user:
            said = engine.journal.ledger(view, event.header)
            return Profile(said["user_name"], said["core_profile"], said["sub_profile"])
    return None


def newest_profile(engine: Engine, call: Call) -> tuple[int, Profile]:
    """Return the cursor of the state that was read, and the profile in force there."""
    with engine.projections(call.scope).snapshot(call.deadline, ["profile"]) as snapshot:
        found = snapshot.reader("profile").newest(call.binding.conversation.user)
        if found is None:
            return snapshot.cursor, Profile()
        return snapshot.cursor, Profile(found.user_name, found.core_profile, found.sub_profile)


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
