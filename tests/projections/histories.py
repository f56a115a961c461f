"""A journal in memory, a projection that is easy to see through, and histories of events for both."""

from __future__ import annotations

import base64
import hashlib
import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from journal.clock import instant
from journal.digests import candidate_id_of
from journal.events import FORMAT, Actor, Draft, EventType, Header
from journal.frames import GENESIS, encode_frame, frame_hash
from journal.lifecycle import LEGAL, TERMINAL, Operation, State
from journal.scope import Scope
from journal.store.port import Committed, Head
from projections.current import Current

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from projections.port import FoldEvent, Reading, Tables, Writing

SCOPE = Scope.of("tenant:test", "workspace:test")
ACTOR = Actor("principal:test")
NOON = 1_764_417_600_000  # epoch ms
PURPOSE = "purpose:case"


def candidate(number: int) -> str:
    return candidate_id_of(hashlib.sha256(b"event %d" % number).digest())


def record(number: int) -> str:
    raw = hashlib.sha256(b"record %d" % number).digest()
    return "mem_" + base64.b32encode(raw).decode().rstrip("=").lower()


def payload_of(
    text: str = "applied the correction", *, t: int = NOON, t_end: int | None = None, expires_at: int | None = None,
    purpose: str = PURPOSE,
) -> dict[str, Any]:  # fmt: skip
    valid = {"t": t} if t_end is None else {"t": t, "t_end": t_end}
    retention = {"derivative_rule": "make-ineligible"}
    if expires_at is not None:
        retention["expires_at"] = instant(expires_at)
    component = {"component_id": "component:1", "kind": "decision", "text": text, "citation_ids": ["citation:1"]}
    citation = {
        "citation_id": "citation:1", "source_ref": "source:1", "locator": {"scheme": "document", "value": "page-1"},
        "content_digest": "sha256:" + "a" * 64,
    }  # fmt: skip
    return {
        "schema_version": 2, "scope_ref": SCOPE.ref, "purpose_ref": purpose, "valid_time": valid,
        "components": [component], "primary_component_id": "component:1", "citations": [citation],
        "primary_event": {"at": t, "type_ref": "event:1", "citation_id": "citation:1"}, "retention": retention,
        "reconciliation": {"family_refs": []},
    }  # fmt: skip


class StandingClock:
    def __init__(self, now: int = NOON) -> None:
        self.moment = now

    def now(self) -> int:
        return self.moment


@dataclass
class MemoryStore:
    """What a projection asks of a storage engine."""

    scope: Scope = SCOPE
    events: list[Committed] = field(default_factory=list)

    def head(self, scope: Scope) -> Head:
        if scope != self.scope or not self.events:
            return Head(0, GENESIS, 0, 0)
        last = self.events[-1]
        return Head(last.header.cursor, frame_hash(last.frame), last.header.recorded_at, 0)

    def read(self, scope: Scope, after: int, limit: int) -> list[Committed]:
        return self.events[after : after + limit] if scope == self.scope else []

    @contextmanager
    def view(self, scope: Scope) -> Iterator[MemoryStore]:
        yield self

    def pending_erasures(self) -> list[tuple[int, str]]:
        headers = [event.header for event in self.events]
        return [(header.cursor, header.subject or "") for header in headers if header.type == EventType.TOMBSTONE]


class MemoryJournal:
    """What a projection asks of a journal, and verbs to write it."""

    def __init__(self, scope: Scope = SCOPE) -> None:
        self.scope = scope
        self.store = MemoryStore(scope)
        self.clock = StandingClock()
        self.payloads: dict[str, dict[str, Any]] = {}
        self.states: dict[str, State] = {}
        self.opened: list[str] = []

    def payload(self, scope: Scope, subject: str | int | Header, view: object = None) -> dict[str, Any] | None:
        name = subject.subject if isinstance(subject, Header) else subject
        assert isinstance(name, str)
        self.opened.append(name)
        return None if self.states[name] in TERMINAL else self.payloads[name]

    def said(self, scope: Scope, cursor: int, view: object = None) -> dict[str, Any] | None:
        raise NotImplementedError("these histories hold no conversation")

    def projection_key(self, scope: Scope, name: str, version: int) -> bytes:
        return hashlib.sha256(f"{scope.ref} {name} {version}".encode()).digest()

    def append(self, draft: Draft, recorded_at: int) -> int:
        head = self.store.head(self.scope)
        header = Header(
            format=FORMAT, type=draft.type, scope=self.scope, cursor=head.cursor + 1,
            recorded_at=max(recorded_at, head.recorded_at), event_id=draft.event_id, actor=draft.actor,
            subject=draft.subject, record_id=draft.record_id, related=draft.related, from_state=draft.from_state,
            to_state=draft.to_state, key_id=None, intent=None, guards=(), content_digest=None, ledger_digest=None,
            prev=head.hash,
        )  # fmt: skip
        self.store.events.append(Committed(header, encode_frame(header)))
        if draft.subject is not None:
            self.states[draft.subject] = State(draft.to_state)
        if draft.type == EventType.REWIND and draft.related is not None:
            self.states[draft.related] = State.HISTORICAL
        return header.cursor


class Author:
    """Writes histories into a journal in memory: subjects are numbers, each operation takes its legal transition.

    Everything happens at noon unless told otherwise.
    """

    def __init__(self, journal: MemoryJournal | None = None) -> None:
        self.journal = journal or MemoryJournal()
        self.states: dict[int, State] = {}
        self.now = NOON - 100_000

    def capture(self, number: int, payload: dict[str, Any] | None = None, *, at: int | None = None) -> int:
        self.journal.payloads[candidate(number)] = payload or payload_of()
        return self.move(number, Operation.CAPTURE, at=at)

    def accepted(self, number: int, payload: dict[str, Any] | None = None, *, at: int | None = None) -> int:
        cursor = self.capture(number, payload, at=at)
        self.move(number, Operation.ACCEPT, at=at)
        return cursor

    def move(self, number: int, operation: Operation, *, related: int | None = None, at: int | None = None) -> int:
        before = self.states.get(number, State.ABSENT)
        after = LEGAL[operation, before]
        self.states[number] = after
        if operation is Operation.REWIND and related is not None:
            self.states[related] = State.HISTORICAL
        self.now = max(self.now, NOON if at is None else at)
        has_record = after not in (State.PENDING, State.REJECTED, State.WITHDRAWN)
        event_id = hashlib.sha256(b"%d" % len(self.journal.store.events)).digest()
        draft = Draft(
            type=EventType(operation), event_id=event_id, actor=ACTOR,
            subject=candidate(number), record_id=record(number) if has_record else None,
            related=None if related is None else candidate(related), from_state=before, to_state=after,
        )  # fmt: skip
        return self.journal.append(draft, self.now)

    def control(self, kind: EventType = EventType.KEY_ROTATION, related: str | None = None) -> int:
        draft = Draft(type=kind, event_id=bytes(32), actor=ACTOR, related=related)
        return self.journal.append(draft, self.now)


def scribble(author: Author, rng: random.Random, events: int, *, first: int = 0, spread: int = 50) -> None:
    """Write some events of every kind, in random legal order; recorded_at moves on by up to ``spread`` ms each."""
    for _ in range(events):
        at = author.now + rng.randrange(spread + 1)
        current = [number for number, state in author.states.items() if state is State.ACCEPTED_CURRENT]
        legal = [(n, op) for n, state in author.states.items() for op in Operation if (op, state) in LEGAL]
        choice = rng.random()
        if choice < 0.35 or not legal:
            number = first + len(author.states)
            author.capture(number, _some_payload(rng, author.now, number), at=at)
            continue
        if choice < 0.4:
            author.control()
            continue
        number, operation = rng.choice(legal)
        others = [other for other in current if other != number]
        if operation in (Operation.REWIND, Operation.SUPERSEDE):
            if others:
                author.move(number, operation, related=rng.choice(others), at=at)
        else:
            author.move(number, operation, at=at)


def _some_payload(rng: random.Random, now: int, number: int) -> dict[str, Any]:
    t = now + rng.randrange(-200, 200)
    t_end = t + rng.randrange(300) if rng.random() < 0.4 else None
    expires_at = now + rng.randrange(1, 400) if rng.random() < 0.4 else None
    words = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 8)))
    purpose = rng.choice((PURPOSE, "purpose:other"))
    return payload_of(f"{words} number{number}", t=t, t_end=t_end, expires_at=expires_at, purpose=purpose)


WORDS = "journal event cursor record projection receipt checkpoint grant guard scope 알림 설정 기록".split()


class Words:
    """A projection whose bytes can be read by eye: word -> cursors of the readable records that hold it."""

    name = "words"
    version = 1
    databases: tuple[bytes, ...] = (b"subjects", b"texts", b"words")

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        for event in events:
            header = event.header
            if header.type == EventType.CAPTURE:
                assert header.subject is not None
                txn.put(header.subject.encode(), header.cursor.to_bytes(8, "big"), db=databases[b"subjects"])
            elif header.type < 32:
                self._move(txn, databases, header.subject, event, current=header.to_state == State.ACCEPTED_CURRENT)
                if header.type == EventType.REWIND:
                    self._move(txn, databases, header.related, event, current=False)

    def _move(self, txn: Writing, databases: Tables, subject: str | None, event: FoldEvent, *, current: bool) -> None:
        assert subject is not None
        raw = txn.get(subject.encode(), db=databases[b"subjects"])
        assert raw is not None
        cursor = bytes(raw)
        held = txn.get(cursor, db=databases[b"texts"])
        if held is not None and not current:
            for word in set(bytes(held).split()):
                self._set(txn, databases, word, cursor, there=False)
            txn.delete(cursor, db=databases[b"texts"])
        payload = event.payload() if current and held is None else None
        if payload is not None:
            text = " ".join(component["text"] for component in payload["components"]).encode()
            for word in set(text.split()):
                self._set(txn, databases, word, cursor, there=True)
            txn.put(cursor, text, db=databases[b"texts"])

    def _set(self, txn: Writing, databases: Tables, word: bytes, cursor: bytes, *, there: bool) -> None:
        held = bytes(txn.get(word, db=databases[b"words"]) or b"")
        cursors = {held[at : at + 8] for at in range(0, len(held), 8)}
        cursors = cursors | {cursor} if there else cursors - {cursor}
        if cursors:
            txn.put(word, b"".join(sorted(cursors)), db=databases[b"words"])
        else:
            txn.delete(word, db=databases[b"words"])

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        hasher = hashlib.sha256()
        for name in (b"texts", b"words"):
            for key, value in txn.cursor(db=databases[name]).iternext():
                hasher.update(repr((name, bytes(key), bytes(value))).encode())
        return hasher.digest()

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> WordsReader:
        return WordsReader(txn, databases)


class WordsReader:
    def __init__(self, txn: Reading, databases: Tables) -> None:
        self._txn = txn
        self._databases = databases

    def cursors(self, word: str) -> list[int]:
        held = bytes(self._txn.get(word.encode(), db=self._databases[b"words"]) or b"")
        return [int.from_bytes(held[at : at + 8], "big") for at in range(0, len(held), 8)]


def make(journal: Any, scope: Scope) -> list[Any]:
    """Make two projections: ``current`` and ``words``."""
    return [Current(journal.projection_key(scope, "current", 1)), Words()]
