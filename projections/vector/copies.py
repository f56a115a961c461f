"""What faiss searches: copies of an index's vectors with four bits a number, at the numbers of their slots.

Copies pick candidates and order nothing. A copy is the centred vector, turned by a random rotation, after which the
numbers of any model's vectors spread alike, each rounded to one of sixteen steps. Four bits a number is what faiss
multiplies by looking up sixteen values in a register ("PQ fast scan"), some seven times as fast as float16, in a
quarter of the memory.

A product with a copy is off by what was rounded away, and by how far the centre moved since the copies were made. Both
are bounded, so that whoever asks can tell when no other subject can be among the best. What was rounded away is known
by its length; what it adds to a product depends on its direction, which the rotation makes random: off by more than six
deviations is one product in a thousand million. The centre of a small index moves with every subject that
comes or goes, and so the copies need not be made anew each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from journal import limits
from projections.vector.centring import NO_DIRECTION, centred
from projections.vector.handed import Handed
from projections.vector.shelf import Slots
from projections.vector.threads import threads

_LEVELS: Final = 16
_BITS: Final = 4
_REACH: Final = 2.7
"""The steps go so many deviations either way: what is rounded away of normal numbers is least there."""
_DEVIATIONS: Final = 6.0
_TABLES: Final = 0.12
"""How far a product may be off besides, times the root of the dimension: faiss rounds the values of its tables to 256
steps of the widest one. It is six deviations, as above; measured .005 at 384 at most, .011 at 64, .017 at 8."""
_UNSURE: Final = 2.0 * NO_DIRECTION
"""Whether what is nearer to the centre has a direction is told apart by stored numbers alone, and not by a copy's."""
_ANYWHERE: Final = 1e3
"""How far such a copy may be off: further than any product is."""
_DRIFT_MAX: Final = 5e-3
"""How far it may be off more, for the centre has moved; further, and too many candidates would have to be looked at."""
_NOBODY: Final = 0x87
"""Two numbers of a slot that is free: next to nothing, on either side of zero."""
_SPARE: Final = 32
"""So many more than its half are picked from each half, for it may have more of the best."""
_WORTH_A_THREAD: Final = 10_000
"""With so many copies in a half, two threads are sooner done than one: about .1 ms of work each."""
_READ_BYTES: Final = 1 << 20
"""So much is read over at once: about .1 ms, in which who scans the same half waits."""
_LINE_WORDS: Final = 8
"""Every so many words of 8 bytes another line of the processor's cache begins."""


class Picked(NamedTuple):
    """Candidates, in no order."""

    slots: Slots
    likely: NDArray[np.float32]  # how like the query each is by its copy
    most: NDArray[np.float32]  # and can be at most
    others: float  # and any other


class _Found(NamedTuple):
    """What a scan of one half found."""

    products: NDArray[np.float32]  # the greatest
    slots: Slots
    others: np.float32  # no other product is over it
    state: int  # of the half, as it was scanned


class _Half:
    """The copies of every second slot, at half its number. Nobody changes them while they are scanned."""

    def __init__(self, dimension: int, steps: NDArray[np.float32], odd: int) -> None:
        import faiss

        self._odd = odd
        self._faiss: Any = faiss  # its stubs know nothing of what it adds to its classes in Python
        self._index: Any = self._faiss.IndexPQFastScan(dimension, dimension, _BITS, faiss.METRIC_INNER_PRODUCT)
        self._faiss.copy_array_to_vector(np.tile(steps, dimension), self._index.pq.centroids)
        self._index.is_trained = True  # there is nothing to learn: the steps are the same for every number
        self._packer: Any = self._index.get_CodePacker()
        self._mutex = threading.Lock()
        self.state = 0  # moves with every change

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def blocks(self) -> NDArray[np.uint8]:
        """The copies as they stand in memory, so many in a block."""
        codes, size = self._index.codes, self._packer.block_size
        if not codes.size():
            return np.zeros((0, size), np.uint8)
        blocks: NDArray[np.uint8] = self._faiss.rev_swig_ptr(codes.data(), codes.size()).reshape(-1, size)
        return blocks

    def put(self, slots: Slots, packed: NDArray[np.uint8]) -> None:
        """Write the copies of those slots that are here."""
        mine = slots % 2 == self._odd
        places, packed = slots[mine] // 2, packed[mine]
        with self._mutex:
            self.state += 1
            self._grow(int(places.max(initial=-1)) + 1)
            blocks, pack, per_block = self.blocks, self._packer.pack_1, self._packer.nvec
            for place, code in zip(places.tolist(), packed, strict=True):
                block = place // per_block  # given by itself: faiss refuses places that are far behind the first block
                pack(code, place % per_block, blocks[block : block + 1])

    def _grow(self, places: int) -> None:
        """Make room for so many; new ones are nobody's."""
        index, per_block = self._index, self._packer.nvec
        if places <= index.ntotal:
            return
        had, wanted = index.ntotal2 // per_block, -(-places // per_block)
        index.ntotal = places
        if wanted > had:
            index.codes.resize(wanted * self._packer.block_size)
            index.ntotal2 = wanted * per_block
            self.blocks[had:] = _NOBODY  # every number of a block is one half of a byte

    def read(self, piece: int) -> bool:
        """Read a piece of the copies and do nothing with it; return whether there is one of this number."""
        with self._mutex:
            blocks = self.blocks
            count = max(1, _READ_BYTES // blocks.shape[1])
            lines = blocks[piece * count : (piece + 1) * count].reshape(-1).view(np.uint64)[::_LINE_WORDS]
            lines.sum()
            return bool(lines.size)

    def search(self, turned: NDArray[np.float32], wanted: int) -> _Found:
        """Return the greatest products and their slots."""
        # OpenMP keeps the number a thread, and for one query its own two threads are slower than one.
        self._faiss.omp_set_num_threads(1)
        with self._mutex:
            wanted = min(wanted, len(self))
            if not wanted:
                return _Found(np.zeros(0, np.float32), np.zeros(0, np.intp), np.float32(-np.inf), self.state)
            products, places = self._index.search(turned, wanted)
            others = products[0, -1] if wanted < len(self) else np.float32(-np.inf)
            return _Found(products[0], 2 * places[0] + self._odd, others, self.state)


Scan = Handed[NDArray[np.float32], _Found]
"""A scan of one half for a query that is turned."""


class Scans(NamedTuple):
    """A scan of each half, for two threads: who has done his own does the other's where nobody has begun it."""

    here: Scan  # for who asks
    aside: Scan


class Copies:
    """Centred copies by slot, in two halves that are scanned at once. Belongs to who holds the index's lock."""

    def __init__(self, dimension: int, mean: NDArray[np.float64]) -> None:
        """Begin with none, for a centre."""
        self._least = -_REACH / np.sqrt(dimension)  # of the steps
        self._step = -2 * self._least / (_LEVELS - 1)
        steps = (self._least + self._step * np.arange(_LEVELS)).astype(np.float32)
        self._halves = (_Half(dimension, steps, 0), _Half(dimension, steps, 1))
        self._rotation = _rotation(dimension)  # its own for good: two threads that ask first may be given two
        self._mean = mean
        self._nearest = np.inf  # the least distance of a copied vector from the centre
        self._away = np.zeros(0, np.float32)  # of each slot, the length of what was rounded away
        self._most_away = np.float32(0)  # the greatest there ever was
        self._turned: tuple[object, NDArray[np.float32]] | None = None  # the last query, and as it is turned

    @property
    def blocks(self) -> list[NDArray[np.uint8]]:
        """The copies of both halves as they stand in memory."""
        return [half.blocks for half in self._halves]

    def put(self, slots: Slots, rows: NDArray[np.float32]) -> None:
        """Copy vectors, not centred yet, into slots; what was there before is overwritten."""
        if not len(slots):
            return
        apart = rows - self._mean.astype(np.float32)
        self._nearest = min(self._nearest, float(np.sqrt(np.min(np.einsum("ij,ij->i", apart, apart)))))
        packed, away = self._packed(centred(rows, self._mean))
        away[np.einsum("ij,ij->i", apart, apart) < _UNSURE**2] = _ANYWHERE
        self._write(slots, packed, away)
        self._most_away = max(self._most_away, away.max())

    def clear(self, slots: Slots) -> None:
        """Overwrite the copies in slots with nobody's."""
        if len(slots):
            dimension = len(self._mean)
            packed = np.full((len(slots), -(-dimension // 2)), _NOBODY, np.uint8)
            self._write(slots, packed, np.zeros(len(slots), np.float32))

    def _packed(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Return the copies of centred vectors, two numbers a byte, and the length of what was rounded away of each."""
        dimension = rows.shape[1]
        turned = rows @ self._rotation
        steps = np.clip(np.rint((turned - self._least) / self._step), 0, _LEVELS - 1)
        away = turned - (steps * self._step + self._least)
        numbers = steps.astype(np.uint8)
        packed = np.ascontiguousarray(numbers[:, 0::2])
        packed[:, : dimension // 2] |= numbers[:, 1::2] << _BITS
        return packed, np.sqrt(np.einsum("ij,ij->i", away, away))

    def _write(self, slots: Slots, packed: NDArray[np.uint8], away: NDArray[np.float32]) -> None:
        size = int(slots.max()) + 1
        if size > len(self._away):
            longer = np.zeros(size + size // 8, np.float32)
            longer[: len(self._away)] = self._away
            self._away = longer
        self._away[slots] = away
        for half in self._halves:
            half.put(slots, packed)

    def drift(self, mean: NDArray[np.float64]) -> float:
        """Return by how much a product can be off, for the centre is elsewhere now.

        Two vectors at a distance d have directions that differ by no more than 2 d / the length of either.
        """
        moved = 0.0 if mean is self._mean else float(np.sqrt(np.sum((mean - self._mean) ** 2)))
        if not moved:
            return 0.0
        return 2 * moved / self._nearest if self._nearest else np.inf

    def serve(self, mean: NDArray[np.float64]) -> bool:
        """Whether the copies still serve for a centre."""
        return self.drift(mean) <= _DRIFT_MAX

    def turned(self, asked: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return a centred query as the copies are turned."""
        known = self._turned
        if known is None or known[0] is not asked:
            known = self._turned = (asked, asked.astype(np.float32).reshape(1, -1) @ self._rotation)
        return known[1]

    def read_over(self, go_on: Callable[[], bool]) -> None:
        """Read all copies while ``go_on()``, so that they stand in the processor's cache when they are scanned.

        Of more than a cache may hold nothing is read.
        """
        code_bytes = -(-len(self._mean) // 2)
        if code_bytes * sum(len(half) for half in self._halves) > limits.VECTOR_READ_OVER_BYTES:
            return
        for half in self._halves:
            piece = 0
            while go_on() and half.read(piece):
                piece += 1
        if go_on():
            self._rotation.sum()  # which the query is turned by

    def scans(self, wanted: int) -> Scans | None:
        """Return the parts of ``pick`` that two threads may do, None where one alone is sooner done with all."""
        one, two = self._halves
        if len(one) < _WORTH_A_THREAD:
            return None
        return Scans(*(Handed(partial(half.search, wanted=_each(wanted))) for half in (one, two)))

    def pick(
        self, asked: NDArray[np.float64], wanted: int, mean: NDArray[np.float64], begun: Scans | None = None
    ) -> Picked:
        """Return candidates for a centred query.

        Args:
            asked: the query, centred by ``mean``, of length 1.
            wanted: how many to pick; free slots may be among them.
            mean: the centre now.
            begun: scans for this query and so many, which another thread does or has done.

        The caller sees to it that no copy changes now; those of scans that were begun may have changed since.
        """
        turned = self.turned(asked)
        scans = begun or self.scans(wanted)
        if begun is None and scans is not None:
            threads().submit(scans.aside.run, turned)
        found = [half.search(turned, _each(wanted)) for half in self._halves] if scans is None else []
        for half, scan in zip(self._halves, scans or (), strict=False):
            done = scan.result(turned)
            found.append(done if done.state == half.state else half.search(turned, _each(wanted)))
        products = np.concatenate([half.products for half in found])
        slots = np.concatenate([half.slots for half in found])
        share = np.float32(min(1.0, _DEVIATIONS / len(asked) ** 0.5))
        besides = np.float32(_TABLES / len(asked) ** 0.5 + self.drift(mean))
        others = float(max(half.others for half in found) + share * self._most_away + besides)
        return Picked(slots, products, products + share * self._away[slots] + besides, others)


def _each(wanted: int) -> int:
    """Return how many to pick from each half: who is like a query is in either half alike."""
    return wanted // 2 + _SPARE


@lru_cache(maxsize=4)
def _rotation(dimension: int) -> NDArray[np.float32]:
    """Return a rotation of vectors, drawn anew in each process: nobody can know which vectors it rounds badly."""
    numbers = np.random.default_rng().standard_normal((dimension, dimension))
    rotation: NDArray[np.float32] = np.linalg.qr(numbers)[0].astype(np.float32)
    return rotation
