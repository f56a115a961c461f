"""The projection ``profile``: every revision of what is known of an owner, each whole.

One table:

    revisions  owner (8), a keyed number, cursor of the PROFILE (8) -> sealed msgpack; empty where it was lost
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from journal.errors import BlobMissing
from journal.events import EventType
from projections.port import FoldEvent, Reading, Tables, Writing
from projections.rows import cursor_key
from projections.sealed import Sealer, owner_number

NAME = "profile"
VERSION = 1
_REVISIONS = b"revisions"
_NUMBER_BYTES = 8


class ProfileRevision(msgspec.Struct, frozen=True, array_like=True):
    """A profile as one event left it; strings are empty where there is nothing to say."""

    cursor: int
    recorded_at: int  # epoch ms
    principal: str
    user_name: str
    core_profile: str
    sub_profile: str
    action: str  # what brought it about
    by: str


_REVISION = msgspec.msgpack.Decoder(ProfileRevision)


FIELDS = ("user_name", "core_profile", "sub_profile")


class Profile:
    """The projection ``profile`` (``projections.port.Projection``)."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = (_REVISIONS,)

    def __init__(self, key: bytes) -> None:
        """Take the projection's key, which hides and seals (``Journal.projection_key``)."""
        self._key = key
        self._sealer = Sealer(key)

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            EngramError: a payload that cannot be opened. One that is lost is kept as lost.
        """
        for event in events:
            header = event.header
            if header.type != EventType.PROFILE:
                continue
            row = _prefix(self._key, header.actor.principal) + cursor_key(header.cursor)
            try:
                said = event.payload()
            except BlobMissing:
                txn.put(row, b"", db=databases[_REVISIONS])
                continue
            if said is None:
                continue
            revision = ProfileRevision(
                header.cursor, header.recorded_at, header.actor.principal, said["user_name"], said["core_profile"],
                said["sub_profile"], said["action"], said["by"],
            )  # fmt: skip
            sealed = self._sealer.seal(_REVISIONS, row, msgspec.msgpack.encode(revision))
            txn.put(row, sealed, db=databases[_REVISIONS])

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of the revisions, opened, in key order."""
        return self._sealer.digest(txn, databases, _REVISIONS)

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> ProfileReader:
        """Return what answers questions over the state at ``cursor``."""
        return ProfileReader(self._key, self._sealer, txn, databases, cursor)


class ProfileReader:
    """The projection ``profile`` at one cursor. Every question names its owners, and sees nothing of anybody else."""

    def __init__(self, key: bytes, sealer: Sealer, txn: Reading, tables: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._sealer = sealer
        self._txn = txn
        self._tables = tables

    def newest(self, owners: frozenset[str]) -> ProfileRevision | None:
        """Return the profile in force, as the newest revision that can be read; None where there is none.

        A field on which its owner has never said anything is the one of the next newest owner who has: of principals
        that were not always one user, what one of them never knew must not hide what another does.
        """
        newest = {owner: revision for owner in owners if (revision := next(self._backward(owner), None)) is not None}
        if not newest:
            return None
        first, *others = sorted(newest, key=lambda owner: -newest[owner].cursor)
        silent = [name for name in FIELDS if not getattr(newest[first], name)] if others else []
        if silent:
            silent = [name for name in silent if not any(getattr(each, name) for each in self._backward(first))]
        told = {name: next((text for owner in others if (text := getattr(newest[owner], name))), "") for name in silent}
        return msgspec.structs.replace(newest[first], **told)

    def history(self, owners: frozenset[str]) -> list[ProfileRevision]:
        """Return every revision that can be read, newest first."""
        found = [revision for owner in owners for revision in self._backward(owner)]
        return sorted(found, key=lambda revision: -revision.cursor)

    def lost(self, owners: frozenset[str]) -> int:
        """Return how many revisions are lost."""
        return sum(not sealed for owner in owners for _, sealed in self._sealed(owner))

    def _backward(self, owner: str) -> Iterator[ProfileRevision]:
        """Yield an owner's revisions, newest first; lost ones are passed over."""
        for row, sealed in self._sealed(owner):
            if sealed:
                yield _REVISION.decode(self._sealer.unseal(_REVISIONS, row, sealed))

    def _sealed(self, owner: str) -> Iterator[tuple[bytes, bytes]]:
        prefix = _prefix(self._key, owner)
        cursor = self._txn.cursor(db=self._tables[_REVISIONS])
        beyond = cursor.set_range(prefix + b"\xff" * _NUMBER_BYTES)
        more = cursor.prev() if beyond else cursor.last()
        while more and bytes(cursor.key()).startswith(prefix):
            yield bytes(cursor.key()), bytes(cursor.value())
            more = cursor.prev()


def _prefix(key: bytes, owner: str) -> bytes:
    return owner_number(key, owner).to_bytes(_NUMBER_BYTES, "big")
