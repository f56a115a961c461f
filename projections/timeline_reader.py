"""Reading the projection ``timeline``: which messages there are, newest first, and which of them a filter lets pass.

Every question names its owners, and sees nothing of anybody else. Messages whose content is lost or erased are seen by
no question but ``at``. Masks and cursors are those of the MESSAGE events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from journal import limits
from journal.messages import MessageState
from projections.environment import Unusable
from projections.port import Reading, Tables, Value
from projections.rows import Columns, Layout, Newest, StoredRows, cursor_key
from projections.sealed import NONE, name_number, owner_number

CHUNKS = b"chunks"
RECENT = b"recent"
NAMES = b"names"
SUBJECTS = b"subjects"
TOTALS = b"totals"

KNOWN, LOST, TEXT_LOST = 1, 2, 3
ROLES = {"user": 1, "assistant": 2}
_USER = ROLES["user"]
_ROLE_NAMES = {number: role for role, number in ROLES.items()}
ROW = np.dtype([
    ("state", "u1"), ("known", "u1"), ("role", "u1"), ("created_at", "<i8"), ("owner", "<u8"), ("platform", "<u8"),
    ("model", "<u8"), ("device", "<u8"), ("tag", "<u8"), ("place", "<u8"), ("session", "<u8"), ("characters", "<u4"),
    ("text_cursor", "<u8"), ("tags_cursor", "<u8"),
])  # fmt: skip
LAYOUT = Layout(ROW, 93)  # 93 rows of 87 bytes, which with LMDB's page header fill two pages
_COLUMNS = (
    "state", "known", "role", "created_at", "owner", "platform", "model", "device", "tag", "place", "characters",
    "text_cursor",
)  # fmt: skip
_NORMAL = (MessageState.ACTIVE, MessageState.PINNED)

Mask = NDArray[np.bool_]
Answer = TypeVar("Answer")


class Totals(msgspec.Struct, array_like=True):
    """What is true of the whole state."""

    last_message: int = 0  # cursor of the newest MESSAGE
    lost: int = 0  # messages that stand, but whose content or newest text could not be had when it was folded
    recent_floor: int = 0  # what was changed up to this cursor is no longer listed in ``recent``
    recent_entries: int = 0


_TOTALS = msgspec.msgpack.Decoder(Totals)


def encode_totals(totals: Totals) -> bytes:
    """Return the totals' bytes."""
    return msgspec.msgpack.encode(totals)


def decode_totals(raw: Value | None) -> Totals:
    """Return the totals of these bytes; of none, those of an empty state."""
    return Totals() if raw is None else _TOTALS.decode(raw)


def new_columns() -> Columns:
    """Return the columns of no state yet."""
    return Columns(LAYOUT, _COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which messages are meant. What is None asks for nothing; the rest must all be met."""

    owners: frozenset[str]
    since: int | None = None  # epoch ms, of created_at
    until: int | None = None  # epoch ms, open
    role: str | None = None
    platform: str | None = None
    not_platform: str | None = None
    models: frozenset[str] | None = None  # a message without a model, as a user's, is of none of them
    device: str | None = None
    pinned_always: bool = False  # pinned messages pass ``device``
    tags: frozenset[str] | None = None  # project tags; an alias is not resolved here
    place: str | None = None  # the working directory
    archived: bool = False  # archived messages too, beside active and pinned ones
    pinned_only: bool = False
    unpinned_only: bool = False


@dataclass(frozen=True, slots=True)
class MessageRow:
    """What is known of a message. One that is erased has only cursor, id and state."""

    cursor: int  # of the MESSAGE
    message_id: str
    state: MessageState
    lost: bool  # whether its content, or its newest text, could not be had though nothing erased it
    known: bool  # whether it may be read: neither lost nor erased
    created_at: int  # epoch ms
    role: str | None
    characters: int  # of the newest text
    text_cursor: int  # of the newest MESSAGE_REVISION, or of the MESSAGE
    tags_cursor: int  # of the newest MESSAGE_TAG, or 0


@dataclass(frozen=True, slots=True)
class TagUsage:
    """How much a project tag is used."""

    name: str
    count: int
    last_used: int  # epoch ms: created_at of its newest message


class TimelineReader:
    """The projection ``timeline`` at one cursor."""

    def __init__(self, key: bytes, columns: Newest[Columns], txn: Reading, tables: Tables, cursor: int) -> None:
        self.cursor = cursor
        self._key = key
        self._cache = columns
        self._txn = txn
        self._tables = tables
        self._totals = decode_totals(txn.get(b"totals", db=tables[TOTALS]))
        self._stored = StoredRows(LAYOUT, txn, chunks=tables[CHUNKS], recent=tables[RECENT])

    @property
    def lost(self) -> int:
        """How many messages stand whose content or newest text is lost: not erased, for no event says so."""
        return self._totals.lost

    def lost_of(self, owners: frozenset[str]) -> int:
        """Return how many messages of these owners stand whose content or newest text is lost."""
        if not self._totals.lost:
            return 0
        numbers = self._owners(owners)
        return self._ask(lambda columns: int(np.sum(_is_in(columns["owner"], numbers) & (columns["known"] > KNOWN))))

    # --- sets ------------------------------------------------------------------------------------

    def mask(self, chosen: Filter) -> Mask:
        """Return which messages a filter lets pass: booleans by message cursor, up to the newest message."""
        return self._ask(lambda columns: self._mask(columns, chosen))

    def in_force(self, owners: frozenset[str] | None = None) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the cursors of the messages of some owners, or of all, that stand and are not lost, ascending.

        Beside each the cursor of its newest text: a MESSAGE_REVISION, or the MESSAGE itself.
        """

        def ask(columns: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
            mask: Mask = columns["known"] == KNOWN
            if owners is not None:
                mask &= _is_in(columns["owner"], self._owners(owners))
            cursors = np.flatnonzero(mask)
            return cursors.astype(np.uint64), columns["text_cursor"][cursors]

        return self._ask(ask)

    def eligible(self, chosen: Filter) -> Callable[[NDArray[np.integer]], Mask]:
        """Return what says for an array of message cursors which of them a filter lets pass."""
        mask = self.mask(chosen)

        def passes(cursors: NDArray[np.integer]) -> Mask:
            found: Mask = mask[cursors]
            return found

        return passes

    def passing(self, chosen: Filter, cursors: Sequence[int]) -> list[int]:
        """Return those of some messages, named by their cursors, that a filter lets pass, in their order."""
        passes = self.eligible(chosen)(np.array(cursors, np.int64))
        return [cursor for cursor, passed in zip(cursors, passes.tolist(), strict=True) if passed]

    def count(self, chosen: Filter) -> int:
        """Return how many messages a filter lets pass."""
        return int(np.count_nonzero(self.mask(chosen)))

    def newest(self, chosen: Filter, limit: int, before: tuple[int, int] | None = None) -> list[int]:
        """Return the cursors of the newest messages that a filter lets pass, by (created_at, cursor) descending.

        ``before`` is the (created_at, cursor) of the message after which to go on, not included.
        """

        def ask(columns: Columns) -> list[int]:
            mask = self._mask(columns, chosen)
            created_at = columns["created_at"]
            if before is not None:
                instant, cursor = before
                mask &= created_at <= instant
                mask[cursor:] &= created_at[cursor:] < instant
            return _newest_first(np.flatnonzero(mask), created_at, limit)

        return self._ask(ask) if limit > 0 else []

    def tag_usage(self, chosen: Filter, names: Iterable[str]) -> list[TagUsage]:
        """Return how much each of these project tags is used in what a filter lets pass, newest use first.

        A tag that is not used there is left out.
        """
        by_number = {number: name for name in names for number in self._numbers(chosen.owners, "tag", [name])}
        if not by_number:
            return []
        numbers = np.array(sorted(by_number), np.uint64)

        def ask(columns: Columns) -> list[tuple[int, int, int]]:
            cursors = np.flatnonzero(self._mask(columns, chosen) & (columns["tag"] != NONE))
            tags, created_at = columns["tag"][cursors], columns["created_at"][cursors]
            at = np.minimum(np.searchsorted(numbers, tags), len(numbers) - 1)
            named = numbers[at] == tags
            counts = np.bincount(at[named], minlength=len(numbers))
            last = np.full(len(numbers), np.iinfo(np.int64).min)
            np.maximum.at(last, at[named], created_at[named])
            return [(int(numbers[i]), int(counts[i]), int(last[i])) for i in np.flatnonzero(counts)]

        usage: dict[str, TagUsage] = {}
        for number, count, last_used in self._ask(ask):
            name = by_number[number]
            other = usage.get(name, TagUsage(name, 0, last_used))
            usage[name] = TagUsage(name, other.count + count, max(other.last_used, last_used))
        return sorted(usage.values(), key=lambda used: (-used.last_used, used.name))

    def short_term(
        self, owners: frozenset[str], *, platform: str, model: str | None, tags: frozenset[str], place: str | None,
        since: int, token_limit: int, shown_characters: int | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the newest messages of the short-term window, newest first, that fit ``token_limit``.

        ``shown_characters`` is how much of each is shown at most, and so counts: a long one hides no others then.

        They are those created from ``since`` (epoch ms) on that were said on this platform (an assistant's by this
        model, where one is given), or on any platform in one of these project tags, or, while they have no tag, in this
        working directory. The first that no longer fits ends the list. Archived and pinned ones are left out: a brief
        shows the pinned ones apart.
        """
        tokens_by_ten = token_limit * limits.CHARACTERS_PER_TEN_TOKENS

        def ask(columns: Columns) -> list[int]:
            window = self._mask(columns, Filter(owners=owners, since=since, unpinned_only=True))
            meant = _is_in(columns["platform"], self._numbers(owners, "platform", [platform]))
            if model is not None:
                of_model = _is_in(columns["model"], self._numbers(owners, "model", [model]))
                meant &= of_model | (columns["role"] == _USER)
            if tags:
                meant |= _is_in(columns["tag"], self._numbers(owners, "tag", tags))
            if place is not None:
                near = _is_in(columns["place"], self._numbers(owners, "place", [place]))
                meant |= near & (columns["tag"] == NONE)
            cursors = np.flatnonzero(window & meant)
            ordered = _ordered(cursors, columns["created_at"])
            sizes = columns["characters"][ordered]
            if shown_characters is not None:
                sizes = np.minimum(sizes, shown_characters)
            so_far = np.cumsum(sizes, dtype=np.int64)
            fitting: list[int] = ordered[: np.searchsorted(so_far * 10, tokens_by_ten, side="right")].tolist()
            return fitting

        return self._ask(ask)

    # --- single messages -------------------------------------------------------------------------

    def at(self, cursor: int) -> MessageRow | None:
        """Return the message at a cursor, whoever owns it; None where no message is.

        Raises:
            Unusable: its id is not there, or does not lead back to it: LMDB's pages are not protected.
        """
        raw = self._txn.get(cursor_key(cursor), db=self._tables[SUBJECTS])
        row = self._stored.at(cursor)
        if raw is None and not row["state"]:
            return None
        if raw is None or self._txn.get(bytes(raw), db=self._tables[NAMES]) != cursor_key(cursor):
            raise Unusable("a message's id does not lead back to it")
        return MessageRow(
            cursor=cursor, message_id=bytes(raw).decode(), state=MessageState(int(row["state"])),
            lost=bool(row["known"] > KNOWN), known=bool(row["known"] == KNOWN), created_at=int(row["created_at"]),
            role=_ROLE_NAMES.get(int(row["role"])), characters=int(row["characters"]),
            text_cursor=int(row["text_cursor"]), tags_cursor=int(row["tags_cursor"]),
        )  # fmt: skip

    def find(self, owners: frozenset[str], message_id: str) -> MessageRow | None:
        """Return a message of these owners by its id; None where there is none, or it is erased."""
        found = self._txn.get(message_id.encode(), db=self._tables[NAMES]) if message_id else None
        if found is None:
            return None
        cursor = int.from_bytes(found, "big")
        owner = int(self._stored.at(cursor)["owner"])
        return self.at(cursor) if owner in self._owners(owners) else None

    def erased(self, owners: frozenset[str]) -> list[MessageRow]:
        """Return the messages of these owners that stand in this state but whose content has been erased since.

        Empty at the journal's head; a state of the past may have some.
        """
        numbers = self._owners(owners)

        def ask(columns: Columns) -> list[int]:
            stands = (columns["state"] != MessageState.ABSENT) & (columns["state"] != MessageState.ERASED)
            gone = stands & (columns["known"] == 0) & _is_in(columns["owner"], numbers)
            cursors: list[int] = np.flatnonzero(gone).tolist()
            return cursors

        return [row for cursor in self._ask(ask) if (row := self.at(cursor)) is not None]

    # --- how -------------------------------------------------------------------------------------

    def _ask(self, ask: Callable[[Columns], Answer]) -> Answer:
        return self._cache.read(self.cursor, self._bring, ask)

    def _bring(self, columns: Columns) -> None:
        """Bring columns of an older state to this one, reloading what changed since."""
        if columns.cursor != self.cursor:
            chunks, _ = self._stored.since(columns.cursor, self._totals)
            columns.load(self.cursor, self._totals.last_message + 1, chunks)

    def _owners(self, owners: Iterable[str]) -> list[int]:
        return [owner_number(self._key, owner) for owner in owners]

    def _numbers(self, owners: Iterable[str], field: str, names: Iterable[str]) -> list[int]:
        wanted = list(names)
        return [name_number(self._key, owner, field, name) for owner in self._owners(owners) for name in wanted]

    def _mask(self, columns: Columns, chosen: Filter) -> Mask:
        """Return a fresh mask."""
        state = columns["state"]
        mask: Mask = _is_in(columns["owner"], self._owners(chosen.owners)) & (columns["known"] == KNOWN)
        if chosen.pinned_only:
            mask &= state == MessageState.PINNED
        else:
            mask &= _is_in(state, _NORMAL + (MessageState.ARCHIVED,) * chosen.archived)
        if chosen.unpinned_only:
            mask &= state != MessageState.PINNED
        if chosen.since is not None:
            mask &= columns["created_at"] >= chosen.since
        if chosen.until is not None:
            mask &= columns["created_at"] < chosen.until
        if chosen.role is not None:
            mask &= columns["role"] == ROLES[chosen.role]
        if chosen.device is not None:
            here = _is_in(columns["device"], self._numbers(chosen.owners, "device", [chosen.device]))
            mask &= here | (state == MessageState.PINNED) if chosen.pinned_always else here
        if chosen.not_platform is not None:
            mask &= ~_is_in(columns["platform"], self._numbers(chosen.owners, "platform", [chosen.not_platform]))
        named = {
            "platform": None if chosen.platform is None else [chosen.platform], "model": chosen.models,
            "tag": chosen.tags, "place": None if chosen.place is None else [chosen.place],
        }  # fmt: skip
        for field, names in named.items():
            if names is not None:
                mask &= _is_in(columns[field], self._numbers(chosen.owners, field, names))
        return mask


def _is_in(column: NDArray[Any], wanted: Iterable[int]) -> Mask:
    """Return where a column holds one of these numbers; a few comparisons are faster than a sort."""
    numbers = np.fromiter(wanted, column.dtype)
    found: Mask = column == numbers[0] if len(numbers) == 1 else np.isin(column, numbers)
    return found


def _ordered(cursors: NDArray[np.int64], created_at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ascending cursors by (created_at, cursor) descending."""
    return cursors[np.argsort(created_at[cursors], kind="stable")][::-1]


def _newest_first(cursors: NDArray[np.int64], created_at: NDArray[np.int64], limit: int) -> list[int]:
    """Return the first ``limit`` of ascending cursors by (created_at, cursor) descending."""
    if len(cursors) > limit:
        instants = created_at[cursors]
        cursors = cursors[instants >= np.partition(instants, len(cursors) - limit)[len(cursors) - limit]]
    newest: list[int] = _ordered(cursors, created_at)[:limit].tolist()
    return newest
