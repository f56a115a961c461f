"""A real store on disk, and the least that writes it: sealed captures, acceptances, forgettings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from journal import layout
from journal.digests import candidate_id_of
from journal.events import Draft, EventType
from journal.lifecycle import Operation, State, next_state
from journal.log import Journal
from projections.catchup import Projections
from tests.projections.histories import ACTOR, SCOPE, make, payload_of, record

if TYPE_CHECKING:
    from pathlib import Path

    from journal.store.port import View

ROOT_KEY = bytes(range(32))


def created(path: Path) -> Path:
    layout.create(path, "2026-01-01T00:00:00.000Z")
    return path


class Store:
    """An open store, and one scope of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal.open(path, ROOT_KEY)

    def projections(self, maker=make) -> Projections:
        return Projections(self.journal, SCOPE, self.path / layout.PROJECTIONS, maker)

    def capture(self, text: str) -> tuple[str, int]:
        """Capture a text; return the candidate's id and the cursor."""
        event_id = self.journal.random_event_id(SCOPE)
        subject = candidate_id_of(event_id)
        key = self.journal.take_key(SCOPE)
        content = self.journal.seal_content(SCOPE, event_id, subject, key, {"payload": payload_of(text, t=0)})
        draft = Draft(
            type=EventType.CAPTURE, event_id=event_id, actor=ACTOR, subject=subject, to_state=State.PENDING,
            key_id=key.key_id, slot=key.slot, slot_generation=key.generation, content=content,
        )  # fmt: skip
        return subject, self.journal.commit(SCOPE, lambda _: [draft])[0].header.cursor

    def accepted(self, text: str) -> tuple[str, int]:
        """Capture a text and accept it; return the candidate's id and the capture's cursor."""
        subject, cursor = self.capture(text)
        self.move(subject, Operation.ACCEPT)
        return subject, cursor

    def move(self, subject: str, operation: Operation) -> int:
        """Move a subject; return the event's cursor."""
        event_id = self.journal.random_event_id(SCOPE)

        def decide(view: View) -> list[Draft]:
            found = view.subject(subject)
            assert found is not None
            before = State(found.state)
            named = record(found.born) if operation is Operation.ACCEPT else found.record_id
            ledger = self.journal.seal_ledger(SCOPE, event_id, subject, {"reason_ref": "reason:test"})
            return [
                Draft(
                    type=EventType(operation),
                    event_id=event_id,
                    actor=ACTOR,
                    subject=subject,
                    record_id=named,
                    from_state=before,
                    to_state=next_state(operation, before),
                    ledger=ledger,
                )
            ]

        return self.journal.commit(SCOPE, decide)[0].header.cursor

    def forget(self, subject: str) -> int:
        """Forget a record and destroy its key; return the tombstone's cursor."""
        cursor = self.move(subject, Operation.TOMBSTONE)
        self.journal.finish_destructions(SCOPE)
        return cursor

    def close(self) -> None:
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
