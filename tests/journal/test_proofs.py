"""Proofs over RFC 6962's tree: the published vectors, an implementation that is not ours, and what must not verify."""

from __future__ import annotations

import hashlib

import pymerkle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.frames import leaf_hash
from journal.merkle import EMPTY_ROOT, root_of
from journal.proofs import (
    consistency_ranges,
    inclusion_ranges,
    is_consistent,
    root_by_inclusion,
    roots_of,
)
from tests.journal.test_merkle import INPUTS, ROOTS

# The proofs that Certificate Transparency's reference implementation publishes over the same inputs.
INCLUSION = {
    (0, 1): [],
    (0, 2): ["96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"],
    (1, 2): ["6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"],
    (2, 3): ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"],
    (1, 5): [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
    (0, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (5, 8): [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
}
CONSISTENCY = {
    (1, 1): [],
    (1, 8): [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ],
    (2, 5): [
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ],
    (6, 8): [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ],
}
LEAVES = [leaf_hash(bytes.fromhex(text)) for text in INPUTS]
sizes = st.integers(1, 130)


def _entries(size):
    return [b"entry %d" % number for number in range(size)]


def _leaves(size):
    return [leaf_hash(entry) for entry in _entries(size)]


def _theirs(size):
    tree = pymerkle.InmemoryTree(algorithm="sha256")
    for entry in _entries(size):
        tree.append_entry(entry)
    return tree


@pytest.mark.parametrize(("index", "size"), INCLUSION)
def test_published_inclusion_proofs(index, size):
    path = roots_of(inclusion_ranges(index, size), LEAVES[:size])
    assert [each.hex() for each in path] == INCLUSION[index, size]
    assert root_by_inclusion(index, size, LEAVES[index], path).hex() == ROOTS[size - 1]


@pytest.mark.parametrize(("first", "second"), CONSISTENCY)
def test_published_consistency_proofs(first, second):
    path = roots_of(consistency_ranges(first, second), LEAVES[:second])
    assert [each.hex() for each in path] == CONSISTENCY[first, second]
    first_root, second_root = (bytes.fromhex(ROOTS[size - 1]) for size in (first, second))
    assert is_consistent(first, second, first_root, second_root, path)
    assert _consistent_by_rfc_9162(first, second, first_root, second_root, path)


@given(st.data())
def test_a_stranger_makes_the_same_inclusion_proofs_and_accepts_ours(data):
    size = data.draw(sizes)
    index = data.draw(st.integers(0, size - 1))
    tree, leaves = _theirs(size), _leaves(size)
    path = roots_of(inclusion_ranges(index, size), leaves)
    proof = tree.prove_inclusion(index + 1, size)
    assert proof.path == [leaves[index], *path]
    proof.path = [leaves[index], *path]
    pymerkle.verify_inclusion(leaves[index], root_of(leaves), proof, index=index + 1, size=size)
    assert root_by_inclusion(index, size, leaves[index], path) == tree.get_root()


def _consistent_by_rfc_9162(first, second, first_root, second_root, path):
    """2.1.4.2 of RFC 9162, step by step: it counts bits and knows nothing of ranges."""
    if not path:
        return first == second and first_root == second_root
    nodes = list(path) if first & (first - 1) else [first_root, *path]
    fn, sn = first - 1, second - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    fr = sr = nodes[0]
    for node in nodes[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            fr, sr = hashlib.sha256(b"\x01" + node + fr).digest(), hashlib.sha256(b"\x01" + node + sr).digest()
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            sr = hashlib.sha256(b"\x01" + sr + node).digest()
        fn, sn = fn >> 1, sn >> 1
    return (fr, sr, sn) == (first_root, second_root, 0)


@given(st.data())
def test_a_stranger_finds_the_same_trees_consistent(data):
    """Theirs splits the ranges in another way than RFC 6962, so that each judges its own proof of the same roots."""
    second = data.draw(sizes)
    first = data.draw(st.integers(1, second))
    tree, leaves = _theirs(second), _leaves(second)
    first_root, second_root = root_of(leaves[:first]), root_of(leaves)
    path = roots_of(consistency_ranges(first, second), leaves)
    assert is_consistent(first, second, first_root, second_root, path)
    assert _consistent_by_rfc_9162(first, second, first_root, second_root, path)
    proof = tree.prove_consistency(first, second)
    pymerkle.verify_consistency(first_root, second_root, proof, prior_size=first, later_size=second)
    other = root_of([leaf_hash(b"other"), *leaves[1:first]])
    assert not is_consistent(first, second, other, second_root, path)
    assert not _consistent_by_rfc_9162(first, second, other, second_root, path)


@given(st.data())
def test_a_changed_inclusion_proof_gives_another_root(data):
    size = data.draw(st.integers(2, 130))
    index = data.draw(st.integers(0, size - 1))
    leaves = _leaves(size)
    path = roots_of(inclusion_ranges(index, size), leaves)
    at = data.draw(st.integers(0, len(path) - 1))
    changed = [*path[:at], hashlib.sha256(path[at]).digest(), *path[at + 1 :]]
    assert root_by_inclusion(index, size, leaves[index], changed) != root_of(leaves)
    assert root_by_inclusion(index, size, leaves[index - 1], path) != root_of(leaves)
    for cut in (path[:-1], [*path, path[-1]]):
        with pytest.raises(ValueError, match="so many"):
            root_by_inclusion(index, size, leaves[index], cut)


@given(st.data())
def test_another_history_is_not_consistent(data):
    second = data.draw(st.integers(2, 130))
    first = data.draw(st.integers(1, second - 1))
    leaves = _leaves(second)
    other = list(leaves)
    other[data.draw(st.integers(0, first - 1))] = leaf_hash(b"rewritten")
    path = roots_of(consistency_ranges(first, second), other)
    assert is_consistent(first, second, root_of(other[:first]), root_of(other), path)
    assert not is_consistent(first, second, root_of(leaves[:first]), root_of(other), path)
    assert not is_consistent(first, second, root_of(leaves[:first]), root_of(leaves), path[:-1])


def test_the_empty_tree_goes_on_as_anything():
    assert is_consistent(0, 8, EMPTY_ROOT, bytes.fromhex(ROOTS[7]), [])
    assert not is_consistent(0, 8, bytes(32), bytes.fromhex(ROOTS[7]), [])
    assert not is_consistent(8, 7, bytes.fromhex(ROOTS[7]), bytes.fromhex(ROOTS[6]), [])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 3)])
def test_a_leaf_that_no_tree_has(index, size):
    with pytest.raises(ValueError, match="no such leaf"):
        inclusion_ranges(index, size)


@pytest.mark.parametrize(("first", "second"), [(0, 1), (3, 2)])
def test_no_proof_leads_from_an_empty_or_a_greater_tree(first, second):
    with pytest.raises(ValueError, match="empty or the greater"):
        consistency_ranges(first, second)


@pytest.mark.parametrize("count", [0, 4, 6])
def test_too_few_leaves_are_said(count):
    with pytest.raises(ValueError, match="fewer leaves"):
        roots_of(inclusion_ranges(1, 8), LEAVES[:count])
