"""What decides whether a record may be read now, in columns indexed by its capture's cursor.

On disk, 240 consecutive cursors make a chunk: 240 rows of 34 bytes, which with LMDB's page header fill two pages.

    state       u8       journal.lifecycle.State; 0 where the cursor is no capture's
    known       u8       1 when the payload was opened at acceptance, 2 when it was lost then, 0 before and after
    t           i64 le   valid_time.t, epoch ms
    t_end       i64 le   valid_time.t_end, epoch ms, closed; FOREVER where there is none
    expires_at  i64 le   epoch ms, open; FOREVER where there is none
    purpose     u64 le   keyed BLAKE3 of purpose_ref, its first eight bytes

In memory a process keeps the columns of the newest state that it served and reloads the chunks that changed since. A
mask over them says at once which records are eligible; it stays good until an event or the clock moves one in or out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from journal.lifecycle import State
from projections.rows import Layout

CHUNK_ROWS = 240
FOREVER = 2**62
KNOWN, LOST = 1, 2
ROW = np.dtype([
    ("state", "u1"), ("known", "u1"), ("t", "<i8"), ("t_end", "<i8"), ("expires_at", "<i8"), ("purpose", "<u8"),
])  # fmt: skip
LAYOUT = Layout(ROW, CHUNK_ROWS)
_MASKS_MAX = 8  # sets of purposes asked for lately

Mask = NDArray[np.bool_]


def stop_of(row: np.void) -> int:
    """Return the first instant at which a row is no longer valid or has expired, epoch ms."""
    return min(int(row["t_end"]) + 1, int(row["expires_at"]))


@dataclass(slots=True)
class _Eligible:
    """A mask, and for how long it holds."""

    mask: Mask
    since: int  # epoch ms: the mask holds from here ...
    until: int  # ... until here, open
    stale: set[int] = field(default_factory=set)  # chunks that changed since


class Columns:
    """The columns of one state of the projection, indexed by capture cursor."""

    def __init__(self) -> None:
        self.cursor = -1  # the journal cursor of the state
        self._is_current = np.zeros(0, np.bool_)
        self._start = np.zeros(0, np.int64)
        self._stop = np.zeros(0, np.int64)
        self._purpose = np.zeros(0, np.uint64)
        self._masks: dict[frozenset[int], _Eligible] = {}

    def reload(self, cursor: int, size: int, chunks: Iterable[tuple[int, bytes | memoryview]], *, whole: bool) -> None:
        """Take over chunks of the state at ``cursor``, all if ``whole``; every capture stands under ``size``."""
        if whole:
            self._masks.clear()
        self._grow(size)
        for chunk, raw in chunks:
            rows = np.frombuffer(raw, ROW)
            here = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
            self._is_current[here] = (rows["state"] == State.ACCEPTED_CURRENT) & (rows["known"] == KNOWN)
            self._start[here] = rows["t"]
            self._stop[here] = np.minimum(rows["t_end"] + 1, rows["expires_at"])
            self._purpose[here] = rows["purpose"]
            for eligible in self._masks.values():
                eligible.stale.add(chunk)
        self.cursor = cursor

    def _grow(self, size: int) -> None:
        """Make room for whole chunks up to ``size``, with a quarter to spare."""
        if size <= len(self._start):
            return
        rows = -(-(size + size // 4) // CHUNK_ROWS) * CHUNK_ROWS
        for name in ("_is_current", "_start", "_stop", "_purpose"):
            column = getattr(self, name)
            grown = np.zeros(rows, column.dtype)
            grown[: len(column)] = column
            setattr(self, name, grown)
        self._masks.clear()

    def mask(self, now: int, purposes: frozenset[int]) -> Mask:
        """Return which rows are readable at ``now`` (epoch ms) under these purposes. The array never changes again."""
        eligible = self._masks.get(purposes)
        if eligible is None or not eligible.since <= now < eligible.until:
            mask, since, until = self._compute(slice(None), now, purposes)
            eligible = _Eligible(mask, since, until)
        elif eligible.stale:
            mask, since, until = eligible.mask.copy(), eligible.since, eligible.until
            for chunk in eligible.stale:
                here = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
                mask[here], chunk_since, chunk_until = self._compute(here, now, purposes)
                since, until = max(since, chunk_since), min(until, chunk_until)
            eligible = _Eligible(mask, since, until)
        self._masks.pop(purposes, None)
        self._masks[purposes] = eligible
        if len(self._masks) > _MASKS_MAX:
            del self._masks[next(iter(self._masks))]
        eligible.mask.flags.writeable = False
        return eligible.mask

    def in_force(self) -> NDArray[np.uint64]:
        """Return the capture cursors of the records that are accepted_current and not lost, ascending."""
        return np.flatnonzero(self._is_current).astype(np.uint64)

    def _compute(self, here: slice, now: int, purposes: frozenset[int]) -> tuple[Mask, int, int]:
        """Return the mask of some rows, and the instants between which the clock changes none of them."""
        current, start, stop = self._is_current[here], self._start[here], self._stop[here]
        wanted = np.fromiter(purposes, np.uint64, len(purposes))
        mask = current & (start <= now) & (now < stop) & np.isin(self._purpose[here], wanted)
        instants = np.concatenate((start[current], stop[current]))
        passed, to_come = instants[instants <= now], instants[instants > now]
        since = int(passed.max()) if len(passed) else -FOREVER
        until = int(to_come.min()) if len(to_come) else FOREVER
        return mask, since, until
