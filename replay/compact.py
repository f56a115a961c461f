"""Two containers for audits of any length: a map that takes about 20 bytes an entry, and a finder of repeats, 8 bytes.

Both keep 64-bit hashes of what they are given and not the things, keyed at random in each process: two different things
meet with a chance of n^2 / 2^65, one in 30 million audits of a million subjects. The finder's answer can be checked
against the things themselves; the map's cannot.
"""

from __future__ import annotations

from array import array

_SMALLEST = 1_024
_MASK_64 = (1 << 64) - 1
_BUCKETS = 256


class CompactMap:
    """Texts, or byte strings, to small numbers, 1 to 255; 0 is absence. A text and its bytes are one key.

    Open addressing over two arrays; nothing is ever removed.
    """

    __slots__ = ("_count", "_keys", "_mask", "_values")

    def __init__(self) -> None:
        self._mask = _SMALLEST - 1
        self._keys = array("Q", bytes(8 * _SMALLEST))
        self._values = bytearray(_SMALLEST)
        self._count = 0

    def get(self, thing: str | bytes) -> int:
        """Return what stands under a thing, 0 where nothing does."""
        return self._values[self._place(hash(thing) & _MASK_64)]

    def put(self, thing: str | bytes, value: int) -> int:
        """Set what stands under a thing; return what stood there before, 0 where nothing did."""
        if not 1 <= value <= 255:  # noqa: PLR2004 - a byte that is not absence
            raise ValueError("a value is 1 to 255")
        key = hash(thing) & _MASK_64
        place = self._place(key)
        before = self._values[place]
        self._values[place] = value
        if not before:
            self._keys[place] = key
            self._count += 1
            if 3 * self._count > 2 * self._mask:
                self._grow()
        return before

    def exchange(self, thing: str | bytes, expected: int, value: int) -> int:
        """Set what stands under a thing where ``expected`` stood there; return what stood there before."""
        key = hash(thing) & _MASK_64
        keys, values, mask = self._keys, self._values, self._mask
        place = key & mask  # as in _place: an audit asks this once an event
        while (before := values[place]) and keys[place] != key:
            place = (place + 1) & mask
        if before == expected:
            values[place] = value
            if not before:
                keys[place] = key
                self._count += 1
                if 3 * self._count > 2 * mask:
                    self._grow()
        return before

    def _place(self, key: int) -> int:
        """Return where a key stands, or the free place where it would."""
        keys, values, mask = self._keys, self._values, self._mask
        place = key & mask
        while values[place] and keys[place] != key:
            place = (place + 1) & mask
        return place

    def _grow(self) -> None:
        old_keys, old_values = self._keys, self._values
        size = 2 * len(old_values)
        self._mask = size - 1
        self._keys = array("Q", bytes(8 * size))
        self._values = bytearray(size)
        for key, value in zip(old_keys, old_values, strict=True):
            if value:
                place = self._place(key)
                self._keys[place] = key
                self._values[place] = value

    def __len__(self) -> int:
        return self._count


class RepeatFinder:
    """Finds out which byte strings were given more than once."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, thing: bytes) -> None:
        """Note a byte string."""
        mark = hash(thing)
        self._buckets[mark & 255].append(mark)

    def repeated(self) -> frozenset[int]:
        """Return the ``hash`` of every byte string that was given more than once, in this process."""
        found: set[int] = set()
        for bucket in self._buckets:
            if len(set(bucket)) == len(bucket):
                continue
            seen: set[int] = set()
            for mark in bucket:
                (found if mark in seen else seen).add(mark)
        return frozenset(found)
