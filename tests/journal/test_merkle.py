"""RFC 6962's tree: the published vectors, and the growing form held equal to the recursive definition."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.frames import leaf_hash
from journal.merkle import EMPTY_ROOT, Tree, root_of

# The inputs and roots that Certificate Transparency's reference implementation publishes for RFC 6962.
INPUTS = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def _by_definition(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + _by_definition(leaves[:split]) + _by_definition(leaves[split:])).digest()


def test_the_empty_tree():
    assert Tree().root() == EMPTY_ROOT
    assert EMPTY_ROOT.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("size", range(1, 9))
def test_published_roots(size):
    assert root_of(leaf_hash(bytes.fromhex(text)) for text in INPUTS[:size]).hex() == ROOTS[size - 1]


@given(st.integers(0, 70))
def test_growing_is_the_definition(size):
    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(size)]
    assert root_of(leaves) == _by_definition(leaves)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_tree_put_away_goes_on_where_it_was(first, more):
    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(first + more)]
    tree = Tree()
    for leaf in leaves[:first]:
        tree.append(leaf)
    resumed = Tree(tree.size, tree.peaks)
    for leaf in leaves[first:]:
        resumed.append(leaf)
    assert resumed.size == first + more
    assert resumed.root() == root_of(leaves)


def test_the_order_of_leaves_counts():
    one, two = leaf_hash(b"1"), leaf_hash(b"2")
    assert root_of([one, two]) != root_of([two, one])


@pytest.mark.parametrize(("size", "peaks"), [(1, []), (0, [bytes(32)]), (3, [bytes(32)]), (-1, [bytes(32)])])
def test_peaks_that_no_tree_has_are_refused(size, peaks):
    with pytest.raises(ValueError, match="one peak"):
        Tree(size, peaks)
