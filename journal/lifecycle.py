"""The lifecycle table: 12 operations, 10 from-states, 22 legal cells (CONTRACT §5).

The journal checks it on every write, and replay checks it again.
"""

from __future__ import annotations

from enum import IntEnum

from journal.errors import AlreadyTerminal, IllegalTransition


class State(IntEnum):
    """The state of a candidate or record. The numbers are part of the frame format."""

    ABSENT = 0
    PENDING = 1
    REJECTED = 2
    WITHDRAWN = 3
    ACCEPTED_CURRENT = 4
    ACCEPTED_DISPUTED = 5
    HISTORICAL = 6
    EXPIRED = 7
    TRUST_INVALID = 8
    TOMBSTONED = 9

    @property
    def label(self) -> str:
        """The contract's name of the state."""
        return self.name.lower()


class Operation(IntEnum):
    """The lifecycle operations. The numbers are event type numbers (``journal.events``)."""

    CAPTURE = 1
    ACCEPT = 2
    REJECT = 3
    WITHDRAW = 4
    DISPUTE = 5
    RESOLVE_DISPUTE = 6
    SUPERSEDE = 7
    MARK_NON_CURRENT = 8
    REWIND = 9
    EXPIRE = 10
    TRUST_INVALIDATE = 11
    TOMBSTONE = 12

    @property
    def label(self) -> str:
        """The contract's name of the operation."""
        return self.name.lower()


TERMINAL = frozenset({State.REJECTED, State.WITHDRAWN, State.TOMBSTONED})
KEY_DESTROYING = frozenset({Operation.REJECT, Operation.WITHDRAW, Operation.TOMBSTONE})

_CURRENT = (State.ACCEPTED_CURRENT, State.ACCEPTED_DISPUTED)
_LIVE = (*_CURRENT, State.HISTORICAL)
_TABLE: dict[Operation, tuple[tuple[State, ...], State]] = {
    Operation.CAPTURE: ((State.ABSENT,), State.PENDING),
    Operation.ACCEPT: ((State.PENDING,), State.ACCEPTED_CURRENT),
    Operation.REJECT: ((State.PENDING,), State.REJECTED),
    Operation.WITHDRAW: ((State.PENDING,), State.WITHDRAWN),
    Operation.DISPUTE: ((State.ACCEPTED_CURRENT,), State.ACCEPTED_DISPUTED),
    Operation.RESOLVE_DISPUTE: ((State.ACCEPTED_DISPUTED,), State.ACCEPTED_CURRENT),
    Operation.SUPERSEDE: (_CURRENT, State.HISTORICAL),
    Operation.MARK_NON_CURRENT: (_CURRENT, State.HISTORICAL),
    Operation.REWIND: ((State.HISTORICAL,), State.ACCEPTED_CURRENT),
    Operation.EXPIRE: (_LIVE, State.EXPIRED),
    Operation.TRUST_INVALIDATE: (_LIVE, State.TRUST_INVALID),
    Operation.TOMBSTONE: ((*_LIVE, State.EXPIRED, State.TRUST_INVALID), State.TOMBSTONED),
}
LEGAL: dict[tuple[Operation, State], State] = {
    (operation, state): to_state for operation, (states, to_state) in _TABLE.items() for state in states
}


def next_state(operation: Operation, from_state: State) -> State:
    """Return the state that follows.

    Raises:
        AlreadyTerminal: the subject is rejected, withdrawn or tombstoned.
        IllegalTransition: another state that forbids the operation.
    """
    to_state = LEGAL.get((operation, from_state))
    if to_state is None:
        detail = f"{operation.label} from {from_state.label}"
        raise AlreadyTerminal(detail) if from_state in TERMINAL else IllegalTransition(detail)
    return to_state
