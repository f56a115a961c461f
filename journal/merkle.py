"""The RFC 6962 Merkle tree over a scope's frames, kept as the roots of its perfect subtrees.

A tree of n leaves is the perfect subtrees that the binary digits of n name, the greatest first. Their roots are all
that appending needs, so a tree of any size is at most 64 hashes, and one put away at some size can be taken up again.

    leaf   SHA-256(0x00 || frame)                journal.frames.leaf_hash
    node   SHA-256(0x01 || left || right)
    empty  SHA-256()
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node over its two subtrees' roots."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree that grows leaf by leaf. ``size`` is the number of leaves; ``peaks`` the perfect subtrees' roots."""

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Begin empty, or take up a tree again.

        Args:
            size: the number of leaves that the tree has.
            peaks: the roots of its perfect subtrees, the greatest first, 32 bytes each.

        Raises:
            ValueError: no tree of that size has that many.
        """
        if size < 0 or size.bit_count() != len(peaks):
            raise ValueError("a tree has one peak for each binary digit of its size")
        self.size = size
        self._peaks = list(peaks)

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """The roots of the perfect subtrees, the greatest first: what ``Tree`` takes to go on from here."""
        return tuple(self._peaks)

    def append(self, leaf: bytes) -> None:
        """Add a leaf hash (32 bytes) at the right."""
        node, rest = leaf, self.size
        while rest & 1:
            node = node_hash(self._peaks.pop(), node)
            rest >>= 1
        self._peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        """Return the tree's hash (RFC 6962, 2.1), 32 bytes."""
        if not self._peaks:
            return EMPTY_ROOT
        *greater, root = self._peaks
        for peak in reversed(greater):
            root = node_hash(peak, root)
        return root


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Return the tree's hash over leaf hashes in their order."""
    tree = Tree()
    for leaf in leaves:
        tree.append(leaf)
    return tree.root()
