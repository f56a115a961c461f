"""The vector index beside bare faiss, in one process, and beside pgvector, on random unit vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.searching import postgres
from bench.searching.lexical_index import BEST
from bench.searching.timing import Figure, in_turns, seconds
from projections.vector.index import VectorIndex
from projections.vector.opened import Loaded
from projections.vector.standing import Standing

DIMENSION: Final = 384
_PIECE_ROWS: Final = 10_000
OURS: Final = "engram, picked by four bits, exact order"
WIDTHS: Final = (40, 400)  # how many HNSW looks at: as many as pgvector sets by itself, and ten times as many

Vectors = NDArray[np.float32]
Search = Callable[[Vectors], list[int]]


class Given:
    """Embeddings that are there from the beginning, by cursors 1 and up."""

    def __init__(self, vectors: Vectors) -> None:
        """Take the vectors, a row each."""
        self._vectors = vectors.astype(np.float16)

    def stamp(self) -> object:
        """Nothing more ever comes."""
        return "given"

    def load(self, standing: Standing) -> Loaded:
        """Return the embeddings."""
        places = standing.cursors.astype(np.int64) - 1
        return Loaded(
            standing.cursors, np.ones(len(places), np.intp), self._vectors[places], [b"\0" * 16] * len(places)
        )


def unit_vectors(count: int, seed: int) -> Vectors:
    """Return random vectors of length 1."""
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _bare(faiss: Any, vectors: Vectors) -> dict[str, tuple[Any, float]]:
    """Return bare indexes with the seconds that each took to fill."""
    fp16 = faiss.ScalarQuantizer.QT_fp16
    made = {
        "faiss IndexScalarQuantizer fp16": faiss.IndexScalarQuantizer(DIMENSION, fp16, faiss.METRIC_INNER_PRODUCT),
        "faiss IndexFlatIP": faiss.IndexFlatIP(DIMENSION),
    }
    return {name: (index, seconds(lambda index=index: index.add(vectors))) for name, index in made.items()}  # type: ignore[misc]


def figures(count: int, queries: int) -> Iterator[Figure]:
    """Yield the lines of so many vectors and queries; one thread everywhere."""
    import faiss

    faiss.omp_set_num_threads(1)
    vectors, asked = unit_vectors(count, 1), unit_vectors(queries, 2)
    index, cursors = VectorIndex(Given(vectors), DIMENSION), np.arange(1, count + 1, dtype=np.uint64)
    loading = seconds(lambda: index.synchronise(Standing(cursors, cursors)))
    yield Figure(count, OURS, "load", "s", loading)
    actions: dict[str, Callable[[Vectors], object]] = {OURS: lambda row: index.search(row, BEST)}
    for name, (bare, took) in _bare(faiss, vectors).items():
        yield Figure(count, name, "load", "s", took, ratio=loading / took)
        actions[name] = lambda row, bare=bare: bare.search(row.reshape(1, -1), BEST)  # type: ignore[misc]
    times = in_turns(actions, list(asked))
    ours = float(np.median(times[OURS])) * 1000
    for name, took_each in times.items():
        yield Figure.of(count, name, f"nearest {BEST}", took_each, None if name == OURS else ours)
    if postgres.is_here():
        yield from _pgvector(vectors, asked, ours)


def _pgvector(vectors: Vectors, asked: Vectors, ours: float) -> Iterator[Figure]:
    """Yield the lines of pgvector: its scan gives what is nearest, its graph a part of that."""
    count, scan = len(vectors), "pgvector, scan"
    with postgres.served(BEST) as table:
        yield Figure(count, scan, "load", "s", seconds(lambda: table.fill(vectors)))
        yield Figure(count, "pgvector, HNSW", "build", "s", seconds(table.build))
        searches: dict[str, Search] = {scan: table.exact}
        for wide in WIDTHS:
            searches[f"pgvector, HNSW, ef_search {wide}"] = partial(table.approximate, ef_search=wide)
        for name, search in searches.items():
            times: dict[str, list[float]] = in_turns({name: search}, list(asked))
            yield Figure.of(count, name, f"nearest {BEST}", times[name], ours)
            yield Figure(count, name, f"recall of {BEST}", "%", 100 * _recall(search, vectors, asked))


def _recall(search: Search, vectors: Vectors, asked: Vectors) -> float:
    """Return the share of what is nearest that a search finds."""
    found = 0
    for row in asked:
        nearest = np.argpartition(-(vectors @ row), BEST)[:BEST]
        found += len(set(nearest.tolist()) & set(search(row)))
    return found / (BEST * len(asked))
