"""Figures of a scope's conversations: its messages by state, its project tags, its profiles. Never a name or a word."""

from __future__ import annotations

from collections import Counter
from typing import Any

from journal.errors import EngramError
from journal.events import CONVERSATION, EventType, Header
from journal.log import Journal
from journal.messages import MESSAGE_EVENTS, MessageState
from journal.store.port import View

STATES = (MessageState.ACTIVE, MessageState.PINNED, MessageState.ARCHIVED, MessageState.ERASED)
_TAGS = frozenset({EventType.PROJECT_TAG, EventType.PROJECT_ALIAS})


class ConversationCount:
    """Counts what the events of a scope say of its conversations, taken in their order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._events: Counter[str] = Counter(messages=0, tags=0, profiles=0, other=0)
        self._aliases: dict[tuple[str, str], bool] = {}  # (principal, name) -> whether it stands for another
        self._users: set[str] = set()
        self._lost = 0

    def take(self, view: View, header: Header) -> None:
        """Count an event; one of another family counts nothing."""
        if header.type in MESSAGE_EVENTS:
            self._events["messages"] += 1
        elif header.type in _TAGS:
            self._events["tags"] += 1
            self._take_tag(view, header)
        elif header.type == EventType.PROFILE:
            self._events["profiles"] += 1
            self._users.add(header.actor.principal)
        elif header.type in CONVERSATION:
            self._events["other"] += 1

    def _take_tag(self, view: View, header: Header) -> None:
        try:
            said = self._journal.ledger(view, header)
        except EngramError:  # audit is what names it
            self._lost += 1
            return
        owner, alias_of = header.actor.principal, said.get("alias_of")
        if header.type == EventType.PROJECT_ALIAS:
            self._aliases[owner, said["name"]] = alias_of is not None
        for name in (said["name"], alias_of):
            if name is not None:
                self._aliases.setdefault((owner, name), False)

    def figures(self) -> dict[str, Any]:
        """Return {events, tags, profiles} as JSON."""
        return {
            "events": dict(self._events),
            "tags": {"known": len(self._aliases), "aliases": sum(self._aliases.values()), "lost_events": self._lost},
            "profiles": {"users": len(self._users), "revisions": self._events["profiles"]},
        }
