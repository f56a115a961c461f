"""docs/design.md is kept current: the vectors of projections and tools are recomputed from the page itself."""

from __future__ import annotations

from projections.lexical.keyed import TokenKey
from tests.journal.test_design_vectors import CHECKS, VECTORS
from tools.memory.page_cursor import PageCursors, PagePosition


def test_a_lexical_token_is_as_drawn():
    vector = VECTORS["lexical-token"]
    assert TokenKey(vector["key"]).tokens([vector["term"]]) == [vector["token"]]
    assert vector["key"] == VECTORS["projection-key"]["key"]


def test_a_page_cursor_is_as_drawn():
    vector = VECTORS["page-cursor"]
    names = {"query": "query", "purpose_ref": "purpose", "policy": "policy", "principal": "principal"}
    cursors = PageCursors(vector["key"], **{name: vector[field] for name, field in names.items()})
    page = PagePosition(vector["position"], vector["cursor"], vector["instant"])
    assert cursors.encode(page) == vector["text"]
    assert cursors.decode(vector["text"]) == page


def test_no_vector_is_left_out():
    assert set(VECTORS) == {*CHECKS, "slot-header", "lexical-token", "page-cursor"}
