"""Figures of one scope: its events, the states of its subjects, its sealed parts, its keys, its projections."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from journal import layout, limits
from journal.authority import GRANT_PREFIX, GrantState
from journal.chain import CANDIDATE_PREFIX, CONFIRMATION_PREFIX
from journal.clock import instant
from journal.errors import EngramError
from journal.events import CONTROL, LIFECYCLE, EventType, Header, RequestState
from journal.indexes import Table, decode_subject
from journal.lifecycle import State
from journal.log import Journal
from journal.messages import PREFIX as MESSAGE_PREFIX
from journal.messages import MessageState
from journal.scope import Scope
from journal.slots import SlotState
from journal.store.lmdb import tables
from journal.store.lmdb.engine import LmdbStore
from journal.store.port import Subject
from projections.environment import Unusable
from projections.generations import Generations
from projections.serving import make_projections
from projections.snapshot import projection_digest
from tools.cli.checkup import generations, keyslots
from tools.cli.figures.checkpoints import checkpoint_figures
from tools.cli.figures.conversation import STATES, ConversationCount
from tools.cli.figures.embeddings import embedding_figures
from tools.cli.figures.store import size_bytes

if TYPE_CHECKING:
    from projections.vector.providers.port import Identity

_WAIT_SECONDS = 5.0


def scope_figures(
    journal: Journal, scope: Scope, *, digests: bool, anchor: Path | None = None, model: Identity | str | None = None
) -> dict[str, Any]:
    """Return a scope's figures as one JSON object; cursors are strings, as everywhere.

    ``model``: what the host's embeddings are bound to (``figures.embeddings.model_of``); of None nothing is told.
    """
    assert isinstance(journal.store, LmdbStore)
    head = journal.store.head(scope)
    return {
        "tenant_id": scope.tenant_id,
        "workspace_id": scope.workspace_id,
        "head_cursor": str(head.cursor),
        "first_recorded_at": _recorded_at(journal, scope, 1),
        "last_recorded_at": instant(head.recorded_at) if head.cursor else None,
        **_events(journal, scope, head.cursor),
        **_subjects(journal.store, scope),
        "pending": _pending(journal, scope),
        "keys": _keys(journal, journal.store, scope),
        "checkpoints": checkpoint_figures(journal, scope, anchor),
        "projections": [_projection(journal, scope, name, digests=digests) for name in generations.SERVED],
        **({} if model is None else {"embeddings": embedding_figures(journal, scope, model)}),
    }


def _recorded_at(journal: Journal, scope: Scope, cursor: int) -> str | None:
    with journal.store.view(scope) as view:
        event = view.event(cursor) if cursor else None
    return None if event is None else instant(event.header.recorded_at)


def _events(journal: Journal, scope: Scope, upto: int) -> dict[str, Any]:
    types: Counter[int] = Counter()
    parts: Counter[str] = Counter(content=0, content_erased=0, ledger=0)
    conversation = ConversationCount(journal)
    cursor = 0
    while cursor < upto:
        page = journal.store.read(scope, cursor, min(limits.READ_PAGE_EVENTS, upto - cursor))
        with journal.store.view(scope) as view:
            for event in page:
                types[event.header.type] += 1
                conversation.take(view, event.header)
                parts["ledger"] += event.header.ledger_digest is not None
                if event.header.content_digest is not None:
                    erased = _is_over(event.header, view.subject(event.header.subject or ""))
                    parts["content_erased" if erased else "content"] += 1
        cursor = page[-1].header.cursor
    families = Counter(
        {
            "lifecycle": sum(types[number] for number in types if number in LIFECYCLE),
            "control": sum(types[number] for number in types if number in CONTROL),
        }
    )
    families["conversation"] = types.total() - families.total()
    by_type = {EventType(number).label: types[number] for number in sorted(types)}
    return {
        "events": {"total": types.total(), "by_family": dict(families), "by_type": by_type},
        "parts": dict(parts),
        "conversation": conversation.figures(),
    }


def _is_over(header: Header, subject: Subject | None) -> bool:
    return header.subject is not None and subject is not None and keyslots.has_ended(header.subject, subject)


def _subjects(store: LmdbStore, scope: Scope) -> dict[str, Any]:
    candidates: Counter[str] = Counter()
    records: Counter[str] = Counter()
    confirmations: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    grants: Counter[str] = Counter()
    with store.environment.reading() as (txn, databases):
        for key, raw in tables.walk_prefix(txn, databases[Table.SUBJECT.value], scope.tag):
            subject = decode_subject(raw)
            if key.decode().startswith(CONFIRMATION_PREFIX):
                confirmations[RequestState(subject.state).name.lower()] += 1
            elif key.decode().startswith(MESSAGE_PREFIX):
                messages[MessageState(subject.state).label] += 1
            elif key.decode().startswith(GRANT_PREFIX):
                grants[GrantState(subject.state).name.lower()] += 1
            elif key.decode().startswith(CANDIDATE_PREFIX):
                (candidates if subject.record_id is None else records)[State(subject.state).label] += 1
    return {
        "candidates": _in_order(candidates, [State.PENDING.label, *sorted(candidates)]),
        "records": _in_order(records, [state.label for state in State if state.label in records]),
        "confirmations": _in_order(confirmations, [state.name.lower() for state in RequestState if state]),
        "messages": _in_order(messages, [state.label for state in STATES]),
        "grants": _in_order(grants, [state.name.lower() for state in GrantState if state]),
    }


def _in_order(counts: Counter[str], names: list[str]) -> dict[str, int]:
    return {name: counts[name] for name in names}


def _pending(journal: Journal, scope: Scope) -> dict[str, int]:
    with journal.store.view(scope) as view:
        return {
            "open_requests": len(view.open_requests()),
            "candidates": len(view.pending_candidates()),
            "destructions": len(view.pending_destructions()),
            "erasures": len(view.pending_erasures()),
        }


def _keys(journal: Journal, store: LmdbStore, scope: Scope) -> dict[str, Any]:
    """Return what the slot file holds. A live slot that no event refers to is spare: written ahead, or left over."""
    folder = journal.path / layout.KEYS
    slots = keyslots.all_slots(journal.path, scope)
    with store.environment.reading() as (txn, databases):
        used = {key for key, _ in tables.walk_prefix(txn, databases[Table.SLOT.value], scope.tag)}
    live = [slot for slot in slots.slots if slot is not None and slot.state is SlotState.LIVE]
    spare = sum(slot.key_id not in used for slot in live)
    broken = sum(slot is None for slot in slots.slots)
    return {
        "epoch": slots.epoch,
        "generation": slots.generation,
        "slots": {
            "live": len(live) - spare,
            "spare": spare,
            "destroyed": len(slots.slots) - len(live) - broken,
            "broken": broken,
        },
        "size_bytes": sum(path.stat().st_size for path in folder.glob(f"{scope.tag.hex()}.*")),
    }


def _projection(journal: Journal, scope: Scope, name: str, *, digests: bool) -> dict[str, Any]:
    looked = generations.found(journal.path, scope, name)
    meta = looked.meta
    head = journal.store.head(scope).cursor
    numbers = generations.numbers_in(looked.path)
    figures = {
        "name": name,
        "state": looked.standing.value,
        "generation": looked.number,
        "version": None if meta is None else meta.version,
        "cursor": None if meta is None else str(meta.cursor),
        "cursor_recorded_at": None if meta is None else _recorded_at(journal, scope, min(meta.cursor, head)),
        "behind": None if meta is None else max(0, head - meta.cursor),
        "generations": [{"number": each, "size_bytes": size_bytes(looked.path / each)} for each in numbers],
    }
    if digests:
        figures["digest"] = None
        with suppress(OSError, EngramError, Unusable, lmdb.Error):
            figures["digest"] = _digest(journal, scope, name)
    return figures


def _digest(journal: Journal, scope: Scope, name: str) -> str | None:
    """Return the digest of a projection as it stands, not brought to the head; None where none is in force."""
    (projection,) = [each for each in make_projections(journal, scope) if each.name == name]
    place = Generations(journal.path / layout.PROJECTIONS, projection, scope)
    generation = place.open(time.monotonic() + _WAIT_SECONDS)
    if generation is None:
        return None
    try:
        with generation.environment.reading() as txn:
            content = projection.content_digest(txn, generation.tables)
            return projection_digest(scope, projection, generation.meta(txn).cursor, content)
    finally:
        generation.release()
