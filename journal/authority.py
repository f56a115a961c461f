"""Authority in the journal: grants, the tenant's opt-in, and the epoch, each as a subject that control events move.

A grant is one tool for one principal, in the scope whose journal holds it; its subject id is a keyed digest of the
two, and its ledger says them, until when it holds, and why. Besides, a scope has one row for all of its authority: its
``changed`` is the cursor of the newest event of any of these types, its ``decided`` that of the newest one that voids
what was authorised before. That cursor is the authorization epoch: it is 0 at first, and cannot fall, for cursors do
not.
"""

from __future__ import annotations

from enum import IntEnum

from journal import identity
from journal.errors import IllegalTransition
from journal.events import EventType

GRANT_PREFIX = "grant_"
AUTHORITY = "authority"
OPT_IN = "tenant_opt_in"


class GrantState(IntEnum):
    """The state of a grant: of one tool for one principal."""

    ABSENT = 0
    STANDING = 1  # until its time is up, which no event says
    REVOKED = 2


class OptIn(IntEnum):
    """The state of a tenant's opt-in, in one of its workspaces. ABSENT: the host's configuration alone says it."""

    ABSENT = 0
    ENABLED = 1
    DISABLED = 2


LEGAL: dict[tuple[EventType, int], int] = {
    **{(EventType.GRANT, int(state)): int(GrantState.STANDING) for state in GrantState},
    (EventType.GRANT_REVOKED, int(GrantState.ABSENT)): int(GrantState.REVOKED),  # what the configuration grants
    (EventType.GRANT_REVOKED, int(GrantState.STANDING)): int(GrantState.REVOKED),
    (EventType.TENANT_ENABLED, int(OptIn.ABSENT)): int(OptIn.ENABLED),
    (EventType.TENANT_ENABLED, int(OptIn.DISABLED)): int(OptIn.ENABLED),
    (EventType.TENANT_DISABLED, int(OptIn.ABSENT)): int(OptIn.DISABLED),
    (EventType.TENANT_DISABLED, int(OptIn.ENABLED)): int(OptIn.DISABLED),
}
"""Every legal cell: (event, from) -> to. A grant may be given anew, with another end."""

GRANTS = frozenset({EventType.GRANT, EventType.GRANT_REVOKED})
"""The events whose subject is a grant."""

OPT_INS = frozenset({EventType.TENANT_ENABLED, EventType.TENANT_DISABLED})
"""The events whose subject is the tenant's opt-in."""

RAISING = frozenset({EventType.GRANT_REVOKED, EventType.EPOCH, EventType.TENANT_DISABLED})
"""The events that raise the epoch, and so void every receipt that was made before."""

EVENTS = GRANTS | OPT_INS | RAISING
"""The events of authority. What they say is ledger."""

SUBJECTS = (AUTHORITY, OPT_IN)
"""The ids of subjects that a scope has one of."""


def grant_id(identity_key: bytes, principal: str, tool: str) -> str:
    """Return the id under which a scope's journal knows the grant of a tool to a principal."""
    return GRANT_PREFIX + identity.grant(identity_key, principal, tool).hex()


def prefix_of(kind: int) -> str:
    """Return what the id of an event's subject begins with; empty where it has none."""
    if kind in GRANTS:
        return GRANT_PREFIX
    return OPT_IN if kind in OPT_INS else ""


def is_about(kind: int, subject_id: str | None) -> bool:
    """Whether the subject of an event of authority is of its kind: a grant, the one opt-in, or none at all."""
    if kind in GRANTS:
        return subject_id is not None and subject_id.startswith(GRANT_PREFIX)
    return subject_id == (OPT_IN if kind in OPT_INS else None)


def check_step(kind: EventType, current: int) -> int:
    """Return the state to which an event leads a grant or an opt-in.

    Raises:
        IllegalTransition: it does not lead on from the current one.
    """
    to_state = LEGAL.get((kind, current))
    if to_state is None:
        raise IllegalTransition(f"{kind.label} from state {current}")
    return to_state
