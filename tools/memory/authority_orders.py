"""What the host's operator orders of authority: to grant, to revoke, to raise the epoch, to opt a tenant in or out.

Each order is decided under the scope's lock, where a call that is about to commit looks too: whichever comes first, the
other sees it. An order that finds everything as it asks for writes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.authority import EVENTS, GRANT_PREFIX, LEGAL, OPT_IN, GrantState, OptIn, grant_id
from journal.clock import instant
from journal.errors import InvalidSchema
from journal.events import Actor, Draft, EventType
from replay.events import pages
from tools.host.authority import grant_said
from tools.memory.maintenance import operator_authorization

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Committed, Decide, Subject, View
    from tools.memory.engine import Engine


@dataclass(frozen=True, slots=True)
class KnownGrant:
    """What the newest event about a grant says, for people."""

    principal: str
    tool: str
    state: GrantState
    expires_at: str | None  # instant
    reason: str | None
    by: str  # the actor's principal
    at: str  # instant
    cursor: int


class Orders:
    """The orders of one operator in one scope."""

    def __init__(self, engine: Engine, scope: Scope, operator: str, *, reason: str | None = None) -> None:
        self._engine = engine
        self._scope = scope
        self._actor = Actor(f"operator:{operator}")
        self._operator = operator
        self._reason = reason

    def grant(self, principal: str, tools: Sequence[str], *, expires_at: int | None = None) -> list[Committed]:
        """Grant tools to a principal, until an instant where one is given; return the events, one a tool.

        A grant that stands already, with the very same end, is left as it is.

        Args:
            principal: who is granted them.
            tools: their names; the caller has looked whether the host file allows them.
            expires_at: epoch milliseconds; exactly then it has expired.

        Raises:
            InvalidSchema: the end has come already.
        """
        end = None if expires_at is None else instant(expires_at)

        def decide(view: View) -> Sequence[Draft]:
            if expires_at is not None and expires_at <= self._engine.clock.now():
                raise InvalidSchema("a grant must end in the future")
            drafts = []
            for tool in tools:
                subject_id, row = self._row(view, principal, tool)
                if row is not None and row.state == GrantState.STANDING:
                    said = grant_said(self._engine.journal, view, subject_id, row)
                    if said.get("expires_at") == end:
                        continue
                said = {"principal": principal, "tool": tool, **({} if end is None else {"expires_at": end})}
                drafts.append(self._draft(view, EventType.GRANT, subject_id, row, said))
            return drafts

        return self._commit(decide)

    def revoke(self, principal: str, tools: Sequence[str], *, by_file: Iterable[str] = ()) -> list[Committed]:
        """Revoke tools of a principal; return the events, one a tool. Each raises the epoch.

        Args:
            principal: whose they are.
            tools: their names.
            by_file: those that the host file alone grants: they are revoked too, though no event granted them.
        """
        revocable = frozenset(by_file)

        def decide(view: View) -> Sequence[Draft]:
            drafts = []
            for tool in tools:
                subject_id, row = self._row(view, principal, tool)
                state = GrantState.ABSENT if row is None else GrantState(row.state)
                if state is GrantState.STANDING or (state is GrantState.ABSENT and tool in revocable):
                    said = {"principal": principal, "tool": tool}
                    drafts.append(self._draft(view, EventType.GRANT_REVOKED, subject_id, row, said))
            return drafts

        return self._commit(decide)

    def raise_epoch(self) -> Committed:
        """Raise the epoch alone: every receipt that was made before is void, and no grant is taken."""
        return self._commit(lambda view: [self._draft(view, EventType.EPOCH, None, None, {})])[0]

    def opt(self, *, enabled: bool) -> Committed | None:
        """Opt the tenant in or out, in this workspace; None where that is so already.

        Who never opted out need not opt in: until an event says otherwise the host file does.
        """

        def decide(view: View) -> Sequence[Draft]:
            row = view.subject(OPT_IN)
            state = OptIn.ABSENT if row is None else OptIn(row.state)
            if (state is not OptIn.DISABLED) is enabled:
                return []
            kind = EventType.TENANT_ENABLED if enabled else EventType.TENANT_DISABLED
            return [self._draft(view, kind, OPT_IN, row, {})]

        return next(iter(self._commit(decide)), None)

    def _row(self, view: View, principal: str, tool: str) -> tuple[str, Subject | None]:
        key = self._engine.journal.keyring.identity_key(self._scope)
        subject_id = grant_id(key, principal, tool)
        return subject_id, view.subject(subject_id)

    def _draft(
        self, view: View, kind: EventType, subject_id: str | None, row: Subject | None, said: dict[str, Any]
    ) -> Draft:
        engine, scope = self._engine, self._scope
        event_id = engine.journal.random_event_id(scope)
        target = engine.resource_digest(scope, subject_id or "authority")
        receipt = operator_authorization(engine, scope, self._operator, target, engine.clock.now(), view)
        ledger = {**said, "authorization_receipt_digest": receipt["receipt_digest"]}
        if self._reason is not None:
            ledger["reason"] = self._reason
        from_state = 0 if row is None else row.state
        return Draft(
            type=kind, event_id=event_id, actor=self._actor, subject=subject_id, from_state=from_state,
            to_state=LEGAL.get((kind, from_state), 0) if subject_id is not None else 0,
            ledger=engine.journal.seal_ledger(scope, event_id, subject_id, ledger),
        )  # fmt: skip

    def _commit(self, decide: Decide) -> list[Committed]:
        deadline = time.monotonic() + limits.CALL_DEADLINE_SECONDS
        return self._engine.journal.commit(self._scope, decide, deadline=deadline)


def known_grants(journal: Journal, scope: Scope) -> list[KnownGrant]:
    """Return what events say of every grant of a scope, by principal and tool.

    Raises:
        JournalCorrupt, BlobMissing: it cannot be told.
    """
    found = []
    with journal.store.view(scope) as view:
        for name, row in view.subjects(GRANT_PREFIX):
            said = grant_said(journal, view, name, row)
            event = view.event(row.changed)
            assert event is not None  # its ledger was read
            header = event.header
            found.append(
                KnownGrant(
                    said["principal"], said["tool"], GrantState(row.state), said.get("expires_at"), said.get("reason"),
                    header.actor.principal, instant(header.recorded_at), header.cursor,
                )
            )  # fmt: skip
    return sorted(found, key=lambda each: (each.principal, each.tool))


def authority_history(journal: Journal, scope: Scope) -> Iterator[dict[str, Any]]:
    """Yield every event of a scope's authority, oldest first, with what it says, as the command line prints it.

    Raises:
        CursorGap, JournalCorrupt, BlobMissing: the journal is broken.
    """
    for page in pages(journal.store, scope):
        told = [event.header for event in page if event.header.type in EVENTS]
        if not told:
            continue
        with journal.store.view(scope) as view:
            for header in told:
                said = journal.ledger(view, header)
                yield {
                    "cursor": str(header.cursor),
                    "at": instant(header.recorded_at),
                    "operation": header.kind.label,
                    "by": header.actor.principal,
                    **{name: said.get(name) for name in ("principal", "tool", "expires_at", "reason")},
                    "authorization_receipt_digest": said["authorization_receipt_digest"],
                }
