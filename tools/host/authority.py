"""What the journal says of authority: standing grants, the tenant's opt-in, and the epoch, read at the start and again.

The host file is the ceiling. What it grants is granted unless an event took it back, or, where it asks for it
(`[grants] mode = "events"`), only while a grant event stands. Nothing is folded for a call: one row of the journal's
index says whether anything changed since the last look, and what is remembered of a principal is good until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.authority import AUTHORITY, OPT_IN, GrantState, OptIn, grant_id
from journal.clock import parse_instant
from journal.errors import AuthorizationExpired, AuthorizationRevoked, JournalCorrupt, Unauthorized
from tools.host.capabilities import ALL_TOOLS, CONVERSATION_TOOLS

if TYPE_CHECKING:
    from journal.log import Journal
    from journal.scope import Scope
    from journal.store.port import Subject, View
    from tools.host.binding import Binding


@dataclass(frozen=True, slots=True)
class Grant:
    """What the newest event about a grant says."""

    state: GrantState
    expires_at: int | None = None  # epoch milliseconds; None: it has no end of its own

    def has_expired(self, now: int) -> bool:
        """Whether its time is up; exactly at its end it is."""
        return self.expires_at is not None and now >= self.expires_at


NO_GRANT = Grant(GrantState.ABSENT)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a scope's journal says of one principal's authority, as of one change of it."""

    changed: int = 0  # cursor of the newest event of authority; 0: there is none
    epoch: int = 0
    opted_out: bool = False  # the tenant did, in this scope
    grants: Mapping[str, Grant] | None = None  # by tool; of those that no event is about, nothing

    def of(self, tool: str) -> Grant:
        """Return what is known of a tool's grant."""
        return NO_GRANT if self.grants is None else self.grants.get(tool, NO_GRANT)

    def check(self, tool: str, now: int, *, by_events: bool) -> None:
        """Refuse a tool that the host file grants and the journal does not.

        Raises:
            AuthorizationRevoked: it was revoked, or the tenant opted out. AuthorizationExpired: the grant's time is up.
            Unauthorized: no event ever granted it, and one must.
        """
        grant = self.of(tool)
        if self.opted_out or grant.state is GrantState.REVOKED:
            raise AuthorizationRevoked("the tenant opted out" if self.opted_out else "the grant was revoked")
        if grant.state is GrantState.ABSENT and by_events:
            raise Unauthorized("no event grants the operation to this principal")
        if grant.has_expired(now):
            raise AuthorizationExpired("the grant has expired")

    def allows(self, tool: str, now: int, *, by_events: bool) -> bool:
        """Whether ``check`` would pass."""
        try:
            self.check(tool, now, by_events=by_events)
        except (AuthorizationExpired, AuthorizationRevoked, Unauthorized):
            return False
        return True


class Authority:
    """Reads one store's authority. Safe from any thread; one serves all bindings."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._remembered: dict[tuple[bytes, str], Standing] = {}

    def epoch(self, scope: Scope, view: View | None = None) -> int:
        """Return a scope's authorization epoch; ``view`` is the one under the scope's lock, where that is held."""
        with self._journal.store.view(scope) if view is None else nullcontext(view) as held:
            row = held.subject(AUTHORITY)
        return 0 if row is None else row.decided

    def permitted(self, binding: Binding, tool: str, now: int, view: View | None = None) -> int:
        """Return the epoch under which a binding is granted a tool in its scope.

        Args:
            binding: who calls, and where.
            tool: the operation.
            now: epoch milliseconds.
            view: the view under the scope's lock, where that is held.

        Raises:
            Unauthorized: it is not granted, or memory is off. AuthorizationRevoked, AuthorizationExpired: it was.
        """
        if not binding.lists(tool):
            raise Unauthorized("the operation is not granted to this binding")
        standing = self.standing(binding.scope, binding.principal, view)
        standing.check(tool, now, by_events=binding.by_events)
        return standing.epoch

    def still_permitted(self, binding: Binding, tool: str, epoch: int, now: int, view: View | None = None) -> None:
        """Look at a permission again just before it takes effect; ``epoch`` is the one that it was given under.

        Raises:
            AuthorizationRevoked: the epoch was raised since. AuthorizationExpired: the grant's time is up by now.
        """
        standing = self.standing(binding.scope, binding.principal, view)
        if standing.epoch != epoch:
            raise AuthorizationRevoked(f"epoch {epoch} is now {standing.epoch}")
        standing.check(tool, now, by_events=binding.by_events)

    def listed(self, binding: Binding, now: int) -> tuple[str, ...]:
        """Return the tools that a binding is granted now, each in the scope that its calls are about."""
        tools, scopes = binding.listed_tools, {binding.scope, binding.conversation.scope}
        standing = {scope: self.standing(scope, binding.principal) for scope in scopes}
        if not binding.by_events and not any(each.changed for each in standing.values()):
            return tools  # as nearly always, and asked before every call
        return tuple(
            tool for tool in tools if standing[scope_of(binding, tool)].allows(tool, now, by_events=binding.by_events)
        )

    def lists(self, binding: Binding, tool: str, now: int) -> bool:
        """Whether a binding is granted a tool now, in the scope that its calls are about."""
        if not binding.lists(tool):
            return False
        standing = self.standing(scope_of(binding, tool), binding.principal)
        return standing.allows(tool, now, by_events=binding.by_events)

    def standing(self, scope: Scope, principal: str, view: View | None = None) -> Standing:
        """Return what a scope's journal says of a principal's authority.

        Raises:
            JournalCorrupt, BlobMissing: it cannot be told.
        """
        if view is not None:
            return self._look(scope, principal, view)
        with self._journal.store.view(scope) as committed:
            found = self._look(scope, principal, committed)
        # What is seen under a lock may yet be undone, and its cursor be another event's; so only this is remembered.
        if len(self._remembered) >= limits.AUTHORITIES_REMEMBERED:
            self._remembered.clear()
        self._remembered[scope.tag, principal] = found
        return found

    def _look(self, scope: Scope, principal: str, view: View) -> Standing:
        row = view.subject(AUTHORITY)
        if row is None:
            return Standing()
        remembered = self._remembered.get((scope.tag, principal))
        if remembered is not None and remembered.changed == row.changed:
            return remembered
        opt_in = view.subject(OPT_IN)
        return Standing(
            row.changed, row.decided, opt_in is not None and opt_in.state == OptIn.DISABLED,
            self._grants(scope, principal, view),
        )  # fmt: skip

    def _grants(self, scope: Scope, principal: str, view: View) -> dict[str, Grant]:
        key = self._journal.keyring.identity_key(scope)
        grants = {}
        for tool in ALL_TOOLS:
            subject_id = grant_id(key, principal, tool)
            row = view.subject(subject_id)
            if row is not None:
                said = grant_said(self._journal, view, subject_id, row)
                end = said.get("expires_at")
                grants[tool] = Grant(GrantState(row.state), None if end is None else parse_instant(end))
        return grants


def scope_of(binding: Binding, tool: str) -> Scope:
    """Return the scope that a binding's calls of a tool are about."""
    return binding.conversation.scope if tool in CONVERSATION_TOOLS else binding.scope


def grant_said(journal: Journal, view: View, subject_id: str, row: Subject) -> dict[str, Any]:
    """Return the ledger of the newest event about a grant: {principal, tool, expires_at?, reason? ...}.

    Raises:
        JournalCorrupt: it is another grant's, or broken. BlobMissing: it is lost.
    """
    event = view.event(row.changed)
    if event is None or event.header.subject != subject_id:
        raise JournalCorrupt("the newest event about a grant is not there")
    said: dict[str, Any] = journal.ledger(view, event.header)
    key = journal.keyring.identity_key(event.header.scope)
    if subject_id != grant_id(key, said["principal"], said["tool"]):
        raise JournalCorrupt("the ledger of a grant is about another one")
    return said
