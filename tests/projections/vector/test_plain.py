"""Plain sentences: their mean is made once, kept beside the embeddings, and counts towards the centre."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from journal import limits
from projections.vector.centring import mean_of, unit
from projections.vector.embedding import packable
from projections.vector.index import VectorIndex
from projections.vector.plain import FILE, SENTENCES, Plain
from projections.vector.providers.port import EmbeddingFailed
from tests.projections.vector.test_vector_index import Memory, standing
from tests.projections.vector.wordly import Wordly, down


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


def expected(provider):
    rows = packable(Wordly(provider.model, provider.dimension).queries(SENTENCES), len(SENTENCES), provider.dimension)
    assert rows is not None
    return mean_of(unit(rows.astype(np.float64))).tolist()


def test_the_mean_is_that_of_their_vectors_and_made_once(folder, tmp_path):
    provider, plain = Wordly(), Plain()
    for place in (folder, tmp_path / "none", folder):
        assert plain.mean(place, provider).tolist() == expected(provider)
    assert provider.asked == [list(SENTENCES)]
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "none").exists()


def test_nobody_waits_for_another_scopes(folder, tmp_path):
    plain, provider, goes_on = Plain(), Wordly(), threading.Event()
    plain.mean(folder, provider)
    slow = Wordly("wordly-2")
    slow.failing = lambda texts: None if goes_on.wait(30) else down(texts)
    with ThreadPoolExecutor(2) as pool:
        making = pool.submit(plain.mean, tmp_path / "other", slow)
        try:
            assert pool.submit(plain.mean, folder, provider).result(20).tolist() == expected(provider)
            assert not making.done()
        finally:
            goes_on.set()


def test_what_is_kept_is_used_whatever_the_provider_gives_now(folder):
    Plain().mean(folder, Wordly())
    later = Wordly()
    later.failing = down
    assert Plain().mean(folder, later).tolist() == expected(Wordly())
    assert later.asked == []


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda raw: b"", lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda raw: bytes([raw[0] ^ 1]) + raw[1:],
        lambda raw: raw[:100] + bytes([raw[100] ^ 1]) + raw[101:], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
    ],
)  # fmt: skip
def test_what_is_spoilt_is_made_anew(folder, spoilt):
    Plain().mean(folder, Wordly())
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(spoilt(whole))
    provider = Wordly()
    assert Plain().mean(folder, provider).tolist() == expected(provider)
    assert provider.asked == [list(SENTENCES)]
    assert (folder / FILE).read_bytes() == whole


def test_another_models_is_not_used(folder):
    Plain().mean(folder, Wordly())
    other = Wordly("wordly-2")
    assert Plain().mean(folder, other).tolist() == expected(other)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_place_that_takes_no_file_keeps_nobody_from_searching(folder, kind):
    if kind == "folder":
        (folder / FILE).mkdir()
    else:
        os.mkfifo(folder / FILE)
    provider = Wordly()
    assert Plain().mean(folder, provider).tolist() == expected(provider)


def test_a_provider_that_does_not_answer_is_asked_again(folder):
    provider, plain = Wordly(), Plain()
    provider.failing = down
    with pytest.raises(EmbeddingFailed):
        plain.mean(folder, provider)
    assert not (folder / FILE).exists()
    provider.failing = None
    provider.returned_dimension = 3
    with pytest.raises(EmbeddingFailed):
        plain.mean(folder, provider)
    provider.returned_dimension = provider.dimension
    assert plain.mean(folder, provider).tolist() == expected(provider)


@pytest.mark.parametrize("count", [1, 7, 50, 90])
def test_they_count_as_so_many_vectors_towards_the_centre(rng, monkeypatch, count):
    monkeypatch.setattr(limits, "VECTOR_CENTRE_ROWS", 50)
    memory, plain = Memory(), rng.standard_normal(32)
    for cursor in range(1, count + 1):
        memory.put(cursor, rng.standard_normal(32))
    index = VectorIndex(memory, 32, lambda: plain)
    index.synchronise(standing(range(1, count + 1)))
    rows = [memory.rows[cursor][1][0].astype(np.float64) for cursor in range(1, min(count, 50) + 1)]
    mean = (sum(row / np.linalg.norm(row) for row in rows) + len(SENTENCES) * plain) / (len(rows) + len(SENTENCES))
    row, query = rows[0] / np.linalg.norm(rows[0]) - mean, rng.standard_normal(32)
    asked = query - mean
    similar = row @ asked / np.linalg.norm(row) / np.linalg.norm(asked)
    assert abs(index.similarities(query, np.array([1], np.uint64))[0] - 1e6 * similar) <= 1


def test_what_they_raise_is_raised_and_nothing_is_loaded(rng):
    memory = Memory()
    memory.put(1, rng.standard_normal(32))

    def plain():
        raise EmbeddingFailed("no answer")

    with pytest.raises(EmbeddingFailed):
        VectorIndex(memory, 32, plain).synchronise(standing([1]))
    assert memory.loaded == []
