"""The journal: a store engine, its keyring and its clock under one roof.

Everything above speaks to this class. It seals and opens parts, tells lawfully erased content from lost content, and
finishes destructions that a dead process left over.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from journal import failpoints, identity, layout, limits, patience, rootchange, sealing
from journal.canonical import canonical_bytes
from journal.chain import has_ended
from journal.clock import Clock, Randomness, SteadyClock, SystemClock, SystemRandomness
from journal.errors import BlobMissing, DeadlineExceeded, JournalCorrupt, MutationOutcomeUnknown
from journal.events import EVENT_ID_BYTES, Actor, Draft, EventType, Header
from journal.frames import frame_hash, part_digest
from journal.keyring import DataKey, Keyring
from journal.scopelocks import Turns
from journal.store.lmdb.engine import LmdbStore
from journal.store.port import Part
from journal.systemfaults import faults_told

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from journal.rootchange import Plan
    from journal.scope import Scope
    from journal.store.port import Committed, Decide, Store, View

_SYSTEM = Actor("engram:system")
_ADMISSION_SECONDS = 2.0


class Journal:
    """One store's journals."""

    def __init__(
        self, store: Store, keyring: Keyring, clock: Clock, randomness: Randomness, path: Path, *,
        readonly: bool = False,
    ) -> None:  # fmt: skip
        self.store = store
        self.keyring = keyring
        self.clock = clock
        self.randomness = randomness
        self.path = path
        self._readonly = readonly
        self._checked: set[bytes] = set()
        self._untidy: set[bytes] = set()  # what a dead rotation left over there could not be removed yet
        self._admissions = Turns("taking a scope into use")
        self.tell_outside: Callable[[Scope, int, bytes], None] = lambda scope, cursor, frame_hash: None
        """Told, before keys are destroyed, the cursor and hash of the newest event that demands it."""

    @classmethod
    @faults_told()
    def open(
        cls, path: Path, root_key: bytes, *, clock: Clock | None = None, randomness: Randomness | None = None,
        readonly: bool = False, reread_root: Callable[[], bytes] | None = None,
    ) -> Journal:  # fmt: skip
        """Open the store in a directory.

        ``reread_root`` gives the root key that is in force by now, should it be replaced while the store is open.

        Raises:
            StoreUnavailable: it is not there, cannot be opened, or the root key is another store's.
            RegistryVersionUnavailable: its format is another. JournalCorrupt: its files are cut or broken.
        """
        layout.check(path)
        layout.check_journal(path)
        _keep_private()
        steady = clock if clock is not None else SteadyClock(SystemClock())
        source = randomness if randomness is not None else SystemRandomness()
        if not readonly:
            rootchange.settle(path / layout.KEYS)
        keyring = Keyring(path / layout.KEYS, root_key, source, readonly=readonly, reread_root=reread_root)
        keyring.check_root()
        try:
            store = LmdbStore(
                path / layout.JOURNAL, steady, readonly=readonly, failpoint=failpoints.reach, located=keyring.located
            )
        except BaseException:
            keyring.close()
            raise
        keyring.is_known = lambda scope: store.head(scope).cursor > 0

        def stored(scope: Scope, key_ids: Collection[bytes]) -> set[bytes]:
            with store.view(scope) as view:
                return {key_id for key_id in key_ids if view.slot(key_id) is not None}

        keyring.stored = stored
        return cls(store, keyring, steady, source, path, readonly=readonly)

    # --- writing ---------------------------------------------------------------------------------

    def commit(
        self, scope: Scope, decide: Decide, *, deadline: float | None = None, leading: bool = False,
        prepare: Callable[[], None] | None = None,
    ) -> list[Committed]:  # fmt: skip
        """Append what ``decide`` returns (journal.store.port.Store.commit)."""
        self.admit(scope, deadline)
        return self.store.commit(scope, decide, deadline=deadline, leading=leading, prepare=prepare)

    def random_event_id(self, scope: Scope) -> bytes:
        """Return the event id of an event that has no idempotency key."""
        return self.randomness.draw(scope, EVENT_ID_BYTES)

    def take_key(self, scope: Scope) -> DataKey:
        """Return a fresh data key whose slot is durable."""
        self.admit(scope)
        key = self.keyring.take(scope)
        failpoints.reach("slot.written")
        return key

    def seal_content(self, scope: Scope, event_id: bytes, subject: str | None, key: DataKey, value: Any) -> bytes:
        """Return the sealed content part of a JSON value under a data key."""
        return self._seal_content(scope, event_id, subject, key.key, value)

    def _seal_content(self, scope: Scope, event_id: bytes, subject: str | None, key: bytes, value: Any) -> bytes:
        aad = sealing.associated_data(sealing.Purpose.BODY, scope, event_id, subject)
        return sealing.seal(key, sealing.Purpose.BODY, aad, canonical_bytes(value), self._nonce(scope))

    def seal_under(
        self, view: View, scope: Scope, event_id: bytes, subject: str, key_id: bytes | None, value: Any
    ) -> bytes:
        """Return the sealed content part of a JSON value under a data key that stands already: its subject's own.

        Raises:
            BlobMissing: the key is lost or destroyed.
        """
        key = self.data_key(view, scope, key_id, "a subject")
        if key is None:
            raise BlobMissing("the key of a subject is lost or destroyed")
        return self._seal_content(scope, event_id, subject, key, value)

    def seal_ledger(self, scope: Scope, event_id: bytes, subject: str | None, value: Any) -> bytes:
        """Return the sealed ledger part of a JSON value under the scope's ledger key."""
        aad = sealing.associated_data(sealing.Purpose.LEDGER, scope, event_id, subject)
        key = self.keyring.ledger_key(scope)
        return sealing.seal(key, sealing.Purpose.LEDGER, aad, canonical_bytes(value), self._nonce(scope))

    def _nonce(self, scope: Scope) -> bytes:
        return self.randomness.draw(scope, limits.NONCE_BYTES)

    # --- reading ---------------------------------------------------------------------------------

    def content(self, view: View, header: Header) -> Any | None:
        """Return an event's content, or None where it was lawfully erased.

        Raises:
            BlobMissing: the part or its key is lost. JournalCorrupt: the part is not what the header names.
        """
        self.admit(header.scope)
        if _is_over(view, header):
            return None
        part = view.body(header.cursor, Part.CONTENT)
        if part is None or header.key_id is None:
            raise BlobMissing(f"the content at cursor {header.cursor} is missing")
        if part_digest(part) != header.content_digest:
            raise JournalCorrupt(f"the content at cursor {header.cursor} is not what its header names")
        key = self.data_key(view, header.scope, header.key_id, f"the content at cursor {header.cursor}")
        if key is None:
            # The view may be older than the end of its subject, and the key be destroyed since.
            with self.store.view(header.scope) as fresh:
                if _is_over(fresh, header):
                    return None
            raise BlobMissing(f"the key of the content at cursor {header.cursor} is lost")
        aad = sealing.associated_data(sealing.Purpose.BODY, header.scope, header.event_id, header.subject)
        return msgspec.json.decode(sealing.unseal(key, sealing.Purpose.BODY, aad, part))

    def data_key(self, view: View, scope: Scope, key_id: bytes | None, owner: str) -> bytes | None:
        """Return a data key, or None where no slot holds it; ``owner`` is named if its slot is torn (BlobMissing)."""
        slot = None if key_id is None else view.slot(key_id)
        if key_id is None or slot is None:
            return None
        try:
            return self.keyring.open(scope, key_id, slot)
        except JournalCorrupt as error:
            raise BlobMissing(f"the key of {owner} is lost: {error.detail}") from error

    def ledger(self, view: View, header: Header) -> Any:
        """Return an event's ledger.

        Raises:
            BlobMissing: the part is missing. JournalCorrupt: it is not what the header names.
        """
        part = view.body(header.cursor, Part.LEDGER)
        if part is None:
            raise BlobMissing(f"the ledger at cursor {header.cursor} is missing")
        if part_digest(part) != header.ledger_digest:
            raise JournalCorrupt(f"the ledger at cursor {header.cursor} is not what its header names")
        aad = sealing.associated_data(sealing.Purpose.LEDGER, header.scope, header.event_id, header.subject)
        key = self.keyring.ledger_key(header.scope)
        return msgspec.json.decode(sealing.unseal(key, sealing.Purpose.LEDGER, aad, part))

    def payload(self, scope: Scope, subject: str | int | Header, view: View | None = None) -> dict[str, Any] | None:
        """Return the effective payload of a candidate, or None where it was erased.

        ``subject``: its id, its capture's cursor, or that event's verified header. ``view``: one to read through.
        """
        with self.store.view(scope) if view is None else nullcontext(view) as held:
            header = subject if isinstance(subject, Header) else self._capture(held, subject)
            content = self.content(held, header)
        return None if content is None else content["payload"]

    @staticmethod
    def _capture(view: View, subject: str | int) -> Header:
        found = view.subject(subject) if isinstance(subject, str) else None
        if isinstance(subject, str) and found is None:
            raise JournalCorrupt("a subject is not in the index")
        cursor = subject if found is None else found.born
        event = view.event(int(cursor))
        if event is None:
            raise JournalCorrupt(f"the event at cursor {cursor} is missing")
        return event.header

    def said(self, scope: Scope, cursor: int, view: View | None = None) -> dict[str, Any] | None:
        """Return what a conversation event says: its content, or its ledger where it has none; None once erased.

        Raises:
            BlobMissing: it is lost. JournalCorrupt: it is not what the journal says.
        """
        with self.store.view(scope) if view is None else nullcontext(view) as held:
            event = held.event(cursor)
            if event is None:
                raise JournalCorrupt(f"the event at cursor {cursor} is missing")
            header = event.header
            said: dict[str, Any] | None = (
                self.content(held, header) if header.content_digest is not None else self.ledger(held, header)
            )
        return said

    def projection_key(self, scope: Scope, name: str, version: int) -> bytes:
        """Return the 32-byte key of a projection version."""
        return self.keyring.projection_key(scope, name, version)

    # --- destruction -----------------------------------------------------------------------------

    def admit(self, scope: Scope, deadline: float | None = None) -> None:
        """Before a scope is first used by this process: finish what dead processes left over, undo an older slot file.

        Keys are destroyed and the journal is told so where the locks for it are had in a moment, for reads come this
        way too; else the next ``finish_destructions`` does it. What was erased is not served meanwhile. A journal that
        is open for reading only leaves all that to one that may write.

        Raises:
            DeadlineExceeded, StoreUnavailable: the keys must be mended first, and another process holds their lock.
        """
        if scope.tag in self._checked or self._readonly:
            return
        with patience.bounded(deadline), self._admissions.turn(scope):
            if scope.tag in self._checked:
                return
            self._undo_older_slots(scope)
            if not self.keyring.tidy(scope):
                self._untidy.add(scope.tag)
        until = time.monotonic() + _ADMISSION_SECONDS
        with suppress(DeadlineExceeded, MutationOutcomeUnknown), patience.bounded(deadline):
            until = until if deadline is None else min(deadline, until)
            self.finish_destructions(scope, until)
            self._note_rotation(scope, _SYSTEM, until)
        self._checked.add(scope.tag)

    def _undo_older_slots(self, scope: Scope) -> None:
        """An older slot file put back: destroy every terminal subject's key again before anything is served."""
        with self.store.view(scope) as view:
            mirrored = view.head.slot_generation
            if self.keyring.generation(scope) >= mirrored:
                return
            doomed = [
                (row.key_id, view.slot(row.key_id))
                for name, row in view.subjects()
                if row.key_id and has_ended(name, row.state)
            ]
        self.keyring.destroy(scope, doomed, at_least=mirrored)

    def finish_destructions(self, scope: Scope, deadline: float | None = None) -> bool:
        """Destroy every key whose terminal event is committed, and say so in the journal; return whether there was any.

        Safe to repeat and to run from several processes: destroying twice is harmless, and the event is written only
        while a mark is left.
        """
        if scope.tag in self._untidy and self.keyring.tidy(scope):
            self._untidy.discard(scope.tag)
        with self.store.view(scope) as view:
            marks = view.pending_destructions()
            if not marks:
                return False
            doomed = [(key_id, view.slot(key_id)) for _, key_id in marks]
            last = marks[-1][0]
            ended = view.event(last)
        with patience.bounded(deadline):
            if ended is not None:
                self.tell_outside(scope, last, frame_hash(ended.frame))
            failpoints.reach("destroy.before")
            generation = self.keyring.destroy(scope, doomed)
        failpoints.reach("destroy.after")

        def decide(view: View) -> Sequence[Draft]:
            if not any(cursor <= last for cursor, _ in view.pending_destructions()):
                return []
            event_id = self.random_event_id(scope)
            ledger = {"keys_destroyed": len(doomed), "up_to_cursor": str(last)}
            draft = Draft(
                type=EventType.ERASURE_DONE, event_id=event_id, actor=_SYSTEM, related=str(last),
                slot_generation=generation, ledger=self.seal_ledger(scope, event_id, None, ledger),
            )  # fmt: skip
            return [draft]

        self.store.commit(scope, decide, deadline=deadline)
        return True

    def key_is_destroyed(self, scope: Scope, subject_id: str) -> bool:
        """Whether no slot on disk holds a subject's data key, as it stands now."""
        with self.store.view(scope) as view:
            row = view.subject(subject_id)
            slot = None if row is None or row.key_id is None else view.slot(row.key_id)
        if row is None or row.key_id is None:
            return False
        return self.keyring.is_destroyed(scope, row.key_id, slot)

    @faults_told()
    def rotate_keys(self, scope: Scope, actor: Actor) -> int:
        """Make a new wrapping key for a scope and re-wrap its data keys; return the new epoch."""
        self.admit(scope)
        self.keyring.rotate(scope, failpoints.reach)
        return self._note_rotation(scope, actor)

    @faults_told()
    def replace_root_key(self, plan: Plan, actor: Actor) -> dict[Scope, int]:
        """Put a new root key in force for the whole store, every key wrapped anew; return each scope's new epoch.

        Raises:
            As ``rootchange.replace_root``.
        """
        for scope in self.keyring.scopes():
            self.admit(scope)
        rootchange.replace_root(self.keyring, self.path / layout.KEYS, plan, failpoints.reach)
        return {scope: self._note_rotation(scope, actor) for scope in self.keyring.scopes()}

    def _note_rotation(self, scope: Scope, actor: Actor, deadline: float | None = None) -> int:
        """Write the event of the rotation that led to the epoch in force, if nobody has; return the epoch."""
        generation, epoch = self.keyring.generation(scope), self.keyring.epoch(scope)
        event_id = identity.rotation(self.keyring.identity_key(scope), epoch)

        def decide(view: View) -> Sequence[Draft]:
            if view.outcome(event_id) is not None:
                return []
            ledger = self.seal_ledger(scope, event_id, None, {"epoch": epoch})
            return [
                Draft(
                    type=EventType.KEY_ROTATION, event_id=event_id, actor=actor, slot_generation=generation,
                    ledger=ledger,
                )
            ]  # fmt: skip

        with self.store.view(scope) as view:
            noted = epoch == 1 or view.outcome(event_id) is not None
        if not noted:
            self.store.commit(scope, decide, deadline=deadline)
        return epoch

    def close(self) -> None:
        """Close the store and forget the keys."""
        self.store.close()
        self.keyring.close()


def _keep_private() -> None:
    """Files of this process are its user's alone, and no core dump of it holds a key."""
    os.umask(0o077)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _is_over(view: View, header: Header) -> bool:
    """Whether the subject of an event has ended, so that its content is lawfully erased."""
    subject = None if header.subject is None else view.subject(header.subject)
    return subject is not None and header.subject is not None and has_ended(header.subject, subject.state)
