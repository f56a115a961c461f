"""What an acceptance proposes: the pairs that a new record makes with those in force, in the very same transaction.

A proposal changes nothing by itself. A person applies or dismisses it (``engram records proposals``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journal import limits
from journal.events import Actor, Draft, EventType
from journal.lifecycle import State
from tools.memory.assertions import accepted
from tools.memory.families import BINARY_STATUS, Assertion, assertion_of, related

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import View
    from tools.memory.engine import Engine


SYSTEM = Actor("engram:system")
"""Who proposes: nobody asked for it."""


class Reconciliation:
    """The proposals of one candidate's acceptance."""

    def __init__(self, engine: Engine, scope: Scope, candidate_id: str, content: dict[str, Any]) -> None:
        """Look at what the records assert so far; what is accepted since is looked at under the scope's lock."""
        self._engine = engine
        self._scope = scope
        self._candidate_id = candidate_id
        self._assertion = assertion_of(content) if BINARY_STATUS in engine.binding.families else None
        self._standing: dict[str, Assertion] = {}
        self._seen_cursor = 0
        self._has_proposed = False
        if self._assertion is not None:
            self._standing, self._seen_cursor = engine.assertions(scope).about(self._assertion.matter)

    @property
    def has_proposed(self) -> bool:
        """Whether the drafts that were asked for last hold any."""
        return self._has_proposed

    def drafts(self, view: View, actor: Actor, record_id: str) -> list[Draft]:
        """Return the proposals, of the newest other records at most ``limits.PROPOSALS_MAX``."""
        if self._assertion is None:
            return []
        others = []
        for candidate_id, assertion in {**self._standing, **self._since(view)}.items():
            subject = view.subject(candidate_id)
            if subject is not None and subject.state == State.ACCEPTED_CURRENT and candidate_id != self._candidate_id:
                others.append((subject.born, candidate_id, assertion))
        others.sort(reverse=True)
        made = [self._draft(actor, record_id, candidate_id, assertion) for _, candidate_id, assertion in others]
        proposed = [draft for draft in made if draft is not None][: limits.PROPOSALS_MAX]
        self._has_proposed = bool(proposed)
        return proposed

    def _since(self, view: View) -> dict[str, Assertion]:
        """Return what was accepted since. Some of it may be of this very batch and come to nothing: none is kept."""
        assert self._assertion is not None
        found: dict[str, Assertion] = {}
        for cursor in range(self._seen_cursor + 1, view.head.cursor + 1):
            event = view.event(cursor)
            if event is None or event.header.type != EventType.ACCEPT or event.header.subject is None:
                continue
            assertion = accepted(self._engine.journal, view, event)
            if assertion is not None and assertion.matter == self._assertion.matter:
                found[event.header.subject] = assertion
        return found

    def _draft(self, actor: Actor, record_id: str, candidate_id: str, assertion: Assertion) -> Draft | None:
        assert self._assertion is not None
        relating = related(self._assertion, assertion)
        if relating is None:
            return None
        ledger: dict[str, Any] = {"family_ref": BINARY_STATUS, "relation": relating.relation}
        if relating.first_supersedes is not None:
            ledger["superseding"] = self._candidate_id if relating.first_supersedes else candidate_id
        journal, event_id = self._engine.journal, self._engine.journal.random_event_id(self._scope)
        return Draft(
            type=EventType.RECONCILIATION_PROPOSED, event_id=event_id, actor=actor, subject=self._candidate_id,
            record_id=record_id, related=candidate_id, from_state=State.ACCEPTED_CURRENT,
            to_state=State.ACCEPTED_CURRENT,
            ledger=journal.seal_ledger(self._scope, event_id, self._candidate_id, ledger),
        )  # fmt: skip
