"""Expiry as an event: a record whose expires_at has passed gets one, and where the host says so its key goes too.

Reads never wait for it: they compare expires_at with the clock, and an expired record is gone for them at that very
instant. The event tells the history, and lets the record be erased. Whether a record has its event yet is decided under
the scope's lock, so that two processes never write two.

A pending candidate is left alone. Nobody admitted it, nobody can read it, and its retry must still find it; a person
rejects it, or admits it, and then it is expired at the next round.

Where the host destroys what expired, the record is tombstoned after it expired. So the key is destroyed, projections
are compacted, and content that comes again is shown to a person, all as after a forgetting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from journal import limits
from journal.events import Actor, Draft, EventType
from journal.lifecycle import Operation, State, next_state

if TYPE_CHECKING:
    from journal.scope import Scope
    from journal.store.port import View
    from projections.current_reader import Row
    from tools.memory.engine import Engine

_SYSTEM = Actor("engram:system")
_REASON = "expires_at has passed"
_EXPIRABLE = (State.ACCEPTED_CURRENT, State.ACCEPTED_DISPUTED, State.HISTORICAL)


def expire_records(engine: Engine, scope: Scope, deadline: float | None = None) -> bool:
    """Move on the records of a scope whose time has passed, a round's worth; return whether there may be more.

    ``deadline`` is in ``time.monotonic`` seconds.

    Raises:
        EngramError: the projection could not be brought to the head, or the store cannot be written now.
    """
    expired = _move(engine, scope, Operation.EXPIRE, _EXPIRABLE, deadline)
    destroyed = 0
    if engine.binding.destroy_expired:
        destroyed = _move(engine, scope, Operation.TOMBSTONE, (State.EXPIRED,), deadline)
        if destroyed:
            engine.settle(scope)
    return limits.EXPIRY_ROUND_MAX in (expired, destroyed)


def _move(
    engine: Engine, scope: Scope, operation: Operation, states: Sequence[State], deadline: float | None
) -> int:  # fmt: skip
    """Move the records in these states whose time has passed; return how many were found, a round's worth at most."""
    now = engine.clock.now()
    with engine.projections(scope).snapshot(deadline, ("current",)) as snapshot:
        rows = snapshot.current.expired(states, now, limits.EXPIRY_ROUND_MAX)
    if rows:
        engine.journal.commit(scope, partial(_drafts, engine, scope, operation, rows), deadline=deadline)
    return len(rows)


def _drafts(engine: Engine, scope: Scope, operation: Operation, rows: Sequence[Row], view: View) -> list[Draft]:
    """Return the events of those records that are still in the state in which they were found."""
    return [
        _draft(engine, scope, operation, row)
        for row in rows
        if (subject := view.subject(row.candidate_id)) is not None and subject.state == row.state
    ]


def _draft(engine: Engine, scope: Scope, operation: Operation, row: Row) -> Draft:
    event_id = engine.journal.random_event_id(scope)
    return Draft(
        type=EventType(operation), event_id=event_id, actor=_SYSTEM, subject=row.candidate_id, record_id=row.record_id,
        from_state=row.state, to_state=next_state(operation, row.state),
        ledger=engine.journal.seal_ledger(scope, event_id, row.candidate_id, {"reason": _REASON}),
    )  # fmt: skip
