"""The named databases of a generation, and the rows in them. All integers little-endian, in keys big-endian.

    state         "counts" -> documents u64 | dead u64 | next ordinal u32 | next segment u32
                  "segments" -> rows of segment u32 | first ordinal u32 | documents u32 | dead u32 | postings u64
    dead          segment u32 -> the ordinals of its dead documents u32[], ascending
    dictionaries  segment u32 -> the segment's dictionary (``postings``)
    postings      segment u32, chunk u32 -> the chunk
    documents     page u32 -> rows of capture cursor u64 | record digest 32 bytes | standing: group 16 bytes, order u64,
                  label u64, traits u8; by ordinal
    sequence      who stands where in the groups (``sequence``), of documents in force
    forward       ordinal u32 -> the document's tokens and impacts
    ordinals      capture cursor u64 -> ordinal u32, of documents in force
    subjects      BLAKE3 of the candidate id, 16 bytes -> capture cursor u64, until it is terminal
    dead_counts   token -> how many dead documents that still stand in a segment hold it, u32

An ordinal numbers a document within the generation, in the order of adding. Segments hold ranges of ordinals that
follow each other, so that a token's lists joined in the order of the segments ascend.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from blake3 import blake3

from journal import limits
from projections.environment import Unusable
from projections.lexical.documents import Weighed
from projections.lexical.joint import Joining, JointSegment
from projections.lexical.postings import POSTING_BYTES, Ids, Lists, Segment, SegmentWriter, chunk_count, chunk_key
from projections.lexical.sequence import GROUP_PLACE, Sequence, WritableSequence
from projections.lexical.standing import GROUP_BYTES, Standing
from projections.port import Reading, Tables, Value, Writing

STATE: Final = b"state"
DEAD: Final = b"dead"
DICTIONARIES: Final = b"dictionaries"
POSTINGS: Final = b"postings"
DOCUMENTS: Final = b"documents"
FORWARD: Final = b"forward"
ORDINALS: Final = b"ordinals"
SUBJECTS: Final = b"subjects"
SEQUENCE: Final = b"sequence"
DEAD_COUNTS: Final = b"dead_counts"
DATABASES: Final = (STATE, DEAD, DICTIONARIES, POSTINGS, DOCUMENTS, FORWARD, ORDINALS, SUBJECTS, DEAD_COUNTS, SEQUENCE)

DOCUMENT_ROW: Final = np.dtype(
    [
        ("cursor", "<u8"), ("digest", ">u8", (4,)),  # so that words order like bytes
        ("group", "V16"), ("order", "<u8"), ("label", "<u8"), ("traits", "u1"),
    ]
)  # fmt: skip
Rows = npt.NDArray[np.void]

_JOINING: Final = "joining"
_COUNTS: Final = b"counts"
_SEGMENTS: Final = b"segments"
_STATE: Final = struct.Struct("<QQII")
_SEGMENT: Final = struct.Struct("<IIIIQ")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_ROW: Final = struct.Struct(f"<Q32s{GROUP_BYTES}sQQB")
_KEY32: Final = struct.Struct(">I")
_KEY64: Final = struct.Struct(">Q")
_SUBJECT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class State:
    """The counts of a generation."""

    documents: int = 0  # in force
    dead: int = 0  # out of force and still in a segment
    next_ordinal: int = 0
    next_segment: int = 0


class SegmentRow(NamedTuple):
    """What is known of a segment without reading it."""

    number: int
    first_ordinal: int
    documents: int  # with the dead ones
    dead: int
    postings: int


def document_rows(documents: Iterable[tuple[int, bytes, Standing]]) -> Rows:
    """Return the rows of (capture cursor, record digest, standing)."""
    rows = [
        _ROW.pack(cursor, digest, at.group, at.order, at.label, at.traits) for cursor, digest, at in documents
    ]  # fmt: skip
    return np.frombuffer(b"".join(rows), DOCUMENT_ROW)


class IndexTables:
    """Typed reading of a generation inside one transaction."""

    def __init__(self, txn: Reading, databases: Tables) -> None:
        self._reading = txn
        self._databases = databases
        self._around: dict[bytes, bytes] = {}  # what stands around places that were asked for before

    def _get(self, name: bytes, key: bytes) -> Value | None:
        return self._reading.get(key, None, self._databases[name])

    def _there(self, name: bytes, key: bytes) -> Value:
        """Return the value of a key that must be there.

        Raises:
            Unusable: it is not; to rebuild is the mend.
        """
        value = self._get(name, key)
        if value is None:
            raise Unusable(f"the lexical table {name.decode()} misses a row")
        return value

    def _items(self, name: bytes) -> Iterator[tuple[Value, Value]]:
        return self._reading.cursor(db=self._databases[name]).iternext()

    def state(self) -> State:
        """Return the counts; all zero in an empty generation."""
        value = self._get(STATE, _COUNTS)
        return State() if value is None else State(*_STATE.unpack(value))

    def segments(self) -> list[SegmentRow]:
        """Return all segments in the order of their ordinals."""
        return [SegmentRow(*row) for row in _SEGMENT.iter_unpack(self._get(STATE, _SEGMENTS) or b"")]

    def searched(self, age: int) -> tuple[list[SegmentRow], JointSegment | None]:
        """Return all segments, and the joint segment of some of them, where this process keeps one.

        It does of a generation that is open. ``age`` is the number of the next segment.
        """
        kept = getattr(self._databases, "kept", None)
        if kept is None:
            return self.segments(), None
        joining: Joining = kept.get(_JOINING) or kept.setdefault(_JOINING, Joining())
        value = self._get(STATE, _SEGMENTS)
        if isinstance(value, memoryview):
            at_rest = joining.at_rest(bytes(value))
            if at_rest is not None:
                return at_rest
            rows = self.segments()
            return rows, joining.joint(bytes(value), rows, age, self.segment)
        # Folded in memory: a segment of the tail may have the number that another gets once it is persisted.
        rows = self.segments()
        found = joining.known(rows)
        is_persisted = found is not None and all(self._is_persisted(number) for number in found.numbers)
        return rows, found if is_persisted else None

    def _is_persisted(self, number: int) -> bool:
        return isinstance(self._get(DICTIONARIES, _KEY32.pack(number)), memoryview)

    def chunk(self, key: bytes) -> Value:
        """Return the chunk of a key (``postings.chunk_key``).

        Raises:
            Unusable: it is not there.
        """
        value = self._reading.get(key, None, self._databases[POSTINGS])  # by itself: this is done often
        return self._there(POSTINGS, key) if value is None else value

    def chunk_sizes(self, number: int) -> list[int]:
        """Return how many postings each chunk of a segment holds."""
        key = _KEY32.pack(number)
        chunks = range(chunk_count(self._there(DICTIONARIES, key)))
        return [len(self._there(POSTINGS, key + _KEY32.pack(chunk))) // POSTING_BYTES for chunk in chunks]

    def dead(self, rows: Iterable[SegmentRow]) -> Ids:
        """Return the ordinals of the dead documents in these segments, ascending."""
        parts = [bytes(self._there(DEAD, _KEY32.pack(row.number))) for row in rows if row.dead]
        return np.frombuffer(b"".join(parts), "<u4")

    def segment(self, number: int, *, copied: bool = False) -> Segment:
        """Return a reader of a segment. ``copied`` where the transaction goes on to write."""
        dictionary = self._there(DICTIONARIES, _KEY32.pack(number))
        return Segment(bytes(dictionary) if copied else dictionary, lambda chunk: self.chunk(chunk_key(number, chunk)))

    def rows(self, ordinals: Ids) -> Rows:
        """Return the document rows of these ordinals, in their order; a page is fetched once for neighbours."""
        # Slices of bytes: a structured array of each page costs more than all of its rows are.
        size, per_page = DOCUMENT_ROW.itemsize, limits.LEXICAL_PAGE_DOCUMENTS
        get, database, key_of = self._reading.get, self._databases[DOCUMENTS], _KEY32.pack
        parts = []
        number = -1
        page: Value | None = None
        for ordinal in ordinals.tolist():
            if ordinal // per_page != number:
                number = ordinal // per_page
                page = get(key_of(number), None, database)
            if page is None:
                raise Unusable("the lexical table documents misses a row")
            at = ordinal % per_page * size
            parts.append(page[at : at + size])
        return np.frombuffer(b"".join(parts), DOCUMENT_ROW)

    def standing(self, ordinal: int) -> Standing:
        """Return where the document of an ordinal stands."""
        row = self.rows(np.array([ordinal], np.uint32))[0]
        return Standing(bytes(row["group"]), int(row["order"]), int(row["label"]), int(row["traits"]))

    def around(self, rows: Rows, reach: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the ordinals and cursors around documents in force that do not stand alone (``Sequence.around``)."""
        places = np.empty(len(rows), GROUP_PLACE)
        for name in ("group", "order", "cursor"):
            places[name] = rows[name]
        return Sequence(self._reading, self._databases[SEQUENCE]).around(places, reach, self._around)

    def places(self) -> Iterator[tuple[bytes, int]]:
        """Give the group and place of every document in a sequence with its ordinal (``Sequence.places``)."""
        return Sequence(self._reading, self._databases[SEQUENCE]).places()

    def row_count(self) -> int:
        """Return how many documents were ever added."""
        cursor = self._reading.cursor(db=self._databases[DOCUMENTS])
        if not cursor.last():
            return 0
        full = int(_KEY32.unpack(cursor.key())[0]) * limits.LEXICAL_PAGE_DOCUMENTS
        return full + len(cursor.value()) // DOCUMENT_ROW.itemsize

    def ordinal(self, cursor: int) -> int | None:
        """Return the ordinal of the document of a capture cursor, if it is in force."""
        value = self._get(ORDINALS, _KEY64.pack(cursor))
        return None if value is None else int(_U32.unpack(value)[0])

    def ordinals(self, cursors: Iterable[int]) -> Ids:
        """Return the ordinals of the documents of capture cursors, ascending.

        Raises:
            Unusable: a document is not in force.
        """
        get, database, key_of = self._reading.get, self._databases[ORDINALS], _KEY64.pack
        values = [get(key_of(cursor), None, database) for cursor in cursors]
        try:
            return np.sort(np.frombuffer(b"".join(values), "<u4"))  # type: ignore[arg-type] # None is refused below
        except TypeError:
            raise Unusable("a document in force is not in the index") from None

    def in_force(self) -> Iterator[tuple[int, int]]:
        """Give (capture cursor, ordinal) of every document in force, by cursor."""
        for key, value in self._items(ORDINALS):
            yield _KEY64.unpack(key)[0], _U32.unpack(value)[0]

    def forward(self, ordinal: int) -> Weighed:
        """Return a document's forward entry."""
        return Weighed.from_forward(bytes(self._there(FORWARD, _KEY32.pack(ordinal))))

    def dead_counts(self) -> dict[bytes, int]:
        """Return how many dead documents hold each token that any of them holds."""
        return {bytes(key): int(_U32.unpack(value)[0]) for key, value in self._items(DEAD_COUNTS)}

    def dead_count(self, token: bytes) -> int:
        """Return how many dead documents hold the token."""
        value = self._get(DEAD_COUNTS, token)
        return 0 if value is None else int(_U32.unpack(value)[0])

    def subject(self, subject: str) -> int | None:
        """Return the capture cursor of a candidate that is not terminal."""
        value = self._get(SUBJECTS, _subject_key(subject))
        return None if value is None else int(_U64.unpack(value)[0])

    def subjects(self) -> Iterator[tuple[bytes, bytes]]:
        """Give every subject row as it stands, by key."""
        for key, value in self._items(SUBJECTS):
            yield bytes(key), bytes(value)


class WritableIndexTables(IndexTables):
    """Typed writing of a generation."""

    def __init__(self, txn: Writing, databases: Tables) -> None:
        super().__init__(txn, databases)
        self._writing = txn

    def _put(self, name: bytes, key: bytes, value: bytes) -> None:
        self._writing.put(key, value, db=self._databases[name])

    def _append(self, name: bytes, key: bytes, value: bytes) -> None:
        """Write a row whose key is over all others of its table: LMDB need not look for it, and fills its pages."""
        self._writing.put(key, value, append=True, db=self._databases[name])

    def _delete(self, name: bytes, key: bytes) -> None:
        self._writing.delete(key, db=self._databases[name])

    def put_state(self, state: State) -> None:
        """Write the counts."""
        self._put(STATE, _COUNTS, _STATE.pack(state.documents, state.dead, state.next_ordinal, state.next_segment))

    def put_segments(self, rows: Iterable[SegmentRow]) -> None:
        """Write the rows of all segments, in the order of their ordinals."""
        self._put(STATE, _SEGMENTS, b"".join([_SEGMENT.pack(*row) for row in rows]))

    def put_dead(self, number: int, dead: Ids) -> None:
        """Write which ordinals of a segment are dead; its row counts them."""
        self._put(DEAD, _KEY32.pack(number), dead.astype("<u4").tobytes())

    def write_lists(self, number: int, pieces: Iterable[Lists]) -> int:
        """Write a new segment's dictionary and chunks; return how many postings it has. Its number is the greatest."""
        writer = SegmentWriter()
        key = _KEY32.pack(number)
        for chunk, value in enumerate(writer.chunks(pieces)):
            self._append(POSTINGS, key + _KEY32.pack(chunk), value)
        self._append(DICTIONARIES, key, writer.dictionary())
        return writer.postings

    def drop_segment(self, number: int) -> None:
        """Remove a segment's lists and its dead; its row goes with ``put_segments``."""
        key = _KEY32.pack(number)
        for chunk in range(chunk_count(self._there(DICTIONARIES, key))):
            self._delete(POSTINGS, key + _KEY32.pack(chunk))
        self._delete(DICTIONARIES, key)
        self._delete(DEAD, key)

    def put_rows(self, first_ordinal: int, rows: Rows) -> None:
        """Write the rows of new documents, whose ordinals follow each other."""
        size = limits.LEXICAL_PAGE_DOCUMENTS
        at = 0
        while at < len(rows):
            page, within = divmod(first_ordinal + at, size)
            taken = rows[at : at + size - within]
            before = bytes(self._there(DOCUMENTS, _KEY32.pack(page))) if within else b""
            self._put(DOCUMENTS, _KEY32.pack(page), before + taken.tobytes())
            at += len(taken)

    def blank_rows(self, kept: Ids) -> None:
        """Fill with zeros the rows of every document but those of these ordinals."""
        size = limits.LEXICAL_PAGE_DOCUMENTS
        for key, value in [(bytes(key), bytes(value)) for key, value in self._items(DOCUMENTS)]:
            rows = np.frombuffer(value, DOCUMENT_ROW).copy()
            first = int(_KEY32.unpack(key)[0]) * size
            gone = ~np.isin(np.arange(first, first + len(rows)), kept)
            if rows[gone].tobytes().strip(b"\0"):
                rows[gone] = np.zeros(1, DOCUMENT_ROW)
                self._put(DOCUMENTS, key, rows.tobytes())

    def put_ordinal(self, cursor: int, ordinal: int) -> None:
        """Bring a document into force."""
        self._put(ORDINALS, _KEY64.pack(cursor), _U32.pack(ordinal))

    def delete_ordinal(self, cursor: int) -> None:
        """Put a document out of force."""
        self._delete(ORDINALS, _KEY64.pack(cursor))

    @property
    def sequence(self) -> WritableSequence:
        """Who stands where in the groups."""
        return WritableSequence(self._writing, self._databases[SEQUENCE])

    def put_forward(self, ordinal: int, document: Weighed) -> None:
        """Write a new document's forward entry. Its ordinal is the greatest."""
        self._append(FORWARD, _KEY32.pack(ordinal), document.forward)

    def delete_forward(self, ordinal: int) -> None:
        """Remove a document's forward entry."""
        self._delete(FORWARD, _KEY32.pack(ordinal))

    def put_dead_count(self, token: bytes, count: int) -> None:
        """Write how many dead documents hold the token; none is no row."""
        if count:
            self._put(DEAD_COUNTS, token, _U32.pack(count))
        else:
            self._delete(DEAD_COUNTS, token)

    def put_subject(self, subject: str, cursor: int) -> None:
        """Remember a candidate's capture cursor."""
        self._put(SUBJECTS, _subject_key(subject), _U64.pack(cursor))

    def delete_subject(self, subject: str) -> None:
        """Forget a candidate that became terminal."""
        self._delete(SUBJECTS, _subject_key(subject))


def _subject_key(subject: str) -> bytes:
    """Return the key of a candidate."""
    return blake3(subject.encode()).digest(length=_SUBJECT_BYTES)
