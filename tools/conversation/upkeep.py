"""The host's own hand on conversations: what a person at the terminal pins, tags, renames, revises and erases.

No grant concerns it, for the host makes the grants. What is written belongs to the bound principal, as an agent's own
words do; the call's actor names the person as its agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import IllegalTransition, InvalidSchema, NotFound, ProjectionStale
from journal.events import EventType
from journal.messages import MessageState
from tools.conversation.arguments import keyword, project_tag_name
from tools.conversation.manage_knowledge import archive_drafts
from tools.conversation.profile_writing import any_since
from tools.conversation.search_memory import tags_of
from tools.conversation.utterances import content_draft, ledger_draft, standing_message, state_draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from journal.events import Draft
    from journal.store.port import Committed, View
    from projections.snapshot import Snapshot
    from projections.tags import TagsReader
    from tools.memory.call import Call
    from tools.memory.engine import Engine

    Decide = Callable[[View], Sequence[Draft]]

BY_HAND = "hand"
_ATTEMPTS = 8
_TAG_EVENTS = frozenset({EventType.PROJECT_TAG, EventType.PROJECT_ALIAS, EventType.MESSAGE_TAG})


class _Moved(Exception):
    """Another process spoke of tags since they were read."""


# --- states ---------------------------------------------------------------------------------------


def move(engine: Engine, call: Call, kind: EventType, message_id: str) -> list[Committed]:
    """Pin, unpin, archive or restore a message; a pinned one is unpinned before it is archived.

    Raises:
        NotFound: no such message of this user. IllegalTransition: its state forbids it.
    """

    def decide(view: View) -> Sequence[Draft]:
        state = standing_message(view, message_id, call.binding.conversation.user).state
        if kind is EventType.MESSAGE_ARCHIVE and state == MessageState.PINNED:
            return archive_drafts(engine, call, message_id, state, call.actor)
        return [state_draft(engine.journal, call.scope, call.actor, kind, message_id, state)]

    return engine.journal.commit(call.scope, decide, deadline=call.deadline)


# --- tags -----------------------------------------------------------------------------------------


def add_tag(engine: Engine, call: Call, name: str, description: str) -> str:
    """Make a project tag, or describe one anew; return its name in its one form.

    Raises:
        InvalidSchema: the name is none, or the description too long.
    """
    name = project_tag_name(name)
    most = limits.PROJECT_TAG_DESCRIPTION_MAX_CHARACTERS
    if len(description) > most or not (description.isprintable() or not description):
        raise InvalidSchema(f"a description is one line of at most {most} characters")
    draft = _tag_draft(engine, call, name, description)
    engine.journal.commit(call.scope, lambda _view: [draft], deadline=call.deadline)
    return name


def alias_tag(engine: Engine, call: Call, name: str, alias_of: str | None) -> tuple[str, str | None]:
    """Say of a project tag that it stands for another one, or (None) for itself; return both names in their one form.

    Raises:
        InvalidSchema: a name is none. NotFound: the tag is not known, or no alias where one is to be taken away.
        IllegalTransition: a circle would close.
    """
    name, of = project_tag_name(name), None if alias_of is None else project_tag_name(alias_of)
    owners = call.binding.conversation.user

    def decision(snapshot: Snapshot) -> Decide:
        tags: TagsReader = snapshot.reader("tags")
        known = {tag.name: tag.alias_of for tag in tags.tags(owners)}
        if of is None and known.get(name) is None:
            raise NotFound("that tag is no alias")
        if of is not None and of not in known:
            raise NotFound("no project tag of that name to stand for: engram tags add makes it")
        if of is not None and tags.would_cycle(owners, name, of):
            raise IllegalTransition("the tag that it would stand for stands for it already")
        said = {"name": name, "alias_of": of}
        draft = ledger_draft(engine.journal, call.scope, call.actor, EventType.PROJECT_ALIAS, said)
        return lambda _view: [draft]

    _upon_tags(engine, call, decision)
    return name, of


@dataclass(frozen=True, slots=True)
class Tagging:
    """The tags that a message is to have. What is None stays as it is."""

    project: str | None = None
    keywords: tuple[str, ...] | None = None
    is_cleared: bool = False  # whether what the message has goes first


def tag_message(engine: Engine, call: Call, message_id: str, wanted: Tagging) -> dict[str, Any]:
    """Tag a message by hand, making the project tag where it is new; return {p_tag, d_tags, by}.

    Raises:
        InvalidSchema: a name or a keyword is none, or there are too many. NotFound: no such message of this user.
    """
    project = None if wanted.project is None else project_tag_name(wanted.project)
    keywords = None if wanted.keywords is None else _keywords(wanted.keywords)
    owners = call.binding.conversation.user
    said: dict[str, Any] = {}

    def decision(snapshot: Snapshot) -> Decide:
        is_new = project is not None and not snapshot.reader("tags").known(owners, project)
        made = [_tag_draft(engine, call, project, "")] if is_new and project is not None else []
        before = {} if wanted.is_cleared else _tags_of(engine, call, snapshot, message_id)
        said.update(
            p_tag=before.get("p_tag") if project is None else project,
            d_tags=before.get("d_tags", []) if keywords is None else keywords, by=BY_HAND,
        )  # fmt: skip

        def drafts(view: View) -> list[Draft]:
            row = standing_message(view, message_id, owners)
            kind = EventType.MESSAGE_TAG
            return [*made, content_draft(engine.journal, view, call.scope, call.actor, kind, message_id, row, said)]

        return drafts

    _upon_tags(engine, call, decision)
    return said


def _tags_of(engine: Engine, call: Call, snapshot: Snapshot, message_id: str) -> dict[str, Any]:
    row = snapshot.reader("timeline").find(call.binding.conversation.user, message_id)
    if row is None:
        return {}
    with engine.journal.store.view(call.scope) as view:
        return tags_of(engine, view, row.tags_cursor)


def _tag_draft(engine: Engine, call: Call, name: str, description: str) -> Draft:
    said = {"name": name, "description": description}
    return ledger_draft(engine.journal, call.scope, call.actor, EventType.PROJECT_TAG, said)


def _keywords(words: Iterable[str]) -> list[str]:
    found = list(dict.fromkeys(map(keyword, words)))
    if len(found) > limits.KEYWORDS_MAX:
        raise InvalidSchema(f"a message has at most {limits.KEYWORDS_MAX} keywords")
    return found


def _upon_tags(engine: Engine, call: Call, decision: Callable[[Snapshot], Decide]) -> None:
    """Commit what rests on the tags as they are, whatever other processes say of them meanwhile.

    Raises:
        ProjectionStale: they said more than could be read.
    """
    for _ in range(_ATTEMPTS):
        with engine.projections(call.scope).snapshot(call.deadline, ("tags", "timeline")) as snapshot:
            read_at, drafts = snapshot.cursor, decision(snapshot)

        def decide(view: View, read_at: int = read_at, drafts: Decide = drafts) -> Sequence[Draft]:
            if any_since(view, read_at, _TAG_EVENTS):
                raise _Moved
            return drafts(view)

        try:
            engine.journal.commit(call.scope, decide, deadline=call.deadline)
        except _Moved:
            continue
        return
    raise ProjectionStale("tags changed faster than they could be read")
