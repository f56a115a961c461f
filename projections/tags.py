"""The projection ``tags``: each owner's project tags, what they mean, and which stand for the same project.

Tables:

    tags    owner (8), name (8), both keyed numbers -> sealed msgpack ``_Entry``
    totals  owner number (8) -> msgpack ``_Totals``

A tag is known from its PROJECT_TAG or PROJECT_ALIAS on; one that an alias points to is known as well. A MESSAGE_TAG
makes nothing known: it stands under its message's key, and what it says must not outlive the message. Each of the two
events is the whole statement about a name, so the newest is in force; over the owners of one user the newest of all.

Statements of alias are taken in the order of the journal, and one that would close a circle with those before it is
passed over, so that every chain ends in one representative. Nothing is stuck on it: two writers that know nothing of
each other can write such a pair, and the later comes into force once the earlier is taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from journal.errors import BlobMissing
from journal.events import EventType
from projections.port import FoldEvent, Reading, Tables, Value, Writing
from projections.sealed import Sealer, name_number, owner_number

NAME = "tags"
VERSION = 1
_TAGS = b"tags"
_TOTALS = b"totals"
_NUMBER_BYTES = 8


class _Entry(msgspec.Struct, array_like=True):
    """What one owner said of a name. A cursor of 0: nothing."""

    name: str
    description: str = ""
    described: int = 0  # cursor of the PROJECT_TAG
    alias_of: str | None = None
    aliased: int = 0  # cursor of the PROJECT_ALIAS


class _Totals(msgspec.Struct, array_like=True):
    lost: int = 0  # events whose content could not be had


_ENTRY = msgspec.msgpack.Decoder(_Entry)


@dataclass(frozen=True, slots=True)
class ProjectTag:
    """A project tag, as an owner's events leave it."""

    name: str
    description: str
    alias_of: str | None  # the next in its chain
    representative: str  # the last in its chain; its own name where it is no alias


class Tags:
    """The projection ``tags`` (``projections.port.Projection``)."""

    name: str = NAME
    version: int = VERSION
    databases: tuple[bytes, ...] = (_TAGS, _TOTALS)

    def __init__(self, key: bytes) -> None:
        """Take the projection's key, which hides and seals (``Journal.projection_key``)."""
        self._key = key
        self._sealer = Sealer(key)

    def fold(self, txn: Writing, databases: Tables, events: Sequence[FoldEvent]) -> None:
        """Apply events, in cursor order.

        Raises:
            EngramError: a payload that cannot be opened. One that is lost is counted and passed over.
        """
        for event in events:
            if event.header.type not in (EventType.PROJECT_TAG, EventType.PROJECT_ALIAS):
                continue
            try:
                said = event.payload()
            except BlobMissing:
                owner = owner_number(self._key, event.header.actor.principal)
                totals = _totals(txn, databases, owner)
                totals.lost += 1
                txn.put(owner.to_bytes(_NUMBER_BYTES, "big"), msgspec.msgpack.encode(totals), db=databases[_TOTALS])
                continue
            if said is not None:
                self._apply(txn, databases, event, said["name"], said.get("description", ""), said.get("alias_of"))

    def _apply(
        self, txn: Writing, databases: Tables, event: FoldEvent, name: str, description: str, alias_of: str | None,
    ) -> None:  # fmt: skip
        header = event.header
        owner = owner_number(self._key, header.actor.principal)
        entry = self._entry(txn, databases, owner, name)
        if header.type == EventType.PROJECT_TAG:
            entry.description, entry.described = description, header.cursor
        else:
            entry.alias_of, entry.aliased = alias_of, header.cursor
        self._put(txn, databases, owner, entry)
        if alias_of is not None:
            self._put(txn, databases, owner, self._entry(txn, databases, owner, alias_of))

    def _entry(self, txn: Writing, databases: Tables, owner: int, name: str) -> _Entry:
        row = self._row(owner, name)
        sealed = txn.get(row, db=databases[_TAGS])
        return _Entry(name) if sealed is None else _ENTRY.decode(self._sealer.unseal(_TAGS, row, sealed))

    def _put(self, txn: Writing, databases: Tables, owner: int, entry: _Entry) -> None:
        row = self._row(owner, entry.name)
        txn.put(row, self._sealer.seal(_TAGS, row, msgspec.msgpack.encode(entry)), db=databases[_TAGS])

    def _row(self, owner: int, name: str) -> bytes:
        number = name_number(self._key, owner, "tag", name)
        return owner.to_bytes(_NUMBER_BYTES, "big") + number.to_bytes(_NUMBER_BYTES, "big")

    def content_digest(self, txn: Reading, databases: Tables) -> bytes:
        """Return the BLAKE3 of the tags, opened, in key order."""
        return self._sealer.digest(txn, databases, _TAGS)

    def reader(self, txn: Reading, databases: Tables, cursor: int) -> TagsReader:
        """Return what answers questions over the state at ``cursor``."""
        return TagsReader(self._key, self._sealer, txn, databases, cursor)


class TagsReader:
    """The projection ``tags`` at one cursor. Every question names its owners, and sees no tag of anybody else."""

    def __init__(self, key: bytes, sealer: Sealer, txn: Reading, tables: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._sealer = sealer
        self._txn = txn
        self._tables = tables
        self._joined: dict[frozenset[str], _Joined] = {}

    def lost(self, owners: frozenset[str]) -> int:
        """Return how many statements of these owners about tags are lost."""
        return sum(_totals(self._txn, self._tables, owner_number(self._key, owner)).lost for owner in owners)

    def tags(self, owners: frozenset[str]) -> list[ProjectTag]:
        """Return the tags that these owners know, by name."""
        joined = self._of(owners)
        return [
            ProjectTag(name, entry.description, joined.parents.get(name), joined.representative(name))
            for name, entry in sorted(joined.entries.items())
        ]

    def known(self, owners: frozenset[str], name: str) -> bool:
        """Whether these owners know a tag."""
        return name in self._of(owners).entries

    def family(self, owners: frozenset[str], name: str) -> frozenset[str] | None:
        """Return the names that stand for the same project, ``name`` among them; None where it is unknown."""
        joined = self._of(owners)
        if name not in joined.entries:
            return None
        representative = joined.representative(name)
        return frozenset(other for other in joined.entries if joined.representative(other) == representative)

    def would_cycle(self, owners: frozenset[str], name: str, alias_of: str) -> bool:
        """Whether to make ``name`` an alias of ``alias_of`` would close a circle. Neither must be known."""
        return self._of(owners).leads_to(alias_of, name)

    def _of(self, owners: frozenset[str]) -> _Joined:
        if owners not in self._joined:
            self._joined[owners] = _Joined([entry for owner in owners for entry in self._entries(owner)])
        return self._joined[owners]

    def _entries(self, owner: str) -> list[_Entry]:
        prefix = owner_number(self._key, owner).to_bytes(_NUMBER_BYTES, "big")
        cursor, entries = self._txn.cursor(db=self._tables[_TAGS]), []
        more = cursor.set_range(prefix)
        while more and bytes(cursor.key()).startswith(prefix):
            entries.append(_ENTRY.decode(self._sealer.unseal(_TAGS, cursor.key(), cursor.value())))
            more = cursor.next()
        return entries


class _Joined:
    """What the owners of one user said of their tags, taken together."""

    def __init__(self, entries: Sequence[_Entry]) -> None:
        self.entries: dict[str, _Entry] = {}
        for entry in entries:
            mine = self.entries.setdefault(entry.name, _Entry(entry.name))
            if entry.described > mine.described:
                mine.description, mine.described = entry.description, entry.described
            if entry.aliased > mine.aliased:
                mine.alias_of, mine.aliased = entry.alias_of, entry.aliased
        self.parents: dict[str, str] = {}
        for entry in sorted(self.entries.values(), key=lambda entry: entry.aliased):
            if entry.alias_of is not None and not self.leads_to(entry.alias_of, entry.name):
                self.parents[entry.name] = entry.alias_of

    def representative(self, name: str) -> str:
        """Return the last of the chain that begins with a name."""
        while name in self.parents:
            name = self.parents[name]
        return name

    def leads_to(self, name: str, other: str) -> bool:
        """Whether the chain that begins with ``name`` comes by ``other``."""
        while name != other and name in self.parents:
            name = self.parents[name]
        return name == other


def _totals(txn: Reading, tables: Tables, owner: int) -> _Totals:
    raw: Value | None = txn.get(owner.to_bytes(_NUMBER_BYTES, "big"), db=tables[_TOTALS])
    return _Totals() if raw is None else msgspec.msgpack.decode(raw, type=_Totals)
