"""One generation: a projection's tables, and how far they have folded which journal.

The table ``meta`` holds, in the same transaction as the fold, what the content stands for: the projection and its
version, the scope, the cursor, and the hash that the journal's chain had there. A generation whose (cursor, hash) the
journal does not know was folded from another journal, or from one that was rolled back, and is rebuilt. Beside it
stands what all rows add up to (``projections.summing``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import lmdb
import msgspec

from journal.foreign import UNREADABLE
from journal.frames import GENESIS
from journal.scope import Scope
from journal.store.port import Head
from projections.environment import Environment, Unusable, is_broken
from projections.port import META, FoldEvent, OpenTables, Projection, Reading, Tables
from projections.summing import Summed
from projections.tail import EventSource, Page, invalidates

FORMAT = 2
_KEY = b"meta"


class Meta(msgspec.Struct, frozen=True, array_like=True):
    """What a generation's content stands for."""

    format: int
    name: str
    version: int
    scope: Scope
    cursor: int  # folded up to and including
    head_hash: bytes  # BLAKE3 of the frame at cursor
    floor: int  # the journal's head when the generation was begun: what was forgotten by then never was in here


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Meta)


@contextmanager
def _summed(environment: Environment, *, new: bool = False) -> Iterator[Summed]:
    with environment.writing() as txn:
        summed = Summed(txn, environment.tables, new=new)
        yield summed
        summed.settle()


class NewerVersion(Unusable):
    """A generation that a newer release wrote."""


class Generation:
    """An open generation. ``release`` it once for each time it was opened or retained."""

    def __init__(self, projection: Projection, scope: Scope, number: str, environment: Environment) -> None:
        """Take over an open environment.

        Raises:
            Unusable: its content is of another format, projection, version or scope.
        """
        self.projection = projection
        self.scope = scope
        self.number = number
        self.environment = environment
        self._decoded: tuple[bytes, Meta] | None = None  # as it stood when it was last looked at
        handles = {name: handle for name, handle in environment.tables.items() if name != META}
        self.tables: Tables = OpenTables(handles, environment.kept)
        """The projection's tables, its meta table left out."""
        with environment.reading() as txn:
            self.floor = self._checked(self.meta(txn)).floor

    @classmethod
    def begin(
        cls, projection: Projection, scope: Scope, number: str, environment: Environment, floor: int,
    ) -> Generation:  # fmt: skip
        """Take over a new environment, and write in it that nothing is folded yet."""
        meta = Meta(FORMAT, projection.name, projection.version, scope, 0, GENESIS, floor)
        environment.claim(None)
        try:
            with _summed(environment, new=True) as txn:
                txn.put(_KEY, _ENCODER.encode(meta), db=environment.tables[META])
        finally:
            environment.unclaim()
        return cls(projection, scope, number, environment)

    def _checked(self, meta: Meta) -> Meta:
        name, version = self.projection.name, self.projection.version
        if (meta.format, meta.name, meta.version, meta.scope) != (FORMAT, name, version, self.scope):
            newer = meta.format > FORMAT or (meta.name == name and meta.version > version)
            raise (NewerVersion if newer else Unusable)("the generation is of another format, version or scope")
        return meta

    def meta(self, txn: Reading) -> Meta:
        """Return what the content stands for, in a transaction.

        Raises:
            Unusable: it cannot be read.
        """
        try:
            raw = txn.get(_KEY, db=self.environment.tables[META])
            if raw is None:
                raise Unusable("a generation without meta")
            known = self._decoded  # a read looks several times, and it seldom changes
            if known is None or known[0] != raw:
                known = self._decoded = (bytes(raw), _DECODER.decode(raw))
            return known[1]
        except (lmdb.Error, *UNREADABLE) as error:
            if isinstance(error, lmdb.Error) and not is_broken(error):
                raise
            raise Unusable("a generation's meta cannot be read") from error

    def position(self) -> Meta:
        """Return what the content stands for now."""
        with self.environment.reading() as txn:
            return self.meta(txn)

    def seen(self) -> Meta:
        """Return what the content stood for when it was last looked at; by now it may stand for more."""
        known = self._decoded
        return self.position() if known is None else known[1]

    def fold(self, page: Page, upto: int) -> Meta:
        """Fold what the page holds after the own cursor, up to ``upto``, in one transaction; the claim is held.

        Raises:
            Unusable: the page does not continue what was folded, or takes the projection out of force.
            EngramError: whatever the fold raises; nothing was changed.
        """
        with self.writing() as txn:
            meta = self.meta(txn)
            events = self.continuing(meta, page, upto)
            if not events:
                return meta
            self.projection.fold(txn, self.tables, events)
            cursor = events[-1].header.cursor
            after = msgspec.structs.replace(meta, cursor=cursor, head_hash=page.hash_before(cursor + 1))
            txn.put(_KEY, _ENCODER.encode(after), db=self.environment.tables[META])
        return after

    def writing(self) -> AbstractContextManager[Summed]:
        """Return a context in which the tables are written to, in one transaction; the claim is held.

        Raises:
            Unusable: the generation's sums cannot be read. StoreUnavailable: as ``Environment.writing``.
        """
        return _summed(self.environment)

    def disown(self) -> None:
        """Say that the content stands for nothing, until ``inherit``; the claim is held."""
        with self.writing() as txn:
            txn.delete(_KEY, db=self.environment.tables[META])

    def inherit(self, meta: Meta) -> None:
        """Say that the content stands for what another generation's did; the own floor stays. The claim is held."""
        with self.writing() as txn:
            own = msgspec.structs.replace(meta, floor=self.floor)
            txn.put(_KEY, _ENCODER.encode(own), db=self.environment.tables[META])

    def continuing(self, meta: Meta, page: Page, upto: int) -> list[FoldEvent]:
        """Return the events of a page that come next after ``meta``.

        Raises:
            Unusable: they do not continue the chain that was folded, or take the projection out of force.
        """
        events = list(page.between(meta.cursor, upto))
        if events and events[0].header.prev != meta.head_hash:
            raise Unusable("the generation was folded from another journal")
        for event in events:
            if event.header.cursor > self.floor and invalidates(event, self.projection.name):
                raise Unusable("the projection was invalidated")
        return events

    def check_against(self, meta: Meta, head: Head, store: EventSource) -> None:
        """Check that a folded position is one that the journal had; ``head`` may be older than ``meta``.

        Where the journal goes on after ``meta``, the next fold checks the chain.

        Raises:
            Unusable: the journal was rolled back, or is another.
        """
        if meta.cursor > head.cursor:
            head = store.head(self.scope)
        if meta.cursor > head.cursor or (meta.cursor == head.cursor and meta.head_hash != head.hash):
            raise Unusable("the generation was folded from another journal, or from one that was rolled back")

    def retain(self) -> None:
        """Count one more user."""
        self.environment.retain()

    def release(self) -> None:
        """Count one user less."""
        self.environment.release()
