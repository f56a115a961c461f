"""Bringing project tags, aliases and a profile in, beside what the store says itself, which stays in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from journal import limits
from journal.errors import ProjectionStale
from journal.events import Draft, EventType
from tools.conversation.profile_writing import any_since
from tools.conversation.utterances import ledger_draft

if TYPE_CHECKING:
    from journal.store.port import View
    from tools.memory.call import Call
    from tools.memory.engine import Engine

_ATTEMPTS = 8
_TAG_EVENTS = (EventType.PROJECT_TAG, EventType.PROJECT_ALIAS)

Statement = tuple[EventType, dict[str, Any]]


class _Moved(Exception):
    """Another process wrote about the same since it was read."""


class Ledgers:
    """Writes a user's project tags, aliases and profile into the conversation's scope."""

    def __init__(self, engine: Engine, call: Call) -> None:
        self._engine = engine
        self._scope = call.binding.conversation.scope
        self._user = call.binding.conversation.user
        self._actor = call.actor

    def bring_tags(self, descriptions: Mapping[str, str], aliases: Mapping[str, str]) -> tuple[int, int]:
        """Write tags (name -> description) and aliases (name -> what it stands for).

        Returns how many names were new or got a description or an alias, and how many aliases were left out because
        this store knows the name by another, or because they would close a circle here.

        Raises:
            ProjectionStale: tags were written faster than they could be read.
        """
        names: set[str] = set()
        for _ in range(_ATTEMPTS):
            cursor, statements, left_out = self._missing(descriptions, aliases)
            try:
                for at in range(0, len(statements), limits.BATCH_MAX_EVENTS):
                    part = statements[at : at + limits.BATCH_MAX_EVENTS]
                    cursor = self._write(part, cursor, _TAG_EVENTS)
                    names |= {said["name"] for _, said in part}
            except _Moved:
                continue
            return len(names), left_out
        raise ProjectionStale("tags were written faster than they could be read")

    def _missing(self, descriptions: Mapping[str, str], aliases: Mapping[str, str]) -> tuple[int, list[Statement], int]:
        """Return the cursor that was read, what this store does not say yet, and how many aliases are left out."""
        with self._engine.projections(self._scope).snapshot(None, ["tags"]) as snapshot:
            here = {tag.name: tag for tag in snapshot.reader("tags").tags(self._user)}
            cursor = snapshot.cursor
        statements: list[Statement] = [
            (EventType.PROJECT_TAG, {"name": name, "description": text})
            for name, text in descriptions.items()
            if name not in here or (text and not here[name].description)
        ]
        parents = {name: tag.alias_of for name, tag in here.items() if tag.alias_of is not None}
        left_out = 0
        for name, alias_of in aliases.items():
            if parents.get(name) == alias_of:
                continue
            if name in parents or leads_to(parents, alias_of, name):
                left_out += 1
                continue
            parents[name] = alias_of
            statements.append((EventType.PROJECT_ALIAS, {"name": name, "alias_of": alias_of}))
        return cursor, statements, left_out

    def bring_profile(self, revisions: Sequence[dict[str, Any]]) -> Literal["imported", "kept", "none"]:
        """Write a profile's revisions, the oldest first, all at once; ``kept`` where the user has a profile here.

        Raises:
            ProjectionStale: profiles were written faster than they could be read.
        """
        if not revisions:
            return "none"
        statements = [(EventType.PROFILE, revision) for revision in revisions]
        for _ in range(_ATTEMPTS):
            with self._engine.projections(self._scope).snapshot(None, ["profile"]) as snapshot:
                reader, cursor = snapshot.reader("profile"), snapshot.cursor
                if reader.newest(self._user) is not None or reader.lost(self._user):
                    return "kept"
            try:
                self._write(statements, cursor, (EventType.PROFILE,))
            except _Moved:  # perhaps by another user of the scope
                continue
            return "imported"
        raise ProjectionStale("profiles were written faster than they could be read")

    def _write(self, statements: Sequence[Statement], cursor: int, kinds: Sequence[EventType]) -> int:
        """Commit statements unless one of these kinds stands after a cursor; return the cursor of the last.

        Raises:
            _Moved: one does.
        """
        journal, scope = self._engine.journal, self._scope
        drafts = [ledger_draft(journal, scope, self._actor, kind, said) for kind, said in statements]

        def decide(view: View) -> Sequence[Draft]:
            if any_since(view, cursor, set(kinds)):
                raise _Moved
            return drafts

        return journal.commit(scope, decide)[-1].header.cursor


def leads_to(parents: Mapping[str, str], name: str, other: str) -> bool:
    """Whether the chain of aliases that begins with ``name`` comes by ``other``. It has no circle."""
    return other in _chain(parents, name)


def _chain(parents: Mapping[str, str], name: str) -> Iterator[str]:
    yield name
    while name in parents:
        name = parents[name]
        yield name
