"""Proofs over the RFC 6962 tree: that an event is in it, and that a greater tree goes on from a smaller one.

Each hash of a proof is the root over a range of leaves, and the ranges of one proof do not overlap. So a proof is made
in one pass over the leaves, in memory for a few hashes, and it is checked by the same ranges, from the sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from journal.merkle import EMPTY_ROOT, Tree, node_hash


def inclusion_ranges(index: int, size: int) -> list[range]:
    """Return the leaves under each hash of the proof that leaf ``index`` (from 0) is in a tree of ``size`` leaves.

    RFC 6962, 2.1.1, the hash nearest to the leaf first.

    Raises:
        ValueError: the tree has no such leaf.
    """
    if not 0 <= index < size:
        raise ValueError("the tree has no such leaf")
    start, end = 0, size
    ranges = []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append(range(middle, end))
            end = middle
        else:
            ranges.append(range(start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(first: int, second: int) -> list[range]:
    """Return the leaves under each hash of the proof that a tree of ``second`` leaves goes on from one of ``first``.

    RFC 6962, 2.1.2. Where the smaller tree is a subtree of the greater one, its root is not repeated in the proof.

    Raises:
        ValueError: the first tree is empty or greater than the second.
    """
    if not 1 <= first <= second:
        raise ValueError("the first tree is empty or the greater one")
    start, end = 0, second
    ranges = []
    while end != first:
        middle = start + _split(end - start)
        if first <= middle:
            ranges.append(range(middle, end))
            end = middle
        else:
            ranges.append(range(start, middle))
            start = middle
    if start:
        ranges.append(range(start, end))
    return ranges[::-1]


def roots_of(ranges: Sequence[range], leaves: Iterable[bytes]) -> list[bytes]:
    """Return the root over each range of leaves, in the ranges' order; they must not overlap.

    Args:
        ranges: the ranges, in any order.
        leaves: the leaf hashes from the first one on, at least up to the end of the last range.

    Raises:
        ValueError: there are fewer leaves.
    """
    stream = iter(leaves)
    done = 0
    roots: dict[range, bytes] = {}
    for each in sorted(ranges, key=lambda one: one.start):
        _skip(stream, each.start - done)
        roots[each] = _root_over(islice(stream, len(each)), len(each))
        done = each.stop
    return [roots[each] for each in ranges]


def root_by_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes:
    """Return the root that a tree must have in which this leaf stands at ``index``, by a proof of inclusion.

    Raises:
        ValueError: there is no such leaf, or no proof of it has so many hashes.
    """
    ranges = inclusion_ranges(index, size)
    if len(ranges) != len(path):
        raise ValueError("no proof for these sizes has so many hashes")
    node = leaf
    for under, sibling in zip(ranges, path, strict=True):
        node = node_hash(node, sibling) if under.start > index else node_hash(sibling, node)
    return node


def is_consistent(first: int, second: int, first_root: bytes, second_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether a proof shows that the tree of ``second`` leaves goes on from the one of ``first``."""
    if first == 0:
        return first_root == EMPTY_ROOT and not path
    if not 1 <= first <= second:
        return False
    ranges = consistency_ranges(first, second)
    if len(ranges) != len(path):
        return False
    steps = list(zip(ranges, path, strict=True))
    if steps and steps[0][0].stop == first:
        older = newer = steps.pop(0)[1]
    else:
        older = newer = first_root
    for under, sibling in steps:
        if under.start >= first:
            newer = node_hash(newer, sibling)
        else:
            older = node_hash(sibling, older)
            newer = node_hash(sibling, newer)
    return older == first_root and newer == second_root


def _split(width: int) -> int:
    """Return the greatest power of two below a width of two or more: how many leaves the left subtree has."""
    return 1 << (width - 1).bit_length() - 1


def _skip(stream: Iterable[bytes], count: int) -> None:
    if sum(1 for _ in islice(stream, count)) != count:
        raise ValueError("there are fewer leaves than the proof needs")


def _root_over(leaves: Iterable[bytes], count: int) -> bytes:
    tree = Tree()
    for leaf in leaves:
        tree.append(leaf)
    if tree.size != count:
        raise ValueError("there are fewer leaves than the proof needs")
    return tree.root()
