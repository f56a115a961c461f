"""A provider of embeddings that needs no model, and a channel that lets everything in."""

from __future__ import annotations

import pytest

from tests.projections.vector.wordly import Wordly


@pytest.fixture
def provider() -> Wordly:
    """A provider that knows equal words."""
    return Wordly()


@pytest.fixture
def everything_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever is embedded come in: so few texts are hardly alike."""
    monkeypatch.setattr("projections.fusion.MEANT_LEAST", -1_000_000)
