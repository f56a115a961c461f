"""Lists and segments: building, finding, reading across chunks."""

from __future__ import annotations

import numpy as np
import pytest

from journal import limits
from projections.lexical.documents import Weighed
from projections.lexical.merging import merged
from projections.lexical.postings import Lists, Segment, SegmentWriter, chunk_count, halves, token_order, token_rows


def token(high, low=0):
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


def weighed(**impacts):
    """Return a document of tokens named by hex digits."""
    tokens = sorted((bytes.fromhex(name[1:]).rjust(16, b"\0"), impact) for name, impact in impacts.items())
    return Weighed(b"".join(name for name, _ in tokens), bytes(impact for _, impact in tokens))


def segment_of(lists):
    writer = SegmentWriter()
    chunks = list(writer.chunks(lists.pieces()))
    return Segment(writer.dictionary(), chunks.__getitem__)


def contents(segment):
    """Return {token: [(ordinal, impact)]} and check that greatest impacts are right."""
    high, low = segment.high, segment.entries["low"]
    names = [row.tobytes() for row in token_rows(high, low)]
    found = {}
    for number, size, greatest, ids, impacts in segment.find(high, low.tolist()):
        found[names[number]] = list(zip(np.frombuffer(ids, "<u4").tolist(), bytes(impacts), strict=True))
        assert len(found[names[number]]) == size
        assert greatest == max(impacts)
    assert list(found) == names
    return found


@pytest.fixture(params=[(1, 1), (1, 3), (3, 3), (65_536, 65_536)])
def chunk_postings(request, monkeypatch):
    piece, chunk = request.param
    monkeypatch.setattr(limits, "LEXICAL_PIECE_POSTINGS", piece)
    monkeypatch.setattr(limits, "LEXICAL_CHUNK_POSTINGS", chunk)


def test_halves_and_rows_are_inverse():
    tokens = bytes(range(32)) + b"\xff" * 16
    assert token_rows(*halves(tokens)).tobytes() == tokens


def test_tokens_that_share_their_first_half_are_ordered_by_their_second():
    tokens = [token(5, 9), token(5, 1), token(3, 7), token(5, 4)]
    order = token_order(*halves(b"".join(tokens)))
    assert [tokens[at] for at in order] == sorted(tokens)


def test_lists_of_documents_hold_what_the_documents_hold(chunk_postings):
    documents = [(4, weighed(_01=9, _02=8)), (5, weighed(_02=7)), (9, weighed(_01=1, _ff=3))]
    expected = {
        token(0, 1): [(4, 9), (9, 1)],
        token(0, 2): [(4, 8), (5, 7)],
        token(0, 255): [(9, 3)],
    }
    assert contents(segment_of(Lists.of(documents))) == expected


def test_a_list_is_never_cut(monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_PIECE_POSTINGS", 2)
    documents = [(ordinal, weighed(_01=1, _02=2)) for ordinal in range(5)]
    pieces = list(Lists.of(documents).pieces())
    assert [piece.ids.size for piece in pieces] == [5, 5]


def test_documents_without_tokens_make_an_empty_segment():
    segment = segment_of(Lists.of([(0, Weighed(b"", b""))]))
    assert contents(segment) == {}
    assert segment.find(np.array([1], np.uint64), [0]) == []


def test_only_what_is_there_is_found(chunk_postings):
    tokens = [token(2, 5), token(2, 7), token(2, 9), token(4, 1), token(6)]
    segment = segment_of(Lists.of([(0, Weighed(b"".join(tokens), bytes(range(1, 6))))]))
    asked = [
        token(9),
        token(2, 7),
        token(1),
        token(2, 6),
        token(4, 1),
        token(2, 9),
        token(2, 10),
        token(4, 2),
        token(6),
    ]
    high, low = halves(b"".join(asked))
    found = [(asked[number], greatest) for number, _, greatest, _, _ in segment.find(high, low.tolist())]
    assert found == [(name, tokens.index(name) + 1) for name in asked if name in tokens]


def test_reading_goes_over_chunks(chunk_postings):
    documents = [(0, weighed(_01=1, _02=2, _03=3)), (1, weighed(_02=4, _03=5, _04=6))]
    segment = segment_of(Lists.of(documents))
    lists = [([0], [1]), ([0, 1], [2, 4]), ([0, 1], [3, 5]), ([1], [6])]
    for first in range(4):
        for last in range(first + 1, 5):
            ids, impacts = segment.read(first, last)
            assert ids.tolist() == [ordinal for names, _ in lists[first:last] for ordinal in names]
            assert impacts.tolist() == [impact for _, values in lists[first:last] for impact in values]


def test_the_dictionary_knows_its_chunks(monkeypatch):
    monkeypatch.setattr(limits, "LEXICAL_PIECE_POSTINGS", 2)
    monkeypatch.setattr(limits, "LEXICAL_CHUNK_POSTINGS", 2)
    writer = SegmentWriter()
    assert len(list(writer.chunks(Lists.of([(at, weighed(_01=1, _02=2, _03=3)) for at in range(2)]).pieces()))) == 3
    assert chunk_count(writer.dictionary()) == 3
    assert writer.postings == 6


def merge(segments, dead=()):
    writer = SegmentWriter()
    chunks = list(writer.chunks(merged(segments, np.array(dead, np.uint32))))
    return Segment(writer.dictionary(), chunks.__getitem__)


def test_merging_joins_lists_in_order_of_the_segments(chunk_postings):
    first = segment_of(Lists.of([(0, weighed(_01=1, _03=2)), (1, weighed(_03=3))]))
    second = segment_of(Lists.of([(2, weighed(_02=4, _03=5))]))
    third = segment_of(Lists.of([(3, Weighed(b"", b""))]))
    assert contents(merge([first, second, third])) == {
        token(0, 1): [(0, 1)],
        token(0, 2): [(2, 4)],
        token(0, 3): [(0, 2), (1, 3), (2, 5)],
    }


def test_merging_drops_the_dead_and_lists_that_become_empty(chunk_postings):
    first = segment_of(Lists.of([(0, weighed(_01=1, _03=2)), (1, weighed(_03=3))]))
    second = segment_of(Lists.of([(2, weighed(_02=4, _03=5))]))
    assert contents(merge([first, second], dead=[0, 2])) == {token(0, 3): [(1, 3)]}
    assert contents(merge([first, second], dead=[0, 1, 2])) == {}
