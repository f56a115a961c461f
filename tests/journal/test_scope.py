"""The scope: names, tag and reference."""

from __future__ import annotations

import pytest
from blake3 import blake3
from hypothesis import assume, given
from hypothesis import strategies as st

from journal.errors import InvalidSchema
from journal.scope import Scope

NAMES = st.text(min_size=1, max_size=40)


@pytest.mark.parametrize("name", ["a", "x" * 512, "\ud55c" * 170, "caf\u00e9", "a b", "a/b", "\U0001f600"], ids=ascii)
def test_names_that_are_taken(name):
    assert Scope.of(name, "w") == Scope(name, "w")
    assert Scope.of("t", name) == Scope("t", name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 513,
        "\ud55c" * 171,  # 513 bytes in 171 letters
        "cafe\u0301",  # NFD
        "\u1112\u1161\u11ab",  # conjoining jamo
        "\u212b",  # the angstrom sign, which NFC turns into a letter
    ],
    ids=ascii,
)
def test_names_that_are_refused(name):
    with pytest.raises(InvalidSchema):
        Scope.of(name, "w")
    with pytest.raises(InvalidSchema):
        Scope.of("t", name)


def test_the_tag_is_blake3_of_the_canonical_scope():
    expected = blake3(b'{"tenant_id":"acme","workspace_id":"docs"}').digest(16)
    scope = Scope("acme", "docs")
    assert scope.tag == expected
    assert len(scope.tag) == 16
    assert scope.ref == "scope:" + expected.hex()


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_scopes_share_a_tag(tenant, workspace, other_tenant, other_workspace):
    assume((tenant, workspace) != (other_tenant, other_workspace))
    assert Scope(tenant, workspace).tag != Scope(other_tenant, other_workspace).tag


def test_a_boundary_moved_between_the_names_is_another_scope():
    tags = {Scope("ab", "c").tag, Scope("a", "bc").tag, Scope('a","workspace_id":"b', "c").tag, Scope("c", "ab").tag}
    assert len(tags) == 4


def test_a_scope_is_a_value():
    assert {Scope("t", "w"): 1}[Scope("t", "w")] == 1
    with pytest.raises(AttributeError):
        setattr(Scope("t", "w"), "tenant_id", "other")  # noqa: B010 - a plain assignment does not pass the type check


def test_an_unpaired_surrogate_is_refused_by_a_code():
    with pytest.raises(InvalidSchema):
        Scope.of("\ud800", "w")
