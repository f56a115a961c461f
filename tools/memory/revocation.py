"""Trust that was given under an older revocation epoch than the host's: it counts no more.

The host raises the epoch in its file when it has a reason to: a verifier that was wrong, roots that others could write
to. A candidate is from then on admitted as if nothing had been verified; of a record a person takes the trust away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import BlobMissing, JournalCorrupt
from journal.lifecycle import LEGAL, Operation, State

if TYPE_CHECKING:
    from journal.scope import Scope
    from tools.host.verifiers.port import Verifier
    from tools.memory.engine import Engine

_LIVE = frozenset(state for operation, state in LEGAL if operation is Operation.TRUST_INVALIDATE)


@dataclass(frozen=True, slots=True)
class Revoked:
    """A record whose trust counts no more."""

    candidate_id: str
    record_id: str
    state: State
    epoch: int  # under which the trust was given

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {
            "record_id": self.record_id,
            "candidate_id": self.candidate_id,
            "state": self.state.label,
            "revocation_epoch": str(self.epoch),
        }


def is_revoked(trust: dict[str, Any], verifier: Verifier | None) -> bool:
    """Whether trust is of the host's verifier, and older than the epoch that the host names now."""
    if verifier is None or trust["verifier_id"] != verifier.verifier_id:
        return False
    return int(trust["revocation_epoch"]) < verifier.revocation_epoch


def revoked_records(engine: Engine, scope: Scope) -> Iterator[Revoked]:
    """Yield the records whose trust counts no more and was not taken away yet, oldest first.

    Every record is opened. What is lost is left out: the audit tells of it.
    """
    with engine.journal.store.view(scope) as view:
        rows = sorted((row.born, name, row) for name, row in view.subjects() if row.record_id and row.state in _LIVE)
    for start in range(0, len(rows), limits.READ_PAGE_EVENTS):
        with engine.journal.store.view(scope) as view:
            for born, name, row in rows[start : start + limits.READ_PAGE_EVENTS]:
                event = view.event(born)
                try:
                    content = None if event is None else engine.journal.content(view, event.header)
                except (BlobMissing, JournalCorrupt):
                    continue
                if content is not None and is_revoked(content["trust"], engine.verifier):
                    assert row.record_id is not None
                    epoch = int(content["trust"]["revocation_epoch"])
                    yield Revoked(name, row.record_id, State(row.state), epoch)
