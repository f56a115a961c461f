"""Copies pick the likeliest, and say truly how like a query every other vector can be."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from journal import limits
from projections.vector.centring import centred
from projections.vector.copies import Copies, _rotation
from projections.vector.threads import threads

DIMENSION = 32


def test_a_copy_that_went_leaves_no_number_in_memory(rng):
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    slots = np.arange(300)
    copies.put(slots, rng.standard_normal((300, DIMENSION), np.float32))
    copies.clear(slots)
    assert not len(held_in(copies) - {0x77, 0x78, 0x87, 0x88}), "nobody's numbers alone"
    copies.put(slots[:7], rng.standard_normal((7, DIMENSION), np.float32))
    assert len(held_in(copies)) > 16


def test_an_index_of_more_copies_than_faiss_packs_at_once_answers_as_a_scan(rng):
    rows = 2 * 512 * 8 + 300
    copies = Copies(8, np.zeros(8))
    vectors = rng.standard_normal((rows, 8), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    copies.put(np.arange(rows), vectors)
    for last in (rows - 1, rows - 2, 5):
        picked = copies.pick(vectors[last].astype(np.float64), 40, np.zeros(8))
        assert last in picked.slots


def test_copies_keep_the_rotation_that_they_were_made_with(rng):
    """Two threads that make copies first are given two, and which of them is kept for later is chance."""
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    vectors = rng.standard_normal((400, DIMENSION), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    copies.put(np.arange(200), vectors[:200])
    _rotation.cache_clear()
    copies.put(np.arange(200, 400), vectors[200:])
    for query in rng.standard_normal((20, DIMENSION)):
        asked = query / np.linalg.norm(query)
        picked = copies.pick(asked, 400, np.zeros(DIMENSION))
        exact = vectors[picked.slots] @ asked
        assert (exact <= picked.most + 1e-6).all()
        assert np.abs(exact - picked.likely).max() < 0.2


def held_in(copies):
    return {byte for blocks in copies.blocks for byte in blocks.ravel().tolist()}


def test_two_threads_pick_as_one_does(rng, monkeypatch):
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    copies.put(np.arange(501), rng.standard_normal((501, DIMENSION), np.float32))
    asked = np.eye(DIMENSION)[0]
    alone = copies.pick(asked, 100, np.zeros(DIMENSION))
    monkeypatch.setattr("projections.vector.copies._WORTH_A_THREAD", 1)
    together = copies.pick(asked, 100, np.zeros(DIMENSION))
    assert together.slots.tolist() == alone.slots.tolist()
    assert together.others == alone.others
    assert together.likely.tolist() == alone.likely.tolist()


def test_who_finds_no_thread_free_scans_alone(rng, monkeypatch):
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    copies.put(np.arange(501), rng.standard_normal((501, DIMENSION), np.float32))
    asked = np.eye(DIMENSION)[0]
    alone = copies.pick(asked, 100, np.zeros(DIMENSION))
    monkeypatch.setattr("projections.vector.copies._WORTH_A_THREAD", 1)
    goes_on = threading.Event()
    for _ in range(limits.SEMANTIC_ASIDE_THREADS):
        threads().submit(goes_on.wait, 20)
    try:
        began = time.monotonic()
        assert copies.pick(asked, 100, np.zeros(DIMENSION)).slots.tolist() == alone.slots.tolist()
        assert time.monotonic() - began < 10, "it waited for none of them"
    finally:
        goes_on.set()


def scanned_by_two(rng, monkeypatch):
    """Return copies of 501 vectors, and scans that other threads may begin."""
    monkeypatch.setattr("projections.vector.copies._WORTH_A_THREAD", 1)
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    copies.put(np.arange(501), rng.standard_normal((501, DIMENSION), np.float32))
    begun = copies.scans(100)
    assert begun is not None
    return copies, begun


@pytest.mark.parametrize("odd", [0, 1])
def test_a_scan_of_what_has_changed_since_is_done_again(rng, monkeypatch, odd):
    mean, asked = np.zeros(DIMENSION), np.eye(DIMENSION)[0]
    copies, begun = scanned_by_two(rng, monkeypatch)
    begun[odd].run(copies.turned(asked))
    before = copies.pick(asked, 100, mean, begun)
    assert before.likely.tolist() == copies.pick(asked, 100, mean).likely.tolist()
    further = next(slot for slot in range(odd, 501, 2) if slot not in before.slots)
    copies.put(np.array([further]), asked.reshape(1, -1).astype(np.float32))
    assert further in copies.pick(asked, 100, mean, begun).slots


@pytest.mark.parametrize("odd", [0, 1])
def test_what_a_scan_aside_raises_is_raised_to_who_asks(rng, monkeypatch, odd):
    mean, asked = np.zeros(DIMENSION), np.eye(DIMENSION)[0]
    copies, begun = scanned_by_two(rng, monkeypatch)
    begun[odd].run(np.zeros((1, DIMENSION + 1), np.float32))
    with pytest.raises(AssertionError):  # faiss refuses the dimension
        copies.pick(asked, 100, mean, begun)


@pytest.mark.parametrize("dimension", [2, 3, 4, 8, 33, 384])
def test_no_other_is_more_like_the_query_than_is_said(rng, dimension):
    """Of clustered vectors, some in slots used again, with a centre that has moved a little."""
    rows = np.repeat(rng.standard_normal((30, dimension), np.float32), 40, axis=0)
    rows += 0.3 * rng.standard_normal(rows.shape, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean = rows.mean(axis=0).astype(np.float64)
    copies = Copies(dimension, mean)
    slots = rng.permutation(len(rows))
    copies.put(slots[:600], rows[rng.permutation(600)])
    copies.put(slots[:600], rows[:600])
    copies.put(slots[600:], rows[600:])
    moved = mean + 1e-3 * rng.standard_normal(dimension) / np.sqrt(dimension)
    near = centred(rows.astype(np.float64), moved)
    for _ in range(50):
        asked = centred(rows[rng.integers(len(rows))].astype(np.float64)[None] + 0.02, moved)[0]
        picked, likely, most, others = copies.pick(asked, 100, moved)
        true = np.empty(len(rows))
        true[slots] = near @ asked
        assert (true[picked] <= most).all()
        assert (likely <= most).all()
        left = np.setdiff1d(np.arange(len(rows)), picked)
        assert true[left].max() <= others
        assert (most - true[picked]).max() < 2 * (0.25 if dimension < 100 else 0.06), "the bound says something"


def test_what_hardly_has_a_direction_is_always_a_candidate(rng):
    """Whether it has one the stored numbers tell: its copy may be of nothing."""
    rows = rng.standard_normal((600, DIMENSION), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean = np.full(DIMENSION, 0.1)
    rows[7] = mean + 0.9999e-3 * np.eye(DIMENSION)[3]
    copies = Copies(DIMENSION, mean)
    copies.put(np.arange(600), rows)
    picked = copies.pick(np.eye(DIMENSION)[3], 10, mean)
    assert 7 in picked.slots or picked.others >= 1
    everything = copies.pick(np.eye(DIMENSION)[3], 2 * 600, mean)
    assert everything.most[everything.slots == 7] >= 1
    assert everything.others == -np.inf or everything.others < -1


@pytest.mark.parametrize("piece_bytes", [1, 10_000, 1 << 20])
def test_reading_over_reads_every_byte_and_changes_none(rng, monkeypatch, piece_bytes, goes_on):
    monkeypatch.setattr("projections.vector.copies._READ_BYTES", piece_bytes)
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    copies.put(np.arange(501), rng.standard_normal((501, DIMENSION), np.float32))
    before = [half.copy() for half in copies.blocks]
    copies.read_over(goes_on)
    assert all(np.array_equal(now, was) for now, was in zip(copies.blocks, before, strict=True))
    per_piece = max(1, piece_bytes // before[0].shape[1])
    assert goes_on.asked == sum(-(-len(half) // per_piece) + 1 for half in before) + 1, "a look before each"


@pytest.mark.parametrize(("count", "most"), [(0, 1 << 26), (501, 501 * DIMENSION // 2 - 1)])
def test_nothing_is_read_over_where_there_is_nothing_or_too_much(rng, monkeypatch, count, most, goes_on):
    monkeypatch.setattr(limits, "VECTOR_READ_OVER_BYTES", most)
    copies = Copies(DIMENSION, np.zeros(DIMENSION))
    copies.put(np.arange(count), rng.standard_normal((count, DIMENSION), np.float32))
    copies.read_over(goes_on)
    assert goes_on.asked <= 3


def test_copies_that_grow_are_read_over_meanwhile(rng):
    """Their memory moves while they grow."""
    copies, grown = Copies(DIMENSION, np.zeros(DIMENSION)), threading.Event()
    copies.put(np.arange(64), rng.standard_normal((64, DIMENSION), np.float32))

    def read():
        while not grown.is_set():
            copies.read_over(lambda: not grown.is_set())

    reading = threading.Thread(target=read)
    reading.start()
    rows = rng.standard_normal((256, DIMENSION), np.float32)
    for start in range(0, 64 * 256, 256):
        copies.put(np.arange(start, start + 256), rows)
    grown.set()
    reading.join(30)
    assert not reading.is_alive()
    assert len(copies.pick(np.eye(DIMENSION)[0], 100, np.zeros(DIMENSION)).slots) >= 100
