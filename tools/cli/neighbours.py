"""The records that are most like a candidate by their words: what a person looks at before deciding."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from journal import limits
from journal.errors import BlobMissing, EngramError, JournalCorrupt
from tools.cli import subjects

if TYPE_CHECKING:
    from journal.scope import Scope
    from tools.memory.engine import Engine

_MILLIONTHS = 1_000_000


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One record that shares words with a candidate."""

    record_id: str
    shared_millionths: int  # of all the different words of both texts, how many both have
    says: str  # the beginning of its words, safe for a terminal

    def as_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {"record_id": self.record_id, "shared": self.shared_millionths, "says": self.says}


def neighbours(engine: Engine, scope: Scope, payload: dict[str, Any]) -> list[Neighbour] | None:
    """Return the records in force that are most like a candidate's primary text, the likest first.

    The index finds them; they are ordered by the words that both share, which a long record has no advantage in. None:
    the index cannot be asked just now, which is no reason not to show the candidate.
    """
    from projections.lexical.question import Question
    from projections.serving import RECORDS

    text = subjects.primary_text(payload)
    question = Question(Question.of(text[: limits.NEIGHBOUR_TEXT_CHARACTERS]).terms)
    purposes = frozenset({*engine.binding.purpose_refs, payload["purpose_ref"]})
    now, deadline = engine.clock.now(), time.monotonic() + limits.CALL_DEADLINE_SECONDS
    try:
        with engine.projections(scope).snapshot(deadline, RECORDS) as snapshot:
            current = snapshot.current
            ranked = snapshot.lexical.search(
                question, limits.NEIGHBOURS_LOOKED_AT, lambda cursors: current.eligible(cursors, now, purposes)
            )
            found = [cursor for cursor, _ in ranked.hits[: limits.NEIGHBOURS_LOOKED_AT]]
    except EngramError:
        return None
    wanted = frozenset(question.terms)
    made = [each for cursor in found if (each := _neighbour(engine, scope, cursor, wanted)) is not None]
    made.sort(key=lambda each: -each.shared_millionths)
    return made[: limits.NEIGHBOURS_SHOWN]


def _neighbour(engine: Engine, scope: Scope, cursor: int, wanted: frozenset[str]) -> Neighbour | None:
    from projections.lexical.question import Question

    with engine.journal.store.view(scope) as view:
        event = view.event(cursor)
        if event is None or event.header.subject is None:
            return None
        subject = view.subject(event.header.subject)
        try:
            content = engine.journal.content(view, event.header)
        except (BlobMissing, JournalCorrupt):
            return None  # the audit tells of it
    if content is None or subject is None or subject.record_id is None:
        return None
    text = subjects.primary_text(content["payload"])
    words = frozenset(Question.of(text[: limits.NEIGHBOUR_TEXT_CHARACTERS]).terms)
    shared = len(words & wanted) * _MILLIONTHS // max(len(words | wanted), 1)
    return Neighbour(subject.record_id, shared, subjects.beginning(text))
