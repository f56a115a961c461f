"""A provider of embeddings that needs no model: words are hashed into 64 dimensions, so that equal words are alike."""

from __future__ import annotations

import hashlib

import numpy as np

from projections.vector.providers.port import EmbeddingFailed, model_digest

DIMENSION = 64


class Wordly:
    """Deterministic; it can be made to fail, and notes what it was asked."""

    name = "wordly"
    leaves_machine = False

    def __init__(self, model="wordly-1", dimension=DIMENSION):
        self.model = model
        self.dimension = dimension
        self.digest = model_digest(self.name, model, b"weights", dimension)
        self.asked: list[list[str]] = []
        self.failing = None  # told the texts; returns the error to raise, or None
        self.returned_dimension = dimension

    def documents(self, texts):
        self.asked.append(list(texts))
        failed = self.failing(texts) if self.failing is not None else None
        if failed is not None:
            raise failed
        return self.queries(texts)

    def queries(self, texts):
        return np.array([self._vector(text) for text in texts], np.float32)

    def _vector(self, text):
        row = np.zeros(self.returned_dimension)
        for word in text.split():
            seed = hashlib.sha256(f"{self.model} {word}".encode()).digest()
            row += np.random.default_rng(list(seed)).standard_normal(self.returned_dimension)
        return row / max(np.linalg.norm(row), 1e-9)

    def close(self):
        pass


def down(texts):
    return EmbeddingFailed("no answer", retryable=True)


def refusing(word):
    """Refuse every batch that has a word."""
    return lambda texts: EmbeddingFailed("no") if any(word in text.split() for text in texts) else None
